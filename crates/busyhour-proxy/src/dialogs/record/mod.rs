//! What is left of a call when it ends, and what is shown of it while it lasts.

mod outcome;

use std::{sync::Arc, time::Duration};

use busyhour::{
    bus::Name,
    clock::{Instant, UnixTime},
};
use busyhour_registrar::watch::{DialogEnd, DialogState};
use busyhour_sip::Flow;

pub use outcome::CallOutcome;

use super::party::{Party, Role};

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// Its Call-ID.
    pub call_id: Arc<str>,
    /// The URI in From; empty if it is longer than [`URI_LEN_MAX`](super::URI_LEN_MAX).
    pub caller: Arc<str>,
    /// The URI in To; empty if it is longer.
    pub callee: Arc<str>,
    /// The device that called.
    pub caller_device: Option<Name>,
    /// The device that answered first.
    pub answered_by: Option<Name>,
    /// When the INVITE came.
    pub began: UnixTime,
    /// When it first rang.
    pub rang: Option<UnixTime>,
    /// When it was answered first.
    pub answered: Option<UnixTime>,
    /// When it ended.
    pub ended: UnixTime,
    /// From the INVITE to the first response that the caller could hear (1xx but 100, or
    /// the final one), by a clock that nobody sets.
    pub post_dial_delay: Option<Duration>,
    /// From the answer to the end, by the same clock.
    pub talk_time: Option<Duration>,
    /// The status of the final response to the INVITE; 0 if there was none.
    pub status: u16,
    /// Why it ended, as the caller sees it.
    pub end: DialogEnd,
    /// The side that ended it; `None` if that was neither: another call, or a timeout.
    pub ended_by: Option<Role>,
    /// The flow of the caller, as text: `udp/192.0.2.1:5060-192.0.2.7:40000`.
    pub caller_flow: Box<str>,
    /// The flow of the callee that answered, or else of the last one tried.
    pub callee_flow: Option<Box<str>>,
}

impl CallRecord {
    /// What became of it, in the words of its caller.
    pub fn outcome(&self) -> CallOutcome {
        CallOutcome::of(self)
    }
}

/// A call that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCall {
    /// Its Call-ID.
    pub call_id: Arc<str>,
    /// The URI in From.
    pub caller: Arc<str>,
    /// The URI in To.
    pub callee: Arc<str>,
    /// The device that calls.
    pub caller_device: Option<Name>,
    /// The device that answered, or the first one that rings.
    pub callee_device: Option<Name>,
    /// How far it is.
    pub state: DialogState,
    /// Since when it is in that state.
    pub since: Instant,
    /// The flow of the caller.
    pub caller_flow: Flow,
    /// The flow of that callee.
    pub callee_flow: Option<Flow>,
    /// Its record is written when it ends: its INVITE was seen.
    pub has_record_to_come: bool,
}

/// Both ends of a flow.
pub(super) fn flow_text(party: &Party) -> Box<str> {
    let Flow {
        transport,
        local,
        remote,
        ..
    } = party.flow;
    format!("{}/{local}-{remote}", transport.parameter()).into()
}
