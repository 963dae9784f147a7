//! Watchers by something that they have, so that they are found by it without a look at all of them.

use super::Watcher;
use crate::lock::lock;
use foldhash::quality::FixedState;
use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hash},
    sync::{Arc, Mutex, MutexGuard, Weak},
};

/// Watchers by a key, and those of a key in the order in which they were made. Each is told from one that was brought back with its
/// id.
pub(super) struct WatcherIndex<K> {
    hasher: FixedState,
    shards: Box<[Mutex<HashMap<K, WatchersByNumber>>]>,
}

type WatchersByNumber = BTreeMap<u64, Weak<Watcher>>;

impl<K: Copy + Eq + Hash> WatcherIndex<K> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn enter(&self, key: K, watcher: &Arc<Watcher>) {
        let mut shard = self.shard(key);
        let its = shard.entry(key).or_default();
        its.insert(watcher.number, Arc::downgrade(watcher));
    }

    pub(super) fn leave(&self, key: K, watcher: &Watcher) {
        let mut shard = self.shard(key);
        if let Some(its) = shard.get_mut(&key) {
            its.remove(&watcher.number);
            if its.is_empty() {
                shard.remove(&key);
            }
        }
    }

    /// Takes those with this key out.
    pub(super) fn take(&self, key: K) -> Vec<Arc<Watcher>> {
        let taken = self.shard(key).remove(&key).unwrap_or_default();
        taken.values().filter_map(Weak::upgrade).collect()
    }

    /// Those with this key.
    pub(super) fn of(&self, key: K) -> Vec<Arc<Watcher>> {
        let shard = self.shard(key);
        let its = shard.get(&key).into_iter().flat_map(BTreeMap::values);
        its.filter_map(Weak::upgrade).collect()
    }

    /// In no order.
    pub(super) fn keys(&self, is_it: impl Fn(&K) -> bool) -> Vec<K> {
        let mut keys = Vec::new();
        for shard in &self.shards {
            keys.extend(lock(shard).keys().copied().filter(|key| is_it(key)));
        }
        keys
    }

    fn shard(&self, key: K) -> MutexGuard<'_, HashMap<K, WatchersByNumber>> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

const SHARDS: usize = 64;
