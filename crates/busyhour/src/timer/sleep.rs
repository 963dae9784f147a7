use super::{
    handle::TimerHandle,
    labels::FUTURES,
    rule::{MissedTicks, NextRun},
    service::{Add, OtherWork, Work},
    timers::{AddError, Timers},
};
use crate::{clock::Instant, pool::poll_budget};
use futures_core::Stream;
use std::{
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Sleeps, intervals and time limits for futures on any executor: the pool's
/// `spawn`, tokio, or another one. The driver's thread only calls wakers.
///
/// - A sleep, a tick or a time limit never completes early. Once the service is
///   [closed](Timers::close), one that has not completed never does: the future
///   stays pending until it is dropped, as futures do when tokio's runtime
///   shuts down. A loop around it is suspended and does not spin.
/// - The service's [capacity](super::TimersBuilder::capacity) does not limit
///   the timers of futures, since a future could not continue without its
///   timer. Only the methods that begin with `try_` respect it and return an
///   error.
impl Timers {
    /// A future that completes once `delay` has passed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{pool::TaskPool, timer::Timers};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = TaskPool::builder().workers(1).build()?;
    /// let timers = Timers::builder().build();
    /// let _driver = timers.spawn_driver()?;
    /// let sleep = timers.sleep(Duration::from_millis(1));
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// pool.spawn(async move {
    ///     sleep.await;
    ///     sender.send("awake").unwrap();
    /// });
    /// assert_eq!(receiver.recv()?, "awake");
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleep(&self, delay: Duration) -> Sleep {
        self.sleep_until(self.clock().now() + delay)
    }

    /// A future that completes at `deadline`.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep {
            timers: self.clone(),
            deadline,
            timer: None,
        }
    }

    /// Like [`Timers::sleep`], but takes its timer now, and only within the
    /// capacity.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::timer::{AddError, Timers};
    ///
    /// let timers = Timers::builder().shards(1).capacity(1).build();
    /// let minute = Duration::from_secs(60);
    /// let first = timers.try_sleep(minute)?;
    /// assert_eq!(timers.try_sleep(minute).err(), Some(AddError::Full));
    /// drop(first);
    /// assert!(timers.try_sleep(minute).is_ok());
    /// # Ok::<(), AddError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AddError`]: the service is full or closed.
    pub fn try_sleep(&self, delay: Duration) -> Result<Sleep, AddError> {
        self.try_sleep_until(self.clock().now() + delay)
    }

    /// Like [`Timers::sleep_until`]; see [`Timers::try_sleep`].
    ///
    /// # Errors
    ///
    /// [`AddError`]: the service is full or closed.
    pub fn try_sleep_until(&self, deadline: Instant) -> Result<Sleep, AddError> {
        let mut sleep = self.sleep_until(deadline);
        // Nothing waits yet; the first poll sets the waker.
        let timer = self.service.add(sleep.timer_that_wakes(Waker::noop()))?;
        sleep.timer = Some(timer);
        Ok(sleep)
    }

    /// Like [`Timers::timeout`], but takes its timer now, and only within the
    /// capacity; see [`Timers::try_sleep`].
    ///
    /// # Errors
    ///
    /// [`AddError`]: the service is full or closed; `future` is dropped.
    pub fn try_timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> Result<impl Future<Output = Result<F::Output, Elapsed>> + use<F>, AddError> {
        Ok(within(self.try_sleep(limit)?, future))
    }

    /// The output of `future`, if it completes before `limit` has passed.
    ///
    /// # Errors
    ///
    /// [`Elapsed`]: it was not; `future` has been dropped when this completes.
    #[doc(alias("steady_timer", "deadline_timer"))]
    pub fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + use<F> {
        self.timeout_at(self.clock().now() + limit, future)
    }

    /// The output of `future`, if it completes before `deadline`.
    ///
    /// # Errors
    ///
    /// [`Elapsed`]: it was not; `future` has been dropped when this completes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{pool::TaskPool, timer::{Elapsed, Timers}};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let timers = Timers::builder().build();
    /// let _driver = timers.spawn_driver().unwrap();
    /// let deadline = timers.clock().now() + Duration::from_millis(1);
    /// let limited = timers.timeout_at(deadline, timers.sleep(Duration::from_secs(3600)));
    /// assert_eq!(pool.spawn(limited).wait(), Ok(Err(Elapsed)));
    /// ```
    pub fn timeout_at<F: Future>(
        &self,
        deadline: Instant,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + use<F> {
        within(self.sleep_until(deadline), future)
    }

    /// Ticks at a fixed rate, the first one immediately.
    ///
    /// A period of zero counts as one nanosecond.
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(self.clock().now(), period)
    }

    /// Ticks at a fixed rate, the first one at `first`.
    pub fn interval_at(&self, first: Instant, period: Duration) -> Interval {
        Interval {
            sleep: self.sleep_until(first),
            period: period.max(Duration::from_nanos(1)),
            missed: MissedTicks::default(),
            missed_count: 0,
        }
    }
}

