//! The state that handles, workers and serializers of one pool share.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use super::{
    Hook,
    builder::{TaskPoolBuilder, WorkerCounts},
    context::{self, within},
    entity::{EntityRef, Token},
    future::AwaitedFutures,
    lifecycle::{EntityRegistry, InFlightPushes, Subscriptions, labelled},
    metrics::MetricsWriter,
    phase::{Phase, PhaseCell},
    queue::{InjectClosed, TaskCell},
    simulation::{Simulated, SimulatedStep},
    worker::{CurrentWorker, TASKS_UNREAD_MAX, TurnClock, WorkerSet},
};
use crate::{
    clock::Clock,
    sync::{
        EventCount, fences,
        runtime::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Reason, Rejected, Task},
};

/// One pool. Workers and serializers hold references to it; the last handle
/// closes it.
pub(crate) struct Shared {
    /// The `Arc` that it lives in.
    this: Weak<Self>,
    pub(super) name: String,
    pub(crate) clock: Clock,
    pub(super) options: Options,
    pub(super) workers: WorkerSet,
    pub(super) phase: PhaseCell,
    /// The last handle was dropped; written once.
    pub(super) has_no_handle: AtomicBool,
    /// Used instead of workers in a simulation.
    pub(super) simulated: Option<Simulated>,
    /// Notified when something ends that a thread may wait for.
    pub(super) ends: EventCount,
    /// The number of tasks that wait for the others inside a shutdown.
    pub(super) closing: AtomicUsize,
    pub(super) pushes: InFlightPushes,
    pub(crate) registry: EntityRegistry,
    pub(crate) subscriptions: Subscriptions,
    pub(super) awaited_futures: AwaitedFutures,
    /// How many tasks shutdowns have reported as not run.
    pub(super) reported_not_run: AtomicU64,
}

/// The builder's options that are needed later.
pub(super) struct Options {
    pub(super) auto_increment: usize,
    pub(super) on_thread_start: Option<Hook>,
    pub(super) on_thread_stop: Option<Hook>,
    /// The processors for the workers, assigned in rotation.
    pub(super) processors: Vec<usize>,
}

