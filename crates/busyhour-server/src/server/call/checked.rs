//! A request of the proxy as it goes to its call.

use super::target::Located;
use crate::server::{load::shares::Holder, spans::request_span::RequestSpan};
use busyhour::bus::Name;
use busyhour_proxy::{
    Inbound, Routing,
    dialogs::{KnownSender, Party, Role},
};
use busyhour_sip::Status;

/// A request that was checked, and where it goes.
pub(super) struct Checked<'r, 'm> {
    pub(super) inbound: &'r Inbound<'r, 'm>,
    pub(super) routing: &'r Routing<'m>,
    pub(super) holder: Holder,
    pub(super) located: Located,
    pub(super) parties: Parties,
    /// It came from the peer that its route names as its sender.
    pub(super) is_from_peer: bool,
    /// It came from where its sender is known to be: what is learned of it is the sender's.
    pub(super) is_at_home: bool,
    /// Its sender calls for help.
    pub(super) is_emergency: bool,
    /// Another node of the cluster lives and carries the dialog, and could not be told.
    pub(super) is_of_other_node: bool,
    /// There are other nodes, which have to be told if the dialog is adopted.
    pub(super) is_in_cluster: bool,
    pub(super) span: RequestSpan,
}

/// What the sender of a request is to the dialog of its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its party, or the dialog is not known.
    Party,
    /// A peer, to which the call went before it came here again.
    Spiral,
    /// Others than those whose dialog was adopted after a restart. Both have tokens for
    /// its names, and nothing tells whose it was: so both are carried, as if it were not known.
    Rival,
    /// A stranger, whose tokens are those of another call.
    Stranger,
}

/// What became of a request that there is room for.
#[derive(Debug, Clone)]
pub(super) enum Begin {
    /// It is on its way, or was answered.
    Begun,
    /// It is on its way, and ends a dialog that another node may carry, too.
    EndsElsewhere,
    /// Its sender is no party of the dialog.
    NotOfDialog,
    /// It was answered with this status; outside of a dialog, this is its caller.
    Refused(Status, Option<Party>),
}

/// Who takes part, as far as it is known when a request comes.
pub(super) enum Parties {
    /// Outside of a dialog: the caller, and the account that has proved itself.
    Outside(Party, Option<Name>),
    /// The sides of the dialog, and which of them sends.
    Within([Party; 2], Role),
}

impl Parties {
    /// All that are known.
    pub(super) fn all(&self) -> &[Party] {
        match self {
            Self::Outside(caller, _) => std::slice::from_ref(caller),
            Self::Within(both, _) => both,
        }
    }

    /// The caller of a request outside of a dialog.
    pub(super) fn caller(&self) -> Option<Party> {
        match self {
            Self::Outside(caller, _) => Some(caller.clone()),
            Self::Within(..) => None,
        }
    }
}

impl Checked<'_, '_> {
    /// The tokens may be valid and be given to somebody else than who has the dialog: whoever
    /// knows a Call-ID and a tag gets tokens for them by a call of his own. `known` is who sends
    /// in the dialog of these tags.
    pub(super) fn standing(&self, known: Option<KnownSender>) -> Standing {
        match (&self.parties, known) {
            (Parties::Within(parties, sender), Some(known))
                if !are_its(parties, *sender, &known) =>
            {
                match (self.is_from_peer, known.is_adopted) {
                    (true, _) => Standing::Spiral,
                    (_, true) => Standing::Rival,
                    _ => Standing::Stranger,
                }
            }
            _ => Standing::Party,
        }
    }
}

/// Whether the dialog has these parties. A call that came here again by way of a peer has the peer on one side.
fn are_its(parties: &[Party; 2], sender: Role, known: &KnownSender) -> bool {
    let other = &parties[sender.other() as usize];
    let is_other = |known: &Party| {
        let has_peer = known.peer.is_some() || other.peer.is_some();
        has_peer || known.is_same_sender(other)
    };
    known.party.is_same_sender(&parties[sender as usize])
        && known.other.as_ref().is_none_or(is_other)
}
