//! One state of a key from the states that several nodes have of it.

use super::Event;
use hashbrown::{HashTable, hash_table::Entry};
use std::{fmt, sync::Arc};

/// The node an event started on.
///
/// Numbers are the cluster's to give; a node that is alone needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Origin(pub u64);

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "node {}", self.0)
    }
}

/// Makes one state of a key from each node's, in the order of the origins.
pub(super) type Fold<E> = Arc<dyn Fn(&[(Origin, E)]) -> E + Send + Sync>;

/// How a topic treats the states of several nodes.
pub(super) struct Folding<E> {
    pub(super) local: Origin,
    pub(super) fold: Fold<E>,
}

impl<E: Event> Folding<E> {
    fn fold(&self, parts: &[(Origin, E)]) -> Option<E> {
        let (_, first) = parts.first()?;
        if parts.len() == 1 {
            return Some(first.clone());
        }
        let folded = (self.fold)(parts);
        assert!(
            folded.key() == first.key(),
            "a fold must keep the key of the states it folds"
        );
        Some(folded)
    }
}

/// What each node says of the keys of one shard; of those keys only of which
/// another node has said something.
pub(super) struct NodeParts<E: Event> {
    table: HashTable<OfKey<E>>,
    /// Keys ever added.
    added: u64,
}

pub(super) struct OfKey<E: Event> {
    hash: u64,
    /// When it was added: an order that does not depend on a hash.
    number: u64,
    /// Sorted by origin; never empty.
    parts: Vec<(Origin, E)>,
}

/// What is left of a key that one node has nothing more to say of.
pub(super) enum Withdrawn<E> {
    /// Nobody else had spoken of the key.
    Unfolded,
    /// The node had not.
    Unchanged,
    /// The state of the others.
    Left(E),
    /// Nobody has a state of it any more.
    Gone,
}

impl<E: Event> NodeParts<E> {
    pub(super) fn new() -> Self {
        let table = HashTable::new();
        Self { table, added: 0 }
    }

    /// Takes one node's state of a key; returns the state of all. `cached` is
    /// asked for the local state when another node speaks of a key first.
    pub(super) fn set(
        &mut self,
        folding: &Folding<E>,
        (hash, origin): (u64, Origin),
        event: E,
        cached: impl FnOnce(&E::Key) -> Option<E>,
    ) -> E {
        let same_key = |of_key: &OfKey<E>| of_key.is_for(hash, event.key());
        let of_key = match self.table.entry(hash, same_key, |of_key| of_key.hash) {
            Entry::Occupied(of_key) => of_key.into_mut(),
            Entry::Vacant(_) if origin == folding.local => return event,
            Entry::Vacant(vacancy) => {
                let local = cached(event.key()).map(|event| (folding.local, event));
                let parts = Vec::from_iter(local);
                let number = self.added;
                self.added += 1;
                let of_key = OfKey {
                    hash,
                    number,
                    parts,
                };
                vacancy.insert(of_key).into_mut()
            }
        };
        of_key.set(origin, event.clone());
        folding.fold(&of_key.parts).unwrap_or(event)
    }

    /// Drops one node's state of a key.
    pub(super) fn withdraw(
        &mut self,
        folding: &Folding<E>,
        (hash, origin): (u64, Origin),
        key: &E::Key,
    ) -> Withdrawn<E> {
        let same_key = |of_key: &OfKey<E>| of_key.is_for(hash, key);
        let Ok(mut found) = self.table.find_entry(hash, same_key) else {
            return Withdrawn::Unfolded;
        };
        let parts = &mut found.get_mut().parts;
        let before = parts.len();
        parts.retain(|(other, _)| *other != origin);
        let is_changed = parts.len() < before;
        let left = folding.fold(parts);
        if parts.iter().all(|(other, _)| *other == folding.local) {
            found.remove();
        }
        match left {
            _ if !is_changed => Withdrawn::Unchanged,
            Some(event) => Withdrawn::Left(event),
            None => Withdrawn::Gone,
        }
    }

    /// What is said of the key, if another node than this has spoken of it.
    pub(super) fn find(&self, (hash, key): (u64, &E::Key)) -> Option<&OfKey<E>> {
        self.table.find(hash, |of_key| of_key.is_for(hash, key))
    }

    /// The keys of which this node has a state, in the order they were added.
    pub(super) fn keys_of(&self, origin: Origin) -> Vec<E::Key> {
        let of_origin = |of_key: &OfKey<E>| {
            let event = of_key.part(origin)?;
            Some((of_key.number, event.key().clone()))
        };
        let mut keys: Vec<_> = self.table.iter().filter_map(of_origin).collect();
        keys.sort_unstable_by_key(|(number, _)| *number);
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Whether no other node's state is known.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

impl<E: Event> OfKey<E> {
    fn is_for(&self, hash: u64, key: &E::Key) -> bool {
        let is_key = |(_, event): &(Origin, E)| event.key() == key;
        self.hash == hash && self.parts.first().is_some_and(is_key)
    }

    /// What one node says.
    pub(super) fn of(&self, origin: Origin) -> Option<E> {
        self.part(origin).cloned()
    }

    fn part(&self, origin: Origin) -> Option<&E> {
        let index = self
            .parts
            .binary_search_by_key(&origin, |(other, _)| *other);
        let (_, event) = &self.parts[index.ok()?];
        Some(event)
    }

    fn set(&mut self, origin: Origin, event: E) {
        match self
            .parts
            .binary_search_by_key(&origin, |(other, _)| *other)
        {
            Ok(index) => self.parts[index].1 = event,
            Err(index) => self.parts.insert(index, (origin, event)),
        }
    }
}
