//! What connections bring.

use super::{Close, ConnectionEntry, Engine};
use crate::net::{
    stats::add,
    stream::{FrameEvent, Heard, StreamMessage, peer::Peer, web_socket::FrameHead},
};
use busyhour_sip::Flow;

impl Engine {
    pub(super) fn hear(&self, entry: &mut ConnectionEntry, count: usize) -> Result<(), Close> {
        let counters = &self.shared.counters;
        add(&counters.received_bytes, count);
        let ConnectionEntry {
            peer,
            connection,
            is_sound,
            ..
        } = entry;
        let (now, buffers) = (self.clock.now(), self.memory.buffers(peer.class()));
        let heard = connection.filled(count, buffers, now, &mut |heard| match heard {
            Heard::Message(message) => {
                add(&counters.received, 1);
                *is_sound = true;
                self.hand_on(peer.flow, StreamMessage::Message(message));
            }
            Heard::Ping => {
                add(&counters.pings, 1);
                self.pong(peer);
            }
            Heard::Broken(bytes, error) => {
                add(&counters.closed_broken, 1);
                self.hand_on(peer.flow, StreamMessage::Broken(bytes, error));
                peer.end();
            }
            Heard::Frame(event) => self.hear_frame(peer, event),
        });
        heard.map_err(|_| Close::NoBuffer)
    }

    /// What a WebSocket brought beside messages.
    fn hear_frame(&self, peer: &Peer, event: FrameEvent) {
        let counters = &self.shared.counters;
        let buffers = self.memory.buffers(peer.class());
        // Without memory it stays unanswered, and the other side ends it.
        let copied = |bytes: &[u8]| buffers.copy_from(bytes).ok();
        match event {
            FrameEvent::Opened(answer) => {
                add(&counters.web_sockets_opened, 1);
                copied(&answer)
                    .into_iter()
                    .for_each(|it| peer.send_bare(it));
            }
            FrameEvent::Refused(answer) => {
                add(&counters.web_sockets_refused, 1);
                copied(&answer)
                    .into_iter()
                    .for_each(|it| peer.send_bare(it));
                peer.end();
            }
            FrameEvent::Ping(body) => {
                add(&counters.pings, 1);
                peer.send_frame(FrameHead::pong(&body), copied(&body));
            }
            FrameEvent::Pong => {}
            FrameEvent::Closed(code) => {
                peer.say_close(code);
                peer.end();
            }
            FrameEvent::Broken(code) => {
                add(&counters.closed_broken, 1);
                peer.say_close(code);
                peer.end();
            }
        }
    }

    pub(super) fn hand_on(&self, flow: Flow, arrival: StreamMessage) {
        let deal = || (self.deliver)(flow, arrival);
        self.shared.counters.panics.contain(flow, deal);
    }

    fn pong(&self, peer: &Peer) {
        if let Some(pong) = &self.pong {
            peer.answer_ping(pong.clone());
        }
    }
}
