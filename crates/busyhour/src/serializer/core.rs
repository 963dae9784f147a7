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
    pool::{Entity, ShareCell, Shared, SpinGuard, SpinLock, TaskPool, Token, Turn},
    run_queue::{Class, Priority, Standing},
    stats::SerializerStats,
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
    share: ShareCell,
    state: SpinLock<State>,
}

struct State {
    waiting: VecDeque<Waiting>,
    /// The token exists.
    is_scheduled: bool,
    running: Option<Running>,
    suspend_count: u32,
    is_closed: bool,
    /// Threads to be told when something here has ended.
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
            share: ShareCell::new(Standing::new(Class::Normal(priority))),
            state: SpinLock::new(State::new(marks)),
        })
    }

    pub(super) fn pool(&self) -> &Arc<Shared> {
        self.pool.shared()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().is_idle()
    }

    /// Whether a task runs.
    pub(super) fn is_busy(&self) -> bool {
        self.state.lock().running.is_some()
    }

    pub(super) fn has_room(&self) -> bool {
        let state = self.state.lock();
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
        self.state.lock().counters.rejected += 1;
        Rejected { task, reason }
    }

    fn offer(self: &Arc<Self>, task: Task, key: Option<u64>, forced: bool) -> Offer {
        let admitted = self.pool().admits();
        let waiting = Waiting {
            task,
            key,
            since: self.pool().clock.now(),
        };
        let mut state = self.state.lock();
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

    /// Schedules the serializer if it has become runnable, and tells crossed
    /// marks and waiting threads.
    #[inline]
    fn after_change(self: &Arc<Self>, mut state: SpinGuard<'_, State>) {
        let schedule = state.must_be_scheduled();
        state.is_scheduled |= schedule;
        self.leave(state);
        if schedule {
            // SAFETY: `is_scheduled` was false, under the lock.
            let token = unsafe { Token::new(self.clone()) };
            self.pool().schedule(token);
        }
    }

    /// Unlocks, then tells crossed marks and waiting threads.
    #[inline]
    fn leave(&self, mut state: SpinGuard<'_, State>) {
        let is_awaited = state.waiters > 0;
        let told = match state.marks {
            Some(_) => self.water(&mut state),
            None => None,
        };
        drop(state);
        if is_awaited {
            self.pool().tell_end();
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
    #[inline]
    fn begin(&self, now: Instant) -> Option<Task> {
        let mut state = self.state.lock();
        if state.running.is_some() {
            return None;
        }
        state.take(now)
    }

    /// Runs one task on this thread, without the token, if one may start now.
    pub(super) fn run_one(self: &Arc<Self>) -> bool {
        let Some(task) = self.begin(self.pool().clock.now()) else {
            return false;
        };
        let this: Arc<dyn Entity> = self.clone();
        let panicked = self.pool().as_entity(&this, || self.pool().run_task(task));
        let mut state = self.state.lock();
        state.end(panicked);
        self.after_change(state);
        true
    }

    pub(super) fn suspend(&self) {
        self.state.lock().suspend_count += 1;
    }

    pub(super) fn resume(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.suspend_count -= 1;
        self.after_change(state);
    }

    /// Refuses further tasks; what waits still runs.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.leave(state);
    }

    /// Blocks until `done`, or until this thread could run a task here.
    pub(super) fn await_change(&self, done: impl Fn() -> bool) {
        self.state.lock().waiters += 1;
        self.pool().await_end(None, || done() || self.may_begin());
        self.state.lock().waiters -= 1;
    }

    fn may_begin(&self) -> bool {
        self.state.lock().may_begin()
    }

    /// Waits until nothing waits and nothing runs, or the time is up.
    pub(super) fn await_idle(&self, deadline: Duration, ends_at: MachineInstant) {
        if self.pool().is_simulated() {
            let steps_max = deadline.as_micros();
            let _idle = (0..steps_max).find(|_| self.is_idle() || !self.pool().step());
            return;
        }
        self.state.lock().waiters += 1;
        self.pool().await_end(Some(ends_at), || self.is_idle());
        self.state.lock().waiters -= 1;
    }

    pub(super) fn stats_now(&self) -> SerializerStats {
        let now = self.pool().clock.now();
        let state = self.state.lock();
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

/// What a worker does after a task.
enum Next {
    Run(Task),
    /// There is more, but the turn is over.
    Later,
    /// The token is spent.
    Done,
}

impl Core {
    /// Ends a task and begins the next one, if the turn allows.
    #[inline]
    fn go_on(&self, panicked: bool, token: &Token, turn: &mut Turn<'_>) -> Next {
        let mut state = self.state.lock();
        state.end(panicked);
        if state.may_begin() && !self.pool().is_sealed() && turn.take() {
            let next = state.take(turn.began);
            self.leave(state);
            return next.map_or(Next::Later, Next::Run);
        }
        self.stop(state, token, turn)
    }

    /// Ends a turn in which nothing ran: somebody else runs, or nobody may.
    fn put_aside(&self, token: &Token, turn: &mut Turn<'_>) -> bool {
        let state = self.state.lock();
        matches!(self.stop(state, token, turn), Next::Later)
    }

    #[inline]
    fn stop(&self, mut state: SpinGuard<'_, State>, token: &Token, turn: &mut Turn<'_>) -> Next {
        let more = state.may_begin();
        if !more {
            turn.charge(token);
            state.is_scheduled = false;
        }
        self.leave(state);
        if more { Next::Later } else { Next::Done }
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

    fn share(&self) -> &ShareCell {
        &self.share
    }

    fn run(&self, token: &Token, turn: &mut Turn<'_>) -> bool {
        let first = turn.take().then(|| self.begin(turn.began)).flatten();
        let Some(mut task) = first else {
            return self.put_aside(token, turn);
        };
        self.pool().as_entity(token.entity(), || {
            loop {
                let panicked = self.pool().run_task(task);
                match self.go_on(panicked, token, turn) {
                    Next::Run(next) => task = next,
                    Next::Later => return true,
                    Next::Done => return false,
                }
            }
        })
    }

    fn stats(&self) -> SerializerStats {
        self.stats_now()
    }

    fn abandon(&self) -> u64 {
        let mut state = self.state.lock();
        state.is_closed = true;
        let waiting = mem::take(&mut state.waiting);
        let not_run = waiting.len() as u64;
        state.counters.dropped += not_run;
        self.pool().count_dropped(not_run);
        let is_awaited = state.waiters > 0;
        drop(state);
        drop(waiting);
        if is_awaited {
            self.pool().tell_end();
        }
        not_run
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            self.pool.shared().registry.release(&self.name);
        }
        let not_run = self.state.lock().waiting.len() as u64;
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
        !self.is_scheduled && self.may_begin()
    }

    /// Whether a task may start now.
    fn may_begin(&self) -> bool {
        self.running.is_none() && self.suspend_count == 0 && !self.waiting.is_empty()
    }

    #[inline]
    fn take(&mut self, now: Instant) -> Option<Task> {
        if self.suspend_count > 0 {
            return None;
        }
        let waiting = self.waiting.pop_front()?;
        self.running = Some(Running {
            label: waiting.task.label(),
            since: now,
        });
        Some(waiting.task)
    }

    #[inline]
    fn end(&mut self, panicked: bool) {
        self.running = None;
        self.counters.processed += 1;
        self.counters.panicked += u64::from(panicked);
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
