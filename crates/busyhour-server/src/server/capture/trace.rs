//! The messages of one device, live.

use super::{
    masking::masked,
    message_tap::{Direction, MessageTap, Traced},
};
use crate::server::core::Core;
use busyhour::clock::UnixTime;
use busyhour_sip::Flow;
use serde::Serialize;
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

/// Whose messages are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRequest {
    /// `alice`, `alice@example.com` or `sip:alice@example.com`: messages whose Request-URI,
    /// From, To or asserted identity names this user, and all messages on the flows of its
    /// contacts.
    pub user: String,
    /// Whether bodies are wanted.
    pub has_bodies: bool,
}

/// Takes messages on the threads that receive and send; it must be quick. `false` means
/// that it has no room, so that this one is lost, and counted.
pub type TraceListener = Box<dyn Fn(TracedMessage) -> bool + Send + Sync>;

/// A message of a device. Secrets in it are replaced by `***`: the responses and nonces of
/// authentication, and keys of media.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TracedMessage {
    /// When it came or left, in nanoseconds since 1970.
    pub at_ns: u64,
    /// `in` or `out`.
    pub direction: &'static str,
    /// `udp`, `tcp` or `tls`.
    pub transport: &'static str,
    /// The server's address.
    pub local: String,
    /// The other side's.
    pub remote: String,
    /// The message; what is no text in it is replaced.
    pub message: String,
}

/// A trace that lasts; dropping it ends it.
pub struct Trace {
    tap: Arc<MessageTap>,
    traced: Arc<Traced>,
    core: Weak<Core>,
}

impl TracedMessage {
    pub(super) fn new(
        at: UnixTime,
        direction: Direction,
        flow: Flow,
        bytes: &[u8],
        has_bodies: bool,
    ) -> Self {
        Self {
            at_ns: at.as_nanos(),
            direction: match direction {
                Direction::In => "in",
                Direction::Out => "out",
            },
            transport: flow.transport.parameter(),
            local: flow.local.to_string(),
            remote: flow.remote.to_string(),
            message: masked(bytes, has_bodies),
        }
    }
}

impl Trace {
    /// How often to [`refresh`](Self::refresh) it: without `sip.domains` that visits every
    /// device.
    pub fn refresh_period(&self) -> Duration {
        let core = self.core.upgrade();
        match core.is_some_and(|core| core.domains.are_all()) {
            true => Duration::from_secs(30),
            false => Duration::from_secs(1),
        }
    }

    /// Learns where the device is registered now.
    pub fn refresh(&self) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let user = self.traced.filter().user().to_owned();
        let listing = core.devices.bindings_of(&user, &core.domains);
        let bindings = listing.bindings.iter();
        let flows = bindings.map(|listed| listed.binding.contact.parts().flow);
        let flows = flows.collect();
        self.traced.filter().set_flows(flows);
    }

    /// How many messages found no room.
    pub fn lost(&self) -> u64 {
        self.traced.lost()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.tap.close(&self.traced);
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

impl Core {
    /// `None` if there are as many traces as may be.
    pub(in crate::server) fn trace(
        self: &Arc<Self>,
        request: TraceRequest,
        listener: TraceListener,
    ) -> Option<Trace> {
        let tap = self.responder.tap().clone();
        let traced = tap.open(request, listener)?;
        let trace = Trace {
            tap,
            traced,
            core: Arc::downgrade(self),
        };
        trace.refresh();
        Some(trace)
    }
}
