//! What the handles, the workers and the serializers of one pool share.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    Hook, Selector,
    builder::{TaskPoolBuilder, WorkerCounts},
    context::{self, within},
    entity::{EntityRef, Token},
    future::AwaitedFutures,
    lifecycle::{EntityRegistry, InFlightPushes, Subscriptions, labelled},
    metrics::{MetricsWriter, WorkerMetrics},
    phase::{Phase, PhaseCell},
    queue::{InjectClosed, TaskCell},
    simulation::{Simulated, SimulatedStep},
    sleep::{Sleepers, WorkerSlots},
    worker::{
        CurrentWorker, INLINE_RUNNERS_MAX, InlineRunners, TASKS_UNREAD_MAX, TurnClock, Worker,
    },
};
use crate::{
    clock::Clock,
    sync::{
        CachePadded, EventCount, fences,
        runtime::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        thread_index,
    },
    task::{Reason, Rejected, Task},
};

/// One pool. Workers and serializers hold it; handles close it when the last one goes.
pub(crate) struct Shared {
    /// The `Arc` that it lives in.
    this: Weak<Self>,
    pub(super) name: String,
    pub(crate) clock: Clock,
    pub(super) counts: WorkerCounts,
    pub(super) options: Options,
    /// All places, taken or not.
    pub(super) workers: Box<[Worker]>,
    pub(super) worker_slots: WorkerSlots,
    pub(super) inline_runners: InlineRunners,
    pub(super) sleepers: Sleepers,
    pub(super) phase: PhaseCell,
    /// The last handle is gone; written once.
    pub(super) has_no_handle: AtomicBool,
    /// In the place of workers, in a simulation.
    pub(super) simulated: Option<Simulated>,
    /// What threads that are no worker of this pool did.
    pub(super) others: CachePadded<WorkerMetrics>,
    /// Rung when something ends that a thread may wait for.
    pub(super) ends: EventCount,
    /// Tasks that wait inside a shutdown for the others.
    pub(super) closing: AtomicUsize,
    pub(super) pushes: InFlightPushes,
    pub(crate) registry: EntityRegistry,
    pub(crate) subscriptions: Subscriptions,
    pub(super) awaited_futures: AwaitedFutures,
    next_worker: AtomicUsize,
    /// What shutdowns have reported as not run.
    pub(super) reported_not_run: AtomicU64,
    /// Each worker's share of the capacity.
    capacity_share: usize,
    /// Each place's share of the growth threshold: below it in all places the pool does not grow.
    growth_share: usize,
}

