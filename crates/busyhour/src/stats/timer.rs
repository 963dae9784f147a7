/// Statistics of the timer service: what it holds now and what it has done.
///
/// ```
/// use busyhour::{pool::TaskPool, timer::Timers};
/// use std::time::Duration;
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let timers = Timers::builder().build();
/// let handle = timers.after(Duration::from_secs(9), &pool, || ());
/// _ = timers.cancel(&handle);
/// let stats = timers.stats();
/// assert_eq!((stats.added, stats.cancelled, stats.pending_count), (1, 1, 0));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TimerStats {
    /// Timers waiting.
    pub pending_count: u64,
    /// The sum of each shard's highest `pending_count`; with several shards
    /// this may exceed the highest total.
    pub pending_high_water: u64,
    /// Timers added.
    pub added: u64,
    /// Timers refused because the service was full or closed.
    pub refused: u64,
    /// Timers cancelled before they ran.
    pub cancelled: u64,
    /// Deliveries to a serializer or pool; a periodic timer has many.
    pub expired: u64,
    /// Deliveries delayed because the serializer or pool was full.
    pub deferred: u64,
    /// Deliveries lost because the serializer or pool was shut down or dropped
    /// the task.
    pub lost: u64,
    /// Ticks of periodic timers skipped by their policy for missed ticks.
    pub missed: u64,
    /// Panics of user code: callbacks, wakers, executors, the hook of
    /// `on_earlier_deadline`, and drops of what callbacks captured.
    pub panicked: u64,
    /// Median lateness of deliveries, in nanoseconds.
    pub lateness_p50_ns: u64,
    /// 99th percentile of the lateness of deliveries, in nanoseconds.
    pub lateness_p99_ns: u64,
    /// Highest lateness of a delivery, in nanoseconds.
    pub lateness_max_ns: u64,
    /// The statistics of each label, sorted by name; timers without a label are
    /// under "".
    pub labels: Vec<TimerLabelStats>,
}

/// Statistics of the timers of one label.
///
/// ```
/// use busyhour::{pool::TaskPool, timer::Timers};
/// use std::time::Duration;
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let timers = Timers::builder().build();
/// timers.timer().label("ping").after(Duration::from_secs(9)).on(&pool).run(|| ()).unwrap();
/// let labels = timers.stats().labels;
/// let ping = labels.iter().find(|of| of.label == "ping").unwrap();
/// assert_eq!((ping.added, ping.pending_count), (1, 1));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TimerLabelStats {
    /// The label.
    pub label: String,
    /// Timers that wait, are being delivered, or run.
    pub pending_count: u64,
    /// The sum of each shard's highest `pending_count`.
    pub pending_high_water: u64,
    /// Timers added.
    pub added: u64,
    /// Timers cancelled before they ran.
    pub cancelled: u64,
    /// Deliveries; a periodic timer has many.
    pub expired: u64,
    /// Median lateness of deliveries, in nanoseconds.
    pub lateness_p50_ns: u64,
    /// 99th percentile of the lateness of deliveries, in nanoseconds.
    pub lateness_p99_ns: u64,
    /// Highest lateness of a delivery, in nanoseconds.
    pub lateness_max_ns: u64,
}
