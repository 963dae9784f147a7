use super::item::{Item, Queued};
use crate::bus::{Event, nodes::NodeId, panics::Panics};
use std::collections::VecDeque;

/// Items in order, each with its origin.
///
/// Items of this node have no stored origin. A list of origins exists from the
/// first item of another node until all items have been taken.
pub(in crate::bus) struct Items<E: Event> {
    /// `None` in the place of a copied event.
    items: VecDeque<Option<Item<E>>>,
    /// The copied events, in the same order.
    copies: VecDeque<E>,
    /// One entry for each item, `None` for this node; no list if all are of
    /// this node.
    origins: Option<Box<Origins>>,
}

/// Behind a pointer, so that a batch of only this node's items pays for no more
/// than the pointer.
struct Origins(VecDeque<Option<NodeId>>);

impl<E: Event> Items<E> {
    pub(in crate::bus) fn new() -> Self {
        Self {
            items: VecDeque::new(),
            copies: VecDeque::new(),
            origins: None,
        }
    }

    #[inline(always)]
    pub(in crate::bus) fn len(&self) -> usize {
        self.items.len()
    }

    #[inline(always)]
    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item at this index; `None` if a copied event is there.
    pub(in crate::bus) fn get(&self, index: usize) -> Option<&Item<E>> {
        self.items[index].as_ref()
    }

    /// Appends an item of a node; `None` for this node.
    #[inline(always)]
    pub(in crate::bus) fn push(&mut self, queued: Queued<E>, origin: Option<NodeId>) {
        if origin.is_some() || self.origins.is_some() {
            self.origins().push_back(origin);
        }
        match queued {
            Queued::Shared(item) => self.items.push_back(Some(item)),
            Queued::Copied(event) => {
                self.copies.push_back(event);
                self.items.push_back(None);
            }
        }
    }

    /// Inserts a notice before all others.
    pub(super) fn push_notice(&mut self, notice: Item<E>) {
        if let Some(origins) = &mut self.origins {
            origins.0.push_front(None);
        }
        self.items.push_front(Some(notice));
    }

    /// Replaces an item and returns the old one. The place must not hold a
    /// copied event.
    pub(in crate::bus) fn replace(
        &mut self,
        index: usize,
        item: Item<E>,
        origin: Option<NodeId>,
    ) -> Item<E> {
        if origin.is_some() || self.origins.is_some() {
            self.origins()[index] = origin;
        }
        let older = self.items[index].replace(item);
        let Some(older) = older else {
            unreachable!("a queue that replaces has no copies");
        };
        older
    }

    #[inline(always)]
    pub(in crate::bus) fn pop(&mut self) -> Option<(Queued<E>, Option<NodeId>)> {
        let queued = match self.items.pop_front()? {
            Some(item) => Queued::Shared(item),
            None => Queued::Copied(self.copies.pop_front()?),
        };
        match &mut self.origins {
            None => Some((queued, None)),
            Some(origins) => Some((queued, origins.0.pop_front().flatten())),
        }
    }

    /// Starts again at the first place. Nothing is left to drop.
    #[inline(always)]
    pub(super) fn rewind(&mut self) {
        debug_assert!(self.is_empty(), "an item would be dropped here");
        self.items.clear();
        self.copies.clear();
        self.origins = None;
    }

    /// Drops everything, one by one. No lock may be held.
    pub(in crate::bus) fn drop_all(&mut self) {
        let mut panics = Panics::default();
        while let Some((queued, _)) = self.pop() {
            panics.drop(queued.into_item());
        }
        self.origins = None;
    }

    /// For how many items there is memory, that of copies included.
    pub(in crate::bus) fn capacity(&self) -> usize {
        let copies_len = self.copies.capacity() * size_of::<E>() / size_of::<Item<E>>();
        self.items.capacity().max(copies_len)
    }

    /// Frees memory beyond that of so many items. Copies keep no more bytes.
    pub(super) fn shrink_to(&mut self, capacity: usize) {
        self.items.shrink_to(capacity);
        let bytes = capacity * size_of::<Item<E>>();
        self.copies.shrink_to(bytes / size_of::<E>().max(1));
    }

    /// The list of origins, which is created if there is none.
    #[cold]
    fn origins(&mut self) -> &mut VecDeque<Option<NodeId>> {
        let count = self.items.len();
        let all_here = || Box::new(Origins(VecDeque::from(vec![None; count])));
        &mut self.origins.get_or_insert_with(all_here).0
    }
}

impl<E: Event> Drop for Items<E> {
    fn drop(&mut self) {
        self.drop_all();
    }
}
