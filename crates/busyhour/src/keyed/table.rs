use foldhash::fast::{FixedState, RandomState};
use std::{
    borrow::Borrow,
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use super::{
    TooManyKeys,
    entry::{InUse, KeyEntry},
    rules::Rules,
    shard::{Alike, Insertion, KeyShard},
};
use crate::{
    pool::Describes,
    serializer::SerializerTemplate,
    stats::{KeyTableStats, KeyedStats},
    sync::{CachePadded, Mutex, lock},
};

/// A cache line of its own for each.
type KeyShardLock<K, S> = CachePadded<Mutex<KeyShard<K, S>>>;

/// The keys.
pub(super) struct Table<K, S> {
    shards: Box<[KeyShardLock<K, S>]>,
    hasher: FixedState,
    template: SerializerTemplate,
    rules: Arc<Rules<K, S>>,
}

impl<K, S> Table<K, S> {
    pub(super) fn new(template: SerializerTemplate, rules: Rules<K, S>) -> Self {
        // A simulation does the same in each run. Otherwise nobody may know which keys
        // meet in one place.
        let seed = match template.pool().shared().is_simulated() {
            true => 0,
            false => RandomState::default().hash_one(0_u8),
        };
        let shards = (0..SHARD_COUNT).map(|_| CachePadded(Mutex::new(KeyShard::new())));
        Self {
            shards: shards.collect(),
            hasher: FixedState::with_seed(seed),
            template,
            rules: Arc::new(rules),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rules.key_count()
    }

    pub(super) fn stats(&self) -> KeyedStats {
        self.rules.stats()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Arc<KeyEntry<K, S>>> {
        self.shards.iter().flat_map(|shard| lock(shard).entries())
    }

    fn shard(&self, hash: u64) -> &Mutex<KeyShard<K, S>> {
        &self.shards[Self::shard_number(hash)]
    }

    fn shard_number(hash: u64) -> usize {
        // The lower bits choose the place in the shard.
        (hash >> 32) as usize % SHARD_COUNT
    }

    /// Takes a key out that was evicted, whoever comes first.
    pub(super) fn remove(&self, entry: &Arc<KeyEntry<K, S>>) {
        let mut shard = lock(self.shard(entry.hash));
        // The caller has one of its own, so no key is dropped here.
        if shard.remove(entry).is_some() {
            // Under the lock, so that who finds no key finds room for one.
            self.rules.count_evicted();
        }
    }
}

impl<K, S> Describes<KeyTableStats> for Table<K, S>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    fn describe(&self) -> KeyTableStats {
        KeyTableStats {
            name: self.template.name().to_owned(),
            max_keys: self.rules.max_keys as u64,
            keys: self.stats(),
        }
    }
}

impl<K, S> Table<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: Send + 'static,
{
    pub(super) fn find<Q>(&self, key: &Q) -> Option<Arc<KeyEntry<K, S>>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let alike = lock(self.shard(hash)).alike(hash);
        same_key(&alike, key).cloned()
    }

    /// The key, which is made if it is not there.
    pub(super) fn enter<Q>(&self, key: &Q) -> Result<InUse<K, S>, TooManyKeys>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        loop {
            let alike = lock(self.shard(hash)).alike(hash);
            let entered = match same_key(&alike, key) {
                Some(entry) => self.enter_found(entry),
                None => self.create(key.to_owned(), hash, &alike)?,
            };
            if let Some(in_use) = entered {
                return Ok(in_use);
            }
        }
    }

    fn enter_found(&self, entry: &Arc<KeyEntry<K, S>>) -> Option<InUse<K, S>> {
        let entered = entry.enter();
        if entered.is_none() {
            // Who evicted it has not come so far.
            self.remove(entry);
        }
        entered
    }

    /// `None` if another thread has changed something.
    fn create(
        &self,
        key: K,
        hash: u64,
        alike: &Alike<K, S>,
    ) -> Result<Option<InUse<K, S>>, TooManyKeys> {
        if self.rules.is_crowded() {
            self.make_room(hash);
        }
        if self.rules.is_full() {
            return match lock(self.shard(hash)).has_beside(alike, hash) {
                true => Ok(None),
                false => Err(self.rules.refuse()),
            };
        }
        let entry = KeyEntry::new(key, hash, self.template.ephemeral(), &self.rules);
        let entry = Arc::new(entry);
        let count = || self.rules.count_key();
        let insertion = lock(self.shard(hash)).insert_beside(alike, &entry, count);
        match insertion {
            Insertion::Done => {
                entry.watch();
                Ok(Some(InUse::first(entry)))
            }
            Insertion::Changed => Ok(None),
            Insertion::Full => Err(self.rules.refuse()),
        }
    }

    /// Evicts more idle keys than one, so that there is room again soon. Looks at
    /// a few, so it finds none if nearly all are in use.
    fn make_room(&self, hash: u64) {
        let (before, from_here) = self.shards.split_at(Self::shard_number(hash));
        let (mut looks, mut wanted) = (LOOKS, 2);
        for shard in from_here.iter().chain(before) {
            let idle = lock(shard).idle(wanted, &mut looks);
            wanted -= idle.len();
            idle.into_iter().for_each(KeyEntry::evict_if_idle);
            if wanted == 0 || looks == 0 {
                break;
            }
        }
    }
}

/// With the last handle. The keys, which are user's values, are dropped under no
/// lock.
impl<K, S> Drop for Table<K, S> {
    fn drop(&mut self) {
        for shard in &self.shards {
            let entries = lock(shard).take_all();
            drop(entries);
        }
    }
}

fn same_key<'a, K, S, Q>(alike: &'a Alike<K, S>, key: &Q) -> Option<&'a Arc<KeyEntry<K, S>>>
where
    K: Borrow<Q>,
    Q: Eq + ?Sized,
{
    alike.iter().find(|entry| entry.key.borrow() == key)
}

/// How many keys a search for room looks at.
const LOOKS: usize = 32;

/// The same on every machine, so that a simulation is.
const SHARD_COUNT: usize = 16;
