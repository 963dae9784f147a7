use super::{
    again::Again,
    closure_pool::ClosurePool,
    driver_waker::DriverWaker,
    locked_shard::LockedShard,
    record::{OtherWork, RunPhase, Runner, TimerPhase, TimerRecord, Work},
    timer_service::Add,
};
use crate::{
    clock::Instant,
    stats::TimerStats,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
        lock, wait,
    },
    task::Executor,
    timer::{
        labels::{LabelIndex, Labels, TimerSet},
        queue::{QueueHandle, TimerQueue},
        timers::AddError,
    },
};
use std::{collections::HashMap, mem, sync::Arc};

/// A part of the timers, with a lock of its own. A thread adds to its own
/// shard, so the lock is free except for cancels by other threads and for the
/// driver that takes out due timers.
///
/// Callbacks, executors and whatever they captured are never run or dropped
/// under the lock.
pub(in crate::timer) struct TimerShard {
    state: Mutex<TimerShardState>,
    /// The earliest deadline in nanoseconds; `u64::MAX` when there is none.
    /// Written under the lock, read by the driver without it.
    next_ns: AtomicU64,
    /// Notified when an awaited run has ended.
    ended: Condvar,
    /// Has a lock of its own.
    pub(in crate::timer) closures: ClosurePool,
}

/// What the lock guards.
pub(in crate::timer) struct TimerShardState {
    pub(in crate::timer) queue: TimerQueue<TimerRecord>,
    pub(in crate::timer) labels: Labels,
    /// Only of owners that have a timer here.
    owners: HashMap<u64, TimerSet>,
    pub(super) counters: TimerCounters,
    /// No more timers are accepted.
    pub(in crate::timer) closed: bool,
    pending_high_water: u64,
}

/// Counters that belong to no label.
#[derive(Debug, Default)]
pub(in crate::timer) struct TimerCounters {
    pub(in crate::timer) deferred: u64,
    pub(in crate::timer) lost: u64,
    pub(in crate::timer) missed: u64,
}

impl TimerShard {
    pub(in crate::timer) fn new() -> Self {
        Self {
            state: Mutex::new(TimerShardState::new()),
            next_ns: AtomicU64::new(u64::MAX),
            ended: Condvar::new(),
            closures: ClosurePool::new(),
        }
    }

    /// The earliest deadline that was last published.
    pub(in crate::timer) fn next_deadline(&self) -> Instant {
        Instant::from_nanos(self.next_ns.load(Ordering::Acquire))
    }

    /// Locks the shard for reading.
    pub(in crate::timer) fn lock(&self) -> LockedShard<'_> {
        LockedShard::new(lock(&self.state))
    }

    /// Changes the shard under its lock, publishes its next deadline, and calls
    /// the driver's hook if that became earlier.
    #[inline]
    pub(in crate::timer) fn change<R>(
        &self,
        driver_waker: &DriverWaker,
        change: impl FnOnce(&mut TimerShardState) -> R,
    ) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        self.publish(state, driver_waker);
        result
    }

    /// Publishes the next deadline of the shard that was changed, unlocks it, and calls the driver's
    /// hook if that became earlier.
    #[inline(always)]
    pub(super) fn publish(&self, state: LockedShard<'_>, driver_waker: &DriverWaker) {
        let next = state.queue.next_deadline().unwrap_or(Instant::FAR_FUTURE);
        let before = self.next_ns.load(Ordering::Relaxed);
        if next.as_nanos() != before {
            self.next_ns.store(next.as_nanos(), Ordering::Release);
        }
        drop(state);
        if next.as_nanos() < before {
            driver_waker.earlier(next);
        }
    }

    /// Adds a timer to the shard that is locked, publishes its deadline if it is the next one now, and
    /// calls the driver's hook then.
    #[inline]
    pub(in crate::timer) fn add(
        &self,
        mut state: LockedShard<'_>,
        driver_waker: &DriverWaker,
        label: LabelIndex,
        add: Add,
    ) -> QueueHandle {
        let deadline = add.deadline;
        let timer = state.add(add, label);
        let is_next = deadline.as_nanos() < self.next_ns.load(Ordering::Relaxed);
        if is_next {
            self.next_ns.store(deadline.as_nanos(), Ordering::Release);
        }
        drop(state);
        if is_next {
            driver_waker.earlier(deadline);
        }
        timer
    }

    /// Notifies the threads that wait in [`TimerShard::await_end`].
    pub(super) fn notify_ended(&self) {
        self.ended.notify_all();
    }

    /// Waits until the timer is no longer running. A periodic one must have
    /// been stopped.
    pub(super) fn await_end(&self, timer: QueueHandle) {
        let mut state = lock(&self.state);
        while state.mark_awaited(timer) {
            state = wait(&self.ended, state);
        }
    }
}

