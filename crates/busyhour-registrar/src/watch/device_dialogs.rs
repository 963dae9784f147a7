//! The dialogs of one device that pass through the proxy, as one more publication of the
//! device.
//!
//! The proxy sees each message of a dialog in order, so of a dialog that both the proxy
//! and the device tell of, only the proxy's word counts: nothing is counted twice, and a
//! publication that comes late, or never, changes nothing. A published dialog is the
//! proxy's if it names the Call-ID of one that lives, or of one of the last few that
//! ended by a message. One without a Call-ID cannot be told apart, so it counts only
//! while the proxy carries no dialog of the device. All other published dialogs are
//! calls that do not pass through the proxy, and count beside the proxy's.

use crate::watch::{DialogChange, DialogInfo, DialogStep, Document, LineState, Published};
use busyhour::bus::Name;
use std::sync::Arc;

/// The dialogs of a device that the proxy carries now.
#[derive(Debug, Default)]
pub struct DeviceDialogs {
    /// Most devices have one at a time, and nobody keeps room for more.
    live: Vec<LiveDialog>,
    /// Call-IDs of the last dialogs that ended by a message, the oldest one first.
    ended: Vec<Box<str>>,
}

#[derive(Debug)]
struct LiveDialog {
    id: u64,
    version: u64,
    info: DialogInfo,
}

impl DeviceDialogs {
    /// Takes in a change, and returns whether anything differs. The changes of one dialog
    /// must come in the order in which they were made; one that came before does nothing.
    pub fn apply(&mut self, change: DialogChange) -> bool {
        let (id, version) = (change.id, change.version);
        let found = self.live.iter().position(|dialog| dialog.id == id);
        match (found, change.step) {
            (Some(index), _) if self.live[index].version >= version => false,
            (Some(index), DialogStep::Is(info)) => {
                let dialog = &mut self.live[index];
                let differs = dialog.info != info;
                (dialog.version, dialog.info) = (version, info);
                differs
            }
            (None, DialogStep::Is(info)) => {
                if self.live.is_empty() {
                    self.live.reserve_exact(1);
                }
                self.live.push(LiveDialog { id, version, info });
                true
            }
            (Some(index), DialogStep::Ended { end, .. }) => {
                let dialog = self.live.remove(index);
                if self.live.is_empty() {
                    self.live = Vec::new();
                }
                if end.is_certain() {
                    self.remember(dialog.info.names.call_id());
                }
                true
            }
            (None, DialogStep::Ended { .. }) => false,
        }
    }

    /// The dialogs, each with its id, in the order in which they began.
    pub fn live(&self) -> impl Iterator<Item = (u64, &DialogInfo)> + Clone {
        self.live.iter().map(|dialog| (dialog.id, &dialog.info))
    }

    /// What they do together; `None` if there are none.
    pub fn line(&self) -> Option<LineState> {
        let lines = self.live().map(|(_, info)| info.line());
        (!self.live.is_empty()).then(|| LineState::aggregate(lines))
    }

    /// Whether nothing is known: no dialog, and none that ended.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.ended.is_empty()
    }

    /// What watchers are told: what the device publishes, without the dialogs that the
    /// proxy knows, and the proxy's.
    pub fn told(
        &self,
        device: &Name,
        published: Option<Arc<[Published]>>,
    ) -> Option<Arc<[Published]>> {
        if self.live.is_empty() && (self.ended.is_empty() || published.is_none()) {
            return published;
        }
        let published = published.iter().flat_map(|published| published.iter());
        let mut told: Vec<_> = published.map(|one| self.without_known(one)).collect();
        if !self.live.is_empty() {
            told.push(Published {
                number: NUMBER,
                document: Arc::new(Document::of_dialogs(device, self.live())),
            });
        }
        Some(told.into())
    }

    fn without_known(&self, published: &Published) -> Published {
        let keeps = |call_id: Option<&str>, _is_over| match call_id {
            None => self.live.is_empty(),
            Some(call_id) => !self.knows(call_id),
        };
        let document = published.document.with_dialogs(keeps);
        Published {
            number: published.number,
            document: document.map_or_else(|| published.document.clone(), Arc::new),
        }
    }

    fn knows(&self, call_id: &str) -> bool {
        let mut live = self.live.iter();
        live.any(|dialog| dialog.info.names.call_id() == call_id)
            || self.ended.iter().any(|ended| **ended == *call_id)
    }

    fn remember(&mut self, call_id: &str) {
        if self.ended.len() >= ENDED_MAX {
            self.ended.remove(0);
        }
        self.ended.push(call_id.into());
    }
}

/// Publications of devices have higher ones.
const NUMBER: u64 = 0;
/// A telephone has a few lines, and publishes the end of each dialog within seconds.
const ENDED_MAX: usize = 8;
