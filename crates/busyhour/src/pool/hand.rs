//! This thread's side of a pool, looked up once for all that a push or a run needs of it.

use std::sync::Arc;

use super::{
    berth::Berth,
    entity::Token,
    shared::Shared,
    tally::{Tallier, Tally},
    worker::Seat,
};
use crate::clock::Instant;

/// Stays on its thread, and inside the task that looked it up.
#[derive(Clone, Copy)]
pub(crate) struct Hand<'a> {
    shared: &'a Arc<Shared>,
    /// The place of this thread, if it is a worker of the pool.
    seat: Option<Seat<'a>>,
}

impl Shared {
    #[inline(always)]
    pub(crate) fn hand(self: &Arc<Self>) -> Hand<'_> {
        Hand {
            shared: self,
            seat: Seat::of(self),
        }
    }
}

impl<'a> Hand<'a> {
    /// `seat` is this thread's in the pool, if it has one.
    #[inline(always)]
    pub(super) fn new(shared: &'a Arc<Shared>, seat: Option<Seat<'a>>) -> Self {
        Self { shared, seat }
    }

    /// The time, exact from outside; on a worker as of a few short turns ago,
    /// or of the beginning of the turn that runs.
    #[inline(always)]
    pub(crate) fn now(self) -> Instant {
        match self.seat {
            Some(seat) => seat.worker.published.now(),
            None => self.shared.clock.now(),
        }
    }

    /// Counts a task that was accepted.
    #[inline(always)]
    pub(crate) fn count_pushed(self) {
        self.tallier().add(|tally: &Tally| &tally.pushed, 1);
    }

    /// Counts a task that is taken out of a queue to run, while the queue is locked.
    #[inline(always)]
    pub(crate) fn count_started(self) {
        self.tallier().add(|tally: &Tally| &tally.started, 1);
    }

    /// Runs one task; whether it panicked, which is counted and goes no further.
    #[inline(always)]
    pub(crate) fn run_task(self, berth: &mut Berth) -> bool {
        self.shared.run_counting(self.tallier(), berth)
    }

    /// Runs foreign code that counts as a task; whether it panicked.
    #[inline(always)]
    pub(super) fn run_counted(self, foreign: impl FnOnce()) -> bool {
        let panicked = self.shared.isolate(foreign);
        self.tallier().end_task();
        panicked
    }

    /// Makes an entity that has tasks visible to the workers.
    #[inline(always)]
    pub(crate) fn schedule(self, token: Token) {
        match self.seat {
            Some(seat) => self.shared.schedule_here(seat, token),
            None => self.shared.schedule_from_outside(token),
        }
    }

    #[inline(always)]
    fn tallier(self) -> Tallier<'a> {
        match self.seat {
            Some(seat) => seat.tallier(),
            None => self.shared.others_tallier(),
        }
    }
}
