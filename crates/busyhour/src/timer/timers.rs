use super::{
    builder::TimerBuilder,
    handle::{Cancel, TimerHandle},
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

/// The timer service: callbacks that a serializer or a pool runs when they are due.
///
/// A handle is cheap to clone; clones are the same service. Somebody must
/// drive it: a thread of its own ([`Timers::spawn_driver`]), a host's event
/// loop ([`Timers::next_wait`] and [`Timers::run_due`]), or a simulation.
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
/// - Callbacks reach one executor in the order of their deadlines; with equal
///   deadlines, in the order they were added if one thread added them.
/// - After [`Cancel::Prevented`] the callback has been dropped; after
///   [`Timers::cancel_and_wait`] it is neither running nor will it run.
/// - Nothing is lost in silence: every callback runs, is cancelled, or counts
///   in [`TimerStats::lost`]. A full executor only puts it off
///   ([`TimerStats::deferred`]).
///
/// # Behaviour at the edges
///
/// - A deadline in the past, or a delay of zero, is due at the next
///   [`Timers::run_due`], in the order of the deadlines; never inside the add.
/// - A deadline beyond the clock's range is [`Instant::FAR_FUTURE`]: the timer
///   waits until it is cancelled.
/// - Deadlines are monotonic time. A step of the calendar moves none; a
///   machine that slept makes all that fell due run at once, in order, and
///   periodic timers follow their [`MissedTicks`](super::MissedTicks).
/// - A callback that panics ends its timer, a periodic one too, and the panic
///   goes on to the executor, which isolates it.
/// - All other code of the user's that the service calls (wakers, executors,
///   the hook, `Drop` of what a callback captured) may panic as well: that is
///   counted in [`TimerStats::panicked`] and goes nowhere.
/// - A callback may add, move and cancel any timer, itself included.
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
    /// If the service is full or closed, the callback is dropped, counted in
    /// [`TimerStats::refused`], and the handle names a timer that is over. Use
    /// [`Timers::timer`] to be told.
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

    /// Runs `callback` on `executor` each `period`, the first time one period
    /// from now, leaving missed ticks out; see [`Timers::after`].
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

    /// Cancels a timer. Up to the moment its callback begins, that is
    /// prevented, also when it already waits in the executor's queue.
    pub fn cancel(&self, handle: &TimerHandle) -> Cancel {
        self.service.cancel(handle)
    }

    /// Cancels a timer and, if its callback is running, waits for the end.
    ///
    /// Afterwards the callback is neither running nor will it run, and what it
    /// captured has been dropped (or is being dropped by another thread, whose
    /// own cancel has prevented the run). Only where the wait could never end, inside
    /// the callback itself or in a circle of callbacks that wait for each
    /// other, does it return [`Cancel::Running`] instead: then the timer is
    /// stopped, but its present run goes on.
    ///
    /// It blocks the calling thread, so it belongs outside the pool's workers
    /// or after [`Timers::cancel`] has said [`Cancel::Running`].
    #[doc(alias("del_timer_sync", "AST_SCHED_DEL"))]
    pub fn cancel_and_wait(&self, handle: &TimerHandle) -> Cancel {
        self.service.cancel_and_wait(handle)
    }

    /// Moves a timer that waits to another deadline; `false` if it does not
    /// wait any more. The callback and the handle stay. Slack does not apply.
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

    /// How long until a waiting timer is due; zero when it is overdue, `None`
    /// when it has been delivered or is over.
    pub fn time_left(&self, handle: &TimerHandle) -> Option<Duration> {
        let deadline = self.service.deadline(handle)?;
        Some(deadline - self.service.clock.now())
    }

    /// Cancels all timers of `owner`; returns how many were prevented.
    /// Periodic ones that are running stop after the present run. Timers of
    /// others are not looked at.
    pub fn cancel_owner(&self, owner: u64) -> usize {
        self.service.cancel_all(|state| state.of_owner(owner))
    }

    /// Cancels all timers with `label`; see [`Timers::cancel_owner`]. With the
    /// empty label, those that have none, which looks at every timer.
    pub fn cancel_label(&self, label: &str) -> usize {
        self.service.cancel_all(|state| state.of_label(label))
    }

    /// Takes no more timers and drops those that have not begun; returns how many.
    ///
    /// Periodic timers that run stop after the present run. Sleeps, ticks and
    /// time limits of futures that have not come by now never come.
    pub fn close(&self) -> usize {
        self.service.close()
    }

    /// How long a host's event loop may sleep until a timer is due: zero if
    /// one is due now, `None` if there is none.
    ///
    /// The sleep must end early when the hook of [`Timers::on_earlier_deadline`] is
    /// called, since an earlier deadline may be added meanwhile. To look at
    /// the earliest deadline without a sleep there is [`Timers::next_deadline`].
    #[doc(alias = "ast_sched_wait")]
    pub fn next_wait(&self) -> Option<Duration> {
        let service = &self.service;
        let until = service.driver_waker.prepare_sleep(|| service.earliest());
        let now = service.clock.now();
        (until != Instant::FAR_FUTURE).then(|| until - now)
    }

    /// The deadline of the earliest timer.
    pub fn next_deadline(&self) -> Option<Instant> {
        let earliest = self.service.earliest();
        (earliest != Instant::FAR_FUTURE).then_some(earliest)
    }

    /// Hands what is due at `now` to its executors, in order; returns how many
    /// timers that were.
    ///
    /// One thread drives at a time: while another is inside this method, it
    /// returns 0 at once. It hands over no more timers than were pending at
    /// the call, so it returns even when callbacks keep adding due ones. And
    /// it returns when it has taken a millisecond of the service's clock, plus
    /// what the executors and wakers take that it is in: what is left is still
    /// due, and [`Timers::next_wait`] is zero.
    ///
    /// Executors and wakers are called on this thread, under no lock. One that
    /// panics is counted in [`TimerStats::panicked`]; the others are not
    /// affected.
    #[doc(alias = "ast_sched_runq")]
    pub fn run_due(&self, now: Instant) -> usize {
        self.service.run_due(now)
    }

    /// Installs the hook that ends a host's sleep when a deadline earlier than
    /// the last [`Timers::next_wait`] is added; `false` if there is one
    /// already, the driver's included.
    ///
    /// The hook is called on the adding thread (or on one that calls
    /// [`Timers::next_wait`] while another one sleeps), under no lock of this
    /// service. It must be quick and sticky: a call just before the host falls
    /// asleep must end that sleep too, as writing to an eventfd does. A panic
    /// in it is counted in [`TimerStats::panicked`].
    pub fn on_earlier_deadline(&self, hook: impl Fn() + Send + Sync + 'static) -> bool {
        self.service.driver_waker.install(Box::new(hook))
    }

    /// What the service holds and has done.
    pub fn stats(&self) -> TimerStats {
        self.service.stats()
    }

    /// The clock that deadlines refer to.
    pub fn clock(&self) -> &Clock {
        &self.service.clock
    }

    /// A handle of a timer that is over.
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

    /// The clock that deadlines refer to; the machine's by default.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How many shards with a lock each; by default twice the processors, up
    /// to 64. With one, equal deadlines keep the order of insertion across
    /// threads too: a simulation wants that.
    pub fn shards(mut self, count: usize) -> Self {
        self.shard_count = count.clamp(1, SHARDS_MAX);
        self
    }

    /// How many timers may wait; an add beyond is refused. 134 million by
    /// default. The timers of futures count, but are not refused.
    pub fn capacity(mut self, count: usize) -> Self {
        self.capacity = count.max(1);
        self
    }

    /// Makes the service. It has no thread until [`Timers::spawn_driver`].
    pub fn build(self) -> Timers {
        let number = SERVICES.fetch_add(1, Ordering::Relaxed);
        let service = Service::new(number, self.clock, self.shard_count, self.capacity);
        Timers {
            service: Arc::new(service),
        }
    }
}

/// Why a timer was not added; its callback has been dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// As many timers wait as the service may hold.
    #[error("the timer service is full")]
    Full,
    /// The service was closed.
    #[error("the timer service is closed")]
    Closed,
    /// The service knows 1,024 labels, and this one is new to it.
    #[error(
        "the timer service has 1,024 labels already: a label names a class of timers; tell single ones apart by their owner"
    )]
    Labels,
}

/// Why no driver was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The service is driven already, or a host installed its own hook.
    #[error("the timer service has a driver already")]
    Driven,
    /// Virtual time does not pass by itself: the program that advances it calls
    /// [`Timers::run_due`].
    #[error("a virtual clock needs no driver thread")]
    VirtualClock,
    /// The thread could not be started.
    #[error("the driver's thread could not be started")]
    Thread(#[source] io::Error),
}

/// Numbers of the services, for their handles.
static SERVICES: AtomicU32 = AtomicU32::new(0);
const SHARDS_MAX: usize = 64;
const CAPACITY: usize = 1 << 27;
