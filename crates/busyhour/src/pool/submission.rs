//! A push to a pool: whether it is admitted, which queue it goes to, and which
//! worker is woken or started for it.

use super::{
    context,
    entity::Token,
    lifecycle::{InFlightPush, labelled},
    shared::Shared,
    simulation::{Simulated, SimulatedStep},
    worker::CurrentWorker,
};
use crate::{
    run_queue::{Class, SchedState},
    sync::runtime::thread,
    task::{Reason, Rejected, Task},
};

/// What this thread submits to a pool. A worker of the pool pushes to its own
/// queues; any other thread pushes to the inject queue of some worker.
#[derive(Clone, Copy)]
pub(crate) struct Submission<'a> {
    shared: &'a Shared,
    /// The slot of this thread, if it is a worker of the pool.
    current: Option<CurrentWorker<'a>>,
}

impl Shared {
    /// The scheduling state of an entity that this thread creates: a task's
    /// shares the counter of the one that pays for the turn.
    pub(crate) fn new_sched_state(&self, class: Class) -> SchedState {
        match CurrentWorker::of(self) {
            Some(current) if !context::is_collecting() => current.local(|local| local.fork(class)),
            _ => SchedState::new(class),
        }
    }

    #[inline(always)]
    pub(crate) fn submission(&self) -> Submission<'_> {
        Submission::new(self, CurrentWorker::of(self))
    }
}

impl<'a> Submission<'a> {
    /// `current` must be this thread's slot in the pool, if it has one.
    #[inline(always)]
    pub(super) fn new(shared: &'a Shared, current: Option<CurrentWorker<'a>>) -> Self {
        Self { shared, current }
    }

    /// Queues a plain task. `make` creates it directly in its place in the
    /// queue: moving a task around costs more than everything else.
    #[inline(always)]
    pub(crate) fn push_with(self, make: impl FnOnce() -> Task) -> Result<(), Rejected> {
        match self.current {
            Some(current) if self.shared.admits() && !self.is_full_here(current) => {
                self.make_here(current, make)
            }
            // What a slot has no room for is put on the heap, which is not done under the queue's lock.
            None if size_of_val(&make) <= Task::INLINE_BYTES
                && self.shared.admits()
                && !self.shared.is_simulated() =>
            {
                self.make_outside(make)
            }
            _ => self.push(make(), false),
        }
    }

    /// In the usual case, which is that of a worker that is there and not full,
    /// the task is created in the inject queue.
    #[inline(always)]
    fn make_outside(self, make: impl FnOnce() -> Task) -> Result<(), Rejected> {
        match self.shared.workers.inject_first(make) {
            Ok((number, len)) => {
                self.after_push(Some(number), len);
                Ok(())
            }
            Err(make) => self.push(make(), false),
        }
    }

    #[inline(always)]
    fn make_here(
        self,
        current: CurrentWorker<'_>,
        make: impl FnOnce() -> Task,
    ) -> Result<(), Rejected> {
        match current.push(make) {
            Ok(len) => {
                self.after_push(None, len);
                Ok(())
            }
            Err(make) => Err(self.reject(make(), Reason::ShutDown)),
        }
    }

    /// Queues a plain task; `forced` ignores the bound (a future's wake-up must
    /// not get lost).
    #[inline(never)]
    pub(crate) fn push(self, task: Task, forced: bool) -> Result<(), Rejected> {
        if !self.shared.admits() {
            return Err(self.reject(task, Reason::ShutDown));
        }
        if task.label().is_some() {
            return self.push_admitted(labelled::showing_its_label(task), forced);
        }
        self.push_admitted(task, forced)
    }

    #[inline(always)]
    fn push_admitted(self, task: Task, forced: bool) -> Result<(), Rejected> {
        match (self.current, &self.shared.simulated) {
            (Some(current), _) => self.push_here(current, task, forced),
            (None, Some(simulated)) => self.push_simulated(simulated, task, forced),
            (None, None) => self.push_from_outside(task, forced),
        }
    }

    fn push_here(
        self,
        current: CurrentWorker<'_>,
        task: Task,
        forced: bool,
    ) -> Result<(), Rejected> {
        if !forced && self.is_full_here(current) {
            return Err(self.reject(task, Reason::Full));
        }
        self.make_here(current, || task)
    }

    #[inline(always)]
    fn is_full_here(self, current: CurrentWorker<'_>) -> bool {
        self.shared.workers.is_full(current.worker)
    }

