use super::{Event, Origin, item::Item, items::Items};
use hashbrown::HashTable;
use std::mem;

/// The items a subscriber has not taken yet, oldest first.
pub(super) struct Queue<E: Event> {
    items: Items<E>,
    /// Where the item of a key waits; only a conflating queue keeps this.
    places: Option<HashTable<Place>>,
}

struct Place {
    hash: u64,
    index: usize,
}

impl<E: Event> Queue<E> {
    /// Capacity that an idle queue may keep.
    pub(super) const IDLE_CAPACITY: usize = 1024;

    pub(super) fn new(conflates: bool) -> Self {
        Self {
            items: Items::new(),
            places: conflates.then(HashTable::new),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, hash: u64, item: Item<E>, origin: Option<Origin>) {
        if let Some(places) = &mut self.places {
            let index = self.items.len();
            places.insert_unique(hash, Place { hash, index }, |place| place.hash);
        }
        self.items.push(item, origin);
    }

    /// Whether a new item takes the place of an older one of its key.
    #[inline(always)]
    pub(super) fn conflates(&self) -> bool {
        self.places.is_some()
    }

    /// Puts the item in the place of the one with the same key, if one waits;
    /// hands back the older one, or else the item.
    pub(super) fn replace(
        &mut self,
        hash: u64,
        item: Item<E>,
        origin: Option<Origin>,
    ) -> Result<Item<E>, Item<E>> {
        let Some(places) = &self.places else {
            return Err(item);
        };
        let items = &mut self.items;
        let same_key =
            |place: &Place| place.hash == hash && items.get(place.index).key() == item.key();
        match places.find(hash, same_key).map(|place| place.index) {
            Some(index) => Ok(items.replace(index, item, origin)),
            None => Err(item),
        }
    }

    pub(super) fn pop_oldest(&mut self) -> Option<Item<E>> {
        let (oldest, _) = self.items.pop()?;
        if let Some(places) = &mut self.places {
            // Each of the others has moved up by one.
            places.retain(|place| match place.index.checked_sub(1) {
                Some(index) => {
                    place.index = index;
                    true
                }
                None => false,
            });
        }
        Some(oldest)
    }

    /// Moves everything into `batch`, which is empty, and takes over its room.
    pub(super) fn take(&mut self, batch: &mut Items<E>) {
        debug_assert!(batch.is_empty());
        // Lets it begin at its first place again: going on where the last
        // batch ended would lead through all of its room, and through the cache.
        batch.clear();
        mem::swap(&mut self.items, batch);
        if let Some(places) = &mut self.places {
            places.clear();
        }
    }

    /// Drops everything and gives the memory back.
    pub(super) fn discard(&mut self) -> Items<E> {
        self.places = self.places.take().map(|_| HashTable::new());
        mem::replace(&mut self.items, Items::new())
    }

    /// Gives back what a burst made grow.
    pub(super) fn relax(&mut self) {
        if self.items.capacity() > Self::IDLE_CAPACITY {
            self.items.shrink_to(Self::IDLE_CAPACITY);
            if let Some(places) = &mut self.places {
                places.shrink_to(Self::IDLE_CAPACITY, |place| place.hash);
            }
        }
    }
}
