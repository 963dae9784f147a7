use serde::Serialize;

/// What the timer service holds and has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimerStats {
    /// Timers waiting.
    pub pending_count: u64,
    /// The highest `pending_count` seen.
    pub pending_high_water: u64,
    /// Timers added.
    pub added: u64,
    /// Timers cancelled before they ran.
    pub cancelled: u64,
    /// Timers delivered to their serializer or pool.
    pub expired: u64,
    /// Lateness of delivery, median, in nanoseconds.
    pub lateness_p50_ns: u64,
    /// Lateness of delivery, 99th percentile, in nanoseconds.
    pub lateness_p99_ns: u64,
    /// The worst lateness, in nanoseconds.
    pub lateness_max_ns: u64,
}
