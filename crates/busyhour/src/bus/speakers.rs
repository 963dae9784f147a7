//! Who said the last of each key, where that was another node.

use super::{Event, Origin};
use hashbrown::{HashTable, hash_table::Entry};
use std::collections::BTreeMap;

/// The node that spoke last of each key of a shard. A key that is not here
/// was last spoken of by this node.
pub(super) struct Speakers<E: Event> {
    table: HashTable<Speaker<E>>,
}

struct Speaker<E: Event> {
    hash: u64,
    key: E::Key,
    origin: Origin,
}

/// Who made some changes, by the changes' versions; this node is left out.
pub(super) type SpokenBy = BTreeMap<u64, Origin>;

impl<E: Event> Speakers<E> {
    pub(super) fn new() -> Self {
        let table = HashTable::new();
        Self { table }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The other node that spoke last of the key.
    pub(super) fn of(&self, (hash, key): (u64, &E::Key)) -> Option<Origin> {
        let speaker = self.table.find(hash, |speaker| speaker.is_of(hash, key));
        speaker.map(|speaker| speaker.origin)
    }

    /// Takes note of who speaks of the key; none is this node.
    pub(super) fn set(&mut self, (hash, key): (u64, &E::Key), origin: Option<Origin>) {
        let Some(origin) = origin else {
            return self.remove((hash, key));
        };
        let is_of_key = |speaker: &Speaker<E>| speaker.is_of(hash, key);
        match self.table.entry(hash, is_of_key, |speaker| speaker.hash) {
            Entry::Occupied(mut speaker) => speaker.get_mut().origin = origin,
            Entry::Vacant(vacancy) => {
                let key = key.clone();
                vacancy.insert(Speaker { hash, key, origin });
            }
        }
    }

    pub(super) fn remove(&mut self, (hash, key): (u64, &E::Key)) {
        let is_of_key = |speaker: &Speaker<E>| speaker.is_of(hash, key);
        if let Ok(speaker) = self.table.find_entry(hash, is_of_key) {
            speaker.remove();
        }
        self.shrink();
    }

    /// Forgets of each key for which `is_kept` is false.
    pub(super) fn retain(&mut self, is_kept: impl Fn((u64, &E::Key)) -> bool) {
        let keep = |speaker: &mut Speaker<E>| is_kept((speaker.hash, &speaker.key));
        self.table.retain(keep);
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.table.capacity() > 4 * self.table.len().max(64) {
            self.table.shrink_to_fit(|speaker| speaker.hash);
        }
    }
}

impl<E: Event> Speaker<E> {
    fn is_of(&self, hash: u64, key: &E::Key) -> bool {
        self.hash == hash && self.key == *key
    }
}