/// The builder's choices that stay of interest.
pub(super) struct Options {
    pub(super) auto_increment: usize,
    pub(super) growth_threshold: usize,
    pub(super) idle_timeout: Duration,
    pub(super) selector: Selector,
    pub(super) on_thread_start: Option<Hook>,
    pub(super) on_thread_stop: Option<Hook>,
    pub(super) capacity: usize,
    /// Where workers are kept, in turns.
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
            name: builder.name,
            clock: builder.clock,
            counts,
            options: Options {
                auto_increment: builder.auto_increment,
                growth_threshold: builder.growth_threshold,
                idle_timeout: builder.idle_timeout,
                selector: builder.selector,
                on_thread_start: builder.on_thread_start,
                on_thread_stop: builder.on_thread_stop,
                capacity: builder.capacity,
                processors: builder.processors,
            },
            workers: (0..counts.places() + INLINE_RUNNERS_MAX)
                .map(Worker::new)
                .collect(),
            worker_slots: WorkerSlots::new(counts.places()),
            inline_runners: InlineRunners::new(counts.places()),
            sleepers: Sleepers::default(),
            phase: PhaseCell::open(),
            has_no_handle: AtomicBool::new(false),
            simulated: seed.map(Simulated::new),
            others: CachePadded::default(),
            ends: EventCount::new(),
            closing: AtomicUsize::new(0),
            pushes: InFlightPushes::default(),
            registry: EntityRegistry::default(),
            subscriptions: Subscriptions::default(),
            awaited_futures: AwaitedFutures::default(),
            next_worker: AtomicUsize::new(0),
            reported_not_run: AtomicU64::new(0),
            capacity_share: builder.capacity / counts.maximum.max(1),
            growth_share: builder.growth_threshold / counts.places().max(1),
        })
    }

    /// The `Arc` that it lives in, until it is dropped.
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

    /// The counters of all threads that are no worker.
    #[inline(always)]
    pub(super) fn external_metrics(&self) -> MetricsWriter<'_> {
        MetricsWriter {
            metrics: &self.others,
            is_alone: false,
        }
    }

    /// Queues a plain task, which `make` makes where it will lie: moving a task
    /// from hand to hand costs more than all the rest.
    #[inline(always)]
    pub(crate) fn push_made(self: &Arc<Self>, make: impl FnOnce() -> Task) -> Result<(), Rejected> {
        match CurrentWorker::of(self) {
            Some(current) if self.admits() && !self.is_full(current.worker) => {
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
        if !forced && self.is_full(current.worker) {
            return Err(self.reject(task, Reason::Full));
        }
        self.make_here(current, || task)
    }

    #[inline(never)]
    fn push_from_outside(self: &Arc<Self>, task: Task, forced: bool) -> Result<(), Rejected> {
        if let Some(simulated) = &self.simulated {
            if !forced && simulated.len() >= self.options.capacity {
                return Err(self.reject(task, Reason::Full));
            }
            self.thread_context().count_pushed();
            simulated.push(SimulatedStep::Task(task));
            return Ok(());
        }
        let mut task = task;
        for worker in self.selected_first() {
            if !forced && self.is_full(worker) {
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

    /// Whether the pool holds as many plain tasks as it may. One worker's share
    /// is looked at first, so that the others are asked only when it is used up.
    #[inline(always)]
    fn is_full(&self, worker: &Worker) -> bool {
        worker.task_len() >= self.capacity_share && self.task_len() >= self.options.capacity
    }

    /// Tasks and entities that wait in the queues of all places.
    #[cold]
    fn waiting_len(&self) -> usize {
        self.workers.iter().map(Worker::waiting_len).sum()
    }

    #[cold]
    fn task_len(&self) -> usize {
        self.workers.iter().map(Worker::task_len).sum()
    }

    #[inline]
    pub(super) fn schedule_here(&self, current: CurrentWorker<'_>, token: Token) {
        match current.local(|local| local.wake(token)) {
            Ok(len) => self.after_push(None, len),
            Err(token) => self.abandon(&token),
        }
    }

    /// Drops what an entity holds: the pool is sealed, and nobody will run it.
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
        for worker in self.selected_first() {
            match worker.inject_queue.push_token(token) {
                Ok(len) => return self.after_push(Some(worker.number), len),
                Err(InjectClosed(back)) => token = back,
            }
        }
        // Every inject queue is closed, so the pool is sealed.
        self.abandon(&token);
    }

    /// All workers, beginning with the one that the selector chooses.
    fn selected_first(&self) -> impl Iterator<Item = &Worker> {
        let selected = self.select();
        let (before, from_there) = self.workers.split_at(selected);
        from_there.iter().chain(before)
    }

    fn select(&self) -> usize {
        let len = self.worker_slots.len().clamp(1, self.workers.len());
        match self.options.selector {
            Selector::Default => thread_index() % len,
            Selector::Sequential => self.next_worker.fetch_add(1, Ordering::Relaxed) % len,
            Selector::LeastFull => self.least_full(),
        }
    }

    /// The open place with the fewest tasks waiting.
    fn least_full(&self) -> usize {
        let open = self
            .workers
            .iter()
            .filter(|worker| worker.inject_queue.is_open());
        let least = open.min_by_key(|worker| worker.waiting_len());
        least.map_or(0, |worker| worker.number)
    }

    /// Wakes a worker if one is needed for what was just published, or adds one.
    #[inline(always)]
    fn after_push(&self, preferred: Option<usize>, len: usize) {
        if self.sleepers.should_wake() {
            self.wake_for_push(preferred);
        } else if len > self.growth_share && self.may_grow() {
            self.grow_if_needed(len);
        }
    }

    /// Whether fewer workers than the maximum have a thread that is not blocked.
    #[inline]
    pub(super) fn may_grow(&self) -> bool {
        self.worker_slots.len() < self.counts.maximum + self.worker_slots.blocked_len()
    }

    /// Adds workers if more wait in the whole pool than the threshold says. The
    /// queues are added up once for as many pushes as there are workers, since
    /// each of them is another cache line.
    #[cold]
    fn grow_if_needed(&self, len: usize) {
        let is_due = len.is_multiple_of(self.worker_slots.len().max(1));
        let threshold = self.options.growth_threshold;
        if len <= threshold && !(is_due && self.waiting_len() > threshold) {
            return;
        }
        let is_short = self.sleepers.asleep_len() == 0 && !context::collects_for(self);
        if is_short && self.phase.get() == Phase::Open {
            let room = (self.counts.maximum + self.worker_slots.blocked_len())
                .saturating_sub(self.worker_slots.len());
            self.grow(self.options.auto_increment.min(room));
        }
    }

    /// An inline runner that collects looks itself what it has, once it has collected.
    #[cold]
    fn wake_for_push(&self, preferred: Option<usize>) {
        if !context::collects_for(self) {
            self.wake_one(preferred);
        }
    }

    /// Shows the workers what this thread has collected, before it runs a task
    /// inline: the task may wait for what was collected.
    pub(crate) fn stop_keeping(&self) {
        if context::collects_for(self) {
            self.call_a_worker();
        }
    }

    /// Wakes a worker for what this inline runner has, if one is needed.
    pub(super) fn call_a_worker(&self) {
        let waits = CurrentWorker::of(self).is_some_and(|current| current.worker.waiting_len() > 0);
        if waits && self.sleepers.should_wake() {
            self.wake_one(None);
        }
    }

    #[cold]
    pub(super) fn wake_one(&self, preferred: Option<usize>) {
        if let Some(number) = self.sleepers.take_sleeper(preferred) {
            self.workers[number].unpark();
        }
    }

    pub(super) fn wake_all(&self) {
        for number in self.sleepers.take_all() {
            self.workers[number].unpark();
        }
    }

    /// Runs plain tasks of the own FIFO; how many, or `tasks_max` when they took too long.
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
            while ran < tasks_max && !context::gave_way() && !self.is_sealed() {
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

    /// Runs one task; whether it panicked, which is counted in `metrics` and goes
    /// no further.
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

    /// Counts a panic and drops what it was thrown with. That may panic in its
    /// turn, which must not end a worker: what that one is thrown with is leaked.
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

    /// Calls foreign code; whether it panicked, which is counted.
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

    /// Whether a worker more than needed is there, beside those that are blocked.
    pub(super) fn has_spare_worker(&self) -> bool {
        self.worker_slots.len() > self.counts.minimum + self.worker_slots.blocked_len()
    }

    /// After which time a sleeper asks whether it is one too many; a stand-in
    /// asks now and then whether the one it stands in for is back.
    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        let timeout = self.options.idle_timeout;
        if self.worker_slots.len() <= self.counts.minimum {
            None
        } else if self.worker_slots.blocked_len() == 0 {
            Some(timeout)
        } else {
            Some(timeout.max(STAND_IN_TIMEOUT_MIN))
        }
    }

    /// Changes the phase (never backwards) and wakes those who must know.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.enter(phase);
        self.wake_all();
        self.notify_end();
    }

    /// Wakes threads that wait for an end.
    pub(crate) fn notify_end(&self) {
        self.ends.ring();
    }

    /// The last one to fall asleep, or to leave, tells those who wait for quiet.
    pub(super) fn after_falling_asleep(&self, asleep: usize) {
        if self.phase.get() == Phase::Open || asleep + self.closing_len() < self.present_len() {
            return;
        }
        self.seal_if_ended();
        self.notify_end();
    }

    pub(super) fn closing_len(&self) -> usize {
        self.closing.load(Ordering::SeqCst)
    }

    /// Nothing waits, and nothing runs that does not itself wait for this.
    pub(super) fn is_quiet(&self, closing: usize) -> bool {
        self.sleepers
            .look(|asleep| asleep + closing >= self.present_len() && !self.any_work())
    }

    /// Workers that have a thread, and inline runners at work. Who wants to know
    /// whether there is work as well looks at that after this.
    pub(super) fn present_len(&self) -> usize {
        self.worker_slots.len() + self.inline_runs_len()
    }
}

impl Drop for Shared {
    /// What the host gave is dropped where its panics do no harm.
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

const STAND_IN_TIMEOUT_MIN: Duration = Duration::from_millis(10);
