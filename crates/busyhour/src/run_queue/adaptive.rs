use super::{Mode, QueueEnd, Thresholds, bucketed::Bucketed, rank::Rank, sorted::Sorted};

/// The queued entities, in the structure that is fastest for their number.
///
/// It becomes bucketed above one threshold, and sorted again at a lower one, so that
/// entities that come and go at either length do not change the mode repeatedly. The
/// structure that is not in use is empty.
#[derive(Debug)]
#[repr(C)] // Its fields are in this order for the reason that `Sorted` has.
pub(super) struct Adaptive<E> {
    mode: Mode,
    thresholds: Thresholds,
    /// That of the structure in use, so that reading it needs no branch.
    len: usize,
    short: Sorted<E>,
    long: Bucketed<E>,
}

impl<E> Adaptive<E> {
    pub(super) fn new(thresholds: Thresholds) -> Self {
        Self {
            mode: Mode::Sorted,
            thresholds,
            len: 0,
            short: Sorted::new(),
            long: Bucketed::new(),
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn push(&mut self, entity: E, rank: Rank, end: QueueEnd) {
        self.len += 1;
        if self.mode == Mode::Sorted {
            if self.len <= self.thresholds.sorted_max() {
                return self.short.push(entity, rank, end);
            }
            self.lengthen();
        }
        self.long.push(entity, rank, end);
    }

    /// Takes out the next entity to run.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(E, Rank)> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        let popped = match self.mode {
            Mode::Sorted => self.short.pop(),
            Mode::Bucketed => {
                let popped = self.long.pop();
                self.shorten_if_few();
                popped
            }
        };
        debug_assert!(popped.is_some(), "the length counts what is queued");
        popped
    }

    /// Queues `entity` behind its equals and takes out the next one to run,
    /// which may be the same.
    #[inline(always)]
    pub(super) fn exchange(&mut self, entity: E, rank: Rank) -> (E, Rank) {
        // The ring is empty while it is not in use, so one needs no look at the mode.
        let several = match self.short.exchange_with_the_other(entity, rank) {
            Ok(next) => return next,
            Err(entity) => self.short.exchange_behind_all(entity, rank),
        };
        match several {
            Ok(next) => next,
            Err(entity) => self.exchange_among_others(entity, rank),
        }
    }

    /// With none or many others, or some that go behind `entity`. Cold, so that a few that
    /// take turns need no jump.
    #[cold]
    fn exchange_among_others(&mut self, entity: E, rank: Rank) -> (E, Rank) {
        match self.mode {
            Mode::Sorted => self.short.exchange(entity, rank),
            Mode::Bucketed => self.long.exchange(entity, rank),
        }
    }

    /// Begins an epoch; all entities here are used up.
    #[cold]
    pub(super) fn renew(&mut self) {
        match self.mode {
            Mode::Sorted => self.short.renew(),
            Mode::Bucketed => self.long.renew(),
        }
    }

    pub(super) fn remove(&mut self, entity: &E, rank: Rank) -> Option<E>
    where
        E: PartialEq,
    {
        let removed = match self.mode {
            Mode::Sorted => self.short.remove(entity),
            Mode::Bucketed => self.long.remove(entity, rank),
        }?;
        self.len -= 1;
        if self.mode == Mode::Bucketed {
            self.shorten_if_few();
        }
        Some(removed)
    }

    /// Moves all entities into lists by rank. They leave the ring in the order
    /// in which they would run, so equals enter their list in order.
    #[cold]
    fn lengthen(&mut self) {
        self.long.prepare();
        while let Some((entity, rank)) = self.short.pop() {
            self.long.push(entity, rank, QueueEnd::Back);
        }
        self.mode = Mode::Bucketed;
    }

    #[inline(always)]
    fn shorten_if_few(&mut self) {
        if self.len <= self.thresholds.sorted_again() {
            self.shorten();
        }
    }

    /// Moves all entities into the ring, in the same way.
    #[cold]
    fn shorten(&mut self) {
        while let Some((entity, rank)) = self.long.pop() {
            self.short.push(entity, rank, QueueEnd::Back);
        }
        self.mode = Mode::Sorted;
    }
}
