//! A pool of workers; a task goes directly to the queue of one worker.
//!
//! Tasks pushed to the pool run on any worker, in any order, several at a time.
//! Tasks that must keep an order go to a
//! [`Serializer`](crate::serializer::Serializer) of the pool. A panic in a task
//! ends only that task; it is counted.
//!
//! ```
//! use std::time::Duration;
//! use busyhour::pool::TaskPool;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = TaskPool::builder().name("calls").workers(2).build()?;
//! let answer = pool.push_wait(|| 6 * 7)?;
//! assert_eq!(answer, 42);
//!
//! let report = pool.shutdown(Duration::from_secs(5));
//! assert!(report.is_clean());
//! # Ok(())
//! # }
//! ```

mod thread_pool;
mod builder;
mod error;
mod shared;
mod submission;
mod entity;
mod unfinished;
mod context;
mod phase;
mod queue;
mod worker;
mod sleep;
mod wait;
mod future;
mod simulation;
mod lifecycle;
mod metrics;
mod snapshot;
mod moves;
mod watermarks;

#[cfg(all(test, shuttle))]
mod schedules;

pub use builder::{PoolBuildError, Selector, TaskPoolBuilder};
pub use error::{Cycle, PushError, WaitError};
pub use future::{
    JoinError, JoinHandle, PanicPayload, YieldNow, consume_budget, request_yield, yield_now,
};
pub use lifecycle::{Leftover, ShutdownReport, Undelivered};
pub use thread_pool::{ThreadPool, ThreadPoolOptions};
pub use unfinished::Unfinished;
pub use watermarks::{PoolAlert, PoolAlertHook};
pub use worker::InlineRunner;

pub(crate) use context::{current_entity, in_turn_of};
pub(crate) use entity::{Entity, EntityRef, Runs, ShareCell, Token, downcast};
pub(crate) use future::{FirstPoll, Joinable, poll_budget, spawn_on, try_spawn_on};
pub(crate) use lifecycle::{Describes, InFlightPush, outlast_shutdown};
pub(crate) use queue::{TaskCell, TaskRing};
pub(crate) use shared::Shared;
pub(crate) use simulation::Random;
pub(crate) use wait::{
    Section, SectionWait, StandIn, Turns, Waiting, blocking, cycle_by_shutdown, in_turn, oneshot,
    stand_in, wait_for, wait_for_turn,
};
pub(crate) use worker::{ThreadContext, TimeSlice};

use std::{
    fmt,
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use self::future::spawn_as;
use crate::{
    clock::{Clock, Instant},
    run_queue::Class,
    stats::{KeyTableStats, PoolStats, SerializerGroupStats, SerializerStats, WorkerStats},
    task::{Deliveries, Executor, HelpOutcome, Rejected, Task},
};

/// Called when a worker's thread starts or stops.
type Hook = Arc<dyn Fn() + Send + Sync>;

/// A handle to a pool; clones share the same pool.
///
/// When the last handle is dropped (each serializer holds one), queued tasks
/// still run; then the workers end in the background. Use
/// [`shutdown`](Self::shutdown) to wait for the end and to get a report.
///
/// In a simulation only who has a handle can run anything. So there the last
/// one ends the pool at once, serializers hold none, and what is queued is
/// dropped.
#[doc(alias("ThreadPool", "taskpool", "ast_taskpool", "thread_pool", "Executor"))]
#[derive(Clone)]
pub struct TaskPool {
    handle: Arc<PoolHandle>,
}

/// Seals the pool when the last handle is dropped.
struct PoolHandle {
    shared: Arc<Shared>,
    /// False for what only leads to a simulated pool.
    keeps_pool: bool,
}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        if self.keeps_pool {
            self.shared.end_without_handle();
        }
    }
}

impl TaskPool {
    /// Options of a new pool.
    pub fn builder() -> TaskPoolBuilder {
        TaskPoolBuilder::new()
    }

