//! What has to be done after a step.

use super::{BranchId, Event};
use busyhour::buffer::Buffer;
use busyhour_sip::Flow;

/// Messages to send and what happened, in order. Kept and used again, so that a busy
/// table allocates nothing for it.
#[derive(Debug, Default)]
pub struct Actions {
    outbound: Vec<Outbound>,
    events: Vec<Event>,
}

/// A message to send.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// The way.
    pub flow: Flow,
    /// The bytes; a retransmission shares them.
    pub datagram: Buffer,
    /// Whether a connection may be made if there is none.
    pub may_connect: bool,
    /// If it cannot be sent, tell [`transport_error`](super::Proxy::transport_error).
    pub branch: Option<BranchId>,
}

impl Actions {
    /// The messages; they are forgotten here.
    pub fn take_outbound(&mut self) -> impl Iterator<Item = Outbound> + '_ {
        self.outbound.drain(..)
    }

    /// What happened; it is forgotten here.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.events.drain(..)
    }

    /// The messages.
    pub fn outbound(&self) -> &[Outbound] {
        &self.outbound
    }

    /// What happened.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Forgets everything but the room.
    pub fn clear(&mut self) {
        self.outbound.clear();
        self.events.clear();
    }

    pub(super) fn send(&mut self, outbound: Outbound) {
        self.outbound.push(outbound);
    }

    pub(super) fn note(&mut self, event: Event) {
        self.events.push(event);
    }
}
