use super::{Place, rank::Rank, ranks::Ranks};
use std::{collections::VecDeque, mem};

/// Many entities in one list a rank, and a bitmap of the ranks that have any.
///
/// Picking and queueing cost the same at any length. An epoch swaps the lists
/// of the used-up ranks with those of the ranks they become, which are empty:
/// at most one swap for each priority, whatever the number of entities.
#[derive(Debug)]
pub(super) struct Long<E> {
    /// One for each rank, once there was anything to hold.
    lists: Vec<VecDeque<E>>,
    /// The ranks whose lists hold something, or did until lately.
    occupied: Ranks,
    /// The highest of these; `NOBODY` if there is none.
    top: Rank,
    len: usize,
}

impl<E> Long<E> {
    /// A list that empties gives its memory back if it has room for more.
    const KEPT_CAPACITY: usize = 64;

    pub(super) fn new() -> Self {
        Self {
            lists: Vec::new(),
            occupied: Ranks::default(),
            top: Rank::NOBODY,
            len: 0,
        }
    }

    /// Makes the lists, before the first entity is pushed.
    pub(super) fn prepare(&mut self) {
        self.lists.resize_with(Rank::COUNT, VecDeque::new);
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn push(&mut self, entity: E, rank: Rank, place: Place) {
        let list = &mut self.lists[rank.index()];
        match place {
            Place::Front => list.push_front(entity),
            Place::Back => list.push_back(entity),
        }
        if list.len() == 1 {
            self.occupied.insert(rank);
            self.top = self.top.max(rank);
        }
        self.len += 1;
    }

    /// Takes out the next to run.
    ///
    /// Lists that have emptied are struck off here and not when their last
    /// entity leaves, since that one is often put back before the next pick.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(E, Rank)> {
        loop {
            let rank = self.top;
            if let Some(entity) = self.lists[rank.index()].pop_front() {
                self.len -= 1;
                return Some((entity, rank));
            }
            if rank == Rank::NOBODY {
                return None;
            }
            self.strike_off(rank);
        }
    }

    /// Begins an epoch; everybody here is used up, and the lists of all
    /// other ranks are struck off.
    #[cold]
    pub(super) fn renew(&mut self) {
        for used_up in mem::take(&mut self.occupied).iter() {
            let renewed = used_up.renewed();
            self.lists.swap(used_up.index(), renewed.index());
            self.occupied.insert(renewed);
        }
        self.top = self.occupied.highest().unwrap_or(Rank::NOBODY);
    }

    pub(super) fn remove(&mut self, entity: &E, rank: Rank) -> Option<E>
    where
        E: PartialEq,
    {
        let list = &mut self.lists[rank.index()];
        let found = list.iter().position(|queued| queued == entity)?;
        self.len -= 1;
        list.remove(found)
    }

    #[cold]
    fn strike_off(&mut self, rank: Rank) {
        self.occupied.remove(rank);
        self.top = self.occupied.highest().unwrap_or(Rank::NOBODY);
        let list = &mut self.lists[rank.index()];
        if list.capacity() > Self::KEPT_CAPACITY {
            *list = VecDeque::new();
        }
    }
}
