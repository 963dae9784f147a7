use super::Event;
use hashbrown::{HashTable, hash_table::Entry};

/// The last event of each key of one shard, with the version of its last change.
///
/// Versions grow with every change of the shard, so that "all that changed
/// since" has an answer. A cleared key stays as a gravestone while somebody
/// who lags has to be told that it went; [`Cache::bury`] ends that.
pub(super) struct Cache<E> {
    table: HashTable<Slot<E>>,
    version: u64,
    cleared_count: usize,
}

struct Slot<E> {
    hash: u64,
    version: u64,
    cleared: bool,
    /// Somebody who lags has seen this key.
    known_to_laggard: bool,
    event: E,
}

/// One change that a laggard has to hear of.
pub(super) enum Change<E: Event> {
    Event(E),
    Cleared(E::Key),
}

impl<E: Event> Cache<E> {
    pub(super) fn new() -> Self {
        Self {
            table: HashTable::new(),
            version: 0,
            cleared_count: 0,
        }
    }

    /// Keys with a last value.
    pub(super) fn len(&self) -> usize {
        self.table.len() - self.cleared_count
    }

    /// The version of the last change; 0 before the first.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, hash: u64, key: &E::Key) -> Option<&E> {
        let slot = self.table.find(hash, |slot| slot.is_for(hash, key))?;
        (!slot.cleared).then_some(&slot.event)
    }

    /// Replaces the last event of the key. `laggards_since` is the newest
    /// version at which somebody began to lag; 0 when nobody does.
    pub(super) fn put(&mut self, hash: u64, event: E, laggards_since: u64) {
        self.version += 1;
        let same_key = |slot: &Slot<E>| slot.is_for(hash, event.key());
        match self.table.entry(hash, same_key, |slot| slot.hash) {
            Entry::Occupied(mut slot) => {
                let slot = slot.get_mut();
                self.cleared_count -= usize::from(slot.cleared);
                slot.change(self.version, laggards_since);
                slot.cleared = false;
                slot.event = event;
            }
            Entry::Vacant(vacancy) => {
                vacancy.insert(Slot {
                    hash,
                    version: self.version,
                    cleared: false,
                    known_to_laggard: false,
                    event,
                });
            }
        }
    }

    /// Takes the key's last value away; `false` when it has none.
    pub(super) fn clear(&mut self, hash: u64, key: &E::Key, laggards_since: u64) -> bool {
        let same_key = |slot: &Slot<E>| slot.is_for(hash, key);
        let Ok(mut found) = self.table.find_entry(hash, same_key) else {
            return false;
        };
        let slot = found.get_mut();
        if slot.cleared {
            return false;
        }
        self.version += 1;
        slot.change(self.version, laggards_since);
        slot.cleared = true;
        if slot.known_to_laggard {
            self.cleared_count += 1;
        } else {
            found.remove();
        }
        true
    }

    /// Every change after `version`, in the order of the changes; of one key
    /// only the last.
    pub(super) fn changes_since(&self, version: u64) -> Vec<Change<E>> {
        let mut changed: Vec<&Slot<E>> = self
            .table
            .iter()
            .filter(|slot| slot.version > version)
            .collect();
        changed.sort_unstable_by_key(|slot| slot.version);
        changed.into_iter().map(Slot::as_change).collect()
    }

    /// The change of one key after `version`, if there was one.
    pub(super) fn change_of(&self, hash: u64, key: &E::Key, version: u64) -> Option<Change<E>> {
        let slot = self.table.find(hash, |slot| slot.is_for(hash, key))?;
        (slot.version > version).then(|| slot.as_change())
    }

    /// Removes the gravestones: nobody lags any more.
    pub(super) fn bury(&mut self) {
        if self.cleared_count > 0 {
            self.table.retain(|slot| !slot.cleared);
            self.cleared_count = 0;
        }
    }
}

impl<E: Event> Slot<E> {
    fn is_for(&self, hash: u64, key: &E::Key) -> bool {
        self.hash == hash && self.event.key() == key
    }

    fn change(&mut self, version: u64, laggards_since: u64) {
        self.known_to_laggard |= self.version <= laggards_since;
        self.version = version;
    }

    fn as_change(&self) -> Change<E> {
        if self.cleared {
            Change::Cleared(self.event.key().clone())
        } else {
            Change::Event(self.event.clone())
        }
    }
}
