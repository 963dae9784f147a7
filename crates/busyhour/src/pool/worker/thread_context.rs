//! This thread's side of a pool, looked up once for all that a push or a run needs of it.

use super::worker_thread::CurrentWorker;
use crate::{
    clock::Instant,
    pool::{entity::Token, metrics::MetricsWriter, queue::TaskCell, shared::Shared},
};

/// Stays on its thread, and inside the task that looked it up.
#[derive(Clone, Copy)]
pub(crate) struct ThreadContext<'a> {
    shared: &'a Shared,
    /// The place of this thread, if it is a worker of the pool.
    current: Option<CurrentWorker<'a>>,
}

impl Shared {
    #[inline(always)]
    pub(crate) fn thread_context(&self) -> ThreadContext<'_> {
        ThreadContext::new(self, CurrentWorker::of(self))
    }
}

impl<'a> ThreadContext<'a> {
    /// `current` is this thread's in the pool, if it has one.
    #[inline(always)]
    pub(super) fn new(shared: &'a Shared, current: Option<CurrentWorker<'a>>) -> Self {
        Self { shared, current }
    }

    /// The time, exact from outside; on a worker as of a few short turns ago,
    /// or of the beginning of the turn that runs.
    #[inline(always)]
    pub(crate) fn now(self) -> Instant {
        match self.current {
            Some(current) => current.worker.gauges.now(),
            None => self.shared.clock.now(),
        }
    }

    /// Counts a task that was accepted.
    #[inline(always)]
    pub(crate) fn count_pushed(self) {
        self.metrics().add(|metrics| &metrics.pushed, 1);
    }

    /// Counts a task that is taken out of a queue to run, while the queue is locked.
    #[inline(always)]
    pub(crate) fn count_started(self) {
        self.metrics().add(|metrics| &metrics.started, 1);
    }

    /// Counts accepted tasks that are dropped because the pool is sealed.
    pub(crate) fn count_abandoned(self, tasks: u64) {
        self.metrics().add(|metrics| &metrics.abandoned, tasks);
    }

    /// Counts accepted tasks that a declared policy has lost.
    pub(crate) fn count_dropped(self, tasks: u64) {
        self.metrics().add(|metrics| &metrics.dropped, tasks);
    }

    /// Counts a task that was refused.
    pub(crate) fn count_rejected(self) {
        self.metrics().add(|metrics| &metrics.rejected, 1);
    }

    /// Runs one task; whether it panicked, which is counted and goes no further.
    #[inline(always)]
    pub(crate) fn run_task(self, task_cell: &mut TaskCell) -> bool {
        self.shared.run_counting(self.metrics(), task_cell)
    }

    /// Runs foreign code that counts as a task; whether it panicked.
    #[inline(always)]
    pub(in crate::pool) fn run_counted(self, foreign: impl FnOnce()) -> bool {
        let panicked = self.shared.isolate(foreign);
        self.metrics().end_task();
        panicked
    }

    /// Makes an entity that has tasks visible to the workers.
    #[inline(always)]
    pub(crate) fn schedule(self, token: Token) {
        match self.current {
            Some(current) => self.shared.schedule_here(current, token),
            None => self.shared.schedule_from_outside(token),
        }
    }

    #[inline(always)]
    pub(in crate::pool) fn metrics(self) -> MetricsWriter<'a> {
        match self.current {
            Some(current) => current.metrics(),
            None => self.shared.workers.external_metrics(),
        }
    }
}
