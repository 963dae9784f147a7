//! One serializer: its queue, who runs it, and what it has done.

use std::{
    collections::VecDeque,
    mem,
    sync::Arc,
    time::{Duration, Instant as MachineInstant},
};

use super::overload::{Marks, Water};
use crate::{
    clock::Instant,
    pool::{Entity, Shared, TaskPool},
    run_queue::Priority,
    stats::SerializerStats,
    sync::{Condvar, Mutex, MutexGuard, lock},
    task::{Overflow, Reason, Rejected, Task},
};

/// How many tasks may wait, and what happens to one more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) capacity: usize,
    pub(super) overflow: Overflow,
}

/// What the handles of one serializer share.
pub(crate) struct Core {
    pool: TaskPool,
    name: Arc<str>,
    pub(super) bound: Bound,
    #[expect(dead_code)]
    priority: Priority,
    state: Mutex<State>,
    /// Signalled to all when a task has ended or the serializer was closed,
    /// if somebody waits.
    changed: Condvar,
}

struct State {
    waiting: VecDeque<Waiting>,
    /// An entry in the pool's queue stands for this serializer.
    is_scheduled: bool,
    running: Option<Running>,
    suspend_count: u32,
    is_closed: bool,
    waiters: u32,
    marks: Option<Marks>,
    counters: Counters,
}

struct Waiting {
    task: Task,
    key: Option<u64>,
    since: Instant,
}

#[derive(Clone, Copy)]
struct Running {
    label: Option<&'static str>,
    since: Instant,
}

#[derive(Default, Clone, Copy)]
struct Counters {
    high_water: usize,
    processed: u64,
    rejected: u64,
    dropped: u64,
    conflated: u64,
    panicked: u64,
}

/// What became of an offered task.
enum Offer {
    /// It waits; the one it displaced is to be dropped outside the lock.
    Queued(Option<Task>),
    /// There is no room now.
    NoRoom(Task),
    Refused(Rejected),
}

