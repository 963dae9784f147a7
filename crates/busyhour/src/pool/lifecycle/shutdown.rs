//! The shutdown of a pool. See README.md, "Shutting down".

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    leftovers::{Leftover, drop_leftovers},
    subscriptions::Undelivered,
};
use crate::{
    pool::{
        Unfinished,
        context::{current_entity, current_pool},
        entity::Entity,
        phase::Phase,
        shared::Shared,
        wait::{Section, blocking, wait_for_quiet},
        worker::{CurrentWorker, Worker},
    },
    sync::{SpinWait, fences},
};

/// The result of a shutdown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Tasks that ran between the call and the end of draining.
    pub ran: u64,
    /// Accepted tasks that were dropped without having run.
    pub not_run: u64,
    /// Named serializers that lost tasks, and how many each lost.
    pub left: Vec<Leftover>,
    /// Workers still inside a task when the deadline passed; they end with that task.
    pub unfinished_workers: u64,
    /// The tasks that those workers run, if they have a name: tasks of named
    /// serializers, and plain tasks with a label.
    pub unfinished: Vec<Unfinished>,
    /// Deliveries that waited for subscriptions of the pool, and were dropped.
    pub not_delivered: u64,
    /// The subscriptions that lost them, and how many each lost.
    pub undelivered: Vec<Undelivered>,
}

impl ShutdownReport {
    /// Whether everything that was accepted has run or been delivered, and
    /// every worker has ended.
    pub fn is_clean(&self) -> bool {
        self.not_run == 0 && self.not_delivered == 0 && self.unfinished_workers == 0
    }

    /// The part of [`not_run`](Self::not_run) that no serializer in
    /// [`left`](Self::left) had: plain tasks, polls of futures, and tasks of
    /// serializers without a name.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{clock::{Clock, UnixTime}, pool::TaskPool};
    ///
    /// let pool = TaskPool::simulated(7, Clock::simulated(UnixTime::from_secs(0)));
    /// let calls = pool.serializer("calls").build().unwrap();
    /// calls.push(|| ()).unwrap();
    /// pool.push(|| ()).unwrap();
    /// let report = pool.shutdown(Duration::ZERO);
    /// assert_eq!((report.not_run, report.left[0].not_run), (2, 1));
    /// assert_eq!(report.unnamed_not_run(), 1);
    /// ```
    pub fn unnamed_not_run(&self) -> u64 {
        let named: u64 = self.left.iter().map(|left| left.not_run).sum();
        self.not_run.saturating_sub(named)
    }
}

impl Shared {
    pub(in crate::pool) fn shutdown(self: &Arc<Self>, deadline: Duration) -> ShutdownReport {
        let shutdown = Shutdown {
            shared: self,
            ends_at: Instant::now().checked_add(deadline),
            own: usize::from(self.is_inside()),
        };
        shutdown.run(deadline)
    }
}

/// Runs `wait`, which ends after a shutdown of the pool for which this thread
/// works. That shutdown does not wait for this thread's task.
pub(crate) fn outlast_shutdown<R>(wait: impl FnOnce() -> R) -> R {
    let Some(pool) = current_pool() else {
        return wait();
    };
    pool.lifecycle.begin_closing(1);
    let result = wait();
    pool.lifecycle.end_closing(1);
    result
}

/// One call of `shutdown`.
struct Shutdown<'a> {
    shared: &'a Arc<Shared>,
    ends_at: Option<Instant>,
    /// One if this thread runs a task of the pool, which the call is inside of.
    own: usize,
}

