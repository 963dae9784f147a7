use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::subscriptions::Undelivered;
use crate::{
    pool::{
        Unfinished,
        context::current_entity,
        entity::Entity,
        metrics::WorkerMetrics,
        phase::Phase,
        queue::WorkBatch,
        shared::Shared,
        simulation::SimulatedStep,
        wait::{blocking, wait_for_quiet},
        worker::{CurrentWorker, Worker},
    },
    sync::{
        SpinWait,
        atomic::{AtomicU64, Ordering},
        fences,
    },
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

/// A serializer whose tasks a shutdown dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The serializer's name.
    pub serializer: String,
    /// Tasks dropped.
    pub not_run: u64,
}

impl Shared {
    pub(in crate::pool) fn shutdown(self: &Arc<Self>, deadline: Duration) -> ShutdownReport {
        let ends_at = Instant::now().checked_add(deadline);
        let ran_before = self.begun();
        // Before the phase changes, since that wakes the threads that this
        // makes give up.
        let _closing = wait_for_quiet(self);
        self.enter(Phase::Draining);
        if self.is_simulated() {
            let steps_max = deadline.as_micros();
            let _drained = (0..steps_max).find(|_| !self.step());
            self.enter(Phase::Sealed);
        } else {
            blocking(|| self.drain_and_seal(ends_at));
        }
        let undelivered = self.subscriptions.end(|end| {
            self.isolate(end);
        });
        self.settle();
        let left = self.drop_leftovers();
        self.awaited_futures.wake_all();
        ShutdownReport {
            ran: self.begun() - ran_before,
            not_run: self.not_run(),
            left,
            unfinished_workers: self.others_at_work(),
            unfinished: self.unfinished(),
            not_delivered: undelivered.iter().map(|one| one.count).sum(),
            undelivered,
        }
    }

    /// Waits until nothing waits and nothing runs, seals the pool, and waits
    /// for the workers; or until the deadline. Tasks that are themselves in a
    /// shutdown are not waited for.
    fn drain_and_seal(&self, ends_at: Option<Instant>) {
        let own = usize::from(self.is_inside());
        self.closing.fetch_add(own, Ordering::SeqCst);
        self.notify_end();
        self.wait_until(ends_at, |closing| {
            self.is_sealed() || self.workers.is_quiet(closing)
        });
        self.enter(Phase::Sealed);
        self.wait_until(ends_at, |closing| self.workers.present_len() <= closing);
        self.closing.fetch_sub(own, Ordering::SeqCst);
        self.notify_end();
    }

    /// Workers that have a thread, plus inline runs, except the one on this
    /// thread.
    fn others_at_work(&self) -> u64 {
        let own = usize::from(self.is_inside() && !self.is_simulated());
        self.workers.present_len().saturating_sub(own) as u64
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
        let own = CurrentWorker::of(self).map(|current| current.worker.number);
        let others = || (self.workers.iter()).filter(|worker| Some(worker.number) != own);
        let at_work = self.others_at_work();
        let in_task = others().filter(|worker| worker.is_in_task()).count() as u64;
        !self.pushes.any() && others().all(Worker::is_settled) && at_work <= in_task
    }

    /// Blocks until `done` returns true, which is checked after each
    /// notification, or until the deadline.
    pub(crate) fn await_end(&self, ends_at: Option<Instant>, done: impl Fn() -> bool) {
        self.wait_until(ends_at, |_| done());
    }

    fn wait_until(&self, ends_at: Option<Instant>, done: impl Fn(usize) -> bool) {
        (self.ends).wait_until_or(ends_at, || done(self.closing_len()));
    }

    /// The tasks that still run on other threads than this one.
    fn unfinished(&self) -> Vec<Unfinished> {
        let own = current_entity();
        let is_other = |entity: &&Arc<dyn Entity>| !own.iter().any(|own| Arc::ptr_eq(own, entity));
        let living = self.registry.living();
        let named = living
            .iter()
            .filter(is_other)
            .filter_map(|entity| entity.unfinished());
        let own = CurrentWorker::of(self).map(|current| current.worker.number);
        let others = self
            .workers
            .iter()
            .filter(|worker| Some(worker.number) != own);
        let plain = others.filter_map(|worker| worker.unfinished(self.clock.now()));
        named.chain(plain).collect()
    }

    /// Tasks that were accepted, neither begun nor lost by an overflow policy,
    /// and not reported by an earlier call.
    fn not_run(&self) -> u64 {
        let count = |counter: fn(&WorkerMetrics) -> &AtomicU64| {
            self.workers
                .sum(|metrics| counter(metrics).load(Ordering::SeqCst))
        };
        let begun = count(|metrics| &metrics.started) + count(|metrics| &metrics.dropped);
        let not_run = self.pushed().saturating_sub(begun);
        let reported = self.reported_not_run.fetch_max(not_run, Ordering::SeqCst);
        not_run.saturating_sub(reported)
    }

    /// Tasks accepted into a queue, from any thread.
    pub(in crate::pool) fn pushed(&self) -> u64 {
        let inject_queue = self
            .workers
            .iter()
            .map(|worker| worker.inject_queue.pushed());
        inject_queue.sum::<u64>()
            + self
                .workers
                .sum(|metrics| metrics.pushed.load(Ordering::SeqCst))
    }

    fn begun(&self) -> u64 {
        self.workers.sum(WorkerMetrics::begun)
    }

    pub(super) fn drop_leftovers(&self) -> Vec<Leftover> {
        let left: Vec<_> = self.registry.living().iter().filter_map(leftover).collect();
        for entity in self.registry.suspended() {
            entity.abandon();
        }
        for worker in self.workers.iter() {
            self.drop_batch(worker.as_remote(|local| local.give_all()));
            worker.inject_queue.seal();
            while worker.inject_queue.len() > 0 {
                self.drop_batch(worker.inject_queue.take());
            }
        }
        while let Some(step) = self
            .simulated
            .as_ref()
            .and_then(|simulated| simulated.take())
        {
            match step {
                SimulatedStep::Task(task) => self.drop_batch(WorkBatch::of_task(task)),
                SimulatedStep::Entity(token) => drop(token.entity().abandon()),
            }
        }
        left
    }

    pub(in crate::pool) fn drop_batch(&self, batch: WorkBatch) {
        let abandoned = batch.tasks.len() as u64;
        self.thread_context().count_abandoned(abandoned);
        for task in batch.tasks {
            self.isolate(|| drop(task));
        }
        for token in batch.tokens {
            self.abandon(&token);
        }
    }
}

/// How long a thread hook of the host may run between tasks.
const SETTLE_MAX: Duration = Duration::from_secs(1);

fn leftover(entity: &Arc<dyn Entity>) -> Option<Leftover> {
    let not_run = entity.abandon();
    (not_run > 0).then(|| Leftover {
        serializer: entity.name(),
        not_run,
    })
}
