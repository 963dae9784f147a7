use super::peer::Peer;
use busyhour_sip::Flow;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Every connection by its flow, in shards with a lock each.
pub(super) struct ConnectionDirectory {
    shards: Box<[Mutex<ConnectionShard>]>,
    hasher: RandomState,
}

type ConnectionShard = HashMap<Flow, Arc<Peer>, RandomState>;

impl ConnectionDirectory {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
        }
    }

    pub(super) fn insert(&self, peer: Arc<Peer>) {
        self.shard(&peer.flow).insert(peer.flow, peer);
    }

    pub(super) fn find(&self, flow: &Flow) -> Option<Arc<Peer>> {
        self.shard(flow).get(flow).cloned()
    }

    /// Every connection.
    pub(super) fn all(&self) -> Vec<Arc<Peer>> {
        let shards = self.shards.iter();
        let lock = |shard: &Mutex<ConnectionShard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values().cloned().collect::<Vec<_>>()
        };
        shards.flat_map(lock).collect()
    }

    /// Marks the connection as trusted; `false` if it is not in the directory. Done
    /// under the lock, so that the result is reliable.
    pub(super) fn mark_trusted(&self, flow: &Flow) -> bool {
        let shard = self.shard(flow);
        let peer = shard.get(flow);
        peer.inspect(|peer| peer.mark_trusted()).is_some()
    }

    /// Removes this connection, but not a later one with the same flow.
    pub(super) fn remove(&self, peer: &Arc<Peer>) {
        let mut shard = self.shard(&peer.flow);
        let is_it = |found: &Arc<Peer>| Arc::ptr_eq(found, peer);
        if shard.get(&peer.flow).is_some_and(is_it) {
            shard.remove(&peer.flow);
        }
    }

    fn shard(&self, flow: &Flow) -> MutexGuard<'_, ConnectionShard> {
        let hash = self.hasher.hash_one(flow);
        // The low bits choose a place within the shard.
        let index = (hash >> 48) as usize % SHARDS;
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

const SHARDS: usize = 64;
