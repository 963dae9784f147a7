use super::{
    builder::TimerBuilder,
    handle::{Cancel, TimerHandle},
    pending::{PendingTimer, PendingTimers},
    service::Service,
};
use crate::{
    clock::{Clock, Instant},
    stats::TimerStats,
    task::Executor,
};
use std::{
    fmt, io,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

/// The timer service: a serializer or a pool runs callbacks when they are due.
///
/// A handle is cheap to clone; clones share the same service. Something must
/// drive the service: a thread of its own ([`Timers::spawn_driver`]), a host's
/// event loop ([`Timers::next_wait`] and [`Timers::run_due`]), or a simulation.
///
/// ```
/// use std::{sync::mpsc, time::Duration};
/// use busyhour::{pool::TaskPool, timer::{Cancel, Timers}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = TaskPool::builder().workers(1).build()?;
/// let calls = pool.serializer("calls").build()?;
/// let timers = Timers::builder().build();
/// let _driver = timers.spawn_driver()?;
///
/// let (sender, receiver) = mpsc::channel();
/// timers.after(Duration::from_millis(1), &calls, move || sender.send("rang").unwrap());
/// let timeout = timers.after(Duration::from_secs(3600), &calls, || unreachable!());
///
/// assert_eq!(receiver.recv()?, "rang");
/// assert_eq!(timers.cancel(&timeout), Cancel::Prevented);
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - A callback never runs before its deadline, never on the driver's thread,
///   and at most once for each time it is due.
/// - Callbacks are passed to one executor in the order of their deadlines; with
///   equal deadlines, in the order in which they were added if one thread added
///   them.
/// - After [`Cancel::Prevented`] the callback has been dropped; after
///   [`Timers::cancel_and_wait`] it is neither running nor will it run.
/// - Nothing is lost silently: every callback runs, is cancelled, or counts in
///   [`TimerStats::lost`]. A full executor only delays it
///   ([`TimerStats::deferred`]).
///
/// # Behaviour at the edges
///
/// - A deadline in the past, or a delay of zero, is due at the next
///   [`Timers::run_due`], in the order of the deadlines; the callback never
///   runs inside the add.
/// - A deadline beyond the clock's range is [`Instant::FAR_FUTURE`]: the timer
///   waits until it is cancelled.
/// - Deadlines are monotonic time. A change of the wall clock moves none. After
///   the machine was suspended, everything that fell due runs at once, in
///   order, and periodic timers follow their
///   [`MissedTicks`](super::MissedTicks).
/// - A callback that panics ends its timer, even a periodic one. The panic goes
///   on to the executor, which isolates it.
/// - All other user code that the service calls (wakers, executors, the hook,
///   `Drop` of what a callback captured) may panic as well: the service catches
///   the panic and counts it in [`TimerStats::panicked`].
/// - A callback may add, move and cancel any timer, including its own.
#[doc(alias(
    "ast_sched_context",
    "ast_sched_add",
    "uv_timer_t",
    "dispatch_after",
    "timing wheel"
))]
#[derive(Clone)]
pub struct Timers {
    pub(super) service: Arc<Service>,
}

impl Timers {
    /// Options of a new service.
    pub fn builder() -> TimersBuilder {
        TimersBuilder::new()
    }

    /// Runs `callback` on `executor` once `delay` has passed.
    ///
    /// If the service is full or closed, the callback is dropped and counted in
    /// [`TimerStats::refused`], and the handle identifies a timer that is over.
    /// Use [`Timers::timer`] to get an error instead.
    pub fn after<E>(
        &self,
        delay: Duration,
        executor: &E,
        callback: impl FnOnce() + Send + 'static,
    ) -> TimerHandle
    where
        E: Executor + Clone + 'static,
    {
        self.timer().after(delay).on(executor).run_or_drop(callback)
    }

    /// Runs `callback` on `executor` at `deadline`; see [`Timers::after`].
    pub fn at<E>(
        &self,
        deadline: Instant,
        executor: &E,
        callback: impl FnOnce() + Send + 'static,
    ) -> TimerHandle
    where
        E: Executor + Clone + 'static,
    {
        self.timer().at(deadline).on(executor).run_or_drop(callback)
    }

    /// Runs `callback` on `executor` each `period`, first one period from now,
    /// skipping missed ticks; see [`Timers::after`].
    ///
    /// [`Timers::timer`] has the other kinds of periodic timers.
    pub fn every<E>(
        &self,
        period: Duration,
        executor: &E,
        callback: impl FnMut() + Send + 'static,
    ) -> TimerHandle
    where
        E: Executor + Clone + 'static,
    {
        let timer = self.timer().after(period).on(executor);
        timer.run_every(period, callback).unwrap_or(self.over())
    }

