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
}
