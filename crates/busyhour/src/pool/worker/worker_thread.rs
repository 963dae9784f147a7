//! A worker slot, and the thread that uses it.

use std::{marker::PhantomData, time::Duration};

use super::worker_loop::WorkerLoop;
use crate::{
    clock::Instant,
    pool::{
        Unfinished, context,
        entity::Token,
        metrics::{MetricsWriter, WorkerMetrics},
        queue::{BiasedLock, InjectQueue, Local, Runnable, TaskCell},
        shared::Shared,
    },
    run_queue::{Mode, Thresholds, WorkerId},
    sync::{
        CachePadded, Mutex, SpinLock, lock,
        runtime::{
            atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
            thread::{self, Thread},
        },
    },
    task::Task,
};

/// One worker slot. It remains when its thread ends. README.md says which
/// thread uses which field.
pub(in crate::pool) struct Worker {
    pub(in crate::pool) number: usize,
    id: WorkerId,
    biased_lock: CachePadded<BiasedLock<Local>>,
    pub(in crate::pool) gauges: CachePadded<WorkerGauges>,
    /// True while a thread may touch this slot's queues. A shutdown reads it.
    pub(super) is_at_work: AtomicBool,
    /// Another worker stands in for this one. Only its own thread uses this.
    pub(in crate::pool) has_stand_in: AtomicBool,
    /// The label of the running plain task, if it has one.
    label: SpinLock<Option<&'static str>>,
    pub(in crate::pool) inject_queue: CachePadded<InjectQueue>,
    parking: CachePadded<Parking>,
}

/// Written only by the worker, whenever it leaves its biased lock.
#[derive(Debug, Default)]
pub(in crate::pool) struct WorkerGauges {
    fifo_len: AtomicUsize,
    entity_len: AtomicUsize,
    high_water: AtomicUsize,
    /// What the inject queue tells those who push, see
    /// [`InjectQueue::task_len_max`].
    expected_len: AtomicUsize,
    /// The run queue's epoch.
    epoch: AtomicU32,
    now_ns: AtomicU64,
    /// Increases with every turn, so that others notice a worker that is stuck
    /// in one.
    turns: AtomicU64,
    /// Whether the run queue was bucketed at the last clock reading.
    is_bucketed: AtomicBool,
    /// True during a push to an entity that a shutdown could not find.
    pub(in crate::pool) is_pushing: AtomicBool,
    pub(in crate::pool) metrics: WorkerMetrics,
}

