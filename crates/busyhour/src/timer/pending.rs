use super::{
    handle::TimerHandle,
    service::{ListCursor, Service},
};
use crate::clock::Instant;
use std::{sync::Arc, time::Duration, vec};

/// One timer that is not over, as it was when it was listed; from
/// [`Timers::pending`](super::Timers::pending),
/// [`Timers::get`](super::Timers::get) and
/// [`Timers::cancel_where`](super::Timers::cancel_where).
///
/// ```
/// use busyhour::{pool::TaskPool, timer::{PendingPhase, TimerKind, Timers}};
/// use std::time::Duration;
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let timers = Timers::builder().build();
/// let handle = timers.timer().label("retry").after(Duration::from_secs(9)).on(&pool).run(|| ());
/// let timer = timers.get(&handle.unwrap()).unwrap();
/// assert_eq!((timer.label, timer.owner), ("retry", None));
/// assert_eq!((timer.phase, timer.kind), (PendingPhase::Waiting, Some(TimerKind::Once)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingTimer {
    /// Identifies the timer.
    pub handle: TimerHandle,
    /// The label of its class; empty if it has none, "async" for the timers of
    /// futures.
    pub label: &'static str,
    /// The owner that it was given, for example the number of what it is for.
    pub owner: Option<u64>,
    /// When it is due; `None` once it has been passed to its executor.
    pub due: Option<Instant>,
    /// Where it is on its way.
    pub phase: PendingPhase,
    /// Whether and how it repeats; `None` while its callback runs.
    pub kind: Option<TimerKind>,
    /// The [name](crate::task::Executor::name) of its executor; empty if that
    /// has none, for the timers of futures, and while a one-shot timer is
    /// delivered or runs.
    pub executor: String,
}

/// Where a timer that is not over is on its way.
///
/// ```
/// use busyhour::{pool::TaskPool, timer::{PendingPhase, Timers}};
/// use std::time::Duration;
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let timers = Timers::builder().build();
/// timers.after(Duration::from_secs(9), &pool, || ());
/// assert!(timers.pending().all(|timer| timer.phase == PendingPhase::Waiting));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PendingPhase {
    /// It waits until it is due.
    Waiting,
    /// It has been passed to its executor and has not begun.
    Delivered,
    /// Its callback runs.
    Running,
}

/// Whether and how a timer repeats.
///
/// ```
/// use busyhour::{pool::TaskPool, timer::{TimerKind, Timers}};
/// use std::time::Duration;
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let timers = Timers::builder().build();
/// let (once, often) = (Duration::from_secs(9), Duration::from_secs(1));
/// timers.after(once, &pool, || ());
/// timers.timer().on(&pool).run_every(often, || ()).unwrap();
/// let periodic = timers.pending().filter(|timer| timer.kind == Some(TimerKind::Every(often)));
/// assert_eq!(periodic.count(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimerKind {
    /// It runs once.
    Once,
    /// At a fixed rate, with this period.
    Every(Duration),
    /// With this pause after each run.
    FixedDelay(Duration),
    /// After the delay that its callback returns.
    NextDelay,
    /// It wakes a future.
    Future,
}

/// The timers of a service that are not over, in no defined order; see
/// [`Timers::pending`](super::Timers::pending).
///
/// ```
/// use busyhour::{pool::TaskPool, timer::Timers};
/// use std::time::Duration;
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let timers = Timers::builder().build();
/// for owner in 1..=3 {
///     timers.timer().owner(owner).after(Duration::from_secs(9)).on(&pool).run(|| ()).unwrap();
/// }
/// let mut owners: Vec<_> = timers.pending().filter_map(|timer| timer.owner).collect();
/// owners.sort_unstable();
/// assert_eq!(owners, [1, 2, 3]);
/// ```
#[must_use = "an iterator does nothing until it is advanced"]
pub struct PendingTimers {
    service: Arc<Service>,
    cursor: ListCursor,
    page: vec::IntoIter<PendingTimer>,
}

impl PendingTimers {
    pub(super) fn new(service: &Arc<Service>) -> Self {
        Self {
            service: Arc::clone(service),
            cursor: ListCursor::default(),
            page: Vec::new().into_iter(),
        }
    }
}

impl Iterator for PendingTimers {
    type Item = PendingTimer;

    fn next(&mut self) -> Option<PendingTimer> {
        loop {
            if let Some(timer) = self.page.next() {
                return Some(timer);
            }
            self.page = self.service.next_page(&mut self.cursor)?.into_iter();
        }
    }
}
