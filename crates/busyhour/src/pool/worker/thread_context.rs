//! This thread's relation to a pool, looked up once for everything that a push
//! or a run needs.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::worker_thread::CurrentWorker;
use crate::{
    clock::Instant,
    pool::{
        context,
        entity::Token,
        metrics::MetricsWriter,
        queue::{TaskCell, WorkBatch},
        shared::Shared,
        submission::Submission,
    },
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

    pub(in crate::pool) fn count_spawned(self) {
        self.metrics().add(|metrics| &metrics.spawned, 1);
    }

    pub(in crate::pool) fn count_freed(self) {
        self.metrics().add(|metrics| &metrics.freed, 1);
    }

    /// Counts a refused task.
    pub(crate) fn count_rejected(self) {
        self.metrics().add(|metrics| &metrics.rejected, 1);
    }

    /// Drops tasks, each on its own, and the tasks of entities: the pool is
    /// sealed, so no worker will run them.
    pub(in crate::pool) fn abandon(self, mut batch: WorkBatch) {
        self.count_abandoned(batch.tasks.len() as u64);
        while let Some(task) = batch.tasks.take() {
            self.shared.isolate(|| drop(task));
        }
        batch.tokens.iter().for_each(Token::abandon);
    }

    /// Runs one task; returns whether it panicked. The panic is caught and
    /// counted.
    #[inline(always)]
    pub(crate) fn run_task(self, task_cell: &mut TaskCell) -> bool {
        debug_assert!(self.shared.is_outside_of_biased_locks());
        let outcome = task_cell.run();
        let panicked = outcome.is_err();
        if let Err(payload) = outcome {
            self.count_panic(payload);
        }
        self.metrics().end_task();
        panicked
    }

    /// Counts a panic and drops its payload. That drop may panic too, which
    /// must not end a worker: the second payload is leaked.
    #[cold]
    pub(in crate::pool) fn count_panic(self, payload: Box<dyn Any + Send>) {
        self.metrics().add(|metrics| &metrics.panicked, 1);
        #[cfg(feature = "tracing")]
        crate::trace::panicked(&self.shared.name, &*payload);
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(second);
        }
    }

    /// Counts the end of a task.
    pub(in crate::pool) fn end_task(self) {
        self.metrics().end_task();
    }

    /// Queues an entity that has tasks, so that a worker runs it.
    #[inline(always)]
    pub(crate) fn schedule(self, token: Token) {
        Submission::new(self.shared, self.current).schedule(token);
    }

    /// Makes collected tasks available to the workers before this thread runs a
    /// task inline: that task may depend on them.
    pub(crate) fn expose_collected(self) {
        if context::collects_for(self.shared) {
            self.wake_a_worker();
        }
    }

    /// Wakes a worker for this inline runner's tasks, if one is needed.
    pub(super) fn wake_a_worker(self) {
        let workers = &self.shared.workers;
        let waits = (self.current).is_some_and(|current| current.worker.waiting_len() > 0);
        if waits && workers.sleepers.should_wake() {
            workers.wake_one(None);
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
