//! What a change of a device brings about when it is durable.

use super::{compositor::PublicationDraft, removal::RemovalDraft};
use crate::server::sip::transactions::TransactionKey;
use busyhour::buffer::Buffer;
use busyhour_iax2::{CallId, RequestOutcome};
use busyhour_registrar::{Bindings, Tally};
use busyhour_sip::Flow;

/// What holds once the change is durable.
pub(super) enum Draft {
    Registration(RegistrationDraft),
    Publication(PublicationDraft),
    Removal(RemovalDraft),
}

impl Draft {
    /// What will be registered, if that changes.
    pub(super) fn bindings_mut(&mut self) -> Option<&mut Bindings> {
        match self {
            Self::Registration(draft) => Some(&mut draft.bindings),
            Self::Removal(draft) => Some(&mut draft.bindings),
            Self::Publication(_) => None,
        }
    }
}

pub(super) struct RegistrationDraft {
    pub(super) bindings: Bindings,
    pub(super) answer: Answer,
    pub(super) tally: Tally,
    /// Watchers see a difference.
    pub(super) is_visible: bool,
    /// The device was told to keep its flow alive.
    pub(super) keeps_flow: bool,
}

/// What the device is told then.
pub(super) enum Answer {
    /// The 200 of a transaction, and where it goes.
    Sip(TransactionKey, Flow, Buffer),
    /// What a call makes a REGACK of.
    Iax2(CallId, RequestOutcome),
}
