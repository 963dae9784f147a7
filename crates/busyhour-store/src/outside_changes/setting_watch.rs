//! The listeners for changes of the settings that tools make: tokens and domains.
//!
//! There are few of these, so the writer reads them all once a second, and passes those of
//! a kind on if they have changed. The writer checks them on its own schedule, also between
//! two batches of accounts, so a removed token is refused in time, however long reading the
//! accounts takes.

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
