use super::{QueueEnd, Thresholds, rank::Rank};
use std::mem;

/// The most that a threshold may ask for.
pub(super) const CAPACITY: usize = Thresholds::LIMIT;

// The head wraps around the machine word without a jump in the ring.
const _: () = assert!(CAPACITY.is_power_of_two());

/// A few entities in a sorted ring: the next one to run at the head, equals in
/// list order. Picking takes the head; queueing looks only at the entities of
/// lower rank, of which there are none when equals take turns.
#[derive(Debug)]
#[repr(C)] // What each call reads comes first, see README.md, "Structure".
pub(super) struct Sorted<E> {
    /// A running position that may wrap; its low bits are the index of the
    /// head.
    head: usize,
    len: usize,
    ranks: [Rank; CAPACITY],
    entities: [Option<E>; CAPACITY],
}

impl<E> Sorted<E> {
    pub(super) fn new() -> Self {
        Self {
            head: 0,
            len: 0,
            ranks: [Rank::NOBODY; CAPACITY],
            entities: [const { None }; CAPACITY],
        }
    }

    /// Inserts an entity behind all that run before it. The ring must not be
    /// full.
    #[inline(always)]
    pub(super) fn push(&mut self, entity: E, rank: Rank, end: QueueEnd) {
        debug_assert!(self.len < CAPACITY);
        let mut hole = self.len;
        while hole > 0 && goes_before(rank, self.ranks[self.index(hole - 1)], end) {
            self.shift(hole - 1, hole);
            hole -= 1;
        }
        self.put(self.index(hole), entity, rank);
        self.len += 1;
    }

    /// Takes out the next entity to run.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(E, Rank)> {
        if self.len == 0 {
            return None;
        }
        let index = self.index(0);
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        Some((self.entities[index].take()?, self.ranks[index]))
    }

    /// Queues `entity` behind its equals and takes out the next one to run,
    /// which may be the same. There is always room for that.
    pub(super) fn exchange(&mut self, entity: E, rank: Rank) -> (E, Rank) {
        if self.len == 0 || rank > self.ranks[self.index(0)] {
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

    /// The same with two runnable entities in all, each of which takes the other's slot.
    /// Gives `entity` back if there are more, or if it goes before the other.
    #[inline(always)]
    pub(super) fn exchange_with_the_other(
        &mut self,
        entity: E,
        rank: Rank,
    ) -> Result<(E, Rank), E> {
        let index = self.index(0);
        if self.len != 1 || rank > self.ranks[index] {
            return Err(entity);
        }
        match &mut self.entities[index] {
            Some(other) => {
                let next_rank = mem::replace(&mut self.ranks[index], rank);
                Ok((mem::replace(other, entity), next_rank))
            }
            None => Err(entity),
        }
    }

    /// The same with several others, none of which goes behind `entity`: it takes the place
    /// behind the last one. Gives it back otherwise.
    #[inline(always)]
    pub(super) fn exchange_behind_all(&mut self, entity: E, rank: Rank) -> Result<(E, Rank), E> {
        if self.len == 0 || rank > self.ranks[self.index(self.len - 1)] {
            return Err(entity);
        }
        let first = self.index(0);
        let Some(next) = self.entities[first].take() else {
            return Err(entity);
        };
        let next_rank = self.ranks[first];
        self.put(self.index(self.len), entity, rank);
        self.head = self.head.wrapping_add(1);
        Ok((next, next_rank))
    }

    /// Begins an epoch; all entities here are used up.
    #[cold]
    pub(super) fn renew(&mut self) {
        for place in 0..self.len {
            let index = self.index(place);
            self.ranks[index] = self.ranks[index].renewed();
        }
    }

    pub(super) fn remove(&mut self, entity: &E) -> Option<E>
    where
        E: PartialEq,
    {
        let at = |place: usize| self.entities[self.index(place)].as_ref();
        let found = (0..self.len).find(|&place| at(place) == Some(entity))?;
        let removed = self.entities[self.index(found)].take();
        for place in found + 1..self.len {
            self.shift(place, place - 1);
        }
        self.len -= 1;
        removed
    }

    /// Moves the entity from one place in the order to another, which is vacant.
    #[inline]
    fn shift(&mut self, from: usize, to: usize) {
        let (from, to) = (self.index(from), self.index(to));
        if let Some(entity) = self.entities[from].take() {
            self.put(to, entity, self.ranks[from]);
        }
    }

    #[inline(always)]
    fn put(&mut self, index: usize, entity: E, rank: Rank) {
        let vacant = self.entities[index].replace(entity);
        debug_assert!(vacant.is_none());
        // Tells the compiler that there is nothing to drop.
        mem::forget(vacant);
        self.ranks[index] = rank;
    }

    #[inline(always)]
    fn index(&self, place: usize) -> usize {
        self.head.wrapping_add(place) % CAPACITY
    }
}

/// Whether an entity that is queued now goes before one that is in the ring.
#[inline(always)]
fn goes_before(queued: Rank, present: Rank, end: QueueEnd) -> bool {
    match end {
        QueueEnd::Front => queued >= present,
        QueueEnd::Back => queued > present,
    }
}
