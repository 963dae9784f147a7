use super::{
    handle::{Cancel, TimerHandle},
    rule::{MissedTicks, Rule},
    service::{Add, DeliveryBound, OtherWork, Repeat, Work},
    slack::coalesce,
    timers::{AddError, Timers},
};
use crate::{clock::Instant, task::Executor};
use std::{sync::Arc, time::Duration};

/// Options of a new timer, from [`Timers::timer`].
///
/// Choose an executor with [`TimerBuilder::on`], then end with the kind of
/// timer:
///
/// | method | the callback runs |
/// |---|---|
/// | [`run`](TimerBuilder::run) | once |
/// | [`run_every`](TimerBuilder::run_every) | at a fixed rate, see [`MissedTicks`] |
/// | [`run_with_fixed_delay`](TimerBuilder::run_with_fixed_delay) | with a fixed pause after each run |
/// | [`run_with_next_delay`](TimerBuilder::run_with_next_delay) | again after the delay it returns; zero stops it |
///
/// ```
/// use std::time::Duration;
/// use busyhour::{runtime::Runtime, timer::MissedTicks};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::simulated(7);
/// let (timers, pool) = (runtime.timers(), runtime.pool());
/// let minute = Duration::from_secs(60);
/// let expiry = timers.timer().label("expiry").owner(7).after(minute).slack(minute / 60);
/// expiry.on(pool).run(|| println!("over"))?;
/// timers.timer().owner(7).on(pool).missed(MissedTicks::Skip).run_every(minute, || ())?;
/// timers.timer().owner(7).on(pool).run_with_fixed_delay(minute, || ())?;
/// let mut delay = Duration::from_secs(1);
/// timers.timer().on(pool).run_with_next_delay(move || {
///     delay *= 2;
///     if delay < minute { delay } else { Duration::ZERO } // zero is the last run
/// })?;
/// assert_eq!(timers.stats().pending_count, 4);
/// assert_eq!(timers.cancel_label("expiry"), 1);
/// assert_eq!(timers.cancel_owner(7), 2);
/// runtime.simulation().unwrap().run_for(10 * minute);
/// assert_eq!(timers.stats().pending_count, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a timer starts when it is told what to run"]
pub struct TimerBuilder<'a, On = ()> {
    timers: &'a Timers,
    label: &'static str,
    owner: Option<u64>,
    deadline: Option<Instant>,
    slack: Duration,
    missed: MissedTicks,
    bound: DeliveryBound,
    on: On,
}

impl<'a> TimerBuilder<'a> {
    pub(super) fn new(timers: &'a Timers) -> Self {
        Self {
            timers,
            label: "",
            owner: None,
            deadline: None,
            slack: Duration::ZERO,
            missed: MissedTicks::default(),
            bound: DeliveryBound::Bounded,
            on: (),
        }
    }

    /// The executor that runs the callback: a serializer, a pool, or any other.
    pub fn on<E>(self, executor: &E) -> TimerBuilder<'a, Arc<dyn Executor>>
    where
        E: Executor + Clone + 'static,
    {
        let shared = executor.to_shared();
        self.on_shared(shared.unwrap_or_else(|| Arc::new(executor.clone())))
    }

    /// The executor that runs the callback, as an `Arc` that the timer keeps.
    pub fn on_shared(self, executor: Arc<dyn Executor>) -> TimerBuilder<'a, Arc<dyn Executor>> {
        TimerBuilder {
            timers: self.timers,
            label: self.label,
            owner: self.owner,
            deadline: self.deadline,
            slack: self.slack,
            missed: self.missed,
            bound: self.bound,
            on: executor,
        }
    }
}

impl<On> TimerBuilder<'_, On> {
    /// The label of the timer's class, for reports and for
    /// [`Timers::cancel_label`]. A service accepts at least 1,024 labels; a
    /// timer with one label more is refused with [`AddError::Labels`].
    pub fn label(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// The owner of the timer, for [`Timers::cancel_owner`].
    pub fn owner(mut self, owner: u64) -> Self {
        self.owner = Some(owner);
        self
    }

    /// The (first) run is due `delay` from now.
    pub fn after(mut self, delay: Duration) -> Self {
        self.deadline = Some(self.timers.clock().now() + delay);
        self
    }

    /// The (first) run is due at `deadline`.
    pub fn at(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How much later than due the callback may run, so that it shares a
    /// wake-up with other timers. Of the instants in that window, the one is
    /// chosen that most other timers with slack choose, too.
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// For a timer of the library's own that runs once: a bounded executor takes
    /// it beyond its bound and does not drop it for room.
    pub(crate) fn unbounded(mut self) -> Self {
        self.bound = DeliveryBound::Unbounded;
        self
    }

    /// How [`TimerBuilder::run_every`] treats missed ticks.
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }
}

