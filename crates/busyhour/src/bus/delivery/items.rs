use super::item::{Item, Queued};
use crate::bus::{Event, nodes::NodeId, panics::Panics};
use std::{collections::VecDeque, mem};

/// Items in order, each with its origin.
///
/// Items of this node have no stored origin. A list of origins exists from the
/// first item of another node until all items have been taken.
pub(in crate::bus) struct Items<E: Event> {
    /// All but the copied events, and how many of those are in between.
    entries: VecDeque<ItemEntry<E>>,
    /// The copied events, in the same order.
    copies: VecDeque<E>,
    /// How many copied events come before the first entry, and after the last one.
    copies_before: usize,
    copies_after: usize,
    /// How many items are in `entries`.
    item_count: usize,
    /// One entry for each item, `None` for this node; no list if all are of
    /// this node.
    origins: Option<Box<Origins>>,
}

/// What [`Items`] have in one place.
enum ItemEntry<E: Event> {
    Item(Item<E>),
    /// So many copied events.
    Copies(usize),
}

/// Behind a pointer, so that a batch of only this node's items pays for no more
/// than the pointer.
struct Origins(VecDeque<Option<NodeId>>);

impl<E: Event> Items<E> {
    pub(in crate::bus) fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            copies: VecDeque::new(),
            copies_before: 0,
            copies_after: 0,
            item_count: 0,
            origins: None,
        }
    }

    #[inline(always)]
    pub(in crate::bus) fn len(&self) -> usize {
        self.item_count + self.copies.len()
    }

    #[inline(always)]
    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at this index. There must be no copied events.
    pub(in crate::bus) fn get(&self, index: usize) -> Option<&Item<E>> {
        debug_assert!(self.copies.is_empty(), "they have no places of their own");
        match self.entries.get(index)? {
            ItemEntry::Item(item) => Some(item),
            ItemEntry::Copies(_) => None,
        }
    }

    /// Appends an item of a node; `None` for this node.
    #[inline(always)]
    pub(in crate::bus) fn push(&mut self, queued: Queued<E>, origin: Option<NodeId>) {
        if origin.is_some() || self.origins.is_some() {
            self.origins().push_back(origin);
        }
        match queued {
            Queued::Shared(item) => self.push_item(item),
            Queued::Copied(event) => {
                self.copies.push_back(event);
                self.copies_after += 1;
            }
        }
    }

    #[inline(always)]
    fn push_item(&mut self, item: Item<E>) {
        if self.copies_after > 0 {
            let copies = mem::take(&mut self.copies_after);
            self.entries.push_back(ItemEntry::Copies(copies));
        }
        self.entries.push_back(ItemEntry::Item(item));
        self.item_count += 1;
    }

    /// Inserts a notice before all others.
    pub(super) fn push_notice(&mut self, notice: Item<E>) {
        if let Some(origins) = &mut self.origins {
            origins.0.push_front(None);
        }
        if self.copies_before > 0 {
            let copies = mem::take(&mut self.copies_before);
            self.entries.push_front(ItemEntry::Copies(copies));
        }
        self.entries.push_front(ItemEntry::Item(notice));
        self.item_count += 1;
    }

    /// Replaces an item and returns the old one. There must be no copied events.
    pub(in crate::bus) fn replace(
        &mut self,
        index: usize,
        item: Item<E>,
        origin: Option<NodeId>,
    ) -> Item<E> {
        if origin.is_some() || self.origins.is_some() {
            self.origins()[index] = origin;
        }
        let older = mem::replace(&mut self.entries[index], ItemEntry::Item(item));
        let ItemEntry::Item(older) = older else {
            unreachable!("a queue that replaces has no copies");
        };
        older
    }

    #[inline(always)]
    pub(in crate::bus) fn pop(&mut self) -> Option<(Queued<E>, Option<NodeId>)> {
        let queued = match self.copies_before {
            0 => self.pop_entry()?,
            _ => self.pop_copy()?,
        };
        match &mut self.origins {
            None => Some((queued, None)),
            Some(origins) => Some((queued, origins.0.pop_front().flatten())),
        }
    }

    #[inline(always)]
    fn pop_copy(&mut self) -> Option<Queued<E>> {
        self.copies_before -= 1;
        self.copies.pop_front().map(Queued::Copied)
    }

    fn pop_entry(&mut self) -> Option<Queued<E>> {
        self.copies_before = match self.entries.pop_front() {
            Some(ItemEntry::Item(item)) => {
                self.item_count -= 1;
                return Some(Queued::Shared(item));
            }
            Some(ItemEntry::Copies(count)) => count,
            None if self.copies_after > 0 => mem::take(&mut self.copies_after),
            None => return None,
        };
        self.pop_copy()
    }

    /// Starts again at the first place. Nothing is left to drop.
    #[inline(always)]
    pub(super) fn rewind(&mut self) {
        debug_assert!(self.is_empty(), "an item would be dropped here");
        self.entries.clear();
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
        self.entries.capacity().max(copies_len)
    }

    /// Frees memory beyond that of so many items. Copies keep no more bytes.
    pub(super) fn shrink_to(&mut self, capacity: usize) {
        self.entries.shrink_to(capacity);
        let bytes = capacity * size_of::<Item<E>>();
        self.copies.shrink_to(bytes / size_of::<E>().max(1));
    }

    /// The list of origins, which is created if there is none.
    #[cold]
    fn origins(&mut self) -> &mut VecDeque<Option<NodeId>> {
        let count = self.len();
        let all_here = || Box::new(Origins(VecDeque::from(vec![None; count])));
        &mut self.origins.get_or_insert_with(all_here).0
    }
}

impl<E: Event> Drop for Items<E> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[derive(Clone, Debug, PartialEq)]
    struct Number(u64);

    impl Event for Number {
        type Key = u64;

        fn key(&self) -> &u64 {
            &self.0
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A copied event, or else an item, of another node or of this one.
        Push(bool, Option<u64>),
        Notice,
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => any::<bool>().prop_map(|is_copy| Step::Push(is_copy, None)),
            1 => (any::<bool>(), 2..5_u64).prop_map(|(is_copy, node)| Step::Push(is_copy, Some(node))),
            1 => Just(Step::Notice),
            5 => Just(Step::Pop),
        ]
    }

    /// Which event it is, or how many a notice says were lost, and the node.
    fn seen((queued, origin): (Queued<Number>, Option<NodeId>)) -> (u64, Option<u64>) {
        let number = match queued {
            Queued::Copied(Number(number)) | Queued::Shared(Item::Lost(number)) => number,
            Queued::Shared(_) => unreachable!("nothing else is pushed"),
        };
        (number, origin.map(|NodeId(node)| node))
    }

    proptest! {
        #[test]
        fn copies_and_items_keep_one_order(steps in vec(step(), 1..200)) {
            let (mut items, mut list) = (Items::<Number>::new(), VecDeque::new());
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Push(is_copy, node) => {
                        let queued = match is_copy {
                            true => Queued::Copied(Number(number)),
                            false => Queued::Shared(Item::Lost(number)),
                        };
                        items.push(queued, node.map(NodeId));
                        list.push_back((number, node));
                    }
                    Step::Notice => {
                        items.push_notice(Item::Lost(number));
                        list.push_front((number, None));
                    }
                    Step::Pop => prop_assert_eq!(items.pop().map(seen), list.pop_front()),
                }
                prop_assert_eq!((items.len(), items.is_empty()), (list.len(), list.is_empty()));
            }
            let rest: Vec<_> = std::iter::from_fn(|| items.pop().map(seen)).collect();
            prop_assert_eq!(rest, Vec::from(list));
        }
    }
}
