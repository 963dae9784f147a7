//! Which rows an address of record has: found by its hash, in the order of the device table's shards.

use busyhour_registrar::BindingId;
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

/// The rows of all addresses, and which of the addresses were read. Addresses with one hash are read together.
pub(super) struct AddressKeys {
    /// By shard, hash and id.
    keys: Box<[(u64, BindingId)]>,
    /// Where the keys of each shard begin, and where the last one's end.
    starts: Box<[usize]>,
    /// A bit for each key; that of the first one of a hash says whether its rows were read.
    read: Box<[AtomicU64]>,
    /// Hashes.
    pub(super) address_count: usize,
    pub(super) last_id: Option<BindingId>,
}

impl AddressKeys {
    /// `shard_of` leads each hash to one of so many shards.
    pub(super) fn new(
        found: Vec<(u64, BindingId)>,
        shard_count: usize,
        shard_of: impl Fn(u64) -> usize,
    ) -> Self {
        let mut starts = vec![0; shard_count + 1];
        for (hash, _) in &found {
            starts[shard_of(*hash) + 1] += 1;
        }
        for shard in 0..shard_count {
            starts[shard + 1] += starts[shard];
        }
        let mut free = starts.clone();
        let mut keys = vec![(0, BindingId(0)); found.len()];
        for key in &found {
            let place = &mut free[shard_of(key.0)];
            keys[*place] = *key;
            *place += 1;
        }
        for shard in 0..shard_count {
            keys[starts[shard]..starts[shard + 1]].sort_unstable();
        }
        let is_first = |(index, (hash, _)): &(usize, &(u64, BindingId))| {
            *index == 0 || keys[index - 1].0 != *hash
        };
        Self {
            address_count: keys.iter().enumerate().filter(is_first).count(),
            last_id: found.iter().map(|(_, id)| *id).max(),
            read: (0..keys.len().div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            starts: starts.into(),
            keys: keys.into(),
        }
    }

    /// The keys of a hash, if it has rows.
    pub(super) fn of(&self, hash: u64, shard: usize) -> Option<Range<usize>> {
        let shard = self.of_shard(shard);
        let keys = &self.keys[shard.clone()];
        let first = keys.partition_point(|(other, _)| *other < hash);
        let count = keys[first..]
            .iter()
            .take_while(|(other, _)| *other == hash)
            .count();
        (count > 0).then(|| shard.start + first..shard.start + first + count)
    }

    pub(super) fn of_shard(&self, shard: usize) -> Range<usize> {
        self.starts[shard]..self.starts[shard + 1]
    }

    pub(super) fn hash(&self, index: usize) -> u64 {
        self.keys[index].0
    }

    pub(super) fn ids(&self, keys: Range<usize>) -> Vec<BindingId> {
        self.keys[keys].iter().map(|(_, id)| *id).collect()
    }

    /// Whether the rows whose keys begin here were read. Whoever sees so sees what was made of them.
    pub(super) fn is_read(&self, first: usize) -> bool {
        self.read[first / 64].load(Ordering::Acquire) & (1 << (first % 64)) != 0
    }

    pub(super) fn note_read(&self, first: usize) {
        self.read[first / 64].fetch_or(1 << (first % 64), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_found_by_its_hash_and_once() {
        let (shards, count) = (7, 500_u64);
        let shard_of = |hash: u64| (hash >> 3) as usize % shards;
        // Some have several rows.
        let hash_of = |id: u64| (id % 300).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let found: Vec<_> = (0..count).map(|id| (hash_of(id), BindingId(id))).collect();
        let keys = AddressKeys::new(found, shards, shard_of);
        assert_eq!(
            (keys.address_count, keys.last_id),
            (300, Some(BindingId(count - 1)))
        );
        let mut seen = Vec::new();
        for id in 0..300 {
            let hash = hash_of(id);
            let of = keys.of(hash, shard_of(hash)).unwrap();
            assert!(!keys.is_read(of.start));
            keys.note_read(of.start);
            assert!(keys.is_read(of.start));
            let ids = keys.ids(of);
            assert!(ids.is_sorted() && ids.iter().all(|it| hash_of(it.0) == hash));
            seen.extend(ids);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..count).map(BindingId)));
        assert_eq!(keys.of(1, shard_of(1)), None);
        let all: usize = (0..shards).map(|shard| keys.of_shard(shard).len()).sum();
        assert_eq!(all, 500);
    }
}
