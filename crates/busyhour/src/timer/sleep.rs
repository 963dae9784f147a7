use super::{
    handle::TimerHandle,
    record::Work,
    rule::{MissedTicks, Next},
    service::Add,
    timers::Timers,
};
use crate::clock::Instant;
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Waiting in futures, whatever runs them: the pool's `spawn`, tokio, or any
/// other executor. Only wakers are called on the driver's thread.
///
/// If the service is closed, whatever waits here completes at once.
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

    /// The output of `future`, if it is there before `limit` has passed.
    ///
    /// # Errors
    ///
    /// [`Elapsed`]: it was not; `future` has been dropped when this completes.
    pub fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + use<F> {
        let mut sleep = self.sleep(limit);
        async move {
            let mut future = pin!(future);
            let first = poll_fn(|context| match future.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending => Pin::new(&mut sleep).poll(context).map(|()| Err(Elapsed)),
            });
            first.await
        }
    }

    /// Ticks at a fixed rate, the first one at once.
    ///
    /// A period of zero is taken as one nanosecond.
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

/// A future that completes at a deadline, from [`Timers::sleep`].
///
/// It takes no timer before it is first polled, and gives it back when dropped.
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

    /// Sets another deadline, also after it has completed.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if let Some(timer) = self.timer
            && !self.timers.reschedule(&timer, deadline)
        {
            self.timer = None;
        }
    }

    /// Whether the timer still waits, to wake `waker` in the end.
    fn waits(&mut self, waker: &Waker) -> bool {
        if let Some(timer) = &self.timer {
            return self.timers.service.set_waker(timer, waker);
        }
        let added = self.timers.service.add(Add {
            deadline: self.deadline,
            work: Work::Wake(waker.clone()),
            label: LABEL,
            owner: None,
        });
        self.timer = added.ok();
        self.timer.is_some()
    }

    fn cancel(&mut self) {
        if let Some(timer) = self.timer.take() {
            // Whether it has fired already makes no difference to a future.
            let _ = self.timers.cancel(&timer);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let due = self.deadline <= self.timers.clock().now();
        if !due && self.waits(context.waker()) {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the time limit has passed")]
pub struct Elapsed;

/// Ticks for a future's loop, from [`Timers::interval`].
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

    /// Waits for the next tick and returns when it was due.
    ///
    /// A tick is not lost if the future is dropped before it completes.
    pub fn tick(&mut self) -> impl Future<Output = Instant> {
        poll_fn(|context| self.poll_tick(context))
    }

    /// Asks for the next tick; see [`Interval::tick`].
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        let due = self.sleep.deadline();
        Pin::new(&mut self.sleep).poll(context).map(|()| {
            let now = self.sleep.timers.clock().now();
            let Next { due: next, missed } = self.missed.next(due, now, self.period);
            self.missed_count += missed;
            self.sleep.reset(next);
            due
        })
    }

    /// Ticks left out so far.
    pub fn missed_count(&self) -> u64 {
        self.missed_count
    }
}

/// The label of futures' timers in reports.
const LABEL: &str = "async";