    /// A pool without threads for simulations: each call of
    /// [`step`](Self::step) runs one task, in an order that depends only on
    /// `seed`.
    ///
    /// ```
    /// use busyhour::{clock::{Clock, UnixTime}, pool::TaskPool};
    ///
    /// let pool = TaskPool::simulated(7, Clock::simulated(UnixTime::from_secs(0)));
    /// pool.push(|| println!("now I run")).unwrap();
    /// while pool.step() {}
    /// assert_eq!(pool.stats().processed, 1);
    /// ```
    pub fn simulated(seed: u64, clock: Clock) -> Self {
        TaskPoolBuilder::new().clock(clock).build_simulated(seed)
    }

    fn from_shared(shared: Arc<Shared>) -> Self {
        Self::from_handle(PoolHandle {
            shared,
            keeps_pool: true,
        })
    }

    fn from_handle(handle: PoolHandle) -> Self {
        Self {
            handle: Arc::new(handle),
        }
    }

    /// The handle that a serializer holds. A queue of a simulated pool holds
    /// serializers, and nobody takes them out: there it must not keep the pool.
    pub(crate) fn for_serializer(self) -> Self {
        match self.shared().is_simulated() {
            false => self,
            true => Self::from_handle(PoolHandle {
                shared: Arc::clone(self.shared()),
                keeps_pool: false,
            }),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Runs `f` on a worker at some later time.
    ///
    /// # Errors
    ///
    /// [`PushError::Full`] if the pool's capacity is used up,
    /// [`PushError::ShutDown`] once a shutdown has begun. `f` is then dropped.
    #[doc(alias("post", "execute", "dispatch_async"))]
    #[inline]
    pub fn push(&self, f: impl FnOnce() + Send + 'static) -> Result<(), PushError> {
        let pushed = self.shared().submission().push_with(|| Task::new(f));
        pushed.map_err(PushError::from)
    }

    /// Like [`push`](Self::push), but returns a refused task.
    ///
    /// # Errors
    ///
    /// [`Rejected`] holds the task and the reason.
    pub fn try_push(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Rejected> {
        self.shared().submission().push_with(|| Task::new(f))
    }

    /// Runs `f` on the pool, waits, and returns its result.
    ///
    /// Inside a task of the pool, `f` runs at once on this worker, as a part of
    /// that task, since plain tasks have no order to keep. So in `f`,
    /// [`Serializer::current`](crate::serializer::Serializer::current) is that
    /// task's serializer, and waiting for it is refused with
    /// [`WaitError::Deadlock`].
    ///
    /// # Errors
    ///
    /// [`WaitError::Push`] if the task was refused, [`WaitError::Panicked`] if
    /// it panicked, [`WaitError::Dropped`] if a shutdown dropped it,
    /// [`WaitError::Stalled`] if a simulation cannot run it. After any error
    /// but a panic `f` has not run, will not, and is dropped.
    #[doc(alias("dispatch_sync", "ast_taskpool_push_wait"))]
    pub fn push_wait<R, F>(&self, f: F) -> Result<R, WaitError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let (sender, receiver) = oneshot(f);
        let task = Task::new(move || sender.fulfil());
        if self.shared().is_inside() {
            self.shared().run_now(task)?;
        } else {
            self.execute(task).map_err(PushError::from)?;
        }
        self.shared().await_oneshot(receiver)
    }

    /// Runs `f` on a worker and returns a handle of its result, to be awaited or
    /// waited for. Unlike [`push_wait`](Self::push_wait) it never blocks, and
    /// [aborting](JoinHandle::abort) prevents a closure that has not begun.
    ///
    /// # Errors
    ///
    /// Those of [`push`](Self::push). `f` is then dropped.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let sum = pool.run(|| (1..=100).sum::<u32>()).unwrap();
    /// assert_eq!(sum.await, Ok(5050));
    /// # });
    /// ```
    #[doc(alias("spawn_blocking", "async", "submit"))]
    pub fn run<R, F>(&self, f: F) -> Result<JoinHandle<R>, PushError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.try_spawn(async move { f() })
    }

    /// Runs a future on the pool, whatever waits there: its polls are queued
    /// beyond the [capacity](TaskPoolBuilder::capacity). To be refused instead,
    /// use [`try_spawn`](Self::try_spawn).
    ///
    /// If the future is refused or dropped, its handle returns
    /// [`JoinError::Dropped`].
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let sum = pool.spawn(async { 1 + 2 });
    /// assert_eq!(sum.wait(), Ok(3));
    /// ```
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let shared = Arc::clone(self.shared());
        let push = move |task| shared.submission().push(task, true);
        spawn_on(self.shared(), None, future, push)
    }

