//! What is left of a call when it ends, and what is shown of it while it lasts.

mod media_failure;
mod media_sides;
mod outcome;

use std::{sync::Arc, time::Duration};

use busyhour::{
    bus::Name,
    clock::{Instant, UnixTime},
};
use busyhour_registrar::watch::{CallNames, DialogDirection, DialogEnd, DialogState};
use busyhour_sip::{Flow, Message, push_socket_address};

pub use media_failure::MediaFailure;
pub use media_sides::MediaSides;
pub use outcome::CallOutcome;

use super::{
    party::{Party, Role},
    setup::kept_names,
};

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// Its Call-ID, From and To; a URI is absent if it is longer than
    /// [`URI_LEN_MAX`](super::URI_LEN_MAX).
    pub names: Arc<CallNames>,
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
    /// Why its media could not flow, if that is known.
    pub media_failure: Option<MediaFailure>,
}

impl CallRecord {
    /// Of an INVITE that was refused with this status before it was sent to anybody; `caller`
    /// is known if it has proved who it is. `None` if its Call-ID is missing or too long.
    pub fn refused(
        at: UnixTime,
        request: &Message<'_>,
        caller: Option<&Party>,
        (flow, status): (Flow, u16),
    ) -> Option<Self> {
        let call_id = request.call_id().ok()?;
        // Its tag is of no use, since it has no dialog.
        let names = kept_names(call_id, "", [request.from().ok(), request.to().ok()])?;
        Some(Self {
            names,
            caller_device: caller.and_then(|party| party.device.clone()),
            answered_by: None,
            began: at,
            rang: None,
            answered: None,
            ended: at,
            post_dial_delay: None,
            talk_time: None,
            status,
            end: DialogEnd::Rejected,
            ended_by: None,
            caller_flow: flow_text(flow),
            callee_flow: None,
            media_failure: None,
        })
    }

    /// What became of it, in the words of its caller.
    pub fn outcome(&self) -> CallOutcome {
        CallOutcome::of(self)
    }

    /// The URI in From; empty if it is absent.
    pub fn caller(&self) -> &str {
        self.names.uri(DialogDirection::Initiator)
    }

    /// The URI in To; empty if it is absent.
    pub fn callee(&self) -> &str {
        self.names.uri(DialogDirection::Recipient)
    }
}

impl LiveCall {
    /// The URI in From; empty if it is absent.
    pub fn caller(&self) -> &str {
        self.names.uri(DialogDirection::Initiator)
    }

    /// The URI in To; empty if it is absent.
    pub fn callee(&self) -> &str {
        self.names.uri(DialogDirection::Recipient)
    }
}

/// A call that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCall {
    /// Its Call-ID, From and To, as in [`CallRecord`].
    pub names: Arc<CallNames>,
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
    /// Whether the caller, and whether the callee has the other side on hold.
    pub holds: [bool; 2],
    /// Its record is written when it ends: its INVITE was seen.
    pub has_record_to_come: bool,
}

/// Both ends of a flow.
pub(super) fn flow_text(flow: Flow) -> Box<str> {
    let Flow {
        transport,
        local,
        remote,
        ..
    } = flow;
    let mut text = String::with_capacity(FLOW_TEXT_LEN_USUAL);
    text.push_str(transport.parameter());
    text.push('/');
    push_socket_address(&mut text, local);
    text.push('-');
    push_socket_address(&mut text, remote);
    text.into()
}

/// Two IPv4 addresses with their ports.
const FLOW_TEXT_LEN_USUAL: usize = 48;