    /// Options of a new timer: label, owner, slack, and the kind of repetition.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{pool::TaskPool, timer::Timers};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let timers = Timers::builder().build();
    /// # let pool = TaskPool::builder().workers(1).build()?;
    /// let expiry = timers
    ///     .timer()
    ///     .label("binding")
    ///     .owner(4711)
    ///     .after(Duration::from_secs(3600))
    ///     .slack(Duration::from_millis(50))
    ///     .on(&pool)
    ///     .run(|| println!("the binding has expired"))?;
    /// assert!(timers.time_left(&expiry) > Some(Duration::from_secs(3599)));
    /// assert_eq!(timers.cancel_owner(4711), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn timer(&self) -> TimerBuilder<'_> {
        TimerBuilder::new(self)
    }

    /// Cancels a timer. The callback is prevented if it has not begun, even if
    /// it already waits in the executor's queue.
    pub fn cancel(&self, handle: &TimerHandle) -> Cancel {
        self.service.cancel(handle)
    }

    /// Cancels a timer and, if its callback is running, waits for the end.
    ///
    /// Afterwards the callback is not running and will not run, and what it
    /// captured has been dropped (or is being dropped by another thread, whose
    /// own cancel has prevented the run). If the wait would never end, inside
    /// the callback itself or in a cycle of callbacks that wait for each other,
    /// it returns [`Cancel::Running`] instead: then the timer is stopped, but
    /// its current run continues.
    ///
    /// It blocks the calling thread, so call it outside of the pool's workers,
    /// or only after [`Timers::cancel`] has returned [`Cancel::Running`].
    #[doc(alias("del_timer_sync", "AST_SCHED_DEL"))]
    pub fn cancel_and_wait(&self, handle: &TimerHandle) -> Cancel {
        self.service.cancel_and_wait(handle)
    }

    /// Moves a waiting timer to another deadline; `false` if it no longer
    /// waits. The callback and the handle stay the same. Slack does not apply.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{clock::{Clock, UnixTime}, pool::TaskPool, timer::Timers};
    ///
    /// let clock = Clock::simulated(UnixTime::default());
    /// let timers = Timers::builder().clock(clock.clone()).build();
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let expiry = timers.after(Duration::from_secs(60), &pool, || ());
    /// assert!(timers.reschedule(&expiry, clock.now() + Duration::from_secs(90)));
    /// assert_eq!(timers.time_left(&expiry), Some(Duration::from_secs(90)));
    /// ```
    pub fn reschedule(&self, handle: &TimerHandle, deadline: Instant) -> bool {
        self.service.reschedule(handle, deadline)
    }

    /// How long until a waiting timer is due; zero if it is overdue, `None` if
    /// it has been delivered or is over.
    pub fn time_left(&self, handle: &TimerHandle) -> Option<Duration> {
        let deadline = self.service.deadline(handle)?;
        Some(deadline - self.service.clock.now())
    }

    /// Cancels all timers of `owner`; returns how many were prevented. Periodic
    /// timers that are running stop after the current run. The cost depends
    /// only on the owner's timers.
    pub fn cancel_owner(&self, owner: u64) -> usize {
        self.service.cancel_all(|state| state.of_owner(owner))
    }

    /// Cancels all timers with `label`; see [`Timers::cancel_owner`]. The empty
    /// label means the timers without a label; this looks at every timer.
    pub fn cancel_label(&self, label: &str) -> usize {
        self.service.cancel_all(|state| state.of_label(label))
    }

    /// Closes the service: it accepts no more timers and drops those that have
    /// not begun; returns how many.
    ///
    /// Periodic timers that are running stop after the current run. Sleeps,
    /// ticks and time limits of futures that have not completed by now never
    /// complete.
    pub fn close(&self) -> usize {
        self.service.close()
    }

    /// How long a host's event loop may sleep until a timer is due: zero if
    /// one is due now, `None` if there is none.
    ///
    /// When the hook of [`Timers::on_earlier_deadline`] is called, the sleep
    /// must end early, since an earlier deadline was added meanwhile. To look
    /// at the earliest deadline without a sleep, use [`Timers::next_deadline`].
    #[doc(alias = "ast_sched_wait")]
    pub fn next_wait(&self) -> Option<Duration> {
        let service = &self.service;
        let until = service.driver_waker.prepare_sleep(|| service.earliest());
        let now = service.clock.now();
        (until != Instant::FAR_FUTURE).then(|| until - now)
    }

    /// The deadline of the earliest timer, to be looked at.
    ///
    /// It announces no sleep: the hook of [`Timers::on_earlier_deadline`] is not
    /// called for a timer that is added before this deadline. A host that
    /// sleeps calls [`Timers::next_wait`].
    pub fn next_deadline(&self) -> Option<Instant> {
        let earliest = self.service.earliest();
        (earliest != Instant::FAR_FUTURE).then_some(earliest)
    }

    /// Passes what is due at `now` to its executors, in order; returns the
    /// number of timers.
    ///
    /// One thread drives at a time: while another thread is inside this method,
    /// it returns 0 at once. It delivers no more timers than were pending at
    /// the call, so it returns even if callbacks keep adding due ones. And it
    /// returns when it has taken a millisecond of the service's clock, plus the
    /// rest of its current call to an executor or waker: then the remaining
    /// timers are still due, and [`Timers::next_wait`] is zero.
    ///
    /// It calls executors and wakers on this thread, under no lock. If one
    /// panics, this is counted in [`TimerStats::panicked`]; the others are not
    /// affected.
    #[doc(alias = "ast_sched_runq")]
    pub fn run_due(&self, now: Instant) -> usize {
        self.service.run_due(now)
    }

    /// Installs the hook that ends a host's sleep when a deadline earlier than
    /// the last [`Timers::next_wait`] is added; `false` if a hook is installed
    /// already, for example by the driver.
    ///
    /// The hook is called on the adding thread (or on one that calls
    /// [`Timers::next_wait`] while another one sleeps), under no lock of this
    /// service. It must be quick and sticky: a call just before the host falls
    /// asleep must end that sleep too, as writing to an eventfd does. A panic
    /// in it is counted in [`TimerStats::panicked`].
    pub fn on_earlier_deadline(&self, hook: impl Fn() + Send + Sync + 'static) -> bool {
        self.service.driver_waker.install(Box::new(hook))
    }

    /// Statistics of the service: what it holds now and what it has done.
    pub fn stats(&self) -> TimerStats {
        self.service.stats()
    }

    /// The clock that deadlines refer to.
    pub fn clock(&self) -> &Clock {
        &self.service.clock
    }

    /// The timers that are not over, in no defined order, to be shown to people.
    ///
    /// The iterator reads a few timers at a time, and no timer waits for it
    /// longer than that. A timer that is there all the while is listed exactly
    /// once; one that is added or ends meanwhile may be missing. Reading to the
    /// end looks at as many places as there have been timers at the same time;
    /// `take` ends it early.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{pool::TaskPool, timer::{TimerKind, Timers}};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timers = Timers::builder().build();
    /// let pool = TaskPool::builder().workers(1).build()?;
    /// let calls = pool.serializer("calls").build()?;
    /// let timer = timers.timer().label("ping").owner(7).on(&calls);
    /// timer.run_every(Duration::from_secs(30), || ())?;
    ///
    /// for timer in timers.pending().take(100) {
    ///     println!("{} {} {:?}", timer.handle, timer.label, timer.due);
    /// }
    /// let ping = timers.pending().find(|timer| timer.label == "ping").unwrap();
    /// assert_eq!(ping.kind, Some(TimerKind::Every(Duration::from_secs(30))));
    /// assert_eq!((ping.owner, &*ping.executor), (Some(7), "calls"));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("ast_sched_dump", "sched show"))]
    pub fn pending(&self) -> PendingTimers {
        PendingTimers::new(&self.service)
    }

    /// What the timer of `handle` is; `None` once it is over. Its
    /// [owner](PendingTimer::owner) leads to the data of the user.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{pool::TaskPool, timer::Timers};
    ///
    /// let timers = Timers::builder().build();
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let timer = timers.timer().owner(4711).after(Duration::from_secs(9)).on(&pool);
    /// let handle = timer.run(|| ()).unwrap();
    /// assert_eq!(timers.get(&handle).unwrap().owner, Some(4711));
    /// _ = timers.cancel(&handle);
    /// assert!(timers.get(&handle).is_none());
    /// ```
    #[doc(alias = "ast_sched_find_data")]
    pub fn get(&self, handle: &TimerHandle) -> Option<PendingTimer> {
        self.service.get(handle)
    }

    /// Cancels all timers that `is_wanted`; returns how many were prevented.
    /// Periodic timers that are running stop after the current run.
    ///
    /// It asks about every timer, each once, on this thread and under no lock;
    /// [`Timers::cancel_owner`] and [`Timers::cancel_label`] look at no others.
    /// A timer that is moved after the question is cancelled all the same; one
    /// that is added meanwhile may stay. If `is_wanted` panics, that timer
    /// stays, and the panic is counted in [`TimerStats::panicked`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{pool::TaskPool, timer::Timers};
    ///
    /// let timers = Timers::builder().build();
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// for seconds in 1..=10 {
    ///     timers.after(Duration::from_secs(60 * seconds), &pool, || ());
    /// }
    /// let limit = timers.clock().now() + Duration::from_secs(330);
    /// assert_eq!(timers.cancel_where(|timer| timer.due > Some(limit)), 5);
    /// assert_eq!(timers.stats().pending_count, 5);
    /// ```
    #[doc(alias = "ast_sched_clean_by_callback")]
    pub fn cancel_where(&self, is_wanted: impl FnMut(&PendingTimer) -> bool) -> usize {
        self.service.cancel_where(is_wanted)
    }

    /// A handle that identifies a timer that is over.
    pub(super) fn over(&self) -> TimerHandle {
        TimerHandle {
            service: self.service.number,
            shard: u32::MAX,
            timer: super::QueueHandle::NEVER,
        }
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Timers")
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}

