use super::{
    item::{Item, Queued},
    items::Items,
};
use crate::bus::{Event, nodes::NodeId};
use hashbrown::HashTable;
use std::mem;

/// The items a subscriber has not taken yet, oldest first.
pub(in crate::bus) struct Queue<E: Event> {
    items: Items<E>,
    /// The number of the oldest item: how many items were taken before it.
    first: usize,
    /// Where the waiting item of a key is; only a conflating queue has this.
    places: Option<HashTable<QueueIndex>>,
}

/// The place of an item. The place of a dropped item stays for a while: finding
/// it at each drop would cost more than skipping it later.
struct QueueIndex {
    hash: u64,
    /// The item's number; smaller than the oldest item's number if the item was
    /// dropped.
    number: usize,
}

impl<E: Event> Queue<E> {
    /// Capacity that an idle queue may keep.
    pub(super) const IDLE_CAPACITY: usize = 1024;

    pub(in crate::bus) fn new(conflates: bool) -> Self {
        Self {
            items: Items::new(),
            first: 0,
            places: conflates.then(HashTable::new),
        }
    }

    pub(in crate::bus) fn len(&self) -> usize {
        self.items.len()
    }

    /// Appends an item. No copied event where a newer one of its key may
    /// replace it.
    #[inline(always)]
    pub(in crate::bus) fn push(&mut self, hash: u64, queued: Queued<E>, origin: Option<NodeId>) {
        if let Some(places) = &mut self.places {
            let number = self.first.wrapping_add(self.items.len());
            places.insert_unique(hash, QueueIndex { hash, number }, |place| place.hash);
        }
        self.items.push(queued, origin);
    }

    /// Whether a new item replaces an older one of its key.
    #[inline(always)]
    pub(in crate::bus) fn conflates(&self) -> bool {
        self.places.is_some()
    }

    /// The waiting items with this hash, each with its number, which the queue
    /// never reuses.
    pub(in crate::bus) fn of_hash(&self, hash: u64) -> impl Iterator<Item = (usize, &Item<E>)> {
        let places = self.places.iter().flat_map(move |it| it.iter_hash(hash));
        let of_hash = places.filter(move |place| place.hash == hash);
        let waiting = of_hash.map(|place| (place.number, place.index(self.first)));
        let waiting = waiting.filter(|(_, index)| *index < self.items.len());
        waiting.filter_map(|(number, index)| Some((number, self.items.get(index)?)))
    }

    /// Replaces the waiting item with the same key, if there is one, and
    /// returns the old item; otherwise returns the new item. `has_same_key` is
    /// answered before, without a lock.
    pub(in crate::bus) fn replace(
        &mut self,
        hash: u64,
        item: Item<E>,
        origin: Option<NodeId>,
        has_same_key: impl Fn(usize) -> bool,
    ) -> Result<Item<E>, Item<E>> {
        let same_key = self.of_hash(hash).find(|(number, _)| has_same_key(*number));
        match same_key.map(|(number, _)| number.wrapping_sub(self.first)) {
            Some(index) => Ok(self.items.replace(index, item, origin)),
            None => Err(item),
        }
    }

    pub(super) fn pop_oldest(&mut self) -> Option<Queued<E>> {
        let (oldest, _) = self.items.pop()?;
        self.first = self.first.wrapping_add(1);
        let (len, first) = (self.items.len(), self.first);
        let many = |places: &&mut HashTable<QueueIndex>| places.len() > 2 * len.max(STALE_MIN);
        if let Some(places) = self.places.as_mut().filter(many) {
            // A scan of all places is paid for by as many drops as there are
            // items.
            places.retain(|place| place.index(first) < len);
        }
        Some(oldest)
    }