impl Shutdown<'_> {
    fn run(&self, deadline: Duration) -> ShutdownReport {
        let shared = self.shared;
        let ran_before = shared.workers.begun();
        // Before the phase changes, since that wakes the threads that this
        // makes give up.
        let _closing = wait_for_quiet(shared);
        let _not_counted = OwnSection::discount(shared);
        self.enter(Phase::Draining);
        if shared.is_simulated() {
            let steps_max = deadline.as_micros();
            let _drained = (0..steps_max).find(|_| !shared.step());
            self.enter(Phase::Sealed);
        } else {
            blocking(|| self.drain_and_seal());
        }
        let undelivered = shared.subscriptions.end(|end| {
            shared.isolate(end);
        });
        self.settle();
        let left = drop_leftovers(shared);
        shared.awaited_futures.wake_all();
        // What was dropped waits no more.
        shared.look_at_marks();
        ShutdownReport {
            ran: shared.workers.begun() - ran_before,
            not_run: shared.lifecycle.report_not_run(shared.workers.not_run()),
            left,
            unfinished_workers: self.others_at_work(),
            unfinished: self.unfinished(),
            not_delivered: undelivered.iter().map(|one| one.count).sum(),
            undelivered,
        }
    }

    fn enter(&self, phase: Phase) {
        self.shared.lifecycle.enter(phase, &self.shared.workers);
    }

    /// Waits until nothing waits and nothing runs, seals the pool, and waits
    /// for the workers; or until the deadline. Tasks that are themselves in a
    /// shutdown are not waited for.
    fn drain_and_seal(&self) {
        let (lifecycle, workers) = (&self.shared.lifecycle, &self.shared.workers);
        lifecycle.begin_closing(self.own);
        lifecycle.await_end(self.ends_at, || {
            let is_quiet = || workers.is_quiet(lifecycle.closing_len());
            lifecycle.is_sealed() || lifecycle.sections.none_while(is_quiet)
        });
        self.enter(Phase::Sealed);
        lifecycle.await_end(self.ends_at, || {
            workers.present_len() <= lifecycle.closing_len()
        });
        lifecycle.end_closing(self.own);
    }

    /// Workers that have a thread, plus inline runs, except the one on this
    /// thread.
    fn others_at_work(&self) -> u64 {
        let own = if self.shared.is_simulated() {
            0
        } else {
            self.own
        };
        self.shared.workers.present_len().saturating_sub(own) as u64
    }

    /// Waits until every worker has ended or is inside a task that began before
    /// the pool was sealed, and no admitted push is in flight. Then nothing
    /// moves between queues, nothing can begin any more, and every remaining
    /// worker is inside a task. Workers are in other states only for
    /// microseconds, so the deadline does not limit this wait. For a thread
    /// hook that blocks it waits no longer than [`SETTLE_MAX`].
    fn settle(&self) {
        fences::heavy();
        let (begin, mut wait) = (Instant::now(), SpinWait::default());
        while !self.is_settled() && begin.elapsed() < SETTLE_MAX {
            wait.once();
        }
    }

    fn is_settled(&self) -> bool {
        let at_work = self.others_at_work();
        let in_task = self.others().filter(|worker| worker.is_in_task()).count() as u64;
        !self.shared.lifecycle.pushes.any()
            && self.others().all(Worker::is_settled)
            && at_work <= in_task
    }

    /// The workers on other threads than this one.
    fn others(&self) -> impl Iterator<Item = &Worker> {
        let own = CurrentWorker::of(self.shared).map(|current| current.worker.number);
        let workers = self.shared.workers.iter();
        workers.filter(move |worker| Some(worker.number) != own)
    }

    /// The tasks that still run on other threads than this one.
    fn unfinished(&self) -> Vec<Unfinished> {
        let own = current_entity();
        let is_other = |entity: &&Arc<dyn Entity>| !own.iter().any(|own| Arc::ptr_eq(own, entity));
        let living = self.shared.registry.living();
        let named = living
            .iter()
            .filter(is_other)
            .filter_map(|entity| entity.unfinished());
        let now = self.shared.clock.now();
        let plain = self.others().filter_map(|worker| worker.unfinished(now));
        named.chain(plain).collect()
    }
}

/// The section that this call is inside of is not waited for.
pub(super) struct OwnSection(Arc<Shared>);

impl OwnSection {
    pub(super) fn discount(shared: &Arc<Shared>) -> Option<Self> {
        let own = Section::current().filter(|section| section.has_begun());
        let is_own = shared.is_inside() && own.is_some();
        is_own.then(|| {
            shared.lifecycle.end_section();
            Self(Arc::clone(shared))
        })
    }
}

impl Drop for OwnSection {
    fn drop(&mut self) {
        self.0.lifecycle.begin_section();
    }
}

/// How long a thread hook of the host may run between tasks.
const SETTLE_MAX: Duration = Duration::from_secs(1);