impl Shared {
    pub(super) fn new(
        builder: TaskPoolBuilder,
        counts: WorkerCounts,
        seed: Option<u64>,
    ) -> Arc<Self> {
        fences::prepare();
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            workers: WorkerSet::new(&builder, counts),
            name: builder.name,
            clock: builder.clock,
            options: Options {
                auto_increment: builder.auto_increment,
                on_thread_start: builder.on_thread_start,
                on_thread_stop: builder.on_thread_stop,
                processors: builder.processors,
            },
            phase: PhaseCell::open(),
            has_no_handle: AtomicBool::new(false),
            simulated: seed.map(Simulated::new),
            ends: EventCount::new(),
            closing: AtomicUsize::new(0),
            pushes: InFlightPushes::default(),
            registry: EntityRegistry::default(),
            subscriptions: Subscriptions::default(),
            awaited_futures: AwaitedFutures::default(),
            reported_not_run: AtomicU64::new(0),
        })
    }

    /// The `Arc` in which it is stored, until it is dropped.
    pub(super) fn to_arc(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    #[inline(always)]
    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Whether this thread runs a task of this pool, or collects for it.
    #[inline(always)]
    pub(crate) fn is_inside(&self) -> bool {
        context::is_inside(self)
    }

    /// Whether the caller may add tasks now.
    #[inline(always)]
    pub(crate) fn admits(&self) -> bool {
        self.phase.is_open() || self.admits_insiders()
    }

    #[cold]
    fn admits_insiders(&self) -> bool {
        !self.is_sealed() && self.is_inside()
    }

    /// Whether no task may start any more.
    #[inline(always)]
    pub(crate) fn is_sealed(&self) -> bool {
        self.phase.is_sealed()
    }

    /// Queues a plain task. `make` creates it directly in its place in the
    /// queue: moving a task around costs more than everything else.
    #[inline(always)]
    pub(crate) fn push_made(self: &Arc<Self>, make: impl FnOnce() -> Task) -> Result<(), Rejected> {
        match CurrentWorker::of(self) {
            Some(current) if self.admits() && !self.workers.is_full(current.worker) => {
                self.make_here(current, make)
            }
            _ => self.push_task(make(), false),
        }
    }

    #[inline(always)]
    fn make_here(
        self: &Arc<Self>,
        current: CurrentWorker<'_>,
        make: impl FnOnce() -> Task,
    ) -> Result<(), Rejected> {
        let pushed = current.local(|local| {
            let pushed = local.push(make);
            if pushed.is_ok() {
                current.metrics().add(|metrics| &metrics.pushed, 1);
            }
            pushed
        });
        match pushed {
            Ok(len) => {
                self.after_push(None, len);
                Ok(())
            }
            Err(make) => Err(self.reject(make(), Reason::ShutDown)),
        }
    }

    /// Queues a plain task; `forced` ignores the bound (a future's wake-up must not get lost).
    #[inline(never)]
    pub(crate) fn push_task(self: &Arc<Self>, task: Task, forced: bool) -> Result<(), Rejected> {
        if !self.admits() {
            return Err(self.reject(task, Reason::ShutDown));
        }
        if task.label().is_some() {
            return self.push_admitted(labelled::showing_its_label(task), forced);
        }
        self.push_admitted(task, forced)
    }

    #[inline(always)]
    fn push_admitted(self: &Arc<Self>, task: Task, forced: bool) -> Result<(), Rejected> {
        if let Some(current) = CurrentWorker::of(self) {
            return self.push_here(current, task, forced);
        }
        self.push_from_outside(task, forced)
    }

    fn push_here(
        self: &Arc<Self>,
        current: CurrentWorker<'_>,
        task: Task,
        forced: bool,
    ) -> Result<(), Rejected> {
        if !forced && self.workers.is_full(current.worker) {
            return Err(self.reject(task, Reason::Full));
        }
        self.make_here(current, || task)
    }

    #[inline(never)]
    fn push_from_outside(self: &Arc<Self>, task: Task, forced: bool) -> Result<(), Rejected> {
        if let Some(simulated) = &self.simulated {
            if !forced && simulated.len() >= self.workers.capacity {
                return Err(self.reject(task, Reason::Full));
            }
            self.thread_context().count_pushed();
            simulated.push(SimulatedStep::Task(task));
            return Ok(());
        }
        let mut task = task;
        for worker in self.workers.selected_first() {
            if !forced && self.workers.is_full(worker) {
                return Err(self.reject(task, Reason::Full));
            }
            match worker.inject_queue.push(task) {
                Ok(len) => {
                    self.after_push(Some(worker.number), len);
                    return Ok(());
                }
                Err(InjectClosed(back)) => task = back,
            }
        }
        Err(self.reject(task, Reason::ShutDown))
    }

    #[inline]
    pub(super) fn schedule_here(&self, current: CurrentWorker<'_>, token: Token) {
        match current.local(|local| local.wake(token)) {
            Ok(len) => self.after_push(None, len),
            Err(token) => self.abandon(&token),
        }
    }

    /// Drops an entity's tasks: the pool is sealed, so no worker will run them.
    #[cold]
    pub(super) fn abandon(&self, token: &Token) {
        token.entity().abandon();
    }

    #[inline(never)]
    pub(super) fn schedule_from_outside(&self, token: Token) {
        if let Some(simulated) = &self.simulated {
            return simulated.push(SimulatedStep::Entity(token));
        }
        let mut token = token;
        for worker in self.workers.selected_first() {
            match worker.inject_queue.push_token(token) {
                Ok(len) => return self.after_push(Some(worker.number), len),
                Err(InjectClosed(back)) => token = back,
            }
        }
        // Every inject queue is closed, so the pool is sealed.
        self.abandon(&token);
    }

    /// Wakes or adds a worker if one is needed for what was just published.
    #[inline(always)]
    fn after_push(&self, preferred: Option<usize>, len: usize) {
        if self.workers.sleepers.should_wake() {
            self.wake_for_push(preferred);
        } else if self.workers.may_be_short(len) {
            self.grow_if_needed(len);
        }
    }

    /// Adds workers if too few are there for what waits in the whole pool.
    #[cold]
    fn grow_if_needed(&self, len: usize) {
        let is_short = self.workers.is_short(len) && !context::collects_for(self);
        if is_short && self.phase.get() == Phase::Open {
            let room = self.workers.room();
            self.grow(self.options.auto_increment.min(room));
        }
    }

    /// While an inline runner collects, it wakes no worker; it does so when it
    /// has collected.
    #[cold]
    fn wake_for_push(&self, preferred: Option<usize>) {
        if !context::collects_for(self) {
            self.workers.wake_one(preferred);
        }
    }

    /// Makes collected tasks available to the workers before this thread runs a
    /// task inline: that task may depend on them.
    pub(crate) fn expose_collected(&self) {
        if context::collects_for(self) {
            self.wake_a_worker();
        }
    }

    /// Wakes a worker for this inline runner's tasks, if one is needed.
    pub(super) fn wake_a_worker(&self) {
        let waits = CurrentWorker::of(self).is_some_and(|current| current.worker.waiting_len() > 0);
        if waits && self.workers.sleepers.should_wake() {
            self.workers.wake_one(None);
        }
    }

    /// Runs plain tasks of its own FIFO; returns how many, or `tasks_max` if
    /// they took too long.
    #[inline(always)]
    pub(super) fn run_fifo(
        &self,
        current: CurrentWorker<'_>,
        tasks_max: u32,
        turn_clock: &TurnClock<'_>,
    ) -> u32 {
        within(self, None, || {
            let mut ran = 0;
            let mut task_cell = TaskCell::EMPTY;
            while ran < tasks_max && !context::is_yield_requested() && !self.is_sealed() {
                let popped = current.local(|local| {
                    let popped = local.pop(&mut task_cell);
                    if popped {
                        current.metrics().add(|metrics| &metrics.started, 1);
                    }
                    popped
                });
                if !popped {
                    break;
                }
                self.run_counting(current.metrics(), &mut task_cell);
                ran += 1;
                let is_due = ran.is_multiple_of(TASKS_UNREAD_MAX) && current.worker.others_wait();
                if is_due && turn_clock.is_turn_over() {
                    return tasks_max;
                }
            }
            ran
        })
    }

    /// Runs one task; returns whether it panicked. The panic is caught and
    /// counted in `metrics`.
    #[inline(always)]
    pub(super) fn run_counting(
        &self,
        metrics: MetricsWriter<'_>,
        task_cell: &mut TaskCell,
    ) -> bool {
        debug_assert!(self.is_outside_of_biased_locks());
        let outcome = task_cell.run();
        let panicked = outcome.is_err();
        if let Err(payload) = outcome {
            self.count_panic(payload);
        }
        metrics.end_task();
        panicked
    }

    /// Counts a panic and drops its payload. That drop may panic too, which
    /// must not end a worker: the second payload is leaked.
    #[cold]
    fn count_panic(&self, payload: Box<dyn Any + Send>) {
        self.thread_context()
            .metrics()
            .add(|metrics| &metrics.panicked, 1);
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(second);
        }
    }

    fn is_outside_of_biased_locks(&self) -> bool {
        CurrentWorker::of(self).is_none_or(|current| current.is_outside())
    }

    /// Runs foreign code; returns whether it panicked, which is counted.
    #[inline(always)]
    pub(crate) fn isolate(&self, foreign: impl FnOnce()) -> bool {
        debug_assert!(self.is_outside_of_biased_locks());
        let outcome = catch_unwind(AssertUnwindSafe(foreign));
        let panicked = outcome.is_err();
        if let Err(payload) = outcome {
            self.count_panic(payload);
        }
        panicked
    }

    /// Runs `f`, which runs tasks of `entity`.
    #[inline(always)]
    pub(crate) fn as_entity<R>(&self, entity: EntityRef<'_>, f: impl FnOnce() -> R) -> R {
        within(self, Some(entity), f)
    }

    #[cold]
    fn reject(&self, task: Task, reason: Reason) -> Rejected {
        self.thread_context().count_rejected();
        Rejected { task, reason }
    }

    /// Moves to a later phase and wakes the threads that must know.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.enter(phase);
        self.workers.wake_all();
        self.notify_end();
    }

    /// Wakes threads that wait for an end.
    pub(crate) fn notify_end(&self) {
        self.ends.notify_all();
    }

    /// The last worker to fall asleep, or to leave, notifies the threads that
    /// wait for quiet.
    pub(super) fn after_falling_asleep(&self, asleep: usize) {
        let is_awake = asleep + self.closing_len() < self.workers.present_len();
        if self.phase.get() == Phase::Open || is_awake {
            return;
        }
        self.seal_if_ended();
        self.notify_end();
    }

    pub(super) fn closing_len(&self) -> usize {
        self.closing.load(Ordering::SeqCst)
    }
}

impl Drop for Shared {
    /// Drops what the host gave where its panics do no harm.
    fn drop(&mut self) {
        let hooks = (
            self.options.on_thread_start.take(),
            self.options.on_thread_stop.take(),
        );
        let simulated = self.simulated.take();
        self.isolate(|| drop(hooks.0));
        self.isolate(|| drop(hooks.1));
        self.isolate(|| drop(simulated));
    }
}
