//! Which watchers a resource has, for who asks about its watchers or how many there are: without it each question
//! would look at all watchers of the server.

use super::Watcher;
use busyhour_registrar::watch::{Package, Subscription};
use foldhash::quality::FixedState;
use std::{
    collections::BTreeSet,
    hash::BuildHasher,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The ids of watchers, by a hash of what they watch.
pub(super) struct ResourceIndex {
    hasher: FixedState,
    shards: Box<[Mutex<IdSet>]>,
}

/// Of a package and an address; others may have the same one.
pub(super) type ResourceHash = u64;

impl ResourceIndex {
    /// Addresses come from clients, so the `seed` is secret.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Of what a subscription watches; `None` if that is a list.
    pub(super) fn hash_of(&self, subscription: &Subscription) -> Option<ResourceHash> {
        let is_one = !subscription.is_of_list();
        is_one.then(|| self.hash(subscription.package(), subscription.device()))
    }

    pub(super) fn hash(&self, package: Package, resource: &str) -> ResourceHash {
        self.hasher.hash_one((package, resource))
    }

    pub(super) fn insert(&self, watcher: &Watcher) {
        if let Some(hash) = watcher.resource_hash {
            self.shard(hash).insert((hash, watcher.id));
        }
    }

    pub(super) fn remove(&self, watcher: &Watcher) {
        if let Some(hash) = watcher.resource_hash {
            self.shard(hash).remove(&(hash, watcher.id));
        }
    }

    pub(super) fn ids(&self, hash: ResourceHash) -> Vec<u64> {
        let shard = self.shard(hash);
        let range = shard.range((hash, 0)..=(hash, u64::MAX));
        range.map(|(_, id)| *id).collect()
    }

    fn shard(&self, hash: ResourceHash) -> MutexGuard<'_, IdSet> {
        let shard = &self.shards[hash as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ids behind the hash of what they watch.
type IdSet = BTreeSet<(ResourceHash, u64)>;

const SHARDS: usize = 64;
