//! What the handles, the workers and the serializers of one pool share.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    Hook,
    builder::{Builder, WorkerCounts},
    context,
    entity::Entity,
    random::Random,
    registry::Registry,
    waits::Waits,
};
use crate::{
    clock::Clock,
    stats::PoolStats,
    sync::{Condvar, Mutex, MutexGuard, lock},
    task::{Reason, Rejected, Task},
};

/// Something a worker can run.
pub(crate) enum Runnable {
    Task(Task),
    Entity(Arc<dyn Entity>),
}

/// One pool. Workers and serializers hold it; handles close it when the last one goes.
pub(crate) struct Shared {
    pub(super) name: String,
    pub(crate) clock: Clock,
    pub(super) counts: WorkerCounts,
    pub(super) options: Options,
    /// Everything that decides who runs next.
    queue: Mutex<Queue>,
    /// Signalled once per push while a worker is parked, and to all on a change of phase.
    work: Condvar,
    /// Signalled when the pool may have become quiet, or a worker has ended.
    pub(super) quiet: Condvar,
    pub(super) counters: Counters,
    pub(crate) registry: Registry,
    pub(crate) waits: Waits,
}

/// The builder's choices that stay of interest.
pub(super) struct Options {
    pub(super) auto_increment: usize,
    pub(super) growth_threshold: usize,
    pub(super) idle_timeout: Duration,
    pub(super) on_thread_start: Option<Hook>,
    pub(super) on_thread_stop: Option<Hook>,
    capacity: usize,
}

/// Who may push, and whether workers go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    /// Everybody may push.
    Open,
    /// Only tasks of the pool may push, so that what was accepted can finish.
    Draining,
    /// As draining, and workers end once nothing is left.
    Ending,
    /// Nobody may push; workers end after their task.
    Sealed,
}

/// Guarded by `Shared::queue`.
pub(super) struct Queue {
    pub(super) phase: Phase,
    runnable: VecDeque<Runnable>,
    high_water: usize,
    /// Runnables handed to a thread and not yet given back.
    pub(super) running: usize,
    /// Tasks that wait inside a shutdown for the others.
    pub(super) closing: usize,
    pub(super) workers: usize,
    pub(super) idle: usize,
    /// The next worker's number, for its thread's name.
    pub(super) started: usize,
    /// Set in a simulated pool only: chooses who runs next.
    random: Option<Random>,
}

/// Counters only grow.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) pushed: AtomicU64,
    pub(super) started: AtomicU64,
    pub(super) processed: AtomicU64,
    pub(super) panicked: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) dropped: AtomicU64,
}

