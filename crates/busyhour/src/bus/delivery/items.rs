use super::item::{Item, Queued};
use crate::bus::{Event, nodes::NodeId, panics::Panics};
use std::collections::VecDeque;

/// Items in order, each with the node it is from.
///
/// Of this node's there is only the item. The origins are written down beside
/// them from the first item of another node until all have been taken.
pub(in crate::bus) struct Items<E: Event> {
    /// In the place of a copied event there is nothing.
    items: VecDeque<Option<Item<E>>>,
    /// The copied events, in the same order.
    copies: VecDeque<E>,
    /// One for each item, `None` where that is this node; or no list at all.
    origins: Option<Box<Origins>>,
}

/// Behind a pointer, which is all that a batch of this node's items has of it.
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

    /// The item there; none where a copied event is.
    pub(in crate::bus) fn get(&self, index: usize) -> Option<&Item<E>> {
        self.items[index].as_ref()
    }

    /// Appends an item of the node that is named; none is this one.
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

    /// Puts a notice before all others.
    pub(super) fn push_notice(&mut self, notice: Item<E>) {
        if let Some(origins) = &mut self.origins {
            origins.0.push_front(None);
        }
        self.items.push_front(Some(notice));
    }

    /// Puts an item in the place of another one, which is returned. It must not
    /// be the place of a copied event.
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

    /// Begins at the first place again. There is nothing left to drop.
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

    pub(in crate::bus) fn capacity(&self) -> usize {
        self.items.capacity()
    }

    pub(super) fn shrink_to(&mut self, capacity: usize) {
        self.items.shrink_to(capacity);
        self.copies.shrink_to(capacity);
    }

    /// The origin of each item that is there.
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
