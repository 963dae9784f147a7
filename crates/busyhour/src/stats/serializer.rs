use serde::Serialize;

/// What one named serializer holds and has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SerializerStats {
    /// Its unique name.
    pub name: String,
    /// Tasks waiting.
    pub queued_len: u64,
    /// The highest `queued_len` seen.
    pub queued_high_water: u64,
    /// Tasks that ran.
    pub processed: u64,
    /// Tasks refused by the bound (policy reject).
    pub rejected: u64,
    /// Tasks dropped to make room (policy drop-oldest).
    pub dropped: u64,
    /// Tasks replaced by a newer one with the same key (policy conflate).
    pub conflated: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Age of the oldest waiting task, in nanoseconds; 0 when none waits.
    pub oldest_waiting_ns: u64,
    /// The label of the current task, if one runs and has one.
    pub running: Option<String>,
    /// For how long the current task has been running, in nanoseconds; 0 when none runs.
    pub running_for_ns: u64,
    /// Suspensions not yet resumed.
    pub suspend_count: u64,
}
