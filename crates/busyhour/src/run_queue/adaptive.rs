use super::{
    Mode, Place,
    long::Long,
    rank::Rank,
    short::{self, Short},
};

/// The queued entities in the structure that is fastest for their number.
///
/// It becomes long when the ring is full and short again when half a ring
/// would do, so that entities which come and go at either length do not make
/// it turn to and fro. The structure not in use is empty.
#[derive(Debug)]
pub(super) struct Adaptive<E> {
    mode: Mode,
    /// Of whichever is in use, so that a look at it need not ask which.
    len: usize,
    short: Short<E>,
    long: Long<E>,
}

const SHORT_AGAIN: usize = short::CAPACITY / 2;

impl<E> Adaptive<E> {
    pub(super) fn new() -> Self {
        Self {
            mode: Mode::Short,
            len: 0,
            short: Short::new(),
            long: Long::new(),
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
    pub(super) fn push(&mut self, entity: E, rank: Rank, place: Place) {
        self.len += 1;
        if self.mode == Mode::Short {
            if self.len <= short::CAPACITY {
                return self.short.push(entity, rank, place);
            }
            self.lengthen();
        }
        self.long.push(entity, rank, place);
    }

    /// Takes out the next to run.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(E, Rank)> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        let popped = match self.mode {
            Mode::Short => self.short.pop(),
            Mode::Long => {
                let popped = self.long.pop();
                self.shorten_if_few();
                popped
            }
        };
        debug_assert!(popped.is_some(), "the length counts what is queued");
        popped
    }

    /// Queues `entity` behind its equals and takes out the next to run, which
    /// may be itself.
    #[inline(always)]
    pub(super) fn exchange(&mut self, entity: E, rank: Rank) -> (E, Rank) {
        match self.mode {
            Mode::Short => self.short.exchange(entity, rank),
            Mode::Long => self.long.exchange(entity, rank),
        }
    }

    /// Begins an epoch; everybody here is used up.
    #[cold]
    pub(super) fn renew(&mut self) {
        match self.mode {
            Mode::Short => self.short.renew(),
            Mode::Long => self.long.renew(),
        }
    }

    pub(super) fn remove(&mut self, entity: &E, rank: Rank) -> Option<E>
    where
        E: PartialEq,
    {
        let removed = match self.mode {
            Mode::Short => self.short.remove(entity),
            Mode::Long => self.long.remove(entity, rank),
        }?;
        self.len -= 1;
        if self.mode == Mode::Long {
            self.shorten_if_few();
        }
        Some(removed)
    }

    /// Moves all into lists by rank. They leave the ring in the order in which
    /// they would run, so equals enter their list in order.
    #[cold]
    fn lengthen(&mut self) {
        self.long.prepare();
        while let Some((entity, rank)) = self.short.pop() {
            self.long.push(entity, rank, Place::Back);
        }
        self.mode = Mode::Long;
    }

    #[inline(always)]
    fn shorten_if_few(&mut self) {
        if self.len <= SHORT_AGAIN {
            self.shorten();
        }
    }

    /// Moves all into the ring, likewise.
    #[cold]
    fn shorten(&mut self) {
        while let Some((entity, rank)) = self.long.pop() {
            self.short.push(entity, rank, Place::Back);
        }
        self.mode = Mode::Short;
    }
}
