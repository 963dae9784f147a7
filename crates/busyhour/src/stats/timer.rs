use serde::Serialize;

/// What the timer service holds and has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimerStats {
    /// Timers waiting.
    pub pending_count: u64,
    /// The highest `pending_count` seen: the sum of each shard's own highest,
    /// so with several shards it may exceed the true one.
    pub pending_high_water: u64,
    /// Timers added.
    pub added: u64,
    /// Timers refused because the service was full or closed.
    pub refused: u64,
    /// Timers cancelled before they ran.
    pub cancelled: u64,
    /// Deliveries to a serializer or pool; a periodic timer has many.
    pub expired: u64,
    /// Deliveries put off because the serializer or pool was full.
    pub deferred: u64,
    /// Deliveries lost: the serializer or pool shut down or dropped the task.
    pub lost: u64,
    /// Ticks of periodic timers left out by their policy for missed ticks.
    pub missed: u64,
    /// Panics of the user's code: callbacks, wakers, executors, the hook of
    /// `on_earlier_deadline`, and drops of what callbacks captured.
    pub panicked: u64,
    /// Lateness of delivery, median, in nanoseconds.
    pub lateness_p50_ns: u64,
    /// Lateness of delivery, 99th percentile, in nanoseconds.
    pub lateness_p99_ns: u64,
    /// The worst lateness, in nanoseconds.
    pub lateness_max_ns: u64,
    /// The same by label, sorted by name; timers without a label are under "".
    pub labels: Vec<TimerLabelStats>,
}

/// What the timers of one label hold and have done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimerLabelStats {
    /// The label.
    pub label: String,
    /// Timers that wait, are delivered or run.
    pub pending_count: u64,
    /// The highest `pending_count` seen: the sum of each shard's own highest.
    pub pending_high_water: u64,
    /// Timers added.
    pub added: u64,
    /// Timers cancelled before they ran.
    pub cancelled: u64,
    /// Deliveries; a periodic timer has many.
    pub expired: u64,
    /// Lateness of delivery, median, in nanoseconds.
    pub lateness_p50_ns: u64,
    /// Lateness of delivery, 99th percentile, in nanoseconds.
    pub lateness_p99_ns: u64,
    /// The worst lateness, in nanoseconds.
    pub lateness_max_ns: u64,
}