async fn within<F: Future>(mut sleep: Sleep, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let first = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => Pin::new(&mut sleep).poll(context).map(|()| Err(Elapsed)),
    });
    first.await
}

/// A future that completes at a deadline, from [`Timers::sleep`].
///
/// It takes its timer when it is first polled ([`Timers::try_sleep`] takes it
/// at once), and gives it back when dropped. It never completes before its
/// deadline; if the service is closed before, it never completes.
///
/// ```
/// use std::time::Duration;
/// use busyhour::runtime::Runtime;
///
/// let runtime = Runtime::simulated(7);
/// let mut sleep = runtime.timers().sleep(Duration::from_secs(60));
/// sleep.reset(runtime.clock().now() + Duration::from_secs(10));
/// let begun = runtime.clock().now();
/// runtime.pool().spawn(sleep).wait().unwrap();
/// assert_eq!(runtime.clock().now() - begun, Duration::from_secs(10));
/// ```
#[derive(Debug)]
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    timers: Timers,
    deadline: Instant,
    timer: Option<TimerHandle>,
}

impl Sleep {
    /// When it completes.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Sets another deadline, even after it has completed.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        let timer = self.timer.take();
        self.timer = timer.filter(|timer| self.timers.reschedule(timer, deadline));
    }

    /// Arranges that `waker` is woken at the deadline. A closed service wakes
    /// no future any more.
    fn register(&mut self, waker: &Waker) {
        let service = &self.timers.service;
        let known = self.timer.as_ref();
        if known.is_some_and(|timer| service.set_waker(timer, waker)) {
            return;
        }
        let added = service.add_for_future(self.timer_that_wakes(waker));
        self.timer = added.ok();
    }

    fn timer_that_wakes(&self, waker: &Waker) -> Add {
        Add {
            deadline: self.deadline,
            work: Work::Other(OtherWork::Wake(waker.clone())),
            label: FUTURES,
            owner: None,
        }
    }

    fn cancel(&mut self) {
        if let Some(timer) = self.timer.take() {
            // Whether it has fired already does not matter to a future.
            let _ = self.timers.cancel(&timer);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline > self.timers.clock().now() {
            self.register(context.waker());
            return Poll::Pending;
        }
        if poll_budget(context).is_pending() {
            return Poll::Pending;
        }
        self.cancel();
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// The time limit of [`Timers::timeout`] has passed.
///
/// ```
/// use busyhour::{pool::TaskPool, timer::{Elapsed, Timers}};
/// use std::{future::pending, time::Duration};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = TaskPool::builder().workers(1).build()?;
/// let timers = Timers::builder().build();
/// let _driver = timers.spawn_driver()?;
/// let never = timers.timeout(Duration::from_millis(1), pending::<()>());
/// assert_eq!(pool.spawn(never).wait()?, Err(Elapsed));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit has passed")
    }
}

impl std::error::Error for Elapsed {}

/// Ticks for a future's loop, from [`Timers::interval`]; also as a
/// [`Stream`], which never ends.
///
/// ```
/// use std::time::Duration;
/// use busyhour::{pool::TaskPool, timer::{MissedTicks, Timers}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = TaskPool::builder().workers(1).build()?;
/// # let timers = Timers::builder().build();
/// # let _driver = timers.spawn_driver()?;
/// let mut interval = timers.interval(Duration::from_millis(1)).missed(MissedTicks::Burst);
/// let (sender, receiver) = std::sync::mpsc::channel();
/// pool.spawn(async move {
///     let first = interval.tick().await;
///     let second = interval.tick().await;
///     sender.send(second - first).unwrap();
/// });
/// assert_eq!(receiver.recv()?, Duration::from_millis(1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an interval ticks when it is asked"]
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    missed: MissedTicks,
    missed_count: u64,
}

impl Interval {
    /// What happens to ticks that came due before anybody asked for them.
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Waits for the next tick and returns when it was due. Once the service is
    /// closed there are no more ticks, and this stays pending.
    ///
    /// A tick is not lost if the future is dropped before it completes.
    pub fn tick(&mut self) -> impl Future<Output = Instant> {
        poll_fn(|context| self.poll_tick(context))
    }

    /// Polls for the next tick; see [`Interval::tick`].
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        let due = self.sleep.deadline();
        Pin::new(&mut self.sleep).poll(context).map(|()| {
            let now = self.sleep.timers.clock().now();
            let NextRun { due: next, missed } = self.missed.next(due, now, self.period);
            self.missed_count += missed;
            self.sleep.reset(next);
            due
        })
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Lets the next tick come one period from now; the later ones follow it at
    /// the fixed rate.
    pub fn reset(&mut self) {
        let now = self.sleep.timers.clock().now();
        self.sleep.reset(now + self.period);
    }

    /// The number of ticks skipped so far.
    pub fn missed_count(&self) -> u64 {
        self.missed_count
    }
}

/// The instants at which the ticks were due.
impl Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll_tick(context).map(Some)
    }
}
