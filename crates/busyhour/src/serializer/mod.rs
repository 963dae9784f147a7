//! Ordered execution: FIFO, one task at a time, on any worker.
//!
//! A serializer belongs to a pool. Its tasks run in the order in which they
//! were pushed, never two at once, on whichever worker picks the serializer; so
//! the state that they share needs no lock. Tasks of different serializers run
//! in parallel.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use busyhour::{pool::TaskPool, task::Overflow};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = TaskPool::builder().workers(2).build()?;
//! let calls = pool.serializer("calls").capacity(1000).overflow(Overflow::Reject).build()?;
//! let order = Arc::new(Mutex::new(Vec::new()));
//! for number in 0..10 {
//!     let order = Arc::clone(&order);
//!     calls.push(move || order.lock().unwrap().push(number))?;
//! }
//! let count = calls.push_wait(move || order.lock().unwrap().len())?;
//! assert_eq!(count, 10);
//! # Ok(())
//! # }
//! ```

mod builder;
mod template;
mod core;
mod state;
mod queue;
mod named_state;
mod group;
mod id;
mod overload;
mod alert_group;
mod stateful;
mod exclusive;
mod rare_state;
mod room;
mod suspension;
mod wait;

#[cfg(all(test, shuttle))]
mod schedules;

use std::{
    fmt,
    future::Future,
    sync::{Arc, Weak, atomic::Ordering},
};

pub use alert_group::AlertGroup;
pub use builder::{SerializerBuildError, SerializerBuilder};
pub use exclusive::ExclusiveFuture;
pub(crate) use exclusive::{LentState, StatePlace};
pub use group::ShutdownGroup;
pub use id::SerializerId;
pub use overload::{QueueAlert, QueueAlertHook};
pub use room::{Permit, Reserve};
pub use stateful::StatefulSerializer;
pub use suspension::Suspension;
pub use template::SerializerTemplate;

#[doc(inline)]
pub use crate::task::Watermark;

use self::core::Core;
use crate::{
    clock::Instant,
    pool::{
        FirstPoll, JoinHandle, PushError, TaskPool, WaitError, current_entity, downcast, spawn_on,
        try_spawn_on,
    },
    run_queue::{Class, Priority},
    stats::SerializerStats,
    task::{Deliveries, Executor, HelpOutcome, Rejected, Task},
};

/// A handle to an ordered queue of tasks; clones share the same serializer.
///
/// It lives until its last handle is dropped and its last task has run.
#[doc(alias(
    "strand",
    "taskprocessor",
    "ast_taskprocessor",
    "ast_serializer",
    "dispatch_queue",
    "serial queue",
    "actor"
))]
#[derive(Clone)]
pub struct Serializer {
    core: Arc<Core>,
}

impl Serializer {
    /// The serializer whose task is running on this thread.
    ///
    /// ```
    /// use busyhour::{pool::TaskPool, serializer::Serializer};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").build().unwrap();
    /// let name = calls.push_wait(|| Serializer::current().unwrap().name().to_owned());
    /// assert_eq!(name.as_deref(), Ok("calls"));
    /// assert!(Serializer::current().is_none());
    /// ```
    pub fn current() -> Option<Self> {
        let core = downcast(current_entity()?)?;
        Some(Self { core })
    }

    /// The unique name. Empty for an ephemeral serializer; but one that was made
    /// from a [template](SerializerTemplate) with watermarks has its name.
    pub fn name(&self) -> &str {
        Core::name(&self.core)
    }

    /// Queues `f` behind everything pushed before.
    ///
    /// If the queue is full, the overflow policy decides. With
    /// [`Overflow::Block`](crate::task::Overflow::Block) this waits for room:
    /// on a worker of the pool by running the serializer's own tasks.
    ///
    /// # Errors
    ///
    /// [`PushError::Full`] if the policy rejects the task, or if the wait for
    /// room could end only after the caller's own task; [`PushError::ShutDown`]
    /// once its pool or its group is shutting down. `f` is then dropped.
    #[inline]
    pub fn push(&self, f: impl FnOnce() + Send + 'static) -> Result<(), PushError> {
        self.core.push(|| Task::new(f)).map_err(PushError::from)
    }

    /// Like [`push`](Self::push), but never waits, and returns a refused task.
    ///
    /// # Errors
    ///
    /// [`Rejected`] holds the task and the reason.
    pub fn try_push(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        self.core.try_push(Task::new(f), None)
    }

    /// Like [`push`](Self::push), but with
    /// [`Overflow::Conflate`](crate::task::Overflow::Conflate) `f` replaces a
    /// waiting task with the same key. Other policies ignore the key.
    ///
    /// # Errors
    ///
    /// Those of [`push`](Self::push).
    pub fn push_keyed(&self, key: u64, f: impl FnOnce() + Send + 'static) -> Result<(), PushError> {
        let pushed = self.core.push_or_wait(Task::new(f), Some(key));
        pushed.map_err(PushError::from)
    }