impl Core {
    pub(super) fn new(
        pool: TaskPool,
        name: Arc<str>,
        bound: Bound,
        priority: Priority,
        marks: Option<Marks>,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool,
            name,
            bound,
            priority,
            state: Mutex::new(State::new(marks)),
            changed: Condvar::new(),
        })
    }

    pub(super) fn pool(&self) -> &Arc<Shared> {
        self.pool.shared()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        lock(&self.state).is_idle()
    }

    /// Whether a task runs.
    pub(super) fn is_busy(&self) -> bool {
        lock(&self.state).running.is_some()
    }

    pub(super) fn has_room(&self) -> bool {
        let state = lock(&self.state);
        state.is_closed || state.waiting.len() < self.bound.capacity
    }

    /// Queues a task, waiting for room if that is the policy.
    pub(super) fn push(self: &Arc<Self>, task: Task, key: Option<u64>) -> Result<(), Rejected> {
        let mut task = task;
        loop {
            match self.offer(task, key, false) {
                Offer::Queued(displaced) => {
                    drop(displaced);
                    return Ok(());
                }
                Offer::Refused(rejected) => return Err(rejected),
                Offer::NoRoom(back) => task = back,
            }
            if self.await_room().is_err() {
                return Err(self.refuse(task, Reason::Full));
            }
        }
    }

    /// Queues a task, or gives it back at once.
    pub(super) fn try_push(self: &Arc<Self>, task: Task, key: Option<u64>) -> Result<(), Rejected> {
        match self.offer(task, key, false) {
            Offer::Queued(displaced) => {
                drop(displaced);
                Ok(())
            }
            Offer::Refused(rejected) => Err(rejected),
            Offer::NoRoom(task) => Err(self.refuse(task, Reason::Full)),
        }
    }

    /// Queues a task beyond the bound: a future's wake-up, at most one a future.
    pub(super) fn push_forced(self: &Arc<Self>, task: Task) -> Result<(), Rejected> {
        match self.offer(task, None, true) {
            Offer::Queued(_) => Ok(()),
            Offer::Refused(rejected) => Err(rejected),
            Offer::NoRoom(task) => Err(self.refuse(task, Reason::Full)),
        }
    }

    fn refuse(&self, task: Task, reason: Reason) -> Rejected {
        lock(&self.state).counters.rejected += 1;
        Rejected { task, reason }
    }

    fn offer(self: &Arc<Self>, task: Task, key: Option<u64>, forced: bool) -> Offer {
        let admitted = self.pool().admits();
        let waiting = Waiting {
            task,
            key,
            since: self.pool().clock.now(),
        };
        let mut state = lock(&self.state);
        if !admitted || state.is_closed {
            state.counters.rejected += 1;
            let (task, reason) = (waiting.task, Reason::ShutDown);
            return Offer::Refused(Rejected { task, reason });
        }
        let offer = state.offer(waiting, self.bound, forced);
        if let Offer::Queued(displaced) = &offer {
            self.pool().count_pushed();
            self.pool().count_dropped(u64::from(displaced.is_some()));
        }
        self.after_change(state);
        offer
    }

    /// Schedules the serializer if it has become runnable, and tells crossed marks.
    fn after_change(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let schedule = state.must_be_scheduled();
        state.is_scheduled |= schedule;
        let told = self.water(&mut state);
        drop(state);
        if schedule {
            self.pool().schedule(self.clone());
        }
        if let Some((hook, water)) = told {
            self.pool().isolate(|| hook(&water));
        }
    }

    fn water(&self, state: &mut State) -> Option<(super::WaterHook, Water)> {
        let queued_len = state.waiting.len();
        let marks = state.marks.as_mut()?;
        let mark = marks.cross(queued_len)?;
        let hook = Arc::clone(&marks.hook);
        let water = Water {
            mark,
            serializer: Arc::clone(&self.name),
            queued_len,
            oldest_waiting_ns: state.oldest_waiting_ns(self.pool().clock.now()),
            running: state.running.and_then(|running| running.label),
        };
        Some((hook, water))
    }

    /// Takes the oldest task to run it, unless somebody runs one or may not.
    fn begin(&self) -> Option<Task> {
        let now = self.pool().clock.now();
        let mut state = lock(&self.state);
        if state.running.is_some() || state.suspend_count > 0 {
            return None;
        }
        let waiting = state.waiting.pop_front()?;
        state.running = Some(Running {
            label: waiting.task.label(),
            since: now,
        });
        Some(waiting.task)
    }

    fn end(self: &Arc<Self>, panicked: bool) {
        let mut state = lock(&self.state);
        state.running = None;
        state.counters.processed += 1;
        state.counters.panicked += u64::from(panicked);
        if state.waiters > 0 {
            self.changed.notify_all();
        }
        self.after_change(state);
    }

    /// Runs one task on this thread, if one may start now.
    pub(super) fn run_one(self: &Arc<Self>) -> bool {
        let Some(task) = self.begin() else {
            return false;
        };
        let panicked = self.pool().run_task(Some(self.clone()), task);
        self.end(panicked);
        true
    }

    pub(super) fn suspend(&self) {
        lock(&self.state).suspend_count += 1;
    }

    pub(super) fn resume(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.suspend_count -= 1;
        self.after_change(state);
    }

    /// Refuses further tasks; what waits still runs.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }

    /// Blocks until `done`, or until something in this serializer has changed.
    pub(super) fn await_change(&self, done: impl Fn() -> bool) {
        let mut state = lock(&self.state);
        state.waiters += 1;
        drop(state);
        while !done() {
            state = lock(&self.state);
            if state.running.is_none() && state.suspend_count == 0 {
                drop(state);
                break;
            }
            drop(
                (self.changed.wait_timeout(state, RECHECK))
                    .unwrap_or_else(|poisoned| poisoned.into_inner()),
            );
        }
        lock(&self.state).waiters -= 1;
    }

    /// Waits until nothing waits and nothing runs, or the time is up.
    pub(super) fn await_idle(&self, deadline: Duration, ends_at: MachineInstant) {
        if self.pool().is_simulated() {
            let steps_max = deadline.as_micros();
            let _idle = (0..steps_max).find(|_| self.is_idle() || !self.pool().step());
            return;
        }
        let mut state = lock(&self.state);
        state.waiters += 1;
        while !state.is_idle() {
            let left = ends_at.saturating_duration_since(MachineInstant::now());
            if left.is_zero() {
                break;
            }
            let (woken, _) = (self.changed.wait_timeout(state, left))
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            state = woken;
        }
        state.waiters -= 1;
    }

    pub(super) fn stats_now(&self) -> SerializerStats {
        let now = self.pool().clock.now();
        let state = lock(&self.state);
        let counters = state.counters;
        SerializerStats {
            name: self.name.to_string(),
            queued_len: state.waiting.len() as u64,
            queued_high_water: counters.high_water as u64,
            processed: counters.processed,
            rejected: counters.rejected,
            dropped: counters.dropped,
            conflated: counters.conflated,
            panicked: counters.panicked,
            oldest_waiting_ns: state.oldest_waiting_ns(now),
            running: state
                .running
                .and_then(|running| running.label)
                .map(str::to_owned),
            running_for_ns: state
                .running
                .map_or(0, |running| nanos(now - running.since)),
            suspend_count: u64::from(state.suspend_count),
        }
    }
}

