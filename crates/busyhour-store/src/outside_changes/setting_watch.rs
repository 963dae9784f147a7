//! The listeners for changes of the settings that tools make: tokens and domains.
//!
//! There are few of these, so all of a kind are read together, and passed on if they have changed.
//! The writer of SQLite reads them once a second, also between two batches of accounts, so a removed
//! token is refused in time, however long reading the accounts takes. PostgreSQL counts their
//! changes, and a thread of its own reads them when the count has changed.

use crate::{SettingKind, SettingListener, SettingRows};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

/// The listeners of a store, one for each kind, and what they know.
#[derive(Default)]
pub(crate) struct SettingWatch(Mutex<BTreeMap<SettingKind, WatchedSettings>>);

struct WatchedSettings {
    /// `None` before the first look.
    known: Option<SettingRows>,
    listener: SettingListener,
}

impl SettingWatch {
    /// From now on tells `listener` of the settings of `kind`.
    pub(crate) fn start(&self, kind: SettingKind, listener: SettingListener) {
        let known = None;
        let watched = WatchedSettings { known, listener };
        self.lock().insert(kind, watched);
    }

    /// The kinds that somebody wants to know of.
    pub(crate) fn followed(&self) -> Vec<SettingKind> {
        self.lock().keys().copied().collect()
    }

    /// Those of which nothing was read yet.
    pub(crate) fn unknown(&self) -> Vec<SettingKind> {
        let state = self.lock();
        let unknown = state.iter().filter(|(_, watched)| watched.known.is_none());
        unknown.map(|(kind, _)| *kind).collect()
    }

    /// Tells what was read, where that is news.
    pub(crate) fn found(&self, kind: SettingKind, rows: SettingRows) {
        let mut state = self.lock();
        let Some(feed) = state.get_mut(&kind) else {
            return;
        };
        if feed.known.as_ref() != Some(&rows) {
            (feed.listener)(&rows);
            feed.known = Some(rows);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SettingKind, WatchedSettings>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
