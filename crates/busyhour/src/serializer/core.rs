//! One serializer: its queue, which thread runs it, and its counters.

use std::{
    any::Any,
    mem, ptr,
    sync::{Arc, Weak},
    time::{Duration, Instant as MachineInstant},
};

use super::{
    exclusive::EndedSection,
    named_state::NamedState,
    queue::TaskQueue,
    state::{Admission, Bound, NextTask, PushOutcome, SerializerState, nanos},
    wait::{Helping, is_task_of},
};
use crate::{
    clock::Instant,
    pool::{
        Entity, EntityRef, InFlightPush, Runs, ShareCell, Shared, TaskCell, TaskPool,
        ThreadContext, TimeSlice, Token, Unfinished, blocking, in_turn_of, wait_for,
    },
    run_queue::Class,
    stats::SerializerStats,
    sync::{
        SpinGuard, SpinLock,
        runtime::atomic::{AtomicU64, Ordering},
    },
    task::{Deliveries, Executor, HelpOutcome, Overflow, Reason, Rejected, Task},
};

/// The state that the handles of one serializer share.
#[repr(C)]
pub(crate) struct Core {
    share: ShareCell,
    pool: TaskPool,
    named_state: Option<Box<NamedState>>,
    pub(super) state: SpinLock<SerializerState>,
}

impl Core {
    pub(super) fn new(
        pool: TaskPool,
        bound: Bound,
        class: Class,
        named_state: Option<NamedState>,
    ) -> Arc<Self> {
        let has_marks = named_state.as_ref().is_some_and(NamedState::has_marks);
        let sched_state = pool.shared().new_sched_state(class);
        let core = Arc::new(Self {
            share: ShareCell::new::<Self>(sched_state),
            pool: pool.for_serializer(),
            named_state: named_state.map(Box::new),
            state: SpinLock::new(SerializerState::new(bound, has_marks)),
        });
        let _for_to_arc = Arc::as_ptr(&core).expose_provenance();
        core
    }

    /// The `Arc` in which it is stored, for callers that have it as an
    /// [`Executor`] reference.
    fn to_arc(&self) -> Arc<Self> {
        let this = ptr::with_exposed_provenance::<Self>(ptr::from_ref(self).addr());
        // SAFETY: every core lives in an `Arc`, whose pointer `new` has
        // exposed; it is alive, and one more reference is counted for ours.
        unsafe {
            Arc::increment_strong_count(this);
            Arc::from_raw(this)
        }
    }

    #[inline(always)]
    pub(super) fn pool(&self) -> &Arc<Shared> {
        self.pool.shared()
    }

    pub(super) fn name(&self) -> &str {
        let named_state = self.named_state.as_ref();
        named_state.map_or("", |named_state| &*named_state.name)
    }

    /// Whether the pool's registry has it.
    #[inline(always)]
    pub(super) fn is_listed(&self) -> bool {
        let named_state = self.named_state.as_ref();
        named_state.is_some_and(|named_state| named_state.is_listed)
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    pub(super) fn set_class(&self, class: Class) {
        self.share.set_class(class);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().is_idle()
    }

    /// Whether a task runs.
    pub(super) fn is_busy(&self) -> bool {
        self.state.lock().is_running
    }

    /// Whether no task runs, and none will run.
    pub(super) fn runs_nothing_more(&self) -> bool {
        let state = self.state.lock();
        state.is_idle() && (state.is_closed() || self.pool().is_sealed())
    }

    pub(super) fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.is_closed() || state.has_room()
    }

    /// Queues a task, waiting for room if that is the policy. In the usual case
    /// `make` creates the task directly in its place.
    #[inline(always)]
    pub(super) fn push(self: &Arc<Self>, make: impl FnOnce() -> Task) -> Result<(), Rejected> {
        let context = self.pool().thread_context();
        let now = context.now();
        let pushing = self.begin_push();
        let admitted = self.pool().admits();
        let mut state = self.state.lock();
        if admitted && state.is_plain() {
            state.append(now, make);
            context.count_pushed();
            drop(pushing);
            self.after_change(state, context);
            return Ok(());
        }
        drop(state);
        drop(pushing);
        self.push_or_wait(make(), None)
    }

