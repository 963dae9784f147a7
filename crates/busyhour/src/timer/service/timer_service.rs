use super::{
    closure_pool::PooledClosure,
    driver_waker::DriverWaker,
    locked_shard::{self, LockedShard},
    record::{
        CALLBACK_BYTES, DeliveryBound, OtherWork, TimerPhase, TimerRecord, Work, discard_once,
        panics,
    },
    report,
    running::RunningCallback,
    shard::{NotCancelled, TimerShard, TimerShardState},
};
use crate::{
    clock::{Clock, Instant},
    pool::{blocking, wait_for, wait_for_turn},
    stats::TimerStats,
    sync::{
        CachePadded, Mutex,
        atomic::{AtomicU64, Ordering},
        thread_index,
    },
    task::{Closure, Executor, Task},
    timer::{
        handle::{Cancel, TimerHandle},
        queue::QueueHandle,
        timers::AddError,
    },
};
use std::{mem, sync::Arc, task::Waker};

/// The state that all handles of one timer service share.
pub(in crate::timer) struct Service {
    /// Distinguishes the handles of this service from those of another one.
    pub(in crate::timer) number: u32,
    pub(in crate::timer) clock: Clock,
    pub(in crate::timer) driver_waker: DriverWaker,
    pub(in crate::timer) shards: Box<[CachePadded<TimerShard>]>,
    shard_capacity: usize,
    refused: AtomicU64,
    /// How often user code panicked.
    panicked: AtomicU64,
    /// Held by the one thread that delivers, so that deliveries keep their
    /// order. No thread waits for it, so user code may run meanwhile.
    pub(super) driving: Mutex<()>,
}

/// A new timer.
pub(in crate::timer) struct Add {
    pub(in crate::timer) deadline: Instant,
    pub(in crate::timer) work: Work,
    pub(in crate::timer) label: &'static str,
    pub(in crate::timer) owner: Option<u64>,
}

impl Service {
    pub(in crate::timer) fn new(
        number: u32,
        clock: Clock,
        shard_count: usize,
        capacity: usize,
    ) -> Self {
        Self {
            number,
            clock,
            driver_waker: DriverWaker::new(),
            shards: (0..shard_count)
                .map(|_| CachePadded(TimerShard::new()))
                .collect(),
            shard_capacity: capacity.div_ceil(shard_count).min(SHARD_CAPACITY_MAX),
            refused: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            driving: Mutex::new(()),
        }
    }

    /// What a timer does that runs `callback` once.
    #[inline]
    pub(in crate::timer) fn work_of(
        &self,
        callback: impl FnOnce() + Send + 'static,
        executor: Arc<dyn Executor>,
        bound: DeliveryBound,
    ) -> Work {
        let executor = Some(executor);
        if bound == DeliveryBound::Bounded && !is_pooled(&callback) {
            let callback = Closure::new(callback);
            return Work::Once { callback, executor };
        }
        let callback = self.pooled(Closure::new(callback));
        Work::Other(OtherWork::Pooled {
            callback,
            executor,
            bound,
        })
    }

    #[inline(never)]
    fn pooled(&self, closure: Closure) -> PooledClosure {
        self.shards[self.own_shard()].closures.hold(closure)
    }

    /// Adds a timer to the calling thread's shard, or to the next shard with
    /// room.
    #[inline]
    pub(in crate::timer) fn add(&self, add: Add) -> Result<TimerHandle, AddError> {
        self.add_within(self.shard_capacity, add)
    }

    /// Adds a future's timer, which only a closed service refuses: a future
    /// could not continue without it, and the future's own memory is the bound.
    pub(in crate::timer) fn add_for_future(&self, add: Add) -> Result<TimerHandle, AddError> {
        self.add_within(usize::MAX, add)
    }

    #[inline]
    fn add_within(&self, capacity: usize, add: Add) -> Result<TimerHandle, AddError> {
        let own = self.own_shard();
        let shard = &self.shards[own];
        let mut state = shard.lock();
        match state.admit(capacity, add.label) {
            Ok(label) => {
                let timer = shard.add(state, &self.driver_waker, label, add);
                Ok(self.handle(own, timer))
            }
            Err(error) => {
                drop(state);
                self.add_to_another(own, error, capacity, add)
            }
        }
    }

