//! One serializer: its queue, who runs it, and what it has done.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant as MachineInstant},
};

use super::{
    details::Details,
    state::{Bound, Offer, State},
};
use crate::{
    clock::Instant,
    pool::{Berth, Entity, ShareCell, Shared, TaskPool, Token, Turn},
    run_queue::{Class, Priority, Standing},
    stats::SerializerStats,
    sync::{SpinGuard, SpinLock},
    task::{Overflow, Reason, Rejected, Task},
};

/// What the handles of one serializer share.
pub(crate) struct Core {
    pool: TaskPool,
    share: ShareCell,
    details: Option<Box<Details>>,
    state: SpinLock<State>,
}

impl Core {
    pub(super) fn new(
        pool: TaskPool,
        bound: Bound,
        priority: Priority,
        details: Option<Details>,
        has_marks: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool,
            share: ShareCell::new(Standing::new(Class::Normal(priority))),
            details: details.map(Box::new),
            state: SpinLock::new(State::new(bound, has_marks)),
        })
    }

    #[inline(always)]
    pub(super) fn pool(&self) -> &Arc<Shared> {
        self.pool.shared()
    }

    pub(super) fn name(&self) -> &str {
        let details = self.details.as_ref();
        details.map_or("", |details| &*details.name)
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().is_idle()
    }

    /// Whether a task runs.
    pub(super) fn is_busy(&self) -> bool {
        self.state.lock().is_running
    }

    pub(super) fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.is_closed || state.has_room()
    }

    /// Queues a task, waiting for room if that is the policy. The usual way:
    /// the task is made where it will lie.
    #[inline(always)]
    pub(super) fn push(self: &Arc<Self>, make: impl FnOnce() -> Task) -> Result<(), Rejected> {
        let now = self.pool().coarse_now();
        let admitted = self.pool().admits();
        let mut state = self.state.lock();
        if admitted && state.is_plain() {
            state.append(now, make);
            self.pool().count_pushed();
            self.after_change(state);
            return Ok(());
        }
        drop(state);
        self.push_or_wait(make(), None)
    }

    /// Queues a task, waiting for room if that is the policy.
    #[inline(never)]
    pub(super) fn push_or_wait(
        self: &Arc<Self>,
        task: Task,
        key: Option<u64>,
    ) -> Result<(), Rejected> {
        let mut task = task;
        loop {
            match self.try_push(task, key) {
                Err(rejected) if self.waits_for_room(&rejected) => task = rejected.task,
                outcome => return outcome,
            }
            if self.await_room().is_err() {
                return Err(self.refuse(task, Reason::Full));
            }
        }
    }

    fn waits_for_room(&self, rejected: &Rejected) -> bool {
        rejected.reason == Reason::Full && self.state.lock().bound.overflow == Overflow::Block
    }

    /// Queues a task, or gives it back at once.
    pub(super) fn try_push(self: &Arc<Self>, task: Task, key: Option<u64>) -> Result<(), Rejected> {
        if !self.pool().admits() {
            return Err(self.refuse(task, Reason::ShutDown));
        }
        let now = self.pool().coarse_now();
        let mut state = self.state.lock();
        let offer = state.offer(task, key, now);
        if matches!(
            offer,
            Offer::Queued | Offer::Replaced(_) | Offer::Displaced(_)
        ) {
            self.pool().count_pushed();
            self.after_change(state);
        } else {
            drop(state);
        }
        self.settle(offer)
    }

    /// Counts and drops what an offer cost.
    fn settle(&self, offer: Offer) -> Result<(), Rejected> {
        match offer {
            Offer::Queued => return Ok(()),
            Offer::Closed(task) => return Err(self.refuse(task, Reason::ShutDown)),
            Offer::NoRoom(task) => return Err(self.refuse(task, Reason::Full)),
            Offer::Replaced(older) => {
                self.count(|details| &details.conflated, 1);
                drop(older);
            }
            Offer::Displaced(oldest) => {
                self.count(|details| &details.dropped, 1);
                drop(oldest);
            }
        }
        self.pool().count_dropped(1);
        self.tell_waiters();
        Ok(())
    }

    /// Queues a task beyond the bound: a future's wake-up, at most one a future.
    pub(super) fn push_forced(self: &Arc<Self>, task: Task) -> Result<(), Rejected> {
        if !self.pool().admits() {
            return Err(self.refuse(task, Reason::ShutDown));
        }
        let now = self.pool().coarse_now();
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            return Err(self.refuse(task, Reason::ShutDown));
        }
        state.append(now, || task);
        self.pool().count_pushed();
        self.after_change(state);
        Ok(())
    }

    #[cold]
    fn refuse(&self, task: Task, reason: Reason) -> Rejected {
        self.count(|details| &details.rejected, 1);
        self.pool().count_rejected();
        Rejected { task, reason }
    }

    fn count(&self, counter: impl Fn(&Details) -> &AtomicU64, count: u64) {
        if let Some(details) = &self.details {
            counter(details).fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Schedules the serializer if it has become runnable, and tells crossed
    /// marks and waiting threads.
    #[inline(always)]
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
    #[inline(always)]
    fn leave(&self, state: SpinGuard<'_, State>) {
        if state.has_marks || state.waiters > 0 {
            self.leave_and_tell(state);
        }
    }

    #[cold]
    fn leave_and_tell(&self, state: SpinGuard<'_, State>) {
        let (is_awaited, queued_len) = (state.waiters > 0, state.queue.len());
        let oldest_waiting = state.oldest_waiting(self.pool().coarse_now());
        drop(state);
        if is_awaited {
            self.pool().tell_end();
        }
        let details = self.details.as_ref();
        let crossed = details.and_then(|all| all.cross(queued_len, nanos(oldest_waiting)));
        if let Some((hook, water)) = crossed {
            self.pool().isolate(|| hook(&water));
        }
    }

    fn tell_waiters(&self) {
        if self.state.lock().waiters > 0 {
            self.pool().tell_end();
        }
    }

    /// Runs one task on this thread, without the token, if one may start now.
    pub(super) fn run_one(self: &Arc<Self>) -> bool {
        let now = self.pool().clock.now();
        let mut berth = Berth::EMPTY;
        if !self.state.lock().begin(now, &mut berth) {
            return false;
        }
        let this: Arc<dyn Entity> = self.clone();
        self.pool().as_entity(&this, || self.run_task(&mut berth));
        let mut state = self.state.lock();
        state.end();
        self.after_change(state);
        true
    }

    #[inline(always)]
    fn run_task(&self, berth: &mut Berth) {
        let label = berth.label();
        if label.is_some() {
            self.set_label(label);
        }
        if self.pool().run_task(berth) {
            self.count(|details| &details.panicked, 1);
        }
        if label.is_some() {
            self.set_label(None);
        }
    }

    #[cold]
    fn set_label(&self, label: Option<&'static str>) {
        if let Some(details) = &self.details {
            details.set_label(label);
        }
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
        self.pool().blocking(|| {
            (self.pool()).await_end(None, || done() || self.state.lock().may_begin());
        });
        self.state.lock().waiters -= 1;
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
        let mut stats = self.state_stats(now);
        if let Some(details) = &self.details {
            details.report(&mut stats);
        }
        stats
    }

    fn state_stats(&self, now: Instant) -> SerializerStats {
        let state = self.state.lock();
        SerializerStats {
            queued_len: state.queue.len() as u64,
            queued_high_water: u64::from(state.high_water),
            processed: state.processed,
            oldest_waiting_ns: nanos(state.oldest_waiting(now)),
            running_for_ns: nanos(state.running_for(now)),
            suspend_count: u64::from(state.suspend_count),
            ..SerializerStats::default()
        }
    }
}

/// What a worker does after a task.
enum Next {
    /// The next task is in the berth.
    Run,
    /// There is more, but the turn is over.
    Later,
    /// The token is spent.
    Done,
}

impl Core {
    /// Ends a task and begins the next one, if the turn allows.
    #[inline(always)]
    fn go_on(&self, token: &Token, turn: &mut Turn<'_>, berth: &mut Berth) -> Next {
        let mut state = self.state.lock();
        state.end();
        if state.may_begin() && !self.pool().is_sealed() && turn.take() {
            state.begin(turn.began, berth);
            self.leave(state);
            return Next::Run;
        }
        self.stop(state, token, turn)
    }

    #[inline(always)]
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
        match &self.details {
            Some(details) => details.name.to_string(),
            None => "(ephemeral)".to_owned(),
        }
    }

    fn share(&self) -> &ShareCell {
        &self.share
    }

    fn run(&self, token: &Token, turn: &mut Turn<'_>) -> bool {
        let mut state = self.state.lock();
        let mut berth = Berth::EMPTY;
        if !(turn.take() && state.begin(turn.began, &mut berth)) {
            return matches!(self.stop(state, token, turn), Next::Later);
        }
        self.leave(state);
        self.pool().as_entity(token.entity(), || {
            loop {
                self.run_task(&mut berth);
                match self.go_on(token, turn, &mut berth) {
                    Next::Run => {}
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
        let waiting = mem::take(&mut state.queue);
        drop(state);
        let not_run = waiting.len() as u64;
        self.count(|details| &details.dropped, not_run);
        self.pool().count_dropped(not_run);
        drop(waiting);
        self.tell_waiters();
        not_run
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(details) = &self.details {
            self.pool().registry.release(&details.name);
        }
        let not_run = self.state.lock().queue.len() as u64;
        if not_run > 0 {
            self.pool().count_dropped(not_run);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// An idle serializer costs this and the counts of its `Arc`.
const _: () = assert!(size_of::<Core>() + 2 * size_of::<usize>() <= 200);
