use super::{Event, attribute::Probe, listener::Listener};
use hashbrown::{HashTable, hash_table::Entry};
use std::sync::Arc;

/// Those who want a value of one attribute.
pub(super) struct Attributed<E: Event> {
    pub(super) probe: Arc<dyn Probe<E>>,
    by_value: HashTable<OfHash<E>>,
}

/// Those who want a value of this hash.
struct OfHash<E: Event> {
    hash: u64,
    listeners: Vec<Listener<E>>,
}

impl<E: Event> Attributed<E> {
    pub(super) fn new(probe: &Arc<dyn Probe<E>>) -> Self {
        Self {
            probe: Arc::clone(probe),
            by_value: HashTable::new(),
        }
    }

    pub(super) fn is_by(&self, probe: &Arc<dyn Probe<E>>) -> bool {
        Arc::as_ptr(&self.probe).addr() == Arc::as_ptr(probe).addr()
    }

    /// Where who wants a value of this hash is kept.
    pub(super) fn place_of(&mut self, hash: u64) -> &mut Vec<Listener<E>> {
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

    pub(super) fn listeners(&mut self, hash: u64) -> Option<&mut Vec<Listener<E>>> {
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

    /// Whether nobody wants any value of it.
    pub(super) fn is_empty(&self) -> bool {
        self.by_value.is_empty()
    }

    /// Those who may want this event.
    pub(super) fn having(&self, event: &E) -> impl Iterator<Item = &Listener<E>> {
        let hash = self.probe.hash_of(event);
        let of = self.by_value.find(hash, |of| of.hash == hash);
        of.into_iter().flat_map(|of| &of.listeners)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Listener<E>> {
        self.by_value.iter().flat_map(|of| &of.listeners)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Listener<E>> {
        self.by_value.iter_mut().flat_map(|of| &mut of.listeners)
    }
}
