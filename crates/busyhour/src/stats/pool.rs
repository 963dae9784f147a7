use super::Histogram;

/// Statistics of one worker: what waits for it and what it has done.
///
/// The sums over all workers are less than those of [`PoolStats`], which also
/// counts the workers that have ended and what other threads ran.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WorkerStats {
    /// Its number in the pool, with which its thread's name ends. A worker that
    /// starts after another one has ended takes over the number, the counters
    /// and the histograms.
    pub number: u64,
    /// Whether it is parked because there is no work.
    pub is_idle: bool,
    /// Whether it runs a task.
    pub is_running: bool,
    /// Tasks and serializers that wait for it.
    pub queued_len: u64,
    /// The highest value of `queued_len`.
    pub queued_high_water: u64,
    /// Tasks that it ran, including those of serializers.
    pub processed: u64,
    /// Tasks that panicked on it.
    pub panicked: u64,
    /// Tasks that it took from other workers' queues.
    pub stolen: u64,
    /// How often it chose what to run next, also when it found nothing. Two
    /// values a second apart give the switches a second.
    pub switches: u64,
    /// How long it took to choose, in nanoseconds: one in 1,024 switches is
    /// measured, without the time that the clock itself takes. A measurement of
    /// more than 10 µs counts as 10 µs, because the system ran something else.
    pub choosing_ns: u64,
    /// How long it has been busy, choosing included, in nanoseconds: the time
    /// between its clock readings, without that in which it found nothing.
    pub busy_ns: u64,
    /// Whether its run queue was a list for each goodness, as for many entities,
    /// at its last clock reading; otherwise it was a sorted ring.
    #[doc(alias = "run_queue::Mode")]
    pub is_bucketed: bool,
    /// The epochs of its run queue that have begun, modulo 2³².
    pub epoch: u32,
    /// How long its tasks ran; see [`PoolStats::run_ns`].
    pub run_ns: Histogram,
    /// How long serializers waited for their turns on it; see
    /// [`PoolStats::wait_ns`].
    pub wait_ns: Histogram,
}

impl WorkerStats {
    /// The share of its busy time that it took to choose what to run, 0 to 1; 0
    /// if it was not busy.
    ///
    /// ```
    /// use busyhour::stats::WorkerStats;
    ///
    /// let mut worker = WorkerStats::default();
    /// assert_eq!(worker.choosing_share(), 0.0);
    /// (worker.choosing_ns, worker.busy_ns) = (20_000, 1_000_000);
    /// assert_eq!(worker.choosing_share(), 0.02);
    /// ```
    pub fn choosing_share(&self) -> f64 {
        match self.busy_ns {
            0 => 0.0,
            busy_ns => (self.choosing_ns as f64 / busy_ns as f64).min(1.0),
        }
    }
}

/// Statistics of the task pool: what it holds now and what it has done.
///
/// When idle, `pushed = processed + dropped + still waiting`.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool};
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// pool.push(|| ()).unwrap();
/// assert_eq!((pool.stats().queued_len, pool.stats().processed), (1, 0));
/// while pool.step() {}
/// assert_eq!((pool.stats().queued_len, pool.stats().processed), (0, 1));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PoolStats {
    /// Workers running now.
    pub worker_count: u64,
    /// Workers that are parked because there is no work.
    pub idle_worker_count: u64,
    /// Tasks and serializers waiting for a worker.
    pub queued_len: u64,
    /// The sum of each worker's highest `queued_len`.
    pub queued_high_water: u64,
    /// Tasks accepted, including those of serializers.
    pub pushed: u64,
    /// Tasks that ran, including those of serializers.
    pub processed: u64,
    /// Tasks refused because of a bound or a shutdown.
    pub rejected: u64,
    /// Tasks accepted and later dropped, by an overflow policy or by a
    /// shutdown.
    pub dropped: u64,
    /// Tasks that panicked (the worker continued).
    pub panicked: u64,
    /// Tasks taken from another worker's queue.
    pub stolen: u64,
    /// Futures that were spawned and have not been freed: those that have not
    /// ended, and those that something still could wake.
    pub future_count: u64,
    /// Age of the oldest task that waits in a named serializer, in nanoseconds;
    /// 0 if none waits.
    pub oldest_waiting_ns: u64,
    /// How long tasks ran. Long tasks (from 2 µs) are measured one by one; for
    /// short tasks, the mean of those between two clock readings is counted for
    /// each.
    pub run_ns: Histogram,
    /// How long serializers waited for their turns: since their oldest task was
    /// pushed, or since the task before it was taken. Measured for each turn
    /// that follows a clock reading: for every turn if turns are long,
    /// otherwise for a sample.
    pub wait_ns: Histogram,
    /// The value of `queued_len` at which an alert ends, if the pool has
    /// [watermarks](crate::pool::TaskPoolBuilder::watermarks).
    pub low_watermark: Option<u64>,
    /// The value at which an alert begins.
    pub high_watermark: Option<u64>,
    /// Whether there is an alert.
    pub is_high: bool,
    /// Alerts that have begun.
    pub alerts_raised: u64,
}