impl Shared {
    pub(super) fn new(builder: Builder, counts: WorkerCounts, seed: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            name: builder.name,
            clock: builder.clock,
            counts,
            options: Options {
                auto_increment: builder.auto_increment,
                growth_threshold: builder.growth_threshold,
                idle_timeout: builder.idle_timeout,
                on_thread_start: builder.on_thread_start,
                on_thread_stop: builder.on_thread_stop,
                capacity: builder.capacity,
            },
            queue: Mutex::new(Queue::new(seed.map(Random::new))),
            work: Condvar::new(),
            quiet: Condvar::new(),
            counters: Counters::default(),
            registry: Registry::default(),
            waits: Waits::default(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.lock().random.is_some()
    }

    /// Queues a plain task; `forced` ignores the bound (a future's wake-up must not get lost).
    pub(crate) fn push_task(self: &Arc<Self>, task: Task, forced: bool) -> Result<(), Rejected> {
        let mut queue = self.lock();
        if let Some(reason) = self.refusal(&queue, forced) {
            drop(queue);
            self.counters.rejected.fetch_add(1, Ordering::Relaxed);
            return Err(Rejected { task, reason });
        }
        self.counters.pushed.fetch_add(1, Ordering::Relaxed);
        queue.insert(Runnable::Task(task));
        self.after_insert(queue);
        Ok(())
    }

    fn refusal(&self, queue: &Queue, forced: bool) -> Option<Reason> {
        if !self.admits_in(queue.phase) {
            Some(Reason::ShutDown)
        } else if !forced && queue.runnable.len() >= self.options.capacity {
            Some(Reason::Full)
        } else {
            None
        }
    }

    /// Whether the caller may add tasks now.
    pub(crate) fn admits(&self) -> bool {
        self.admits_in(self.lock().phase)
    }

    fn admits_in(&self, phase: Phase) -> bool {
        match phase {
            Phase::Open => true,
            Phase::Draining | Phase::Ending => self.is_inside(),
            Phase::Sealed => false,
        }
    }

    /// Whether this thread runs a task of this pool.
    pub(crate) fn is_inside(&self) -> bool {
        context::is_inside(self)
    }

    /// Makes an entity that has tasks visible to the workers.
    pub(crate) fn schedule(self: &Arc<Self>, entity: Arc<dyn Entity>) {
        let mut queue = self.lock();
        queue.insert(Runnable::Entity(entity));
        self.after_insert(queue);
    }

    fn after_insert(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        let idle = queue.idle > 0;
        let growth = if idle { 0 } else { self.growth(&queue) };
        queue.workers += growth;
        drop(queue);
        if idle {
            self.work.notify_one();
        }
        self.grow(growth);
    }

    fn growth(&self, queue: &Queue) -> usize {
        if queue.runnable.len() <= self.options.growth_threshold || queue.phase != Phase::Open {
            return 0;
        }
        let room = self.counts.maximum.saturating_sub(queue.workers);
        self.options.auto_increment.min(room)
    }

    /// Waits for something to run; `None` tells the worker to end.
    pub(super) fn next(&self) -> Option<Runnable> {
        let mut queue = self.lock();
        loop {
            if queue.phase == Phase::Sealed {
                return None;
            }
            if let Some(runnable) = queue.take() {
                return Some(runnable);
            }
            if queue.phase == Phase::Ending && queue.running == 0 {
                return None;
            }
            queue.idle += 1;
            let timeout = self.options.idle_timeout;
            let (mut woken, waited) = (self.work.wait_timeout(queue, timeout))
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            woken.idle -= 1;
            let surplus = woken.workers > self.counts.minimum;
            if waited.timed_out() && surplus && woken.runnable.is_empty() {
                return None;
            }
            queue = woken;
        }
    }

    /// Something to run, if there is any now.
    pub(super) fn try_next(&self) -> Option<Runnable> {
        self.lock().take()
    }

    /// Runs what `next` gave out.
    pub(super) fn run(&self, runnable: Runnable, single: bool) {
        match runnable {
            Runnable::Task(task) => {
                self.run_task(None, task);
            }
            Runnable::Entity(entity) => entity.run(single),
        }
        self.after_run(self.lock());
    }

    fn after_run(&self, mut queue: MutexGuard<'_, Queue>) {
        queue.running -= 1;
        if queue.is_quiet() {
            self.quiet.notify_all();
        }
        if queue.phase == Phase::Ending {
            self.work.notify_all();
        }
    }

    /// Runs one task; its panic is counted and goes no further.
    pub(crate) fn run_task(&self, entity: Option<Arc<dyn Entity>>, task: Task) -> bool {
        self.counters.started.fetch_add(1, Ordering::Relaxed);
        let panicked = self.isolate(|| context::within(self, entity, || task.run()));
        self.counters.processed.fetch_add(1, Ordering::Relaxed);
        panicked
    }

    /// Calls foreign code; whether it panicked, which is counted.
    pub(crate) fn isolate(&self, foreign: impl FnOnce()) -> bool {
        let panicked = catch_unwind(AssertUnwindSafe(foreign)).is_err();
        self.counters
            .panicked
            .fetch_add(u64::from(panicked), Ordering::Relaxed);
        panicked
    }

    /// Counts a task that an entity accepted.
    pub(crate) fn count_pushed(&self) {
        self.counters.pushed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts accepted tasks that will never run.
    pub(crate) fn count_dropped(&self, tasks: u64) {
        self.counters.dropped.fetch_add(tasks, Ordering::Relaxed);
    }

    /// Changes the phase (never backwards) and wakes whoever must know.
    pub(super) fn enter(&self, phase: Phase) {
        let mut queue = self.lock();
        if queue.phase < phase {
            queue.phase = phase;
        }
        drop(queue);
        self.work.notify_all();
        self.quiet.notify_all();
    }

    /// Takes everything still queued out of the queue.
    pub(super) fn take_all(&self) -> VecDeque<Runnable> {
        std::mem::take(&mut self.lock().runnable)
    }

    pub(super) fn stats(&self) -> PoolStats {
        let queue = self.lock();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PoolStats {
            worker_count: queue.workers as u64,
            idle_worker_count: queue.idle as u64,
            queued_len: queue.runnable.len() as u64,
            queued_high_water: queue.high_water as u64,
            pushed: count(&self.counters.pushed),
            processed: count(&self.counters.processed),
            rejected: count(&self.counters.rejected),
            dropped: count(&self.counters.dropped),
            panicked: count(&self.counters.panicked),
            stolen: 0,
        }
    }
}

impl Queue {
    fn new(random: Option<Random>) -> Self {
        Self {
            phase: Phase::Open,
            runnable: VecDeque::new(),
            high_water: 0,
            running: 0,
            closing: 0,
            workers: 0,
            idle: 0,
            started: 0,
            random,
        }
    }

    /// Nothing waits, and nothing runs that does not itself wait for this.
    pub(super) fn is_quiet(&self) -> bool {
        self.runnable.is_empty() && self.running <= self.closing
    }

    fn insert(&mut self, runnable: Runnable) {
        self.runnable.push_back(runnable);
        self.high_water = self.high_water.max(self.runnable.len());
    }

    fn take(&mut self) -> Option<Runnable> {
        let taken = match &mut self.random {
            Some(_) if self.runnable.is_empty() => None,
            Some(random) => self.runnable.remove(random.below(self.runnable.len())),
            None => self.runnable.pop_front(),
        };
        self.running += usize::from(taken.is_some());
        taken
    }
}
