//! Who takes part in a call.

use busyhour::bus::Name;
use busyhour_sip::Flow;

/// A side of a call. One without an address of record is no device of ours: a gateway, or
/// somebody elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// The address of record of our device.
    pub device: Option<Name>,
    /// The flow on which its messages come and go.
    pub flow: Flow,
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

    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}