impl WorkerGauges {
    /// The worker's last clock reading.
    #[inline(always)]
    pub(in crate::pool) fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }

    /// The epoch of the worker's run queue when a thread last left the biased
    /// lock.
    #[inline(always)]
    pub(in crate::pool) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(in crate::pool) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Whether the run queue was bucketed at the last clock reading.
    pub(in crate::pool) fn is_bucketed(&self) -> bool {
        self.is_bucketed.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set_mode(&self, mode: Mode) {
        let is_bucketed = mode == Mode::Bucketed;
        self.is_bucketed.store(is_bucketed, Ordering::Relaxed);
    }

    /// Only its own thread calls this.
    #[inline(always)]
    pub(super) fn begin_turn(&self) {
        let before = self.turns.load(Ordering::Relaxed);
        self.turns.store(before.wrapping_add(1), Ordering::Relaxed);
    }

    /// Adds time in which the worker ran something. Only its own thread calls
    /// this.
    pub(super) fn note_busy(&self, elapsed_ns: u64) {
        let busy_ns = &self.metrics.busy_ns;
        let before = busy_ns.load(Ordering::Relaxed);
        busy_ns.store(before + elapsed_ns, Ordering::Relaxed);
    }

    pub(super) fn set_now(&self, now: Instant) {
        self.now_ns.store(now.as_nanos(), Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Parking {
    is_woken: AtomicBool,
    /// It has looked at every queue and will not do so again before it is
    /// woken.
    is_settled: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Worker {
    pub(in crate::pool) fn new(number: usize, thresholds: Thresholds) -> Self {
        Self {
            number,
            id: id(number),
            biased_lock: CachePadded(BiasedLock::new(Local::new(id(number), thresholds))),
            gauges: CachePadded::default(),
            is_at_work: AtomicBool::new(false),
            has_stand_in: AtomicBool::new(false),
            label: SpinLock::new(None),
            inject_queue: CachePadded::default(),
            parking: CachePadded::default(),
        }
    }

    #[inline(always)]
    pub(in crate::pool) fn id(&self) -> WorkerId {
        self.id
    }

    /// The label of the plain task that its thread runs, if it has one.
    fn label(&self) -> Option<&'static str> {
        *self.label.lock()
    }

    /// The plain task that its thread runs, if it has a label.
    pub(in crate::pool) fn unfinished(&self, now: Instant) -> Option<Unfinished> {
        Some(Unfinished {
            serializer: String::new(),
            label: Some(self.label()?.to_owned()),
            running_for: now - self.gauges.now(),
        })
    }

    /// Sets the label; returns the previous one.
    #[cold]
    pub(in crate::pool) fn set_label(&self, label: Option<&'static str>) -> Option<&'static str> {
        std::mem::replace(&mut *self.label.lock(), label)
    }

    /// The number of tasks and entities that wait here.
    #[inline]
    pub(in crate::pool) fn waiting_len(&self) -> usize {
        let fifo_len = self.gauges.fifo_len.load(Ordering::Relaxed);
        let entity_len = self.gauges.entity_len.load(Ordering::Relaxed);
        fifo_len + entity_len + self.inject_queue.len()
    }

    /// Whether entities wait beside the FIFO. Plain tasks from outside do not
    /// count: they come after those in the FIFO.
    #[inline]
    pub(in crate::pool) fn others_wait(&self) -> bool {
        let entity_len = self.gauges.entity_len.load(Ordering::Relaxed);
        entity_len > 0 || self.inject_queue.token_len() > 0
    }

    /// The number of plain tasks in the FIFO.
    #[inline]
    pub(in crate::pool) fn fifo_len(&self) -> usize {
        self.gauges.fifo_len.load(Ordering::Relaxed)
    }

    /// The number of plain tasks that wait here.
    #[inline]
    pub(in crate::pool) fn task_len(&self) -> usize {
        self.fifo_len() + self.inject_queue.len()
    }

    /// Whether its thread has ended, or is inside a task and not in the middle
    /// of a push.
    pub(in crate::pool) fn is_settled(&self) -> bool {
        let gauges = &self.gauges;
        !gauges.is_pushing.load(Ordering::Acquire)
            && (self.is_in_task() || !self.is_at_work.load(Ordering::SeqCst))
    }

    /// Whether its thread is inside a task.
    pub(in crate::pool) fn is_in_task(&self) -> bool {
        self.gauges.metrics.is_in_task()
    }

    /// Enters the biased lock as a thief or a shutdown.
    pub(in crate::pool) fn as_remote<R>(&self, work: impl FnOnce(&mut Local) -> R) -> R {
        self.biased_lock.as_remote(|local| {
            let result = work(local);
            self.publish(local);
            result
        })
    }

    /// Like [`as_remote`](Self::as_remote), unless another thread is inside.
    pub(in crate::pool) fn try_as_remote<R>(
        &self,
        work: impl FnOnce(&mut Local) -> R,
    ) -> Option<R> {
        self.biased_lock.try_as_remote(|local| {
            let result = work(local);
            self.publish(local);
            result
        })
    }

    /// Cold, so that without plain tasks there is no jump.
    #[cold]
    fn switch_beside_fifo(&self, local: &mut Local, last: Token, ran_ns: u64) -> Runnable {
        let next = local.switch_from(last, ran_ns);
        self.publish(local);
        next
    }

    #[inline(always)]
    fn publish(&self, local: &Local) {
        let gauges = &self.gauges;
        gauges.fifo_len.store(local.fifo_len(), Ordering::Relaxed);
        (gauges.entity_len).store(local.entity_len(), Ordering::Relaxed);
        (gauges.epoch).store(local.run_queue.epoch(), Ordering::Relaxed);
        let len = local.fifo_len() + local.entity_len();
        if len > gauges.high_water.load(Ordering::Relaxed) {
            gauges.high_water.store(len, Ordering::Relaxed);
            self.expect(len);
        }
    }

    #[inline(always)]
    fn publish_epoch(&self, local: &Local) {
        (self.gauges.epoch).store(local.run_queue.epoch(), Ordering::Relaxed);
    }

    /// Tells those who push that more tasks than ever wait here, once for each
    /// doubling.
    fn expect(&self, len: usize) {
        let expected_len = &self.gauges.expected_len;
        if len > expected_len.load(Ordering::Relaxed) {
            let doubled = len.next_power_of_two();
            expected_len.store(doubled, Ordering::Relaxed);
            self.inject_queue.expect_in_fifo(doubled);
        }
    }

    /// The most items that ever waited here.
    pub(in crate::pool) fn high_water(&self) -> usize {
        let own = self.gauges.high_water.load(Ordering::Relaxed);
        own.max(self.inject_queue.high_water())
    }

    /// Records whether this worker, which is among the sleepers, will find no
    /// more work of its own accord. Only its own thread calls this.
    pub(super) fn settle_to_sleep(&self, is_settled: bool) {
        // Released, so that pushes of threads that see it come after the last
        // look.
        (self.parking.is_settled).store(is_settled, Ordering::Release);
    }

    pub(in crate::pool) fn has_settled_to_sleep(&self) -> bool {
        self.parking.is_settled.load(Ordering::Acquire)
    }

    pub(in crate::pool) fn unpark(&self) {
        self.parking.is_woken.store(true, Ordering::Release);
        if let Some(thread) = &*lock(&self.parking.thread) {
            thread.unpark();
        }
    }

    /// Parks until woken, at most for `timeout`; returns whether it was woken.
    pub(in crate::pool) fn park(&self, timeout: Option<Duration>) -> bool {
        let is_woken = || self.parking.is_woken.swap(false, Ordering::Acquire);
        match timeout {
            _ if is_woken() => return true,
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
        is_woken()
    }
}

/// There are at most twice `WORKERS_MAX` slots, and those of the inline
/// runners.
fn id(number: usize) -> WorkerId {
    WorkerId::new(number as u16)
}

/// A worker slot, seen from its own thread.
#[derive(Clone, Copy)]
pub(in crate::pool) struct CurrentWorker<'a> {
    pub(in crate::pool) worker: &'a Worker,
    /// Keeps the value on its thread.
    _not_send: PhantomData<*const ()>,
}

impl<'a> CurrentWorker<'a> {
    /// The current worker of this thread, if it is a worker of `shared`.
    #[inline(always)]
    pub(in crate::pool) fn of(shared: &'a Shared) -> Option<Self> {
        let worker = context::worker_of(shared)?;
        Some(Self {
            worker,
            _not_send: PhantomData,
        })
    }

    /// The worker's counters.
    #[inline(always)]
    pub(in crate::pool) fn metrics(&self) -> MetricsWriter<'a> {
        MetricsWriter {
            metrics: &self.worker.gauges.metrics,
            is_alone: true,
        }
    }

    /// Charges the one that ran last, and takes out the next one to run. A function of its
    /// own, so that a turn whose switch is measured runs the same instructions as the others
    /// after a clock reading.
    #[inline(never)]
    pub(super) fn switch(&self, last: Option<Runnable>, ran_ns: u64) -> Option<Runnable> {
        match last {
            Some(Runnable::Entity(token)) => Some(self.switch_from::<true>(token, ran_ns)),
            other => self.switch_from_other(other, ran_ns),
        }
    }

    /// The same after plain tasks, or after nothing that has more to do.
    #[cold]
    fn switch_from_other(&self, last: Option<Runnable>, ran_ns: u64) -> Option<Runnable> {
        self.local(|local| local.switch(last, ran_ns))
    }

    /// Takes out the next one to run, after an entity that was charged.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<Runnable> {
        self.local(Local::next)
    }

    /// Like [`switch`](Self::switch), after an entity that has more to do. Mostly
    /// the next one is an entity too, and there is nothing else: then as many wait
    /// as before, and only the epoch is published.
    ///
    /// There is one instance for turns after a clock reading and one for the others, so
    /// that each has one caller, into which the compiler puts all of it.
    #[inline(always)]
    pub(super) fn switch_from<const AFTER_A_READING: bool>(
        &self,
        last: Token,
        ran_ns: u64,
    ) -> Runnable {
        let worker = self.worker;
        // SAFETY: as in `local`.
        unsafe {
            worker.biased_lock.as_owner(|local| {
                if !local.has_only_entities() {
                    return worker.switch_beside_fifo(local, last, ran_ns);
                }
                let next = last.switch(&mut local.run_queue, ran_ns);
                worker.publish_epoch(local);
                next
            })
        }
    }

    /// Tells others which structure the run queue has.
    pub(super) fn publish_mode(&self) {
        let mode = self.local(|local| local.run_queue.mode());
        self.worker.gauges.set_mode(mode);
    }

    /// Makes a plain task in its place in the FIFO and counts it; returns how
    /// many items wait then, or `make` if the queue was closed for good.
    #[inline(always)]
    pub(in crate::pool) fn push<F: FnOnce() -> Task>(&self, make: F) -> Result<usize, F> {
        self.local(|local| {
            let pushed = local.push(make);
            if pushed.is_ok() {
                self.metrics().add(|metrics| &metrics.pushed, 1);
            }
            pushed
        })
    }

    /// Takes a plain task out of the FIFO into `task_cell` and counts it;
    /// `false` when there is none.
    #[inline(always)]
    pub(super) fn pop(&self, task_cell: &mut TaskCell) -> bool {
        self.local(|local| {
            let popped = local.pop(task_cell);
            if popped {
                self.metrics().add(|metrics| &metrics.started, 1);
            }
            popped
        })
    }

    /// Whether this thread is outside of its biased lock, as it must be where
    /// foreign code runs.
    pub(in crate::pool) fn is_outside(&self) -> bool {
        !self.worker.biased_lock.owner_is_inside()
    }

    /// Enters its own biased lock. `work` must not call this again, nor run
    /// foreign code.
    #[inline(always)]
    pub(in crate::pool) fn local<R>(&self, work: impl FnOnce(&mut Local) -> R) -> R {
        let worker = self.worker;
        // SAFETY: a current worker is made on its worker's thread only, and
        // cannot leave it; closures given here do not nest.
        unsafe {
            worker.biased_lock.as_owner(|local| {
                let result = work(local);
                worker.publish(local);
                result
            })
        }
    }
}

/// Makes this thread the worker in a slot that [`WorkerSlots`] gave it, until
/// the worker's loop ends.
///
/// [`WorkerSlots`]: crate::pool::sleep::WorkerSlots
pub(super) fn occupy(shared: &Shared, number: usize) {
    let _left = Left(shared, number);
    *lock(&shared.workers[number].parking.thread) = Some(thread::current());
    // SAFETY: `take_slot` gave this place to this thread alone, until `Left`.
    unsafe { context::become_worker(shared, number) };
    shared.thread_factory.begin_thread(shared, number);
    WorkerLoop::run(shared);
    shared.thread_factory.end_thread(shared);
    context::leave_worker();
}

/// Reports the end of a worker's thread when dropped.
struct Left<'a>(&'a Shared, usize);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        let Self(shared, number) = *self;
        *lock(&shared.workers[number].parking.thread) = None;
        shared.leave(number);
        shared.look_after_the_last();
    }
}