    /// A shutdown finds named serializers and closes them under their locks. A
    /// push to another serializer must announce that it is in flight.
    #[inline(always)]
    pub(super) fn begin_push(&self) -> Option<InFlightPush<'_>> {
        (!self.is_listed()).then(|| self.pool().submission().begin())
    }

    /// Queues a task, waiting for room if that is the policy.
    #[inline(never)]
    pub(super) fn push_or_wait(
        self: &Arc<Self>,
        task: Task,
        key: Option<u64>,
    ) -> Result<(), Rejected> {
        match self.try_push(task, key) {
            Err(rejected) if self.waits_for_room(&rejected) => {
                Arc::clone(self).push_with_room(rejected.task, key)
            }
            outcome => outcome,
        }
    }

    pub(super) fn waits_for_room(&self, rejected: &Rejected) -> bool {
        rejected.reason == Reason::Full && self.state.lock().overflow == Overflow::Block
    }

    /// Queues a task, or returns it at once.
    pub(super) fn try_push(self: &Arc<Self>, task: Task, key: Option<u64>) -> Result<(), Rejected> {
        let pushing = self.begin_push();
        if !self.pool().admits() {
            return Err(self.refuse(task, Reason::ShutDown));
        }
        let context = self.pool().thread_context();
        let now = context.now();
        let mut state = self.state.lock();
        let offer = state.offer(task, key, now);
        match &offer {
            PushOutcome::Queued => context.count_pushed(),
            PushOutcome::Replaced(_) => self.count_loss(|named_state| &named_state.conflated),
            PushOutcome::Displaced(_) => self.count_loss(|named_state| &named_state.dropped),
            PushOutcome::Closed(_) | PushOutcome::NoRoom(_) => {
                drop(state);
                return self.settle(offer);
            }
        }
        // Hooks that are called now, and drops of lost tasks, may shut the pool
        // down.
        drop(pushing);
        self.after_change(state, context);
        self.settle(offer)
    }

    /// Drops what an offer displaced, which is counted already.
    fn settle(&self, offer: PushOutcome) -> Result<(), Rejected> {
        match offer {
            PushOutcome::Queued => return Ok(()),
            PushOutcome::Closed(task) => return Err(self.refuse(task, Reason::ShutDown)),
            PushOutcome::NoRoom(task) => return Err(self.refuse(task, Reason::Full)),
            PushOutcome::Replaced(lost) | PushOutcome::Displaced(lost) => self.drop_lost(lost),
        }
        self.tell_waiters();
        Ok(())
    }

    /// Drops another pusher's task: a panic of its drop must not reach the
    /// caller.
    #[cold]
    fn drop_lost(&self, task: Task) {
        self.pool().isolate(|| drop(task));
    }

    /// Counts a task that was accepted in the place of another, while the state
    /// is locked: a shutdown must see both or neither.
    fn count_loss(&self, counter: impl Fn(&NamedState) -> &AtomicU64) {
        let context = self.pool().thread_context();
        context.count_pushed();
        context.count_dropped(1);
        self.count(counter, 1);
    }

    /// Queues a task beyond the bound, where no overflow policy drops it: a
    /// future's wake-up; each future has at most one.
    pub(super) fn push_forced(self: &Arc<Self>, task: Task) -> Result<(), Rejected> {
        self.push_unless(task, SerializerState::is_closed)
    }

    /// As [`push_forced`](Self::push_forced), for a subscription's turn. A turn
    /// that runs here may send itself again until the serializer is sealed.
    pub(super) fn push_turn(self: &Arc<Self>, task: Task) -> Result<(), Rejected> {
        let is_own = || is_task_of(self.as_entity());
        self.push_unless(task, |state| match state.admission {
            Admission::Open => false,
            Admission::Closed => !is_own(),
            Admission::Sealed => true,
        })
    }

    fn push_unless(
        self: &Arc<Self>,
        task: Task,
        is_closed: impl FnOnce(&SerializerState) -> bool,
    ) -> Result<(), Rejected> {
        let pushing = self.begin_push();
        if !self.pool().admits() {
            return Err(self.refuse(task, Reason::ShutDown));
        }
        let context = self.pool().thread_context();
        let now = context.now();
        let mut state = self.state.lock();
        if is_closed(&state) {
            drop(state);
            return Err(self.refuse(task, Reason::ShutDown));
        }
        state.append_pinned(now, task);
        context.count_pushed();
        drop(pushing);
        self.after_change(state, context);
        Ok(())
    }

    #[cold]
    pub(super) fn refuse(&self, task: Task, reason: Reason) -> Rejected {
        self.count(|named_state| &named_state.rejected, 1);
        self.pool().thread_context().count_rejected();
        Rejected { task, reason }
    }

    pub(super) fn count(&self, counter: impl Fn(&NamedState) -> &AtomicU64, count: u64) {
        if let Some(named_state) = &self.named_state {
            counter(named_state).fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Schedules the serializer if it has become runnable, and notifies alert
    /// hooks and waiting threads.
    #[inline(always)]
    pub(super) fn after_change(
        self: &Arc<Self>,
        mut state: SpinGuard<'_, SerializerState>,
        context: ThreadContext<'_>,
    ) {
        let schedule = state.must_be_scheduled();
        state.is_scheduled |= schedule;
        self.leave(state);
        if schedule {
            // SAFETY: `is_scheduled` was false, under the lock.
            let token = unsafe { Token::new(self.clone()) };
            context.schedule(token);
        }
    }

    /// Unlocks, then notifies alert hooks, waiting threads and futures. It is decided
    /// before the unlocking which watermark was crossed, so alerts keep the
    /// order of the crossings.
    #[inline(always)]
    pub(super) fn leave(&self, state: SpinGuard<'_, SerializerState>) {
        if state.has_marks && self.crosses(&state) || state.is_rare() {
            self.leave_and_tell(state);
        }
    }

    /// Whether a queue with watermarks crosses one. Cold, so that a queue without them needs
    /// no jump.
    #[cold]
    fn crosses(&self, state: &SerializerState) -> bool {
        (self.named_state.as_ref()).is_some_and(|marked| marked.crosses(state.queue.len()))
    }

    #[cold]
    fn leave_and_tell(&self, mut state: SpinGuard<'_, SerializerState>) {
        let wakers = Self::grant_room(&mut state);
        let (is_awaited, queued_len) = (state.waiting_thread_count() > 0, state.queue.len());
        let named_state = self.named_state.as_ref();
        let total = &self.pool().registry.high_count;
        let crossed = named_state.filter(|all| {
            let oldest_waiting = state.oldest_waiting(self.pool().thread_context().now());
            all.cross(queued_len, nanos(oldest_waiting), total)
        });
        state.relax();
        drop(state);
        for waker in wakers {
            self.pool().isolate(|| waker.wake());
        }
        if is_awaited {
            self.pool().lifecycle.notify_end();
        }
        let next = || crossed.and_then(|named_state| named_state.next_to_tell());
        while let Some((marks, alert)) = next() {
            #[cfg(feature = "tracing")]
            alert.trace(&self.pool().name);
            for hook in &marks.hooks {
                self.pool().isolate(|| hook(&alert));
            }
        }
    }

    /// Drops tasks one by one, so that a panic of one does not leak the others.
    fn drop_queue(&self, mut waiting: TaskQueue) {
        while let Some(task) = waiting.take() {
            self.pool().isolate(|| drop(task));
        }
    }

    /// Drops what waits, for a group's shutdown, which reports it; so a pool's
    /// shutdown must not report it as well.
    pub(super) fn abandon_for_group(&self) -> u64 {
        self.drop_waiting(|not_run| self.pool().thread_context().count_dropped(not_run))
    }

    fn drop_waiting(&self, count: impl FnOnce(u64)) -> u64 {
        let mut state = self.state.lock();
        state.admission = Admission::Sealed;
        let waiting = mem::take(&mut state.queue);
        let section = EndedSection::of(&mut state);
        let not_run = waiting.len() as u64 + section.poll_count();
        // While the state is locked: a shutdown must see both or neither.
        count(not_run);
        self.count(|named_state| &named_state.dropped, not_run);
        self.leave(state);
        section.end(self.pool());
        self.drop_queue(waiting);
        self.tell_waiters();
        not_run
    }

    fn tell_waiters(&self) {
        if self.state.lock().waiting_thread_count() > 0 {
            self.pool().lifecycle.notify_end();
        }
    }

    /// Runs one task on this thread, without the token, if one may start now.
    pub(super) fn run_one(self: &Arc<Self>) -> bool {
        self.pool().thread_context().expose_collected();
        let now = self.pool().clock.now();
        let mut task_cell = TaskCell::empty();
        if !self.begin_here(now, &mut task_cell) {
            return false;
        }
        self.pool().as_entity(EntityRef::of(self), || {
            self.run_task(self.pool().thread_context(), &mut task_cell)
        });
        let mut state = self.state.lock();
        state.end();
        self.after_change(state, self.pool().thread_context());
        true
    }

    fn begin_here(&self, now: Instant, task_cell: &mut TaskCell) -> bool {
        let mut state = self.state.lock();
        let begins = !self.pool().is_sealed() && state.begin(now, task_cell);
        if begins {
            self.pool().thread_context().count_started();
        }
        self.leave(state);
        begins
    }

    #[inline(always)]
    fn run_task(&self, context: ThreadContext<'_>, task_cell: &mut TaskCell) {
        let label = task_cell.label();
        if label.is_some() {
            self.set_label(label);
        }
        if context.run_task(task_cell) {
            self.count(|named_state| &named_state.panicked, 1);
        }
        if label.is_some() {
            self.set_label(None);
        }
    }

    #[cold]
    fn set_label(&self, label: Option<&'static str>) {
        if let Some(named_state) = &self.named_state {
            named_state.set_label(label);
        }
    }

    /// Identifies the serializer in the pool's list of subscriptions.
    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    pub(super) fn as_entity(self: &Arc<Self>) -> Arc<dyn Entity> {
        self.clone()
    }

    /// Refuses further tasks; waiting tasks still run.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        if state.admission == Admission::Open {
            state.admission = Admission::Closed;
        }
        self.leave(state);
    }

    /// Blocks until `done`, or, if the thread `helps`, until it could run a
    /// task here.
    pub(super) fn await_change(&self, helps: bool, done: impl Fn() -> bool) {
        self.state.lock().rare().waiting_thread_count += 1;
        blocking(|| {
            (self.pool().lifecycle).await_end(None, || done() || (helps && self.may_begin()))
        });
        self.end_waiting();
    }

    fn end_waiting(&self) {
        let mut state = self.state.lock();
        state.rare().waiting_thread_count -= 1;
        state.relax();
    }

    /// Whether a task could run here now.
    fn may_begin(&self) -> bool {
        !self.pool().is_sealed() && self.state.lock().may_begin()
    }

    /// Waits until nothing waits and nothing runs, or until the deadline.
    ///
    /// Returns `false` at once if that can never happen, because the caller's
    /// own task, or one that waits for it, runs here.
    pub(super) fn await_idle(
        self: &Arc<Self>,
        deadline: Duration,
        ends_at: Option<MachineInstant>,
    ) -> bool {
        let Ok(_waiting) = wait_for(&self.as_entity()) else {
            return false;
        };
        if self.pool().is_simulated() {
            let steps_max = deadline.as_micros();
            let _idle = (0..steps_max).find(|_| self.is_idle() || !self.pool().step());
        } else {
            self.help_until_idle(ends_at);
        }
        true
    }

    /// Runs its tasks, if this thread is inside the pool; otherwise waits for
    /// the threads that do.
    fn help_until_idle(self: &Arc<Self>, ends_at: Option<MachineInstant>) {
        let helps = self.pool().is_inside();
        let is_over = || ends_at.is_some_and(|end| MachineInstant::now() >= end);
        let mut helping = Helping::default();
        while !self.is_idle() && !is_over() {
            if helps && self.run_one() {
                helping.go_on(self.pool());
                continue;
            }
            self.state.lock().rare().waiting_thread_count += 1;
            blocking(|| {
                (self.pool().lifecycle)
                    .await_end(ends_at, || self.is_idle() || (helps && self.may_begin()));
            });
            self.end_waiting();
        }
    }

    pub(super) fn stats_now(&self) -> SerializerStats {
        let now = self.pool().clock.now();
        let mut stats = self.state_stats(now);
        if let Some(named_state) = &self.named_state {
            named_state.report(&mut stats);
        }
        stats
    }

    /// The high water begins again from what waits now; returns what it was.
    pub(super) fn reset_high_water(&self) -> u64 {
        let mut state = self.state.lock();
        let waiting = state.queue.len() as u32;
        u64::from(mem::replace(&mut state.high_water, waiting))
    }

    pub(super) fn set_watermarks(&self, low: usize, high: usize) -> bool {
        let state = self.state.lock();
        let moved = (self.named_state.as_ref()).is_some_and(|it| it.set_watermarks(low, high));
        self.leave(state);
        moved
    }

    fn state_stats(&self, now: Instant) -> SerializerStats {
        let state = self.state.lock();
        SerializerStats {
            queued_len: state.queue.len() as u64,
            queued_high_water: u64::from(state.high_water),
            processed: state.processed,
            oldest_waiting_ns: nanos(state.oldest_waiting(now)),
            running_for_ns: state.running_for(now).map_or(0, nanos),
            suspend_count: u64::from(state.suspension_count()),
            is_in_section: state.section().is_some(),
            ..SerializerStats::default()
        }
    }
}

