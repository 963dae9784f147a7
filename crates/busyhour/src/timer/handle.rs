use super::queue::QueueHandle;

/// Identifies one timer of a [`Timers`](super::Timers) service.
///
/// It is 16 bytes and may be copied, kept and dropped freely. Dropping it does
/// not cancel the timer. It never identifies a later timer; in another service
/// it identifies none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerHandle {
    pub(super) service: u32,
    pub(super) shard: u32,
    pub(super) timer: QueueHandle,
}

/// The result of cancelling a timer.
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
