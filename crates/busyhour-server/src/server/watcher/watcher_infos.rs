//! Who watches what, for those who watch that (RFC 3857).
//!
//! A list is kept from the first subscription to it until the last one has ended, so watchers
//! of an address that nobody asks about cost a look at one number.
//!
//! Nobody is missed, and nobody stays who has gone: a watcher is listed, and taken from its
//! list, under its own lock, and whoever makes a list has put it into the table before he looks
//! at the watchers one after the other, each under its lock. So each of them has found the list
//! in the table, or is found.

use busyhour::{
    bus::{Name, Topic},
    clock::Instant,
    runtime::Runtime,
};
use busyhour_registrar::watch::{End, ListedWatcher, Package, WatcherInfo, WatcherList};
use foldhash::quality::FixedState;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The lists that somebody watches, and their topics.
pub(in crate::server) struct WatcherInfos {
    presence: Topic<WatcherInfo>,
    dialog: Topic<WatcherInfo>,
    message_summary: Topic<WatcherInfo>,
    lists: Mutex<HashMap<InfoKey, WatchedWatchers, FixedState>>,
    list_count: AtomicUsize,
}

type InfoKey = (Package, Name);

struct WatchedWatchers {
    list: WatcherList,
    /// Subscriptions to it.
    subscription_count: usize,
}

/// One subscription to a list, which is kept as long.
pub(super) struct WatcherInfoPlace {
    infos: Arc<WatcherInfos>,
    key: InfoKey,
    /// Nobody had the list before, so it has to be filled.
    pub(super) is_first: bool,
}

impl WatcherInfos {
    /// Addresses come from clients, so the `seed` is secret.
    pub(in crate::server) fn new(runtime: &Runtime, seed: u64) -> Self {
        let topic = |package: Package| runtime.topic(package.name()).cached().build();
        Self {
            presence: topic(Package::PresenceWatchers),
            dialog: topic(Package::DialogWatchers),
            message_summary: topic(Package::MessageSummaryWatchers),
            lists: Mutex::new(HashMap::with_hasher(FixedState::with_seed(seed))),
            list_count: AtomicUsize::new(0),
        }
    }

    /// Where the watchers of a package are told.
    pub(super) fn topic(&self, package: Package) -> &Topic<WatcherInfo> {
        match package {
            Package::Dialog => &self.dialog,
            Package::MessageSummary => &self.message_summary,
            _ => &self.presence,
        }
    }

    /// Keeps the list of who watches a resource.
    pub(super) fn join(self: &Arc<Self>, package: Package, resource: &Name) -> WatcherInfoPlace {
        let key = (package, resource.clone());
        let mut lists = self.lock();
        let watched = lists.entry(key.clone()).or_insert_with(|| WatchedWatchers {
            list: WatcherList::new(resource.clone(), package),
            subscription_count: 0,
        });
        watched.subscription_count += 1;
        let is_first = watched.subscription_count == 1;
        self.list_count.store(lists.len(), Ordering::Relaxed);
        drop(lists);
        WatcherInfoPlace {
            infos: self.clone(),
            key,
            is_first,
        }
    }

    /// Whether anybody watches a list. A watcher asks under its lock; see above.
    pub(super) fn are_any(&self) -> bool {
        self.list_count.load(Ordering::Relaxed) > 0
    }

    /// A watcher is there, or was refreshed.
    pub(super) fn lives(&self, key: InfoKey, watcher: ListedWatcher) {
        self.change(&key, |list| list.lives(watcher));
    }

    /// A watcher has gone.
    pub(super) fn ended(&self, key: InfoKey, id: u64, end: End, now: Instant) {
        self.change(&key, |list| list.ended(id, end, now));
    }

    /// Changes are published in the order in which they are made.
    fn change(&self, key: &InfoKey, change: impl FnOnce(&mut WatcherList)) {
        let mut lists = self.lock();
        let Some(watched) = lists.get_mut(key) else {
            return;
        };
        change(&mut watched.list);
        self.publish(watched, key.0);
    }

    fn publish(&self, watched: &WatchedWatchers, package: Package) {
        // The last value is kept for who cannot be told it now.
        let _ = self.topic(package).publish(watched.list.info());
    }

    fn leave(&self, key: &InfoKey) {
        let mut lists = self.lock();
        let Some(watched) = lists.get_mut(key) else {
            return;
        };
        watched.subscription_count -= 1;
        if watched.subscription_count > 0 {
            return;
        }
        lists.remove(key);
        let _ = self.topic(key.0).remove(&key.1);
        self.list_count.store(lists.len(), Ordering::Relaxed);
        if lists.capacity() > 4 * lists.len().max(16) {
            lists.shrink_to_fit();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InfoKey, WatchedWatchers, FixedState>> {
        self.lists
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl WatcherInfoPlace {
    /// Adds a watcher that was there before the list; nothing is published yet.
    pub(super) fn note(&self, watcher: ListedWatcher) {
        if let Some(watched) = self.infos.lock().get_mut(&self.key) {
            watched.list.lives(watcher);
        }
    }

    /// All that were there are noted.
    pub(super) fn publish(&self) {
        self.infos.change(&self.key, |_| ());
    }
}

impl Drop for WatcherInfoPlace {
    fn drop(&mut self) {
        self.infos.leave(&self.key);
    }
}