impl TimerShardState {
    fn new() -> Self {
        Self {
            queue: TimerQueue::new(),
            labels: Labels::default(),
            owners: HashMap::new(),
            counters: TimerCounters::default(),
            closed: false,
            pending_high_water: 0,
        }
    }

    /// The label of a timer that may be added.
    #[inline]
    pub(in crate::timer) fn admit(
        &mut self,
        capacity: usize,
        label: &'static str,
    ) -> Result<LabelIndex, AddError> {
        let pending_count = self.queue.len();
        if self.closed {
            return Err(AddError::Closed);
        }
        if pending_count >= capacity {
            return Err(AddError::Full);
        }
        let label = self.labels.index(label).ok_or(AddError::Labels)?;
        self.pending_high_water = self.pending_high_water.max(pending_count as u64 + 1);
        Ok(label)
    }

    /// Adds a timer under the label with index `label`.
    #[inline]
    fn add(&mut self, add: Add, label: LabelIndex) -> QueueHandle {
        let owner = add.owner;
        let record = TimerRecord::new(add.work, label, owner);
        let handle = self.queue.add(add.deadline, record);
        let entry = self.labels.get_mut(label);
        entry.added();
        if !entry.name().is_empty() || owner.is_some() {
            self.join(handle, label, owner);
        }
        handle
    }

    /// Adds a timer to the lists of its label and its owner.
    #[inline(never)]
    fn join(&mut self, timer: QueueHandle, label: LabelIndex, owner: Option<u64>) {
        let label = self.labels.get_mut(label);
        if !label.name().is_empty() {
            label.members.add(timer);
        }
        if let Some(owner) = owner {
            self.owners.entry(owner).or_default().add(timer);
        }
    }

    /// Counts a timer that [`TimerQueue::in_range`] found waiting and that was then released.
    #[inline]
    pub(super) fn note_range_cancel(&mut self, timer: QueueHandle, record: &TimerRecord) {
        debug_assert_eq!(record.phase, TimerPhase::Waiting);
        self.queue.note_range_release(timer);
        self.labels.get_mut(record.label).cancelled();
        self.leave(record);
    }

    /// Removes a timer that has not begun to run; the caller must drop its
    /// record after unlocking.
    pub(in crate::timer) fn cancel(
        &mut self,
        timer: QueueHandle,
    ) -> Result<TimerRecord, NotCancelled> {
        let Some(record) = self.queue.get_mut(timer) else {
            return Err(NotCancelled::Over);
        };
        if let TimerPhase::Running(phase) = &mut record.phase {
            if *phase == RunPhase::GoesOn {
                *phase = RunPhase::Stops;
            }
            return Err(NotCancelled::Running);
        }
        let label = record.label;
        self.labels.get_mut(label).cancelled();
        let record = self.queue.cancel(timer).ok_or(NotCancelled::Over)?;
        self.leave(&record);
        Ok(record)
    }

    /// Removes a timer that has run for the last time.
    pub(in crate::timer) fn end(&mut self, timer: QueueHandle) -> Option<TimerRecord> {
        let record = self.queue.cancel(timer)?;
        self.labels.get_mut(record.label).ended();
        self.leave(&record);
        Some(record)
    }

    /// Makes a periodic timer wait for its next run, and returns the
    /// placeholder of its work; or, if it was stopped meanwhile, its work as
    /// the error.
    pub(super) fn go_on(&mut self, timer: QueueHandle, again: Again) -> Result<Work, Work> {
        let may_go_on = !self.closed;
        let record = self.queue.get_mut(timer).filter(|_| may_go_on);
        let Some(record) = record.filter(|record| record.is_running_on()) else {
            return Err(Work::Other(OtherWork::Repeat(again.repeat)));
        };
        let repeat = Work::Other(OtherWork::Repeat(again.repeat));
        let away = mem::replace(&mut record.work, repeat);
        let is_away = matches!(away, Work::Other(OtherWork::Away(_)));
        debug_assert!(is_away, "one thread has the work");
        self.counters.missed += again.missed;
        self.wait_until(timer, again.deadline);
        Ok(away)
    }

    /// Removes a timer whose last run is over and whose callback was dropped.
    /// The record must be dropped after unlocking.
    pub(in crate::timer) fn finish(&mut self, timer: QueueHandle) -> Option<TimerRecord> {
        let record = self.end(timer);
        let is_over = |record: &TimerRecord| {
            matches!(record.work, Work::Other(OtherWork::Away(_)))
                && matches!(record.phase, TimerPhase::Running(_))
        };
        debug_assert!(record.as_ref().is_some_and(is_over), "it runs until here");
        record
    }

