//! Calls and their records as the command line, HTTP and other programs see them.

use crate::server::nanos;
use busyhour::clock::Instant;
use busyhour_proxy::dialogs::{CallRecord, LiveCall, Role};
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
    /// For how long it has been in that state, in nanoseconds.
    pub since_ns: u64,
    /// The flow of the caller: transport, our address and its own.
    pub caller_flow: String,
    /// That of the callee.
    pub callee_flow: Option<String>,
}

/// A call that has ended. Times are calendar times in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRecordView {
    /// Its Call-ID.
    pub call_id: String,
    /// The URI of the caller; empty if it is longer than 256 bytes.
    pub from: String,
    /// The URI that was called; empty if it is longer.
    pub to: String,
    /// The address of record of the device that called, if it is one of ours.
    pub caller: Option<String>,
    /// That of the device that answered first.
    pub answered_by: Option<String>,
    /// When the INVITE came.
    pub began_at_ns: u64,
    /// When it first rang.
    pub rang_at_ns: Option<u64>,
    /// When it was answered.
    pub answered_at_ns: Option<u64>,
    /// When it ended.
    pub ended_at_ns: u64,
    /// From the INVITE to the first response that the caller could hear.
    pub post_dial_delay_ns: Option<u64>,
    /// From the answer to the end.
    pub talk_time_ns: Option<u64>,
    /// The status of the final response; 0 if there was none.
    pub status: u16,
    /// `cancelled`, `rejected`, `replaced`, `local-bye`, `remote-bye`, `error` or `timeout`,
    /// as the caller sees it.
    pub end: &'static str,
    /// `caller` or `callee`.
    pub ended_by: Option<&'static str>,
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
            call_id: call.call_id.to_string(),
            from: call.caller.to_string(),
            to: call.callee.to_string(),
            caller: call.caller_device.as_ref().map(ToString::to_string),
            callee: call.callee_device.as_ref().map(ToString::to_string),
            state: call.state.as_str(),
            since_ns: nanos(now - call.since),
            caller_flow: flow_text(call.caller_flow),
            callee_flow: call.callee_flow.map(flow_text),
        }
    }
}

impl CallRecordView {
    pub(super) fn new(record: &CallRecord) -> Self {
        Self {
            call_id: record.call_id.to_string(),
            from: record.caller.to_string(),
            to: record.callee.to_string(),
            caller: record.caller_device.as_ref().map(ToString::to_string),
            answered_by: record.answered_by.as_ref().map(ToString::to_string),
            began_at_ns: record.began.as_nanos(),
            rang_at_ns: record.rang.map(|at| at.as_nanos()),
            answered_at_ns: record.answered.map(|at| at.as_nanos()),
            ended_at_ns: record.ended.as_nanos(),
            post_dial_delay_ns: record.post_dial_delay.map(nanos),
            talk_time_ns: record.talk_time.map(nanos),
            status: record.status,
            end: record.end.as_str(),
            ended_by: record.ended_by.map(|role| match role {
                Role::Caller => "caller",
                Role::Callee => "callee",
            }),
            caller_flow: record.caller_flow.to_string(),
            callee_flow: record.callee_flow.as_ref().map(ToString::to_string),
        }
    }
}
