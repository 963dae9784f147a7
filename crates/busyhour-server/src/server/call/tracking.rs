//! What the table of dialogs knows of a request, and how it learns what becomes of it.

use busyhour::{buffer::Buffer, clock::Instant};
use busyhour_proxy::{
    Event, EventKind, FailureCause,
    dialogs::{CallHandle, DialogActions, DialogRequest, Dialogs, Party, Role},
};
use busyhour_registrar::Now;
use busyhour_sip::{Flow, Message};

/// What the table of dialogs calls a request.
#[derive(Debug, Clone)]
pub(in crate::server) enum Tracking {
    /// It is not of a dialog that is known.
    None,
    /// The INVITE of a call.
    Call(CallHandle),
    /// A request within a dialog.
    Within(DialogRequest),
    /// A request within a dialog that has come here before, and comes back by way of a peer.
    Spiral,
    /// A request within a dialog that is not known.
    Unknown(Box<UnknownDialog>),
}

/// A dialog as its route tells it.
#[derive(Debug, Clone)]
pub(in crate::server) struct UnknownDialog {
    pub(super) parties: [Party; 2],
    pub(super) sender: Role,
    /// The request, if other nodes of a cluster have to be told when it is known.
    pub(super) notice: Option<Buffer>,
}

impl UnknownDialog {
    /// Its sender is where this request of it came from, which is sure; nobody in particular is known by its flow alone, and
    /// keeps it.
    pub(super) fn new(mut parties: [Party; 2], sender: Role, flow: Flow) -> Self {
        let party = &mut parties[sender as usize];
        if party.name().is_some() {
            party.flow = flow;
        }
        Self {
            parties,
            sender,
            notice: None,
        }
    }
}

impl Tracking {
    /// Tells the dialogs what happened to the request; `message` is what came, and `called`
    /// gives the called side by the label of a target. Returns whether the dialog of
    /// [`Unknown`](Self::Unknown) is known from now on.
    pub(super) fn tell<'p>(
        &self,
        dialogs: &mut Dialogs,
        (now, moment): (Instant, impl FnOnce() -> Now),
        event: &Event,
        called: impl Fn(u64) -> Option<&'p Party>,
        message: Option<&Message<'_>>,
        out: &mut DialogActions,
    ) -> bool {
        let mut is_adopted = false;
        match (self, event.kind, message) {
            (
                Self::Call(call),
                EventKind::Forwarded {
                    branch,
                    label,
                    flow,
                },
                _,
            ) => {
                if let Some(party) = called(label) {
                    let party = party.clone();
                    dialogs.forwarded(*call, branch, Party { flow, ..party });
                }
            }
            (
                Self::Call(call),
                EventKind::Progress { branch, .. }
                | EventKind::Answered { branch, .. }
                | EventKind::Failed {
                    branch,
                    cause: FailureCause::Response,
                    ..
                },
                Some(response),
            ) => dialogs.response(now, *call, branch, response, out),
            (Self::Call(call), EventKind::Failed { branch, status, .. }, _) => {
                dialogs.failed(now, *call, branch, status, out);
            }
            (Self::Call(call), EventKind::Cancelled, _) => dialogs.cancelled(*call),
            (Self::Call(call), EventKind::Refused { status, .. }, _) => {
                dialogs.refused(now, *call, status, out);
            }
            (Self::Within(request), EventKind::Answered { .. }, Some(response)) => {
                dialogs.answered(now, *request, response, out);
            }
            // A way that has failed says nothing of the dialog: there may be another one.
            (
                Self::Within(request),
                EventKind::Failed {
                    cause: FailureCause::Response,
                    ..
                },
                _,
            ) => dialogs.heard(now, *request),
            (Self::Within(request), EventKind::Refused { status, .. }, _) => {
                dialogs.unanswered(now, *request, status, out);
            }
            (Self::Within(request), EventKind::Unanswered, _) => {
                dialogs.unanswered(now, *request, TIMEOUT, out);
            }
            (Self::Unknown(known), EventKind::Answered { .. }, Some(response)) => {
                let (parties, sender) = (known.parties.clone(), known.sender);
                is_adopted = dialogs.adopt(moment(), response, parties, sender, out);
            }
            _ => {}
        }
        if let (
            EventKind::Answered {
                session: Some(interval),
                ..
            },
            Some(response),
        ) = (event.kind, message)
        {
            dialogs.session_added(now, response, interval);
        }
        is_adopted
    }
}

/// What a request other than INVITE that gets no response counts as (RFC 4320 §4.2).
const TIMEOUT: u16 = 408;
