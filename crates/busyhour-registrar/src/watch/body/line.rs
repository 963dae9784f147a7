//! Whether a line is idle, ringing or in use, and the combined state of several lines.

use crate::watch::{DeviceState, Document};
use serde::{Deserialize, Serialize};

/// The state of a line, the weakest first: of several lines the strongest one
/// counts, in the order in which Asterisk aggregates the devices of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineState {
    /// There are no lines.
    Invalid,
    /// It cannot be reached.
    Unavailable,
    /// There is no call.
    Idle,
    /// Its call is on hold.
    OnHold,
    /// It rings.
    Ringing,
    /// There is a call, or somebody dials.
    InUse,
    /// It takes no more calls.
    Busy,
    /// It rings during another call.
    RingInUse,
}

impl LineState {
    /// The state of a device: unavailable without a contact, otherwise the state of the
    /// dialogs that it publishes.
    pub fn of(device: Option<&DeviceState>) -> Self {
        let Some(device) = device else {
            return Self::Unavailable;
        };
        let published = device.published().iter();
        let dialogs = published.filter_map(|published| match &*published.document {
            Document::Dialog { line, .. } => Some(*line),
            Document::Presence(_) | Document::Messages(_) => None,
        });
        let rest = match device.contacts.is_empty() {
            true => Self::Unavailable,
            false => Self::Idle,
        };
        Self::aggregate(dialogs.chain([rest]))
    }

    /// The combined state: the strongest one; if one line rings while another is in
    /// use, the state is ring-in-use.
    ///
    /// ```
    /// use busyhour_registrar::watch::LineState::*;
    /// use busyhour_registrar::watch::LineState;
    /// assert_eq!(LineState::aggregate([Idle, Unavailable]), Idle);
    /// assert_eq!(LineState::aggregate([Ringing, OnHold]), RingInUse);
    /// assert_eq!(LineState::aggregate([]), Invalid);
    /// ```
    pub fn aggregate(lines: impl IntoIterator<Item = Self>) -> Self {
        let (mut strongest, mut rings, mut is_taken) = (Self::Invalid, false, false);
        for line in lines {
            strongest = strongest.max(line);
            rings |= line == Self::Ringing;
            is_taken |= matches!(line, Self::InUse | Self::OnHold | Self::Busy);
        }
        match rings && is_taken {
            true => Self::RingInUse,
            false => strongest,
        }
    }
}