    fn push_simulated(
        self,
        simulated: &Simulated,
        task: Task,
        forced: bool,
    ) -> Result<(), Rejected> {
        if !forced && simulated.len() >= self.shared.workers.capacity {
            return Err(self.reject(task, Reason::Full));
        }
        self.shared.thread_context().count_pushed();
        simulated.push(SimulatedStep::Task(task));
        Ok(())
    }

    #[inline(never)]
    fn push_from_outside(self, task: Task, forced: bool) -> Result<(), Rejected> {
        match self.shared.workers.inject(task, forced) {
            Ok((number, len)) => {
                self.after_push(Some(number), len);
                Ok(())
            }
            Err(Rejected {
                task,
                reason: Reason::ShutDown,
            }) => self.push_to_no_worker(task, forced),
            Err(Rejected { task, reason }) => Err(self.reject(task, reason)),
        }
    }

    /// Every inject queue is closed: the pool is sealed, or it has no worker.
    #[cold]
    fn push_to_no_worker(self, mut task: Task, forced: bool) -> Result<(), Rejected> {
        while self.shared.ensure_worker() {
            match self.shared.workers.inject(task, forced) {
                Ok((number, len)) => {
                    self.after_push(Some(number), len);
                    return Ok(());
                }
                Err(refused) if refused.reason == Reason::Full => {
                    return Err(self.reject(refused.task, Reason::Full));
                }
                // It has left again.
                Err(refused) => task = refused.task,
            }
            thread::yield_now();
        }
        Err(self.reject(task, Reason::ShutDown))
    }

    /// Queues an entity that has tasks, so that a worker runs it.
    #[inline(always)]
    pub(super) fn schedule(self, token: Token) {
        match self.current {
            Some(current) => Self::schedule_here(self.shared, current, token),
            None => self.schedule_from_outside(token),
        }
    }

    /// Not a method: a call with one argument less costs a hop between
    /// serializers four instructions less.
    #[inline]
    fn schedule_here(shared: &Shared, current: CurrentWorker<'_>, token: Token) {
        match current.local(|local| local.wake(token)) {
            Ok(len) => Submission::new(shared, Some(current)).after_push(None, len),
            Err(token) => token.abandon(),
        }
    }

    #[inline(never)]
    fn schedule_from_outside(self, token: Token) {
        if let Some(simulated) = &self.shared.simulated {
            return simulated.push(SimulatedStep::Entity(token));
        }
        match self.shared.workers.inject_token(token) {
            Ok((number, len)) => self.after_push(Some(number), len),
            Err(token) => self.schedule_with_no_worker(token),
        }
    }

    /// As [`push_to_no_worker`](Self::push_to_no_worker).
    #[cold]
    fn schedule_with_no_worker(self, mut token: Token) {
        while self.shared.ensure_worker() {
            match self.shared.workers.inject_token(token) {
                Ok((number, len)) => return self.after_push(Some(number), len),
                Err(back) => token = back,
            }
            thread::yield_now();
        }
        token.abandon();
    }

    /// Begins a push to an entity that a shutdown could not find; the caller
    /// must check after this whether the push is admitted.
    #[inline(always)]
    pub(crate) fn begin(self) -> InFlightPush<'a> {
        self.shared.lifecycle.begin_push(self.current)
    }

    /// Wakes or adds a worker if one is needed for what was just published.
    #[inline(always)]
    fn after_push(self, preferred: Option<usize>, len: usize) {
        let workers = &self.shared.workers;
        if workers.sleepers.should_wake() {
            self.wake_for_push(preferred);
        } else if workers.is_long(len) {
            self.after_long_push(len);
        }
    }

    /// Adds workers if too few are there for what waits in the whole pool, and
    /// tells if that is too much.
    #[cold]
    fn after_long_push(self, len: usize) {
        let workers = &self.shared.workers;
        if workers.may_grow() {
            self.grow_if_needed(len);
        }
        let marks = self.shared.marks.as_ref();
        if let Some(marks) = marks.filter(|marks| marks.must_look(len, workers.slots.len())) {
            self.shared.look_at(marks);
        }
    }

    fn grow_if_needed(self, len: usize) {
        let workers = &self.shared.workers;
        let is_short = workers.is_short(len) && !context::collects_for(self.shared);
        if is_short && self.shared.lifecycle.is_open() {
            self.shared.grow_for_queue();
        }
    }

    /// While an inline runner collects, it wakes no worker; it does so when it
    /// has collected.
    #[cold]
    fn wake_for_push(self, preferred: Option<usize>) {
        if !context::collects_for(self.shared) {
            self.shared.workers.wake_one(preferred);
        }
    }

    #[cold]
    fn reject(self, task: Task, reason: Reason) -> Rejected {
        self.shared.thread_context().count_rejected();
        Rejected { task, reason }
    }
}