impl Core {
    /// Ends a task and begins the next one, if the turn allows.
    #[inline(always)]
    fn go_on(
        &self,
        token: &Token,
        turn: &mut TimeSlice<'_, '_>,
        task_cell: &mut TaskCell,
    ) -> NextTask {
        let mut state = self.state.lock();
        state.end();
        if !state.may_begin() {
            return self.stop(state, token, turn);
        }
        if self.pool().is_sealed() || !turn.take() {
            self.leave(state);
            return NextTask::Later;
        }
        state.begin(turn.began(self.pool()), task_cell);
        turn.count_started(self.pool());
        self.leave(state);
        NextTask::Run
    }

    /// Gives the token up: no task may begin until a push or a resume creates a
    /// new one.
    #[inline(always)]
    fn stop(
        &self,
        mut state: SpinGuard<'_, SerializerState>,
        token: &Token,
        turn: &mut TimeSlice<'_, '_>,
    ) -> NextTask {
        turn.charge(token);
        debug_assert!(state.is_scheduled, "a token is spent once");
        state.is_scheduled = false;
        self.leave(state);
        NextTask::Done
    }
}

// SAFETY: it is `repr(C)`, begins with the share of its type, and `new` puts it
// into an `Arc`.
unsafe impl Runs for Core {
    fn run(&self, token: &Token, turn: &mut TimeSlice<'_, '_>) -> bool {
        let context = turn.thread_context(self.pool());
        let mut task_cell = TaskCell::empty();
        let mut state = self.state.lock();
        debug_assert!(state.is_scheduled, "who runs it by turns has its token");
        let waiting_since = state.waiting_since();
        if !state.begin(turn.began(self.pool()), &mut task_cell) {
            self.stop(state, token, turn);
            return false;
        }
        turn.take_first(token);
        turn.count_started(self.pool());
        self.leave(state);
        turn.note_wait_since(waiting_since);
        in_turn_of(token.entity_ref(), || {
            loop {
                self.run_task(context, &mut task_cell);
                match self.go_on(token, turn, &mut task_cell) {
                    NextTask::Run => {}
                    NextTask::Later => return true,
                    NextTask::Done => return false,
                }
            }
        })
    }
}