/// Options of a new [`Timers`] service.
///
/// ```
/// use std::time::Duration;
/// use busyhour::{clock::Clock, pool::TaskPool, timer::Timers};
///
/// let clock = Clock::simulated(Default::default());
/// let pool = TaskPool::simulated(1, clock.clone());
/// let timers = Timers::builder().clock(clock).shards(1).capacity(1).build();
/// let minute = Duration::from_secs(60);
/// timers.timer().after(minute).on(&pool).run(|| ()).unwrap();
/// let second = timers.timer().after(minute).on(&pool).run(|| ());
/// assert!(second.is_err() && timers.stats().refused == 1);
/// ```
#[derive(Debug, Clone)]
pub struct TimersBuilder {
    clock: Clock,
    shard_count: usize,
    capacity: usize,
}

impl TimersBuilder {
    fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            clock: Clock::machine(),
            shard_count: (2 * processors).next_power_of_two().min(SHARDS_MAX),
            capacity: CAPACITY,
        }
    }

    /// The clock that deadlines refer to; default: the machine's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The number of shards, each with a lock; default: twice the processors,
    /// at most 64. With one shard, equal deadlines keep the order of insertion
    /// across threads too, as a simulation needs.
    pub fn shards(mut self, count: usize) -> Self {
        self.shard_count = count.clamp(1, SHARDS_MAX);
        self
    }

    /// How many timers may wait; further ones are refused. Default: 134
    /// million. The timers of futures count, but are not refused.
    pub fn capacity(mut self, count: usize) -> Self {
        self.capacity = count.max(1);
        self
    }

    /// Builds the service. It has no thread until [`Timers::spawn_driver`].
    pub fn build(self) -> Timers {
        let number = SERVICES.fetch_add(1, Ordering::Relaxed);
        let service = Service::new(number, self.clock, self.shard_count, self.capacity);
        Timers {
            service: Arc::new(service),
        }
    }
}