    /// Like [`spawn`](Self::spawn), but a future is refused if the pool's
    /// capacity is used up. Later polls are queued beyond it, at most one for
    /// each future; a future that sleeps takes no place.
    ///
    /// # Errors
    ///
    /// Those of [`push`](Self::push). The future is then dropped.
    ///
    /// ```
    /// use busyhour::pool::{PushError, TaskPool};
    ///
    /// let pool = TaskPool::builder().capacity(2).workers(1).build().unwrap();
    /// let (begun, begins) = std::sync::mpsc::channel();
    /// let (release, held) = std::sync::mpsc::channel::<()>();
    /// pool.push(move || { begun.send(()).unwrap(); _ = held.recv() }).unwrap();
    /// begins.recv().unwrap(); // the only worker is busy
    /// let spawned: Vec<_> = (0..3).map(|number| pool.try_spawn(async move { number })).collect();
    /// assert!(matches!(spawned[2], Err(PushError::Full)));
    /// drop(release);
    /// ```
    #[doc(alias("load shedding", "back pressure"))]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, PushError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (shared, first) = (Arc::clone(self.shared()), FirstPoll::default());
        let push = move |task| shared.submission().push(task, !first.is_it());
        let spawned = try_spawn_on(self.shared(), None, future, push, |_| ());
        spawned.map_err(PushError::from)
    }

    /// Runs a future as an entity of its own, which competes for its worker by
    /// goodness as a serializer does; [`spawn`](Self::spawn) makes the future's
    /// polls plain tasks instead. [`yield_now`] inside the future lets every
    /// other entity of the worker run first.
    ///
    /// Each poll counts as a task; the pool's capacity does not limit how many
    /// such futures there are. If the pool is shut down, the future's
    /// handle returns [`JoinError::Dropped`].
    ///
    /// ```
    /// use busyhour::{pool::TaskPool, run_queue::{Class, Priority}};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let background = pool.spawn_as(Class::Normal(Priority::MIN), async { 1 + 2 });
    /// assert_eq!(background.wait(), Ok(3));
    /// ```
    pub fn spawn_as<F>(&self, class: Class, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_as(self.shared(), class, future)
    }

    /// Runs `f`, which may block, at once on this thread.
    ///
    /// If this thread is a worker (of this pool or of another one), another
    /// worker of its pool runs the waiting tasks meanwhile: a sleeping one, or
    /// an additional thread beyond the maximum (at most as many again). That
    /// worker stays at least until `f` returns, and then until it is idle.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let (sender, receiver) = mpsc::channel();
    /// let waiting = pool.clone();
    /// pool.push(move || waiting.blocking(|| receiver.recv().unwrap())).unwrap();
    /// // The only worker waits, and yet this runs:
    /// pool.push(move || sender.send(()).unwrap()).unwrap();
    /// assert!(pool.shutdown(std::time::Duration::from_secs(60)).is_clean());
    /// ```
    #[doc(alias("block_in_place", "spawn_blocking"))]
    pub fn blocking<R>(&self, f: impl FnOnce() -> R) -> R {
        blocking(f)
    }

    /// Runs one task of a simulated pool; `false` if none is runnable or the
    /// pool has threads of its own.
    pub fn step(&self) -> bool {
        self.shared().step()
    }

    /// Called in a simulation when a task waits and nothing can run; returns
    /// whether something can run now.
    pub(crate) fn set_idle_hook(&self, hook: impl Fn() -> bool + Send + Sync + 'static) {
        if let Some(simulated) = &self.shared().simulated {
            simulated.set_idle_hook(Box::new(hook));
        }
    }

    /// Statistics of the pool: what it holds now and what it has done.
    pub fn stats(&self) -> PoolStats {
        self.shared().stats()
    }

    /// Statistics of each worker that has a thread, in the order of their
    /// numbers; empty in a simulation.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(2).build().unwrap();
    /// for _ in 0..100 {
    ///     pool.push_wait(|| ()).unwrap();
    /// }
    /// let workers = pool.worker_stats();
    /// assert_eq!(workers.len(), 2);
    /// assert!(workers.iter().map(|worker| worker.processed).sum::<u64>() <= 100);
    /// ```
    pub fn worker_stats(&self) -> Vec<WorkerStats> {
        self.shared().worker_stats()
    }

    /// The named serializers in the order of their names.
    pub fn serializer_stats(&self) -> Vec<SerializerStats> {
        self.shared().registry.stats()
    }

    /// The tables of keys whose serializers belong to the pool, in the order of
    /// their creation.
    pub fn key_table_stats(&self) -> Vec<KeyTableStats> {
        self.shared().key_tables.describe()
    }

    /// The groups to which serializers or templates of the pool were added, in
    /// the order in which they were.
    pub fn serializer_group_stats(&self) -> Vec<SerializerGroupStats> {
        self.shared().groups.describe()
    }

    /// Shuts the pool down within `deadline`:
    ///
    /// 1. Pushes from outside are refused. Tasks of the pool may still push, so
    ///    that accepted work can be completed.
    /// 2. Everything queued runs, until nothing is left or the deadline passes.
    /// 3. All pushes are refused; workers end after their current task.
    /// 4. The call waits for the workers until the deadline; it reports a
    ///    worker that is still inside a task.
    /// 5. The remaining tasks are dropped, counted by serializer.
    ///
    /// A second call, or a call from inside a task of the pool, does not wait
    /// for anything that waits for that call. In a simulated pool each step
    /// counts as one microsecond.
    pub fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        self.shared().shutdown(deadline)
    }

    /// Like [`shutdown`](Self::shutdown), but blocks no thread of the caller: a
    /// thread of its own waits, and the future is ready when it has the report.
    ///
    /// The shutdown begins at once, and goes on if the future is dropped. A
    /// future of this pool that awaits it is dropped by it. In a simulation, or
    /// if the system has no thread, it is made before this returns.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::pool::TaskPool;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// pool.push(|| ()).unwrap();
    /// let report = pool.shutdown_async(Duration::from_secs(5)).await;
    /// assert!(report.is_clean());
    /// # });
    /// ```
    pub fn shutdown_async(
        &self,
        deadline: Duration,
    ) -> impl Future<Output = ShutdownReport> + Send + use<> + 'static {
        let shared = Arc::clone(self.shared());
        self.shared()
            .shut_down_apart(move || shared.shutdown(deadline))
    }
}

