//! Calls as the command line, HTTP and other programs see them.

use crate::server::nanos;
use busyhour::clock::Instant;
use busyhour_proxy::dialogs::LiveCall;
use serde::Serialize;

/// A call that lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallView {
    /// Its Call-ID.
    pub call_id: String,
    /// The URI of the caller.
    pub from: String,
    /// The URI that was called.
    pub to: String,
    /// The address of record of the device that calls, if it is one of ours.
    pub caller: Option<String>,
    /// That of the device that answered or rings.
    pub callee: Option<String>,
    /// `trying`, `proceeding`, `early` or `confirmed` (RFC 4235 §3.7.1).
    pub state: &'static str,
    /// Who has the other side on hold: `caller`, `callee` or `both`.
    pub hold: Option<&'static str>,
    /// For how long it has been in that state, in nanoseconds.
    pub since_ns: u64,
    /// The flow of the caller: transport, our address and its own.
    pub caller_flow: String,
    /// That of the callee.
    pub callee_flow: Option<String>,
}

impl CallView {
    pub(super) fn new(call: &LiveCall, now: Instant) -> Self {
        let flow_text = |flow: busyhour_sip::Flow| {
            let transport = flow.transport.parameter();
            format!("{transport}/{}-{}", flow.local, flow.remote)
        };
        Self {
            call_id: call.names.call_id().to_owned(),
            from: call.caller().to_owned(),
            to: call.callee().to_owned(),
            caller: call.caller_device.as_ref().map(ToString::to_string),
            callee: call.callee_device.as_ref().map(ToString::to_string),
            state: call.state.as_str(),
            hold: match call.holds {
                [true, true] => Some("both"),
                [true, false] => Some("caller"),
                [false, true] => Some("callee"),
                [false, false] => None,
            },
            since_ns: nanos(now - call.since),
            caller_flow: flow_text(call.caller_flow),
            callee_flow: call.callee_flow.map(flow_text),
        }
    }
}
