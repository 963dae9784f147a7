//! What has to be done after an event.

use std::sync::Arc;

use busyhour::bus::Name;
use busyhour_registrar::watch::DialogChange;
use busyhour_sip::Flow;

use super::{CallRecord, LiveCall, Party, Probe};

/// What follows from messages and from time, each kind in order. Kept and used again, so
/// that a busy table allocates nothing for it.
///
/// Give the changes to their devices, in order, before another event of the same table is
/// handled: then the changes of each dialog arrive in order.
#[derive(Debug, Default)]
pub struct DialogActions {
    /// What becomes of the dialogs of devices.
    pub changes: Vec<DialogChange>,
    /// Calls that began, were answered or ended.
    pub calls: Vec<CallEvent>,
    /// Call-IDs of which no call lasts any more: also those of calls that are only known since
    /// a request within their dialog, and so have no [`CallEvent`].
    pub ended: Vec<Arc<str>>,
    /// Requests to send in place of a party, to learn whether it still knows a dialog.
    pub probes: Vec<Probe>,
    /// Dialogs whose place another one has taken: for the table of their Call-ID.
    pub replaced: Vec<ReplacedDialog>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEvent {
    /// It begins; [`Ended`](Self::Ended) follows.
    Began(LiveCall),
    /// It was answered for the first time, as it is then.
    Answered(LiveCall),
    /// It ended.
    Ended(CallRecord),
}

/// A dialog whose place another one has taken (RFC 3891). It may be in another table: give
/// it to [`Dialogs::replace`](super::Dialogs::replace) of the table of its Call-ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedDialog {
    /// Its Call-ID.
    pub call_id: Arc<str>,
    /// Its tags, in no order.
    pub tags: [Arc<str>; 2],
    /// Only if it has not been answered.
    pub early_only: bool,
    /// Who answered the other one: only a party of the dialog can say that its place is
    /// taken.
    pub by: Option<Party>,
}

/// A flow that ended: for the devices that had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedFlow<'a> {
    /// The device.
    pub device: &'a Name,
    /// The flow; `None` means all flows of the device.
    pub flow: Option<Flow>,
}

impl CallEvent {
    /// The record of a call that ended.
    pub fn into_record(self) -> Option<CallRecord> {
        match self {
            Self::Ended(record) => Some(record),
            Self::Began(_) | Self::Answered(_) => None,
        }
    }
}

impl DialogActions {
    /// Forgets everything, and keeps the room.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.calls.clear();
        self.ended.clear();
        self.probes.clear();
        self.replaced.clear();
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.calls.is_empty()
            && self.ended.is_empty()
            && self.probes.is_empty()
            && self.replaced.is_empty()
    }
}