impl Executor for TaskPool {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.handle.execute(task)
    }

    fn execute_unbounded(&self, task: Task) -> Result<(), Rejected> {
        self.handle.execute_unbounded(task)
    }

    fn to_shared(&self) -> Option<Arc<dyn Executor>> {
        Some(self.handle.clone())
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        Executor::blocking(&self.handle, wait);
    }

    fn assist(&self) -> HelpOutcome {
        self.handle.assist()
    }

    fn name(&self) -> String {
        self.handle.name()
    }

    fn now(&self) -> Option<Instant> {
        self.handle.now()
    }

    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        self.handle.register(deliveries)
    }

    fn unregister(&self, deliveries: *const ()) {
        self.handle.unregister(deliveries);
    }
}

/// So that an `Arc<dyn Executor>` of a pool is the handle itself, without
/// another box around it.
impl Executor for PoolHandle {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.shared.submission().push(task, false)
    }

    fn execute_unbounded(&self, task: Task) -> Result<(), Rejected> {
        self.shared.submission().push(task, true)
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        blocking(wait);
    }

    fn assist(&self) -> HelpOutcome {
        if self.shared.step() {
            HelpOutcome::Helped
        } else if self.shared.is_simulated() || self.shared.is_sealed() {
            HelpOutcome::WouldDeadlock
        } else {
            HelpOutcome::Wait
        }
    }

    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn now(&self) -> Option<Instant> {
        Some(self.shared.clock.now())
    }

    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        self.shared.subscriptions.register(deliveries, 0, || false)
    }

    fn unregister(&self, deliveries: *const ()) {
        self.shared.subscriptions.unregister(deliveries);
    }
}

impl fmt::Debug for TaskPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPool")
            .field("name", &self.shared().name)
            .finish_non_exhaustive()
    }
}
