/// Statistics of all serializers of a
/// [group](crate::serializer::ShutdownGroup::stats) that are alive: a kind of
/// queue, of which there may be many.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool, serializer::ShutdownGroup};
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// let group = ShutdownGroup::new();
/// let calls = pool.serializer("calls").group(&group).build().unwrap();
/// let _lines = pool.serializer("lines").group(&group).build().unwrap();
/// calls.push(|| ()).unwrap();
/// let stats = group.stats();
/// assert_eq!((stats.serializer_count, stats.busy_count, stats.queued_len), (2, 1, 1));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SerializerGroupStats {
    /// The group's name; empty if it has none.
    pub name: String,
    /// Serializers.
    pub serializer_count: u64,
    /// Serializers that run a task or have tasks waiting.
    pub busy_count: u64,
    /// Tasks waiting in all of them.
    pub queued_len: u64,
    /// Tasks waiting in the one where most wait.
    pub longest_queued_len: u64,
    /// The highest number of tasks that ever waited in one of them.
    pub queued_high_water: u64,
    /// Tasks that ran; those of serializers that are gone no longer count.
    pub processed: u64,
    /// Age of the oldest waiting task, in nanoseconds; 0 if none waits.
    pub oldest_waiting_ns: u64,
    /// For how long the longest of the running tasks has been running, in
    /// nanoseconds; 0 if none runs.
    pub running_for_ns: u64,
}

/// Statistics of one named serializer: what it holds now and what it has done.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool};
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// let calls = pool.serializer("calls").build().unwrap();
/// calls.push(|| ()).unwrap();
/// let stats = calls.stats();
/// assert_eq!((&*stats.name, stats.queued_len, stats.processed), ("calls", 1, 0));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
    /// The watermark to which the queue must fall back to end an alert, if it
    /// has watermarks.
    pub low_watermark: Option<u64>,
    /// The watermark at which an alert begins.
    pub high_watermark: Option<u64>,
    /// Whether the queue has reached the high watermark and has not fallen back
    /// to the low one.
    pub is_high: bool,
    /// The label of the running task, if there is one and it has a label.
    pub running: Option<String>,
    /// For how long the current task has been running, in nanoseconds; 0 if
    /// none runs.
    pub running_for_ns: u64,
    /// Suspensions not yet resumed.
    pub suspend_count: u64,
    /// Whether an exclusive section has begun and waits: it keeps the
    /// serializer, and what waits runs after it.
    pub is_in_section: bool,
}
