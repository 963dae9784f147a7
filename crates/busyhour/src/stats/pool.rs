use super::Histogram;
use serde::Serialize;

/// What the task pool holds and has done.
///
/// At rest, `pushed = processed + dropped + still waiting`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PoolStats {
    /// Workers running now.
    pub worker_count: u64,
    /// Workers parked for want of work.
    pub idle_worker_count: u64,
    /// Tasks and serializers waiting for a worker.
    pub queued_len: u64,
    /// The highest `queued_len` of each worker, added up.
    pub queued_high_water: u64,
    /// Tasks accepted, serializers' included.
    pub pushed: u64,
    /// Tasks that ran, serializers' included.
    pub processed: u64,
    /// Tasks refused by a bound or by a shutdown.
    pub rejected: u64,
    /// Tasks accepted and later dropped, by a declared policy or by a shutdown.
    pub dropped: u64,
    /// Tasks that panicked (the worker went on).
    pub panicked: u64,
    /// Tasks taken from another worker's queue.
    pub stolen: u64,
    /// Age of the oldest task that waits in a named serializer, in nanoseconds; 0 when none waits.
    pub oldest_waiting_ns: u64,
    /// How long tasks ran. Long ones (from 2 µs) are measured one by one, of short
    /// ones the mean of those between two readings of the clock is counted for each.
    pub run_ns: Histogram,
    /// How long serializers waited for their turns: since their oldest task was
    /// pushed, or the one before it was taken. Measured for each turn that
    /// follows a reading of the clock: every one where turns are long, else a sample.
    pub wait_ns: Histogram,
}