    /// Queues `f` and waits for its result.
    ///
    /// Inside a task of the same pool the caller helps: it runs this
    /// serializer's tasks itself until `f` has run, so no worker is lost. In a
    /// simulation other tasks run meanwhile.
    ///
    /// # Errors
    ///
    /// [`WaitError::Deadlock`] names the cycle if the wait would never end, for
    /// example because a task waits for its own serializer; then nothing was
    /// queued. The same error is returned if another task of this serializer
    /// shuts down the pool for which the caller works, since that shutdown
    /// waits for the caller; if `f` itself does so, the shutdown does not wait
    /// for the caller. See [`WaitError`] for the other errors. After any of
    /// them but a panic `f` has not run, will not, and is dropped.
    ///
    /// ```
    /// use busyhour::pool::{TaskPool, WaitError};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").build().unwrap();
    /// let same = calls.clone();
    /// let inner = calls.push_wait(move || same.push_wait(|| ())).unwrap();
    /// assert!(matches!(inner, Err(WaitError::Deadlock(_))));
    /// ```
    #[doc(alias = "dispatch_sync")]
    pub fn push_wait<R, F>(&self, f: F) -> Result<R, WaitError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.core.push_wait(f)
    }

    /// Queues `f` and returns a handle of its result, to be awaited or waited
    /// for. Unlike [`push_wait`](Self::push_wait) it never blocks, and
    /// [aborting](JoinHandle::abort) prevents a closure that has not begun.
    ///
    /// # Errors
    ///
    /// Those of [`try_spawn`](Self::try_spawn). `f` is then dropped.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").build().unwrap();
    /// calls.push(|| println!("before")).unwrap();
    /// assert_eq!(calls.run(|| 6 * 7).unwrap().await, Ok(42));
    /// # });
    /// ```
    #[doc(alias("ask", "call", "request"))]
    pub fn run<R, F>(&self, f: F) -> Result<JoinHandle<R>, PushError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.try_spawn(async move { f() })
    }

    /// Runs a future: each of its polls is a task of this serializer, which is
    /// queued beyond the capacity, and which no overflow policy drops. Other
    /// tasks run between two polls; see
    /// [`spawn_exclusive`](Self::spawn_exclusive). To be refused when the queue
    /// is full, use [`try_spawn`](Self::try_spawn).
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let core = Arc::clone(&self.core);
        let (pool, entity) = (Arc::clone(core.pool()), core.as_entity());
        spawn_on(&pool, Some(&entity), future, move |task| {
            core.push_forced(task)
        })
    }

    /// Like [`spawn`](Self::spawn), but the first poll needs room in the queue,
    /// as a task does. This never waits for room; await
    /// [`reserve`](Self::reserve) before to do so. Later polls are queued beyond
    /// the capacity, at most one for each future; a future that sleeps takes no
    /// place.
    ///
    /// # Errors
    ///
    /// [`PushError::Full`] if the queue is full, whatever the overflow policy
    /// waits for; with
    /// [`Overflow::DropOldest`](crate::task::Overflow::DropOldest) the oldest
    /// waiting task is dropped instead, and so may the first poll be, which ends
    /// the future. [`PushError::ShutDown`] once the pool or the group is
    /// shutting down. The future is then dropped.
    ///
    /// ```
    /// use busyhour::pool::{PushError, TaskPool};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").capacity(1).build().unwrap();
    /// let suspension = calls.suspend();
    /// let first = calls.try_spawn(async { 1 }).unwrap();
    /// assert!(matches!(calls.try_spawn(async { 2 }), Err(PushError::Full)));
    /// drop(suspension);
    /// assert_eq!(first.wait(), Ok(1));
    /// ```
    #[doc(alias("load shedding", "back pressure"))]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, PushError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let future = self.core.check_room(future)?;
        let core = Arc::clone(&self.core);
        self.spawn_bounded(future, move |task| core.try_push(task, None))
    }

    /// `first` queues the first poll.
    fn spawn_bounded<F>(
        &self,
        future: F,
        first: impl Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
    ) -> Result<JoinHandle<F::Output>, PushError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (core, first_poll) = (Arc::clone(&self.core), FirstPoll::default());
        let push = move |task| match first_poll.is_it() {
            true => first(task),
            false => core.push_forced(task),
        };
        let entity = self.core.as_entity();
        let spawned = try_spawn_on(self.core.pool(), Some(&entity), future, push, |_| ());
        spawned.map_err(PushError::from)
    }

    /// Prevents further tasks from starting while the guard lives. Guards nest:
    /// tasks continue when the last guard is dropped. A task that is running
    /// already is not affected.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").build().unwrap();
    /// let suspension = calls.suspend();
    /// calls.push(|| ()).unwrap();
    /// assert_eq!(calls.len(), 1);
    /// drop(suspension);
    /// calls.push_wait(|| ()).unwrap();
    /// assert_eq!(calls.len(), 0);
    /// ```
    #[doc(alias = "dispatch_suspend")]
    pub fn suspend(&self) -> Suspension {
        Suspension::new(Arc::clone(&self.core))
    }

    /// Moves the serializer to another class, while it has tasks or not.
    ///
    /// It takes effect when the serializer is queued next: with the next push
    /// if it has no tasks, otherwise at the end of its next turn, or of the one
    /// that runs. What is left of its counter stays.
    ///
    /// ```
    /// use busyhour::{pool::TaskPool, run_queue::{Class, RealTimePriority}};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").build().unwrap();
    /// calls.set_class(Class::RealTime(RealTimePriority::new(50)));
    /// ```
    #[doc(alias("renice", "sched_setscheduler"))]
    pub fn set_class(&self, class: Class) {
        self.core.set_class(class);
    }

    /// Changes the priority among normal entities; see
    /// [`set_class`](Self::set_class).
    #[doc(alias("nice", "setpriority"))]
    pub fn set_priority(&self, priority: Priority) {
        self.set_class(Class::Normal(priority));
    }

    /// The number of waiting tasks, without the one that runs.
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no task waits and none runs.
    pub fn is_idle(&self) -> bool {
        self.core.is_idle()
    }

    /// Lets [`queued_high_water`](SerializerStats::queued_high_water) begin
    /// again, from what waits now; returns what it was.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::simulated(1, busyhour::clock::Clock::simulated(Default::default()));
    /// let calls = pool.serializer("calls").build().unwrap();
    /// (0..5).for_each(|_| calls.push(|| ()).unwrap());
    /// while pool.step() {}
    /// assert_eq!(calls.reset_high_water(), 5);
    /// assert_eq!(calls.stats().queued_high_water, 0);
    /// ```
    #[doc(alias("core reset taskprocessor"))]
    pub fn reset_high_water(&self) -> u64 {
        self.core.reset_high_water()
    }

    /// Moves the watermarks of a serializer that was built with some; `false`
    /// for others, and if `low` is not below `high`. If its queue is beyond one of the new ones, an alert follows
    /// at once.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::simulated(1, busyhour::clock::Clock::simulated(Default::default()));
    /// let calls = pool.serializer("calls").watermarks(10, 100).build().unwrap();
    /// (0..5).for_each(|_| calls.push(|| ()).unwrap());
    /// assert!(calls.set_watermarks(1, 5));
    /// assert_eq!(pool.alert_count(), 1);
    /// ```
    #[doc(alias("ast_taskprocessor_alert_set_levels"))]
    pub fn set_watermarks(&self, low: usize, high: usize) -> bool {
        self.core.set_watermarks(low, high)
    }

    /// Statistics of the serializer: what it holds now and what it has done.
    pub fn stats(&self) -> SerializerStats {
        self.core.stats_now()
    }
}

