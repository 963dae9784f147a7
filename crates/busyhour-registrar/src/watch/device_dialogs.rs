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
    /// The one that began first. Most devices have no other, and take no memory for more.
    first: Option<LiveDialog>,
    more: Option<Box<MoreDialogs>>,
}

/// What a device has besides one dialog.
#[derive(Debug, Default)]
struct MoreDialogs {
    /// The other dialogs, in the order in which they began.
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
        match (self.find_mut(id), change.step) {
            (Some(dialog), _) if dialog.version >= version => false,
            (Some(dialog), DialogStep::Is(info)) => {
                let differs = dialog.info != info;
                (dialog.version, dialog.info) = (version, info);
                differs
            }
            (None, DialogStep::Is(info)) => {
                self.add(LiveDialog { id, version, info });
                true
            }
            (Some(_), DialogStep::Ended { end, .. }) => {
                let ended = self.remove(id).filter(|_| end.is_certain());
                if let Some(dialog) = ended {
                    self.remember(dialog.info.names.call_id());
                }
                true
            }
            (None, DialogStep::Ended { .. }) => false,
        }
    }

    /// The dialogs, each with its id, in the order in which they began.
    pub fn live(&self) -> impl Iterator<Item = (u64, &DialogInfo)> + Clone {
        let others = self.more.iter().flat_map(|more| &more.live);
        let all = self.first.iter().chain(others);
        all.map(|dialog| (dialog.id, &dialog.info))
    }

    /// The same, as other nodes of a cluster are told them.
    pub fn shared(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let others = self.more.iter().flat_map(|more| &more.live);
        let all = self.first.iter().chain(others);
        all.map(|dialog| (dialog.id, dialog.info.to_shared(dialog.version)))
    }

    /// What they do together; `None` if there are none.
    pub fn line(&self) -> Option<LineState> {
        let lines = self.live().map(|(_, info)| info.line());
        self.first.is_some().then(|| LineState::aggregate(lines))
    }

    /// What watchers are told: what the device publishes, without the dialogs that the
    /// proxy knows, and the proxy's.
    pub fn told(
        &self,
        device: &Name,
        published: Option<Arc<[Published]>>,
    ) -> Option<Arc<[Published]>> {
        if self.first.is_none() && (self.ended().is_empty() || published.is_none()) {
            return published;
        }
        let published = published.iter().flat_map(|published| published.iter());
        let mut told: Vec<_> = published.map(|one| self.without_known(one)).collect();
        if self.first.is_some() {
            told.push(Published {
                number: NUMBER,
                document: Arc::new(Document::of_dialogs(device, self.live())),
            });
        }
        Some(told.into())
    }

    fn without_known(&self, published: &Published) -> Published {
        let keeps = |call_id: Option<&str>, _is_over| match call_id {
            None => self.first.is_none(),
            Some(call_id) => !self.knows(call_id),
        };
        let document = published.document.with_dialogs(keeps);
        Published {
            number: published.number,
            document: document.map_or_else(|| published.document.clone(), Arc::new),
        }
    }

    fn knows(&self, call_id: &str) -> bool {
        self.live().any(|(_, info)| info.names.call_id() == call_id)
            || self.ended().iter().any(|ended| **ended == *call_id)
    }

    fn find_mut(&mut self, id: u64) -> Option<&mut LiveDialog> {
        let others = self.more.iter_mut().flat_map(|more| &mut more.live);
        let mut all = self.first.iter_mut().chain(others);
        all.find(|dialog| dialog.id == id)
    }

    fn add(&mut self, dialog: LiveDialog) {
        match &self.first {
            None => self.first = Some(dialog),
            Some(_) => self.more.get_or_insert_default().live.push(dialog),
        }
    }

    fn remove(&mut self, id: u64) -> Option<LiveDialog> {
        let others = self.more.as_mut().map(|more| &mut more.live);
        if self.first.as_ref().is_some_and(|first| first.id == id) {
            let next = others.filter(|others| !others.is_empty());
            let next = next.map(|others| others.remove(0));
            return std::mem::replace(&mut self.first, next);
        }
        let others = others?;
        let index = others.iter().position(|dialog| dialog.id == id)?;
        Some(others.remove(index))
    }

    fn ended(&self) -> &[Box<str>] {
        self.more.as_ref().map_or(&[], |more| &more.ended)
    }

    fn remember(&mut self, call_id: &str) {
        let ended = &mut self.more.get_or_insert_default().ended;
        if ended.len() >= ENDED_MAX {
            ended.remove(0);
        }
        ended.push(call_id.into());
    }
}

/// Publications of devices have higher ones.
const NUMBER: u64 = 0;
/// A telephone has a few lines, and publishes the end of each dialog within seconds.
const ENDED_MAX: usize = 8;
