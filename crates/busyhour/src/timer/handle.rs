use super::queue::QueueHandle;

/// Names one timer of a [`Timers`](super::Timers) service.
///
/// It is 16 bytes and may be copied, kept and dropped freely: dropping it does
/// not cancel the timer, and it never names a later one. The handle of another
/// service names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerHandle {
    pub(super) service: u32,
    pub(super) shard: u32,
    pub(super) timer: QueueHandle,
}

/// What became of a timer that was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a cancelled timer may be running right now"]
pub enum Cancel {
    /// The callback has been dropped and will never run (again).
    Prevented,
    /// Too late: it has run, or was cancelled or lost before.
    AlreadyRan,
    /// Too late: it is running now. A periodic one will not run again.
    Running,
}
