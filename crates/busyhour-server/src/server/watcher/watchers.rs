//! All live subscriptions, by our tag of the dialog.

use super::Watcher;
use crate::server::{
    access::accounts::Difference,
    load::shares::{Excess, Shares},
};
use busyhour_registrar::{
    user_of,
    watch::{End, Package},
};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

/// The table of watchers, in shards with a lock each.
pub(in crate::server) struct Watchers {
    shards: Box<[Mutex<WatcherTable>]>,
    last_id: AtomicU64,
    shares: Shares,
}

impl Watchers {
    pub(in crate::server) fn new(shares: Shares) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            last_id: AtomicU64::new(0),
            shares,
        }
    }

    /// An id that no watcher had before.
    pub(in crate::server) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(in crate::server) fn insert(&self, watcher: &Arc<Watcher>) -> Result<(), Excess> {
        self.shares.take(watcher.holder(), 1)?;
        let id = watcher.id();
        self.shard(id).insert(id, watcher.clone());
        Ok(())
    }

    /// Adds a restored watcher, even if there is no room; new watchers get higher ids.
    pub(in crate::server) fn put_back(&self, watcher: &Arc<Watcher>) {
        let id = watcher.id();
        self.last_id.fetch_max(id, Ordering::Relaxed);
        if self.shard(id).insert(id, watcher.clone()).is_none() {
            self.shares.take_anyway(watcher.holder(), 1);
        }
    }

    /// The watcher with this tag of ours.
    pub(in crate::server) fn find(&self, tag: &str) -> Option<Arc<Watcher>> {
        let id = Watcher::id_in_tag(tag)?;
        let watcher = self.shard(id).get(&id)?.clone();
        (watcher.tag() == tag).then_some(watcher)
    }

    pub(in crate::server) fn remove(&self, id: u64) {
        let removed = self.shard(id).remove(&id);
        if let Some(watcher) = removed {
            self.shares.give_back(watcher.holder(), 1);
        }
    }

    /// Every watcher, in the order of their ids.
    pub(in crate::server) fn all(&self) -> Vec<Arc<Watcher>> {
        let mut all = Vec::with_capacity(self.len());
        for shard in &self.shards {
            all.extend(lock(shard).values().cloned());
        }
        all.sort_unstable_by_key(|watcher| watcher.id());
        all
    }

    /// Asks the watchers of accounts whose mailbox has changed to subscribe again.
    pub(in crate::server) fn move_mailboxes(&self, differences: &[Difference]) {
        let moved = differences.iter().filter(|difference| difference.has_moved);
        let moved: HashSet<&str> = moved.map(|difference| &*difference.username).collect();
        if moved.is_empty() {
            return;
        }
        for watcher in self.all() {
            if watcher.package() == Package::MessageSummary
                && moved.contains(user_of(&watcher.device()))
            {
                watcher.push_end(End::Deactivated);
            }
        }
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.shares.used() as usize
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, WatcherTable> {
        lock(&self.shards[id as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<WatcherTable>) -> MutexGuard<'_, WatcherTable> {
    shard
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

type WatcherTable = HashMap<u64, Arc<Watcher>>;

const SHARDS: usize = 64;