impl Entity for Core {
    fn name(&self) -> String {
        if self.name.is_empty() {
            "(ephemeral)".to_owned()
        } else {
            self.name.to_string()
        }
    }

    fn run(self: Arc<Self>, single: bool) {
        let quantum = if single { 1 } else { QUANTUM_TASKS };
        let _stopped = (0..quantum).find(|_| !self.run_one());
        let mut state = lock(&self.state);
        state.is_scheduled = false;
        self.after_change(state);
    }

    fn stats(&self) -> SerializerStats {
        self.stats_now()
    }

    fn abandon(&self) -> u64 {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let waiting = mem::take(&mut state.waiting);
        let not_run = waiting.len() as u64;
        state.counters.dropped += not_run;
        drop(state);
        self.changed.notify_all();
        self.pool().count_dropped(not_run);
        not_run
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            self.pool.shared().registry.release(&self.name);
        }
        let not_run = lock(&self.state).waiting.len() as u64;
        self.pool.shared().count_dropped(not_run);
    }
}

impl State {
    fn new(marks: Option<Marks>) -> Self {
        Self {
            waiting: VecDeque::new(),
            is_scheduled: false,
            running: None,
            suspend_count: 0,
            is_closed: false,
            waiters: 0,
            marks,
            counters: Counters::default(),
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_none()
    }

    fn must_be_scheduled(&self) -> bool {
        let free = !self.is_scheduled && self.running.is_none() && self.suspend_count == 0;
        free && !self.waiting.is_empty()
    }

    fn oldest_waiting_ns(&self, now: Instant) -> u64 {
        let oldest = self.waiting.front();
        oldest.map_or(0, |waiting| nanos(now - waiting.since))
    }

    fn offer(&mut self, waiting: Waiting, bound: Bound, forced: bool) -> Offer {
        if bound.overflow == Overflow::Conflate
            && let Some(older) = self.same_key(waiting.key)
        {
            let displaced = mem::replace(&mut older.task, waiting.task);
            self.counters.conflated += 1;
            return Offer::Queued(Some(displaced));
        }
        let displaced = match bound.overflow {
            _ if forced || self.waiting.len() < bound.capacity => None,
            Overflow::DropOldest => self.drop_oldest(),
            Overflow::Block => return Offer::NoRoom(waiting.task),
            Overflow::Reject | Overflow::Conflate => return self.full(waiting.task),
        };
        self.waiting.push_back(waiting);
        self.counters.high_water = self.counters.high_water.max(self.waiting.len());
        Offer::Queued(displaced)
    }

    fn same_key(&mut self, key: Option<u64>) -> Option<&mut Waiting> {
        key?;
        self.waiting.iter_mut().find(|waiting| waiting.key == key)
    }

    fn drop_oldest(&mut self) -> Option<Task> {
        self.counters.dropped += 1;
        self.waiting.pop_front().map(|oldest| oldest.task)
    }

    fn full(&mut self, task: Task) -> Offer {
        self.counters.rejected += 1;
        let reason = Reason::Full;
        Offer::Refused(Rejected { task, reason })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Tasks run before another serializer gets its turn.
const QUANTUM_TASKS: usize = 32;
/// A waiting thread looks again after this time, whatever it was told.
const RECHECK: Duration = Duration::from_millis(10);