impl TaskPool {
    /// Options of a new serializer named `name`.
    pub fn serializer(&self, name: &str) -> SerializerBuilder {
        SerializerBuilder::new(self, Some(name))
    }

    /// The living serializer with this name.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").build().unwrap();
    /// assert_eq!(pool.find_serializer("calls"), Some(calls));
    /// assert_eq!(pool.find_serializer("calls"), None, "its last handle was dropped");
    /// ```
    #[doc(alias = "ast_taskprocessor_get")]
    pub fn find_serializer(&self, name: &str) -> Option<Serializer> {
        let core = downcast(self.shared().registry.find(name)?)?;
        Some(Serializer { core })
    }

    /// How many serializers of the pool have crossed their high watermark and
    /// have not fallen back to the low one. Reads one number; see
    /// [`AlertGroup`] for those of one subsystem.
    #[doc(alias = "ast_taskprocessor_alert_get")]
    pub fn alert_count(&self) -> usize {
        self.shared().registry.high_count.load(Ordering::Relaxed)
    }

    /// Lets the high water of every named serializer begin again; see
    /// [`Serializer::reset_high_water`].
    pub fn reset_high_waters(&self) {
        for entity in self.shared().registry.living() {
            if let Some(core) = downcast::<Core>(entity) {
                core.reset_high_water();
            }
        }
    }

    /// A serializer without a name, which no list shows: one for each device,
    /// call or connection. It rejects tasks when 65,536 wait.
    pub fn ephemeral(&self) -> Serializer {
        SerializerBuilder::new(self, None).build_ephemeral()
    }
}

/// Never waits, whatever the policy is: a timer or a topic must not block.
impl Executor for Serializer {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.core.try_push(task, None)
    }

    fn execute_unbounded(&self, task: Task) -> Result<(), Rejected> {
        self.core.push_turn(task)
    }

    fn to_shared(&self) -> Option<Arc<dyn Executor>> {
        Some(self.core.clone())
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        Executor::blocking(&*self.core, wait);
    }

    fn assist(&self) -> HelpOutcome {
        self.core.assist()
    }

    fn name(&self) -> String {
        Executor::name(&*self.core)
    }

    fn now(&self) -> Option<Instant> {
        Executor::now(&*self.core)
    }

    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        self.core.register(deliveries)
    }

    fn unregister(&self, deliveries: *const ()) {
        self.core.unregister(deliveries);
    }
}

impl PartialEq for Serializer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }
}

impl Eq for Serializer {}

impl fmt::Debug for Serializer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serializer")
            .field("name", &self.name())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
