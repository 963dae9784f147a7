use serde::Serialize;

/// Statistics of one named serializer: what it holds now and what it has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SerializerStats {
    /// Its unique name.
    pub name: String,
    /// Tasks waiting.
    pub queued_len: u64,
    /// The highest value of `queued_len`.
    pub queued_high_water: u64,
    /// Tasks that ran.
    pub processed: u64,
    /// Tasks refused because the queue was full (policy `Reject`).
    pub rejected: u64,
    /// Tasks dropped to make room (policy `DropOldest`).
    pub dropped: u64,
    /// Tasks replaced by a newer one with the same key (policy `Conflate`).
    pub conflated: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Age of the oldest waiting task, in nanoseconds; 0 if none waits.
    pub oldest_waiting_ns: u64,
    /// The label of the running task, if there is one and it has a label.
    pub running: Option<String>,
    /// For how long the current task has been running, in nanoseconds; 0 if
    /// none runs.
    pub running_for_ns: u64,
    /// Suspensions not yet resumed.
    pub suspend_count: u64,
}
