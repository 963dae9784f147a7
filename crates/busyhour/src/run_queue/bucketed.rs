use super::{QueueEnd, rank::Rank, ranks::Ranks};
use crate::ring::Ring;
use std::mem;

/// Many entities, in one list per rank, and a bitmap of the ranks that have
/// entities.
///
/// Picking and queueing cost the same at any length. An epoch swaps the lists
/// of the used-up ranks with those of their new ranks, which are empty: at most
/// one swap for each priority, whatever the number of entities.
#[derive(Debug)]
pub(super) struct Bucketed<E> {
    /// One for each rank, created when the first entity is queued.
    lists: Vec<Ring<E>>,
    /// The ranks whose lists have entities, or had some until lately.
    occupied: Ranks,
    /// The highest of these; `NOBODY` if there is none.
    top: Rank,
}

impl<E> Bucketed<E> {
    /// An emptied list with room for more than this frees its memory.
    const KEPT_CAPACITY: usize = 64;
    /// The initial capacity of a list.
    const CAPACITY_MIN: usize = 4;

    pub(super) fn new() -> Self {
        Self {
            lists: Vec::new(),
            occupied: Ranks::default(),
            top: Rank::NOBODY,
        }
    }

    /// Creates the lists, before the first entity is pushed.
    pub(super) fn prepare(&mut self) {
        self.lists.resize_with(Rank::COUNT, Ring::new);
    }

    #[inline(always)]
    pub(super) fn push(&mut self, entity: E, rank: Rank, end: QueueEnd) {
        let list = &mut self.lists[rank.index()];
        let is_first = list.is_empty();
        match end {
            QueueEnd::Front => list.push_front(Self::CAPACITY_MIN, entity),
            QueueEnd::Back => list.push_back(Self::CAPACITY_MIN, || entity),
        }
        if is_first {
            self.occupied.insert(rank);
            self.top = self.top.max(rank);
        }
    }

    /// Takes out the next entity to run.
    ///
    /// Emptied lists are removed from the bitmap here and not when their last
    /// entity leaves, since that entity is often put back before the next pick.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(E, Rank)> {
        if self.lists[self.top.index()].is_empty() {
            self.strike_off_empty();
        }
        let rank = self.top;
        let entity = self.lists[rank.index()].pop_front()?;
        Some((entity, rank))
    }

    /// Queues `entity` behind its equals and takes out the next one to run,
    /// which may be the same.
    #[inline(always)]
    pub(super) fn exchange(&mut self, entity: E, rank: Rank) -> (E, Rank) {
        if rank == self.top {
            return (self.lists[rank.index()].rotate(entity), rank);
        }
        self.exchange_ranks(entity, rank)
    }

    #[inline(never)]
    fn exchange_ranks(&mut self, entity: E, rank: Rank) -> (E, Rank) {
        self.strike_off_empty();
        if rank > self.top {
            return (entity, rank);
        }
        match self.pop() {
            Some(next) => {
                self.push(entity, rank, QueueEnd::Back);
                next
            }
            None => (entity, rank),
        }
    }

    /// Begins an epoch; all entities here are used up, and the lists of all
    /// other ranks are removed from the bitmap.
    #[cold]
    pub(super) fn renew(&mut self) {
        for used_up in mem::take(&mut self.occupied).iter() {
            let renewed = used_up.renewed();
            debug_assert!(
                self.lists[renewed.index()].is_empty(),
                "only the used up are left"
            );
            self.lists.swap(used_up.index(), renewed.index());
            self.occupied.insert(renewed);
        }
        self.top = self.occupied.highest().unwrap_or(Rank::NOBODY);
    }

    pub(super) fn remove(&mut self, entity: &E, rank: Rank) -> Option<E>
    where
        E: PartialEq,
    {
        self.lists[rank.index()].remove(|queued| queued == entity)
    }

    /// Removes emptied lists from the bitmap, until the highest one has
    /// entities.
    #[inline(never)]
    fn strike_off_empty(&mut self) {
        while self.top != Rank::NOBODY && self.lists[self.top.index()].is_empty() {
            self.occupied.remove(self.top);
            let list = &mut self.lists[self.top.index()];
            if list.capacity() > Self::KEPT_CAPACITY {
                *list = Ring::new();
            }
            self.top = self.occupied.highest().unwrap_or(Rank::NOBODY);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The capacity that a list with `count` entities keeps when it is removed
    /// from the bitmap.
    fn capacity_after(count: usize) -> usize {
        let (low, high) = (Rank::from_index(1), Rank::from_index(2));
        let mut long = Bucketed::new();
        long.prepare();
        long.push(0, low, QueueEnd::Back);
        (1..=count).for_each(|entity| long.push(entity, high, QueueEnd::Back));
        for entity in 1..=count {
            assert_eq!(long.pop(), Some((entity, high)));
        }
        assert_eq!(long.pop(), Some((0, low)));
        assert_eq!(long.pop(), None);
        long.lists[high.index()].capacity()
    }

    #[test]
    fn an_emptied_list_keeps_memory_for_a_few_entities() {
        assert_eq!(capacity_after(1), Bucketed::<usize>::CAPACITY_MIN);
        assert_eq!(capacity_after(64), Bucketed::<usize>::KEPT_CAPACITY);
        assert_eq!(capacity_after(65), 0);
        assert_eq!(capacity_after(10_000), 0);
    }
}
