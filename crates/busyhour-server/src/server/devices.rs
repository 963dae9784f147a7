//! Every device that has bindings or work, found by its address of record.

use super::{core::Core, device::Device};
use busyhour::bus::Name;
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use std::{
    hash::BuildHasher,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The table of devices, in shards with a lock each.
pub(super) struct Devices {
    shards: Box<[Mutex<Table>]>,
    hasher: FixedState,
    count: AtomicUsize,
    count_max: usize,
}

/// The table has no room for another device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableFull;

impl Devices {
    pub(super) fn new(count_max: usize, seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: FixedState::with_seed(seed),
            count: AtomicUsize::new(0),
            count_max,
        }
    }

    /// The device of an address of record, made if there is none.
    pub(super) fn open(&self, aor: &str, core: &Arc<Core>) -> Result<Arc<Device>, TableFull> {
        let hash = self.hasher.hash_one(aor);
        let mut shard = self.shard(hash);
        if let Some(device) = find(&shard, hash, aor) {
            return Ok(device);
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.count_max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(TableFull);
        }
        Ok(insert(&mut shard, Device::new(Name::new(aor), hash, core)))
    }

    /// Whether there is such a device.
    pub(super) fn contains(&self, aor: &str) -> bool {
        let hash = self.hasher.hash_one(aor);
        find(&self.shard(hash), hash, aor).is_some()
    }

    /// The device of a stored binding, made even where the table is full.
    pub(super) fn reopen(&self, aor: &Name, core: &Arc<Core>) -> Arc<Device> {
        let hash = self.hasher.hash_one(aor.as_str());
        let mut shard = self.shard(hash);
        find(&shard, hash, aor).unwrap_or_else(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            insert(&mut shard, Device::new(aor.clone(), hash, core))
        })
    }

    /// Every device, in an order that depends on the seed and on what happened.
    pub(super) fn all(&self) -> Vec<Arc<Device>> {
        let mut all = Vec::with_capacity(self.len());
        for shard in &self.shards {
            all.extend(lock(shard).iter().cloned());
        }
        all
    }

    /// Takes a device out of the table.
    pub(super) fn remove(&self, device: &Arc<Device>) {
        let mut shard = self.shard(device.hash());
        let is_it = |other: &Arc<Device>| Arc::ptr_eq(other, device);
        if let Ok(entry) = shard.find_entry(device.hash(), is_it) {
            entry.remove();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Table> {
        // The table inside uses the high bits and the lowest; these are neither.
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

fn find(table: &Table, hash: u64, aor: &str) -> Option<Arc<Device>> {
    table.find(hash, |device| *device.name() == *aor).cloned()
}

fn insert(table: &mut Table, device: Device) -> Arc<Device> {
    let device = Arc::new(device);
    table.insert_unique(device.hash(), device.clone(), |device| device.hash());
    device
}

fn lock(shard: &Mutex<Table>) -> MutexGuard<'_, Table> {
    shard
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

type Table = HashTable<Arc<Device>>;

/// Many more than threads, so that two seldom want the same one.
const SHARDS: usize = 256;
