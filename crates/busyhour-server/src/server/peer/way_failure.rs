//! A way to a peer that did not take a request.

use busyhour::bus::Name;
use busyhour_proxy::FailureCause;
use busyhour_sip::{Flow, Status};
use std::borrow::Cow;

/// What the log says of a request that one address of a peer did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct WayFailure {
    pub(in crate::server) peer: Name,
    /// The device or peer that calls, if it is one.
    pub(in crate::server) caller: Option<Name>,
    pub(in crate::server) from: Flow,
    /// Where it went next; `None` if that was the last address.
    pub(in crate::server) to: Option<Flow>,
    pub(super) status: u16,
    pub(super) cause: FailureCause,
}

impl WayFailure {
    pub(in crate::server) fn reason(&self) -> Cow<'static, str> {
        match self.cause {
            FailureCause::Timeout => "no answer".into(),
            FailureCause::Transport => "it could not be sent".into(),
            FailureCause::Response => match Status::new(self.status) {
                Some(status) => format!("{} {}", self.status, status.reason()).into(),
                None => self.status.to_string().into(),
            },
        }
    }
}

/// An address as it is written in the configuration.
pub(in crate::server) fn address_of(flow: Flow) -> String {
    match flow.transport {
        busyhour_sip::Transport::Udp => flow.remote.to_string(),
        stream => format!("{}/{}", stream.parameter(), flow.remote),
    }
}
