//! Every subscription that lives, found by our tag of its dialog.

use super::{devices::TableFull, watcher::Watcher};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// The table of watchers, in shards with a lock each.
pub(super) struct Watchers {
    shards: Box<[Mutex<Table>]>,
    last_id: AtomicU64,
    count: AtomicUsize,
    count_max: usize,
}

impl Watchers {
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            last_id: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            count_max,
        }
    }

    /// An id that no watcher had before.
    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn insert(&self, watcher: &Arc<Watcher>) -> Result<(), TableFull> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.count_max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(TableFull);
        }
        let id = watcher.id();
        self.shard(id).insert(id, watcher.clone());
        Ok(())
    }

    /// Takes one back that was there before the process, also where there is no
    /// room; those that come get higher ids.
    pub(super) fn put_back(&self, watcher: &Arc<Watcher>) {
        let id = watcher.id();
        self.last_id.fetch_max(id, Ordering::Relaxed);
        if self.shard(id).insert(id, watcher.clone()).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The watcher with this tag of ours.
    pub(super) fn find(&self, tag: &str) -> Option<Arc<Watcher>> {
        let id = Watcher::id_in_tag(tag)?;
        let watcher = self.shard(id).get(&id)?.clone();
        (watcher.tag() == tag).then_some(watcher)
    }

    pub(super) fn remove(&self, id: u64) {
        if self.shard(id).remove(&id).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Every watcher, in the order of their ids.
    pub(super) fn all(&self) -> Vec<Arc<Watcher>> {
        let mut all = Vec::with_capacity(self.len());
        for shard in &self.shards {
            all.extend(lock(shard).values().cloned());
        }
        all.sort_unstable_by_key(|watcher| watcher.id());
        all
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, Table> {
        lock(&self.shards[id as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<Table>) -> MutexGuard<'_, Table> {
    shard
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

type Table = HashMap<u64, Arc<Watcher>>;

const SHARDS: usize = 64;
