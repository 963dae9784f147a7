//! Who takes part in a call.

mod kept_party;

use busyhour::bus::Name;
use busyhour_registrar::watch::DialogDirection;
use busyhour_sip::Flow;

pub(super) use kept_party::KeptParty;

/// A side of a call: a device of ours, or a peer, which is another server or gateway that is
/// known by name. One that is neither is nobody in particular, such as an anonymous caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// The address of record of our device.
    pub device: Option<Name>,
    /// The name of the peer; one that has it is no device.
    pub peer: Option<Name>,
    /// The flow on which its messages come and go.
    pub flow: Flow,
}

impl Party {
    /// A device of ours.
    pub fn device(aor: Name, flow: Flow) -> Self {
        Self {
            device: Some(aor),
            ..Self::nobody(flow)
        }
    }

    /// A peer.
    pub fn peer(name: Name, flow: Flow) -> Self {
        Self {
            peer: Some(name),
            ..Self::nobody(flow)
        }
    }

    /// Somebody of whom only the flow is known.
    pub fn nobody(flow: Flow) -> Self {
        Self {
            device: None,
            peer: None,
            flow,
        }
    }

    /// Whether both are the same device or the same peer, on whatever flows: two parties without
    /// a name may be anybody.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name().is_some() && self.device == other.device && self.peer == other.peer
    }

    /// Whether what one of them sends may be the other's: both [are the same](Self::is_same), or
    /// nobody in particular on one flow, which has no other sign.
    pub fn is_same_sender(&self, other: &Self) -> bool {
        self.is_same(other) || *self == Self::nobody(other.flow) && self == other
    }

    /// The address of record of the device, or the name of the peer.
    pub fn name(&self) -> Option<&Name> {
        self.device.as_ref().or(self.peer.as_ref())
    }
}

/// Who sends a request, as the table knows its dialog.
#[derive(Debug, Clone)]
pub struct KnownSender {
    /// The side.
    pub party: Party,
    /// The opposite side, if it is known.
    pub other: Option<Party>,
    /// The table [adopted](super::Dialogs::adopt) the dialog: its sides have tokens for its names,
    /// and somebody else may have such tokens as well.
    pub is_adopted: bool,
}

/// The two sides of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It sent the INVITE.
    Caller,
    /// It received the INVITE.
    Callee,
}

impl Role {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Caller, Self::Callee];

    /// The side in the words of RFC 4235.
    pub(super) fn direction(self) -> DialogDirection {
        match self {
            Self::Caller => DialogDirection::Initiator,
            Self::Callee => DialogDirection::Recipient,
        }
    }

    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}
