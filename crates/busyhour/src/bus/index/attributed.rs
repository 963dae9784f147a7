use super::shard_subscribers::ShardSubscriber;
use crate::bus::{
    Event,
    delivery::{Answers, ChangeKind, Probe},
};
use hashbrown::{HashTable, hash_table::Entry};
use std::sync::Arc;

/// The subscribers that want a value of one attribute.
pub(in crate::bus) struct Attributed<E: Event> {
    pub(in crate::bus) probe: Arc<dyn Probe<E>>,
    by_value: HashTable<OfHash<E>>,
}

/// The subscribers that want a value with this hash.
struct OfHash<E: Event> {
    hash: u64,
    listeners: Vec<ShardSubscriber<E>>,
}

impl<E: Event> Attributed<E> {
    pub(in crate::bus) fn new(probe: &Arc<dyn Probe<E>>) -> Self {
        Self {
            probe: Arc::clone(probe),
            by_value: HashTable::new(),
        }
    }

    pub(super) fn is_by(&self, probe: &Arc<dyn Probe<E>>) -> bool {
        Arc::as_ptr(&self.probe).addr() == Arc::as_ptr(probe).addr()
    }

    /// The list of subscribers that want a value with this hash.
    pub(in crate::bus) fn place_of(&mut self, hash: u64) -> &mut Vec<ShardSubscriber<E>> {
        let same_hash = |of: &OfHash<E>| of.hash == hash;
        let of = match self.by_value.entry(hash, same_hash, |of| of.hash) {
            Entry::Occupied(of) => of.into_mut(),
            Entry::Vacant(vacancy) => {
                let listeners = Vec::new();
                vacancy.insert(OfHash { hash, listeners }).into_mut()
            }
        };
        &mut of.listeners
    }

    pub(in crate::bus) fn listeners(&mut self, hash: u64) -> Option<&mut Vec<ShardSubscriber<E>>> {
        let of = self.by_value.find_mut(hash, |of| of.hash == hash)?;
        Some(&mut of.listeners)
    }

    pub(super) fn remove_value(&mut self, hash: u64) {
        if let Ok(of) = self.by_value.find_entry(hash, |of| of.hash == hash) {
            of.remove();
        }
        if self.by_value.capacity() > 4 * self.by_value.len().max(16) {
            self.by_value.shrink_to_fit(|of| of.hash);
        }
    }

    /// Whether no subscriber wants any value of the attribute.
    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.by_value.is_empty()
    }

    /// The subscribers that want a value with this hash.
    pub(in crate::bus) fn of_hash(&self, hash: u64) -> &[ShardSubscriber<E>] {
        let of = self.by_value.find(hash, |of| of.hash == hash);
        of.map_or(&[], |of| &of.listeners)
    }

    /// The subscribers that the change may concern, judging by the hash of its
    /// value.
    pub(super) fn concerned(
        &self,
        kind: ChangeKind,
        answers: &Answers<E>,
    ) -> impl Iterator<Item = &ShardSubscriber<E>> {
        let is_event = matches!(kind, ChangeKind::Event);
        let value = answers.known_value(&self.probe).filter(|_| is_event);
        let of_value = value.map(|value| self.of_hash(value));
        let all = (!is_event).then(|| self.iter());
        let of_value = of_value.into_iter().flatten();
        of_value.chain(all.into_iter().flatten())
    }

    /// Like [`Self::concerned`], mutably.
    pub(super) fn concerned_mut(
        &mut self,
        kind: ChangeKind,
        answers: &Answers<E>,
    ) -> impl Iterator<Item = &mut ShardSubscriber<E>> {
        let is_event = matches!(kind, ChangeKind::Event);
        let value = answers.known_value(&self.probe).filter(|_| is_event);
        // By the hash if it is known; a removed key concerns all.
        let (of_value, all) = match is_event {
            true => (value.map(|value| self.by_value.iter_hash_mut(value)), None),
            false => (None, Some(self.by_value.iter_mut())),
        };
        let of_value = of_value.into_iter().flatten();
        let of_value = of_value.filter(move |of| Some(of.hash) == value);
        let all = all.into_iter().flatten();
        of_value.chain(all).flat_map(|of| &mut of.listeners)
    }

    pub(in crate::bus) fn iter(&self) -> impl Iterator<Item = &ShardSubscriber<E>> {
        self.by_value.iter().flat_map(|of| &of.listeners)
    }
}
