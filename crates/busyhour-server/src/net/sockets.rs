//! The sockets of every protocol and transport as one network.

use super::{Streams, Udp};
use crate::server::{Network, NetworkStats, SendError};
use busyhour::buffer::Buffer;
use busyhour_sip::Flow;
use std::time::Duration;

/// SIP's sockets and those of IAX2, told apart by what a flow says.
pub struct Sockets {
    /// Where SIP is spoken in datagrams.
    pub sip: Udp,
    /// Where SIP is spoken over connections.
    pub streams: Streams,
    /// Where IAX2 is spoken.
    pub iax2: Udp,
}

impl Sockets {
    /// Ends the receive threads and the connections, and waits for them;
    /// sending datagrams stays possible.
    pub fn stop_receiving(&self) {
        self.sip.stop_receiving();
        self.iax2.stop_receiving();
        self.streams.stop();
    }
}

impl Network for Sockets {
    fn send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        if flow.transport.is_reliable() {
            return self.streams.send(flow, message);
        }
        match self.iax2.serves(flow.local) {
            true => self.iax2.send(flow, message),
            false => self.sip.send(flow, message),
        }
    }

    fn try_send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        match flow.transport.is_reliable() {
            true => self.streams.try_send(flow, message),
            false => self.send(flow, message),
        }
    }

    fn mark_trusted(&self, flow: Flow) -> bool {
        !flow.transport.is_reliable() || self.streams.mark_trusted(flow)
    }

    fn expect_keepalives(&self, flow: Flow, within: Duration) {
        self.streams.expect_keepalives(flow, within);
    }

    /// The sum of all sockets.
    fn stats(&self) -> NetworkStats {
        let mut sum = self.sip.stats();
        sum += self.iax2.stats();
        sum += self.streams.stats();
        sum
    }
}
