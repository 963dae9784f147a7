//! The event packages, each with the one body type it is told in.

use super::{DeviceState, dialog_info, pidf};
use busyhour::bus::Name;

/// An event package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Package {
    /// Whether a device can be reached, and where (RFC 3856).
    Presence,
    /// The dialogs of a device (RFC 4235). We see none; that the device can be
    /// reached is told in an element of our own.
    Dialog,
}

impl Package {
    /// Every package.
    pub const ALL: [Self; 2] = [Self::Presence, Self::Dialog];

    /// The package of this name, compared as RFC 6665 §8.2.1 wants: by case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|package| package.name() == name)
    }

    /// The name in the Event header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Presence => "presence",
            Self::Dialog => "dialog",
        }
    }

    /// The subtype of its body; the type is `application`.
    pub const fn subtype(self) -> &'static str {
        match self {
            Self::Presence => "pidf+xml",
            Self::Dialog => "dialog-info+xml",
        }
    }

    /// The content type of its body.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Presence => "application/pidf+xml",
            Self::Dialog => "application/dialog-info+xml",
        }
    }

    /// Appends the body that tells `state`; `version` counts the bodies of one
    /// subscription from zero.
    pub fn write_body(
        self,
        out: &mut Vec<u8>,
        device: &Name,
        state: Option<&DeviceState>,
        version: u32,
    ) {
        match self {
            Self::Presence => pidf::write(out, device, state),
            Self::Dialog => dialog_info::write(out, device, state, version),
        }
    }
}