impl Entity for Core {
    fn name(&self) -> String {
        match Core::name(self) {
            "" => "(ephemeral)".to_owned(),
            name => name.to_owned(),
        }
    }

    fn stats(&self) -> SerializerStats {
        self.stats_now()
    }

    fn unfinished(&self) -> Option<Unfinished> {
        let named_state = self.named_state.as_ref()?;
        let running_for = self.state.lock().running_for(self.pool().clock.now())?;
        Some(Unfinished {
            serializer: named_state.name.to_string(),
            label: named_state.label().map(str::to_owned),
            running_for,
        })
    }

    fn abandon(&self) -> u64 {
        self.drop_waiting(|not_run| self.pool().thread_context().count_abandoned(not_run))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// So that an `Arc<dyn Executor>` of a serializer is the serializer itself,
/// without another box around a handle.
impl Executor for Core {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.to_arc().try_push(task, None)
    }

    fn execute_unbounded(&self, task: Task) -> Result<(), Rejected> {
        self.to_arc().push_turn(task)
    }

    fn to_shared(&self) -> Option<Arc<dyn Executor>> {
        Some(self.to_arc())
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        self.to_arc().sleep_for(wait);
    }

    fn assist(&self) -> HelpOutcome {
        Core::assist(&self.to_arc())
    }

    fn name(&self) -> String {
        Core::name(self).to_owned()
    }

    fn now(&self) -> Option<Instant> {
        Some(self.pool().clock.now())
    }

    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        let is_closed = || self.state.lock().is_closed();
        let subscriptions = &self.pool().subscriptions;
        subscriptions.register(deliveries, self.address(), is_closed)
    }

    fn unregister(&self, deliveries: *const ()) {
        self.pool().subscriptions.unregister(deliveries);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.is_listed() {
            self.pool().registry.release(Core::name(self));
        }
        let mut state = self.state.lock();
        let waiting = mem::take(&mut state.queue);
        let not_run = waiting.len() as u64;
        if not_run > 0 {
            self.pool().thread_context().count_dropped(not_run);
        }
        self.leave(state);
        self.drop_queue(waiting);
        let marks = self.named_state.as_ref().and_then(|it| it.take_marks());
        self.pool().isolate(|| drop(marks));
    }
}

/// The size of an idle serializer, with the counts of its `Arc`.
const _: () = assert!(cfg!(loom) || size_of::<Core>() + 2 * size_of::<usize>() <= 200);