/// Why a timer was not added; its callback has been dropped.
///
/// ```
/// use busyhour::{pool::TaskPool, timer::{AddError, Timers}};
/// use std::time::Duration;
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let timers = Timers::builder().build();
/// timers.close();
/// let late = timers.timer().after(Duration::from_secs(1)).on(&pool);
/// assert_eq!(late.run(|| ()).unwrap_err(), AddError::Closed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddError {
    /// The service holds as many timers as it may.
    Full,
    /// The service was closed.
    Closed,
    /// A shard of the service has 1,024 labels, and this one is new.
    Labels,
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the timer service is full",
            Self::Closed => "the timer service is closed",
            Self::Labels => "a shard of the timer service has 1,024 labels already: a label names a class of timers; tell single ones apart by their owner",
        })
    }
}

impl std::error::Error for AddError {}

/// Why no driver was started.
///
/// ```
/// use busyhour::{clock::Clock, timer::{DriverError, Timers}};
///
/// let timers = Timers::builder().clock(Clock::simulated(Default::default())).build();
/// assert!(matches!(timers.spawn_driver(), Err(DriverError::VirtualClock)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum DriverError {
    /// The service has a driver already, or a host has installed its own hook.
    Driven,
    /// Virtual time does not pass by itself: the program that advances it calls
    /// [`Timers::run_due`].
    VirtualClock,
    /// The thread could not be started.
    Thread(io::Error),
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Driven => "the timer service has a driver already",
            Self::VirtualClock => "a virtual clock needs no driver thread",
            Self::Thread(_) => "the driver's thread could not be started",
        })
    }
}

impl std::error::Error for DriverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}

/// Numbers of the services, for their handles.
static SERVICES: AtomicU32 = AtomicU32::new(0);
const SHARDS_MAX: usize = 64;
const CAPACITY: usize = 1 << 27;