    /// Adds a timer that the thread's own shard has refused to the next shard that takes it.
    #[cold]
    fn add_to_another(
        &self,
        own: usize,
        mut error: AddError,
        capacity: usize,
        add: Add,
    ) -> Result<TimerHandle, AddError> {
        for index in (own + 1..self.shards.len()).chain(0..own) {
            let shard = &self.shards[index];
            let mut state = shard.lock();
            match state.admit(capacity, add.label) {
                Ok(label) => {
                    let timer = shard.add(state, &self.driver_waker, label, add);
                    return Ok(self.handle(index, timer));
                }
                Err(AddError::Full) => {}
                Err(other) => error = other,
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.discard(&self.shards[own], add.work);
        Err(error)
    }

    /// The shard of the running thread.
    #[inline]
    fn own_shard(&self) -> usize {
        let count = self.shards.len();
        // A division takes longer than the check.
        match count.is_power_of_two() {
            true => thread_index() & (count - 1),
            false => thread_index() % count,
        }
    }

    #[inline]
    fn handle(&self, shard: usize, timer: QueueHandle) -> TimerHandle {
        TimerHandle {
            service: self.number,
            shard: shard as u32,
            timer,
        }
    }

    pub(in crate::timer) fn cancel(&self, handle: &TimerHandle) -> Cancel {
        let Some(shard) = self.shard_of(handle) else {
            return Cancel::AlreadyRan;
        };
        let mut state = shard.lock();
        // Most timers are cancelled while they wait: one look says so, and their record is moved once.
        if let Some(timer) = state.queue.in_range(handle.timer) {
            let record = timer.release();
            state.note_range_cancel(handle.timer, &record);
            shard.publish(state, &self.driver_waker);
            self.discard(shard, record.work);
            return Cancel::Prevented;
        }
        self.cancel_rarely(shard, state, handle)
    }

    /// Cancels a timer of the locked shard in whatever phase it is.
    #[inline(never)]
    fn cancel_rarely(
        &self,
        shard: &TimerShard,
        mut state: LockedShard<'_>,
        handle: &TimerHandle,
    ) -> Cancel {
        let cancelled = state.cancel(handle.timer);
        shard.publish(state, &self.driver_waker);
        match cancelled {
            Ok(record) => {
                self.discard(shard, record.work);
                Cancel::Prevented
            }
            Err(NotCancelled::Over) => Cancel::AlreadyRan,
            Err(NotCancelled::Running) => Cancel::Running,
        }
    }

    pub(in crate::timer) fn cancel_and_wait(self: &Arc<Self>, handle: &TimerHandle) -> Cancel {
        match (self.cancel(handle), self.shard_of(handle)) {
            (Cancel::Running, Some(shard)) if self.await_end(shard, handle) => Cancel::AlreadyRan,
            (outcome, _) => outcome,
        }
    }

    /// Waits for the end of a run; `false` if that would never come, because
    /// the run waits for this thread's task.
    fn await_end(self: &Arc<Self>, shard: &TimerShard, handle: &TimerHandle) -> bool {
        let callback = RunningCallback {
            service: Arc::clone(self),
            handle: *handle,
        };
        let Ok(_waiting) = wait_for_turn(Arc::new(callback)) else {
            return false;
        };
        let runner = shard.lock().runner(handle.timer).cloned();
        // A shutdown identifies the entity whose task it is in, not the thread.
        let entity = runner.and_then(|runner| runner.entity);
        let edge = entity.as_ref().map(wait_for).transpose();
        if edge.is_ok() {
            blocking(|| shard.await_end(handle.timer));
        }
        edge.is_ok()
    }

    /// Cancels the timers that `chosen` selects in each shard; returns how many
    /// runs were prevented.
    pub(in crate::timer) fn cancel_all(
        &self,
        chosen: impl Fn(&TimerShardState) -> Vec<QueueHandle>,
    ) -> usize {
        let cancel = |shard: &CachePadded<TimerShard>| {
            let chosen = chosen(&shard.lock());
            self.cancel_in_batches(shard, &chosen)
        };
        self.shards.iter().map(cancel).sum()
    }

    pub(super) fn cancel_in_batches(&self, shard: &TimerShard, timers: &[QueueHandle]) -> usize {
        let batches = timers.chunks(BATCH);
        batches
            .map(|batch| self.cancel_batch(shard, batch))
            .sum::<usize>()
    }

    /// Cancels a few timers under one lock, so that other threads can take it
    /// in between.
    fn cancel_batch(&self, shard: &TimerShard, timers: &[QueueHandle]) -> usize {
        let records: Vec<TimerRecord> = shard.change(&self.driver_waker, |state| {
            let cancel = |timer: &QueueHandle| state.cancel(*timer).ok();
            timers.iter().filter_map(cancel).collect()
        });
        let count = records.len();
        for record in records {
            match record.work {
                Work::Other(OtherWork::Wake(waker)) => self.count_panics(panics(|| waker.wake())),
                work => self.discard(shard, work),
            }
        }
        count
    }

    /// Accepts no more timers and drops those that have not begun.
    pub(in crate::timer) fn close(&self) -> usize {
        for shard in &self.shards {
            shard.lock().closed = true;
        }
        self.cancel_all(TimerShardState::all)
    }

    /// Moves a timer that has not begun; `false` for any other.
    pub(in crate::timer) fn reschedule(&self, handle: &TimerHandle, deadline: Instant) -> bool {
        let Some(shard) = self.shard_of(handle) else {
            return false;
        };
        shard.change(&self.driver_waker, |state| {
            let record = state.queue.get(handle.timer);
            let moved = record.is_some_and(|record| record.phase == TimerPhase::Waiting);
            if moved {
                state.wait_until(handle.timer, deadline);
            }
            moved
        })
    }

    pub(in crate::timer) fn deadline(&self, handle: &TimerHandle) -> Option<Instant> {
        let state = self.shard_of(handle)?.lock();
        state.queue.deadline(handle.timer)
    }

    /// Exchanges the waker of a future's timer; `false` once it is over.
    pub(in crate::timer) fn set_waker(&self, handle: &TimerHandle, waker: &Waker) -> bool {
        let Some(shard) = self.shard_of(handle) else {
            return false;
        };
        locked_shard::assert_none();
        // Cloned before the lock and dropped after it, since both run user
        // code.
        let mut waker = waker.clone();
        let mut state = shard.lock();
        match state
            .queue
            .get_mut(handle.timer)
            .map(|record| &mut record.work)
        {
            Some(Work::Other(OtherWork::Wake(current))) => {
                mem::swap(current, &mut waker);
            }
            _ => return false,
        }
        drop(state);
        self.count_panics(panics(|| drop(waker)));
        true
    }

    /// The earliest deadline of all shards.
    pub(in crate::timer) fn earliest(&self) -> Instant {
        let deadlines = self.shards.iter().map(|shard| shard.next_deadline());
        deadlines.min().unwrap_or(Instant::FAR_FUTURE)
    }

    pub(in crate::timer) fn stats(&self) -> TimerStats {
        let shards = self.shards.iter().map(|shard| shard.lock());
        let mut stats = report::collect(shards);
        stats.refused = self.refused.load(Ordering::Relaxed);
        stats.panicked = self.panicked.load(Ordering::Relaxed) + self.driver_waker.panicked();
        stats
    }

    /// Drops the work of a timer that does not run (again); memory for its callback goes to this shard.
    #[inline]
    pub(super) fn discard(&self, shard: &TimerShard, work: Work) {
        match work {
            Work::Once { callback, executor } => {
                self.count_panics(discard_once(callback, executor));
            }
            Work::Other(other) => self.discard_other(shard, other),
        }
    }

    #[inline(never)]
    fn discard_other(&self, shard: &TimerShard, work: OtherWork) {
        let panicked = match work {
            OtherWork::Pooled {
                mut callback,
                executor,
                ..
            } => {
                let closure = callback.take();
                let panicked = panics(|| drop(closure)) + panics(|| drop(executor));
                shard.closures.give_back(callback);
                panicked
            }
            other => other.discard(),
        };
        self.count_panics(panicked);
    }

    /// Counts panics of user code.
    #[inline]
    pub(super) fn count_panics(&self, count: u64) {
        if count > 0 {
            self.panicked.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(super) fn shard_of(&self, handle: &TimerHandle) -> Option<&TimerShard> {
        let shard = self.shards.get(handle.shard as usize)?;
        (handle.service == self.number).then_some(&shard.0)
    }
}

/// The remaining timers are dropped one by one, since two panics of drops
/// during one unwinding abort the process.
impl Drop for Service {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether a callback is too large for a record, and needs no allocation of its own.
#[inline]
const fn is_pooled<F: FnOnce() + Send + 'static>(_: &F) -> bool {
    const { Closure::<{ Task::INLINE_BYTES }>::fits::<F>() && !Closure::<CALLBACK_BYTES>::fits::<F>() }
}

/// Timers taken out under one lock.
pub(super) const BATCH: usize = 64;
const SHARD_CAPACITY_MAX: usize = 1 << 29;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{clock::UnixTime, sync::lock};
    use std::{collections::HashSet, thread};

    #[test]
    fn each_thread_adds_to_one_shard_and_no_other_lock_is_taken_for_it() {
        let clock = Clock::simulated(UnixTime::default());
        let service = Service::new(0, clock, 8, 800);
        let add = || {
            let add = Add {
                deadline: Instant::ZERO,
                work: Work::Other(OtherWork::Wake(Waker::noop().clone())),
                label: "",
                owner: None,
            };
            service.add(add).unwrap().shard as usize
        };
        let lanes = Mutex::new(HashSet::new());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let own = thread_index();
                    assert!(lock(&lanes).insert(own), "threads share no lane");
                    // Checked while the others' locks are held: an add that
                    // needed one of them would never return.
                    let others = service.shards.iter().enumerate();
                    let others = others.filter(|(index, _)| *index != own % 8);
                    let is_last = lock(&lanes).len() == 4;
                    let others = others.filter(|_| is_last);
                    let _held: Vec<_> = others.map(|(_, shard)| shard.lock()).collect();
                    assert!((0..20).all(|_| add() == own % 8));
                });
            }
        });
    }
}
