use super::{Place, rank::Rank};

/// The length at which lists by rank are as fast: measured, see `README.md`.
pub(super) const CAPACITY: usize = 16;

// The head wraps around the machine word without a jump in the ring.
const _: () = assert!(CAPACITY.is_power_of_two());

/// A few entities in a ring, sorted: the next to run at the head, equals in
/// list order. Picking is taking the head; queueing looks only at those behind
/// whom the entity does not belong, which is nobody when equals take turns.
#[derive(Debug)]
pub(super) struct Short<E> {
    ring: [Entry<E>; CAPACITY],
    /// Counts on and on; the low bits are the index of the head.
    head: usize,
    len: usize,
}

#[derive(Debug)]
struct Entry<E> {
    entity: Option<E>,
    rank: Rank,
}

impl<E> Short<E> {
    pub(super) fn new() -> Self {
        Self {
            ring: std::array::from_fn(|_| Entry::VACANT),
            head: 0,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    /// Puts an entity behind all that go before it. The ring must not be full.
    #[inline]
    pub(super) fn push(&mut self, entity: E, rank: Rank, place: Place) {
        debug_assert!(!self.is_full());
        let mut hole = self.len;
        while hole > 0 && goes_before(rank, self.at(hole - 1).rank, place) {
            *self.at_mut(hole) = self.at_mut(hole - 1).take();
            hole -= 1;
        }
        let entity = Some(entity);
        *self.at_mut(hole) = Entry { entity, rank };
        self.len += 1;
    }

    /// Takes out the next to run.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(E, Rank)> {
        if self.len == 0 {
            return None;
        }
        let Entry { entity, rank } = self.at_mut(0).take();
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        Some((entity?, rank))
    }

    /// Begins an epoch; everybody here is used up.
    #[cold]
    pub(super) fn renew(&mut self) {
        for index in 0..self.len {
            let entry = self.at_mut(index);
            entry.rank = entry.rank.renewed();
        }
    }

    pub(super) fn remove(&mut self, entity: &E) -> Option<E>
    where
        E: PartialEq,
    {
        let found = (0..self.len).find(|&index| self.at(index).entity.as_ref() == Some(entity))?;
        let removed = self.at_mut(found).take();
        for index in found + 1..self.len {
            *self.at_mut(index - 1) = self.at_mut(index).take();
        }
        self.len -= 1;
        removed.entity
    }

    #[inline]
    fn at(&self, index: usize) -> &Entry<E> {
        &self.ring[self.head.wrapping_add(index) % CAPACITY]
    }

    #[inline]
    fn at_mut(&mut self, index: usize) -> &mut Entry<E> {
        &mut self.ring[self.head.wrapping_add(index) % CAPACITY]
    }
}

/// Whether an entity that is queued now goes before one that is in the ring.
#[inline]
fn goes_before(queued: Rank, present: Rank, place: Place) -> bool {
    match place {
        Place::Front => queued >= present,
        Place::Back => queued > present,
    }
}

impl<E> Entry<E> {
    const VACANT: Self = Self {
        entity: None,
        rank: Rank::NOBODY,
    };

    #[inline]
    fn take(&mut self) -> Self {
        Self {
            entity: self.entity.take(),
            rank: self.rank,
        }
    }
}