    /// Moves everything into `batch`, which is empty, and takes over its
    /// memory.
    pub(in crate::bus) fn take(&mut self, batch: &mut Items<E>) {
        debug_assert!(batch.is_empty());
        // Starts again at the first place. Going on where the last batch ended
        // would go through all of its memory, and so through the cache.
        batch.rewind();
        mem::swap(&mut self.items, batch);
        self.first = self.first.wrapping_add(batch.len());
        if let Some(places) = &mut self.places {
            places.clear();
        }
    }

    /// Takes everything and frees the memory.
    pub(super) fn discard(&mut self) -> Items<E> {
        self.places = self.places.take().map(|_| HashTable::new());
        self.first = self.first.wrapping_add(self.items.len());
        mem::replace(&mut self.items, Items::new())
    }

    /// Frees memory that a burst needed.
    pub(super) fn relax(&mut self) {
        if self.items.capacity() > Self::IDLE_CAPACITY {
            self.items.shrink_to(Self::IDLE_CAPACITY);
            if let Some(places) = &mut self.places {
                places.shrink_to(Self::IDLE_CAPACITY, |place| place.hash);
            }
        }
    }
}

impl QueueIndex {
    /// The index of the item now; past the end for a dropped one.
    fn index(&self, first: usize) -> usize {
        self.number.wrapping_sub(first)
    }
}

/// Fewer stale places than this are not cleaned up.
const STALE_MIN: usize = 16;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::bus::cache::SharedEvent;
    use proptest::{collection::vec, prelude::*};

    #[derive(Clone, Debug, PartialEq)]
    struct CachedChange {
        key: u8,
        number: usize,
    }

    impl Event for CachedChange {
        type Key = u8;

        fn key(&self) -> &u8 {
            &self.key
        }
    }

    fn change(queued: Queued<CachedChange>) -> CachedChange {
        match queued {
            Queued::Copied(change) => change,
            Queued::Shared(Item::Event(change)) => CachedChange::clone(&change),
            _ => unreachable!("nothing else is queued"),
        }
    }

    proptest! {
        /// Behaves like a list that is searched from end to end: conflation,
        /// dropping the oldest beyond a capacity, and now and then a turn that
        /// takes everything.
        #[test]
        fn a_conflating_queue_behaves_like_a_list(
            capacity in 1..60_usize,
            changes in vec((0..80_u8, 0..200_u8), 0..1500),
        ) {
            let mut queue = Queue::new(true);
            let mut list: Vec<CachedChange> = Vec::new();
            for (number, (key, turn)) in changes.into_iter().enumerate() {
                let new = CachedChange { key, number };
                // Few hashes, so that keys must be compared, too.
                let hash = u64::from(key % 7);
                let known = list.iter_mut().find(|known| known.key == key);
                let of_hash = queue.of_hash(hash);
                let same_key = of_hash.filter(|(_, item)| item.key() == Some(&key));
                let same_key: Vec<usize> = same_key.map(|(number, _)| number).collect();
                let item = Item::Event(SharedEvent::new(new.clone()));
                match queue.replace(hash, item, None, |number| same_key.contains(&number)) {
                    Ok(older) => {
                        let known = known.expect("it is in the list, too");
                        prop_assert_eq!(change(Queued::Shared(older)), std::mem::replace(known, new));
                    }
                    Err(item) => {
                        prop_assert!(known.is_none());
                        if list.len() == capacity {
                            prop_assert_eq!(queue.pop_oldest().map(change), Some(list.remove(0)));
                        }
                        queue.push(hash, Queued::Shared(item), None);
                        list.push(new);
                    }
                }
                prop_assert_eq!(queue.len(), list.len());
                let places = queue.places.as_ref().map_or(0, HashTable::len);
                prop_assert!(places <= 2 * list.len().max(STALE_MIN) + 1);
                if turn == 0 {
                    let mut batch = Items::new();
                    queue.take(&mut batch);
                    let taken = std::iter::from_fn(|| batch.pop());
                    let taken: Vec<_> = taken.map(|(item, _)| change(item)).collect();
                    prop_assert_eq!(taken, std::mem::take(&mut list));
                }
            }
        }
    }
}
