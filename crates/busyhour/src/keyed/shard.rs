use hashbrown::HashTable;
use std::sync::Arc;

use super::entry::{KeyEntry, Recency};

/// Some of the keys. Behind a lock, so nothing here calls user code: keys are
/// compared by their hash, and returned to be compared or dropped outside.
pub(super) struct KeyShard<K, S> {
    entries: Vec<Arc<KeyEntry<K, S>>>,
    /// Positions in `entries`, by hash.
    positions: HashTable<usize>,
    /// Where the search for room goes on.
    hand: usize,
}

/// What became of a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Insertion {
    Done,
    /// Another key of its hash came first; it may be the same.
    Changed,
    Full,
}

/// The keys of one hash. Nearly always there is one or none.
pub(super) struct Alike<K, S> {
    first: Option<Arc<KeyEntry<K, S>>>,
    more: Vec<Arc<KeyEntry<K, S>>>,
}

impl<K, S> Alike<K, S> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<KeyEntry<K, S>>> {
        self.first.iter().chain(&self.more)
    }
}

impl<K, S> KeyShard<K, S> {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            positions: HashTable::new(),
            hand: 0,
        }
    }

    pub(super) fn entries(&self) -> Vec<Arc<KeyEntry<K, S>>> {
        self.entries.iter().map(Arc::clone).collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Arc<KeyEntry<K, S>>> {
        self.positions.clear();
        std::mem::take(&mut self.entries)
    }

    pub(super) fn alike(&self, hash: u64) -> Alike<K, S> {
        let mut found = self.with_hash(hash).map(Arc::clone);
        Alike {
            first: found.next(),
            more: found.collect(),
        }
    }

    fn with_hash(&self, hash: u64) -> impl Iterator<Item = &Arc<KeyEntry<K, S>>> {
        let positions = self.positions.iter_hash(hash);
        let entries = positions.map(|&position| &self.entries[position]);
        entries.filter(move |entry| entry.hash == hash)
    }

    /// Whether other keys have this hash than those that a key was compared with.
    pub(super) fn has_beside(&self, alike: &Alike<K, S>, hash: u64) -> bool {
        let is_known = |there: &Arc<_>| alike.iter().any(|known| Arc::ptr_eq(known, there));
        !self.with_hash(hash).all(is_known)
    }

    /// Adds a key whose hash no other keys have than those that it was compared
    /// with, if `count` finds room for it.
    pub(super) fn insert_beside(
        &mut self,
        alike: &Alike<K, S>,
        entry: &Arc<KeyEntry<K, S>>,
        count: impl FnOnce() -> bool,
    ) -> Insertion {
        if self.has_beside(alike, entry.hash) {
            return Insertion::Changed;
        }
        if !count() {
            return Insertion::Full;
        }
        let entries = &self.entries;
        let hash_at = |&position: &usize| entries[position].hash;
        (self.positions).insert_unique(entry.hash, entries.len(), hash_at);
        self.entries.push(Arc::clone(entry));
        Insertion::Done
    }

    /// `None` if it is not there.
    pub(super) fn remove(&mut self, entry: &Arc<KeyEntry<K, S>>) -> Option<Arc<KeyEntry<K, S>>> {
        let entries = &self.entries;
        let is_it = |&position: &usize| Arc::ptr_eq(&entries[position], entry);
        let found = self.positions.find_entry(entry.hash, is_it).ok()?;
        let (position, _) = found.remove();
        let removed = self.entries.swap_remove(position);
        let moved_from = self.entries.len();
        if let Some(moved) = self.entries.get(position) {
            let place = (self.positions).find_mut(moved.hash, |&there| there == moved_from);
            *place.expect("every entry has a position") = position;
        }
        self.give_memory_back();
        Some(removed)
    }

    /// After a burst of keys.
    fn give_memory_back(&mut self) {
        let len = self.entries.len();
        if len >= KEPT_LEN && len < self.entries.capacity() / 4 {
            let entries = &self.entries;
            (self.positions).shrink_to(2 * len, |&position| entries[position].hash);
            self.entries.shrink_to(2 * len);
        }
    }

    /// Up to `wanted` keys that are idle, those first that were not used lately;
    /// looks at no more than `looks`, and takes those that it has looked at away.
    pub(super) fn idle(&mut self, wanted: usize, looks: &mut usize) -> Vec<Arc<KeyEntry<K, S>>> {
        let len = self.entries.len();
        let (mut old, mut recent) = (Vec::new(), Vec::new());
        for _ in 0..len.min(*looks) {
            *looks -= 1;
            self.hand = (self.hand + 1) % len;
            let entry = &self.entries[self.hand];
            match entry.look_for_room() {
                Some(Recency::Old) => old.push(Arc::clone(entry)),
                Some(Recency::Recent) => recent.push(Arc::clone(entry)),
                None => {}
            }
            if old.len() == wanted {
                break;
            }
        }
        old.append(&mut recent);
        old.truncate(wanted);
        old
    }
}

/// The memory of fewer keys is not given back.
const KEPT_LEN: usize = 16;
