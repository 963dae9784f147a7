use super::{QueueEnd, rank::Rank, ranks::Ranks};
use crate::ring::Ring;
use std::mem;

/// Many entities in one list a rank, and a bitmap of the ranks that have any.
///
/// Picking and queueing cost the same at any length. An epoch swaps the lists
/// of the used-up ranks with those of the ranks they become, which are empty:
/// at most one swap for each priority, whatever the number of entities.
#[derive(Debug)]
pub(super) struct Bucketed<E> {
    /// One for each rank, once there was anything to hold.
    lists: Vec<Ring<E>>,
    /// The ranks whose lists hold something, or did until lately.
    occupied: Ranks,
    /// The highest of these; `NOBODY` if there is none.
    top: Rank,
}

impl<E> Bucketed<E> {
    /// A list that empties gives its memory back if it has room for more.
    const KEPT_CAPACITY: usize = 64;
    /// What a list has room for at first.
    const CAPACITY_MIN: usize = 4;

    pub(super) fn new() -> Self {
        Self {
            lists: Vec::new(),
            occupied: Ranks::default(),
            top: Rank::NOBODY,
        }
    }

    /// Makes the lists, before the first entity is pushed.
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

    /// Takes out the next to run.
    ///
    /// Lists that have emptied are struck off here and not when their last
    /// entity leaves, since that one is often put back before the next pick.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(E, Rank)> {
        if self.lists[self.top.index()].is_empty() {
            self.strike_off_empty();
        }
        let rank = self.top;
        let entity = self.lists[rank.index()].pop_front()?;
        Some((entity, rank))
    }

    /// Queues `entity` behind its equals and takes out the next to run, which
    /// may be itself.
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

    /// Begins an epoch; everybody here is used up, and the lists of all
    /// other ranks are struck off.
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

    /// Strikes off lists that have emptied, until the highest holds something.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The capacity of a list that held `count` entities and is struck off.
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
    fn a_list_that_empties_keeps_room_for_a_few_and_gives_back_that_for_many() {
        assert_eq!(capacity_after(1), Bucketed::<usize>::CAPACITY_MIN);
        assert_eq!(capacity_after(64), Bucketed::<usize>::KEPT_CAPACITY);
        assert_eq!(capacity_after(65), 0);
        assert_eq!(capacity_after(10_000), 0);
    }
}
