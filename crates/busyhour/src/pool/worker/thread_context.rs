//! This thread's relation to a pool, looked up once for everything that a push
//! or a run needs.

use super::worker_thread::CurrentWorker;
use crate::{
    clock::Instant,
    pool::{entity::Token, metrics::MetricsWriter, queue::TaskCell, shared::Shared},
};

/// Stays on its thread, and inside the task that looked it up.
#[derive(Clone, Copy)]
pub(crate) struct ThreadContext<'a> {
    shared: &'a Shared,
    /// The slot of this thread, if it is a worker of the pool.
    current: Option<CurrentWorker<'a>>,
}

impl Shared {
    #[inline(always)]
    pub(crate) fn thread_context(&self) -> ThreadContext<'_> {
        ThreadContext::new(self, CurrentWorker::of(self))
    }
}

impl<'a> ThreadContext<'a> {
    /// `current` must be this thread's slot in the pool, if it has one.
    #[inline(always)]
    pub(super) fn new(shared: &'a Shared, current: Option<CurrentWorker<'a>>) -> Self {
        Self { shared, current }
    }

    /// The time. From outside it is exact; on a worker it is from a few short
    /// turns ago, or from the beginning of the current turn.
    #[inline(always)]
    pub(crate) fn now(self) -> Instant {
        match self.current {
            Some(current) => current.worker.gauges.now(),
            None => self.shared.clock.now(),
        }
    }

    /// Counts an accepted task.
    #[inline(always)]
    pub(crate) fn count_pushed(self) {
        self.metrics().add(|metrics| &metrics.pushed, 1);
    }

    /// Counts a task that is taken out of a queue to run, while the queue is
    /// locked.
    #[inline(always)]
    pub(crate) fn count_started(self) {
        self.metrics().add(|metrics| &metrics.started, 1);
    }

    /// Counts accepted tasks that are dropped because the pool is sealed.
    pub(crate) fn count_abandoned(self, tasks: u64) {
        self.metrics().add(|metrics| &metrics.abandoned, tasks);
    }

    /// Counts accepted tasks that were lost by an overflow policy.
    pub(crate) fn count_dropped(self, tasks: u64) {
        self.metrics().add(|metrics| &metrics.dropped, tasks);
    }

    /// Counts a refused task.
    pub(crate) fn count_rejected(self) {
        self.metrics().add(|metrics| &metrics.rejected, 1);
    }

    /// Runs one task; returns whether it panicked. The panic is caught and
    /// counted.
    #[inline(always)]
    pub(crate) fn run_task(self, task_cell: &mut TaskCell) -> bool {
        self.shared.run_counting(self.metrics(), task_cell)
    }

    /// Runs foreign code that counts as a task; returns whether it panicked.
    #[inline(always)]
    pub(in crate::pool) fn run_counted(self, foreign: impl FnOnce()) -> bool {
        let panicked = self.shared.isolate(foreign);
        self.metrics().end_task();
        panicked
    }

    /// Queues an entity that has tasks, so that a worker runs it.
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