    /// The thread that runs the timer's callback now.
    pub(super) fn runner(&self, timer: QueueHandle) -> Option<&Runner> {
        match &self.queue.get(timer)?.work {
            Work::Other(OtherWork::Away(runner)) => Some(runner),
            _ => None,
        }
    }

    /// Delays a delivery that its executor refused. Returns the executor, to be
    /// dropped after unlocking, if the timer does not need it.
    pub(super) fn put_off(
        &mut self,
        timer: QueueHandle,
        round: u32,
        executor: Arc<dyn Executor>,
        deadline: Instant,
    ) -> Option<Arc<dyn Executor>> {
        let record = self.queue.get_mut(timer);
        let Some(record) = record.filter(|record| record.is_delivered(round)) else {
            return Some(executor);
        };
        let spare = record.restore_executor(executor);
        self.counters.deferred += 1;
        self.wait_until(timer, deadline);
        spare
    }

    /// Every timer.
    pub(in crate::timer) fn all(&self) -> Vec<QueueHandle> {
        self.queue.iter().map(|(timer, _)| timer).collect()
    }

    /// The timers of `owner`, and some that are over.
    pub(in crate::timer) fn of_owner(&self, owner: u64) -> Vec<QueueHandle> {
        let members = self.owners.get(&owner);
        members.map_or_else(Vec::new, |members| members.handles().to_vec())
    }

    /// The timers with `label`, and some that are over.
    pub(in crate::timer) fn of_label(&self, label: &str) -> Vec<QueueHandle> {
        match self.labels.find(label) {
            Some(found) if !label.is_empty() => found.members.handles().to_vec(),
            _ if !label.is_empty() => Vec::new(),
            _ => self.all_unlabelled(),
        }
    }

    /// Takes the next due timer out of the order and counts its delivery.
    pub(super) fn deliver_due(&mut self, due: Instant, now: Instant) -> Option<QueueHandle> {
        let (deadline, timer) = self.queue.hold_due(due)?;
        let record = self.queue.get_mut(timer)?;
        record.phase = TimerPhase::Delivered;
        record.round = record.round.wrapping_add(1);
        let lateness_ns = (now - deadline).as_nanos() as u64;
        self.labels.get_mut(record.label).expired(lateness_ns);
        Some(timer)
    }

    /// Returns a held timer to the order.
    pub(super) fn wait_until(&mut self, timer: QueueHandle, deadline: Instant) {
        if let Some(record) = self.queue.get_mut(timer) {
            record.phase = TimerPhase::Waiting;
            self.queue.reschedule(timer, deadline);
        }
    }

    /// Adds this shard's share to a report over all shards.
    pub(in crate::timer) fn add_to(&self, stats: &mut TimerStats) {
        stats.pending_count += self.queue.len() as u64;
        stats.pending_high_water += self.pending_high_water;
        stats.deferred += self.counters.deferred;
        stats.lost += self.counters.lost;
        stats.missed += self.counters.missed;
    }

    /// There is no list for the empty label.
    fn all_unlabelled(&self) -> Vec<QueueHandle> {
        let timers = self.queue.iter();
        let is_unlabelled = |record: &TimerRecord| self.labels.name(record.label).is_empty();
        let unlabelled = timers.filter(|(_, record)| is_unlabelled(record));
        unlabelled.map(|(timer, _)| timer).collect()
    }

    /// Removes a timer that is over from the lists of its label and its owner.
    #[inline]
    fn leave(&mut self, record: &TimerRecord) {
        let owner = record.owner();
        if owner.is_some() || !self.labels.name(record.label).is_empty() {
            self.leave_lists(record.label, owner);
        }
    }

    #[inline(never)]
    fn leave_lists(&mut self, label: LabelIndex, owner: Option<u64>) {
        let queue = &self.queue;
        let is_there = |timer| queue.get(timer).is_some();
        let label = self.labels.get_mut(label);
        if !label.name().is_empty() {
            label.members.left(is_there);
        }
        let Some(owner) = owner else {
            return;
        };
        if let Some(members) = self.owners.get_mut(&owner) {
            members.left(is_there);
            if members.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }

    fn mark_awaited(&mut self, timer: QueueHandle) -> bool {
        match self.queue.get_mut(timer).map(|record| &mut record.phase) {
            Some(TimerPhase::Running(phase)) => {
                debug_assert_ne!(*phase, RunPhase::GoesOn, "its cancel stopped it");
                *phase = RunPhase::Awaited;
                true
            }
            _ => false,
        }
    }
}

/// Why a cancel did not remove a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::timer) enum NotCancelled {
    /// It has run, or was cancelled or lost before.
    Over,
    /// It is running, for the last time.
    Running,
}