impl TimerBuilder<'_, Arc<dyn Executor>> {
    /// Runs `callback` once; without a deadline, immediately.
    ///
    /// # Errors
    ///
    /// [`AddError`]: the service is full or closed, or has too many labels;
    /// `callback` is dropped.
    pub fn run(self, callback: impl FnOnce() + Send + 'static) -> Result<TimerHandle, AddError> {
        let deadline = self.deadline_or(Duration::ZERO);
        let service = &self.timers.service;
        let work = service.work_of(callback, self.on, self.bound);
        self.timers.service.add(Add {
            deadline: coalesce(deadline, self.slack),
            work,
            label: self.label,
            owner: self.owner,
        })
    }

    /// Cancels the timer that `handle` names and runs `callback` once instead;
    /// `handle` then names the new timer. Returns the result of cancelling the
    /// old one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{pool::TaskPool, timer::{Cancel, Timers}};
    ///
    /// # let timers = Timers::builder().build();
    /// # let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let mut retry = timers.after(Duration::from_secs(1), &pool, || println!("first"));
    /// let later = timers.timer().after(Duration::from_secs(2)).on(&pool);
    /// let replaced = later.replace(&mut retry, || println!("second"));
    /// assert_eq!(replaced, Ok(Cancel::Prevented));
    /// assert_eq!(timers.stats().pending_count, 1);
    /// ```
    ///
    /// # Errors
    ///
    /// [`AddError`]: the service is full or closed, or has too many labels; the
    /// old timer stays.
    pub fn replace(
        self,
        handle: &mut TimerHandle,
        callback: impl FnOnce() + Send + 'static,
    ) -> Result<Cancel, AddError> {
        let timers = self.timers;
        let new = self.run(callback)?;
        let old = std::mem::replace(handle, new);
        Ok(timers.cancel(&old))
    }

    /// Runs `callback` at a fixed rate, on a grid that begins with the first
    /// run; without a deadline, the first run is one period from now.
    ///
    /// Runs never overlap: ticks missed because a run takes longer than a
    /// period are treated as set with [`TimerBuilder::missed`]. A period of
    /// zero counts as one nanosecond.
    ///
    /// # Errors
    ///
    /// [`AddError`]: the service is full or closed, or has too many labels;
    /// `callback` is dropped.
    pub fn run_every(
        self,
        period: Duration,
        mut callback: impl FnMut() + Send + 'static,
    ) -> Result<TimerHandle, AddError> {
        let rule = Rule::rate(period, self.missed);
        let first = self.deadline_or(period);
        self.repeat(rule, first, move || {
            callback();
            Duration::ZERO
        })
    }

    /// Runs `callback` with a pause of `gap` between the end of a run and the
    /// next one; without a deadline, the first run is one gap from now.
    ///
    /// # Errors
    ///
    /// [`AddError`]: the service is full or closed, or has too many labels;
    /// `callback` is dropped.
    pub fn run_with_fixed_delay(
        self,
        gap: Duration,
        mut callback: impl FnMut() + Send + 'static,
    ) -> Result<TimerHandle, AddError> {
        let first = self.deadline_or(gap);
        self.repeat(Rule::FixedDelay(gap), first, move || {
            callback();
            Duration::ZERO
        })
    }

    /// Runs `callback` again after the delay that it returns, counted from its
    /// deadline (or from now, if that has passed); zero ends the timer. Without
    /// a deadline, the first run is immediate.
    ///
    /// # Errors
    ///
    /// [`AddError`]: the service is full or closed, or has too many labels;
    /// `callback` is dropped.
    pub fn run_with_next_delay(
        self,
        callback: impl FnMut() -> Duration + Send + 'static,
    ) -> Result<TimerHandle, AddError> {
        let first = self.deadline_or(Duration::ZERO);
        self.repeat(Rule::ReturnedDelay, first, callback)
    }

    pub(super) fn run_or_drop(self, callback: impl FnOnce() + Send + 'static) -> TimerHandle {
        let timers = self.timers;
        self.run(callback).unwrap_or(timers.over())
    }

    fn repeat(
        self,
        rule: Rule,
        due: Instant,
        run: impl FnMut() -> Duration + Send + 'static,
    ) -> Result<TimerHandle, AddError> {
        let repeat = Repeat {
            run: Box::new(run),
            executor: self.on,
            rule,
            due,
            slack: self.slack,
        };
        self.timers.service.add(Add {
            deadline: repeat.deadline(),
            work: Work::Other(OtherWork::Repeat(Box::new(repeat))),
            label: self.label,
            owner: self.owner,
        })
    }
}

impl<On> TimerBuilder<'_, On> {
    fn deadline_or(&self, delay: Duration) -> Instant {
        let default = || self.timers.clock().now() + delay;
        self.deadline.unwrap_or_else(default)
    }
}
