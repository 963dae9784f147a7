//! Copies of all messages to a capture server, in HEP version 3.

use super::message_tap::Direction;
use crate::server::{
    CaptureServer, Network,
    stats::{CaptureStats, counters::Counter},
};
use busyhour::{buffer::BufferPool, clock::UnixTime};
use busyhour_sip::{Flow, HeaderName, Message, hep::HepPacket};
use std::{cell::RefCell, sync::Arc, time::Duration};

/// Writes and sends them; a copy that cannot leave at once is dropped, and counted.
pub(super) struct HepSender {
    config: CaptureServer,
    network: Arc<dyn Network>,
    buffers: BufferPool,
    /// Too long, or without a buffer.
    dropped: Counter,
}

impl HepSender {
    pub(super) fn new(
        config: CaptureServer,
        network: Arc<dyn Network>,
        buffers: BufferPool,
    ) -> Self {
        Self {
            config,
            network,
            buffers,
            dropped: Counter::default(),
        }
    }

    pub(super) fn send(
        &self,
        direction: Direction,
        flow: Flow,
        at: UnixTime,
        message: &Message<'_>,
        bytes: &[u8],
    ) {
        let packet = HepPacket {
            since_1970: Duration::from_nanos(at.as_nanos()),
            capture_id: self.config.capture_id,
            password: &self.config.password,
            correlation_id: message.header(HeaderName::CallId).unwrap_or(""),
            ..HepPacket::of_flow(flow, direction == Direction::In, bytes)
        };
        let buffer = SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            packet.write(scratch).ok()?;
            self.buffers.copy_from(scratch).ok()
        });
        match buffer {
            // What the socket drops, it counts.
            Some(buffer) => drop(self.network.send_capture(self.config.address, buffer)),
            None => self.dropped.increment(),
        }
    }

    pub(super) fn stats(&self) -> CaptureStats {
        let socket = self.network.capture_stats();
        CaptureStats {
            hep_sent: socket.sent,
            hep_dropped: socket.dropped_send_queue + socket.send_errors + self.dropped.get(),
            ..CaptureStats::default()
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
