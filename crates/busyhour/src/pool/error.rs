use std::fmt;

use crate::task::{Reason, Rejected};

/// Why a push was refused. The task did not run and will not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The queue is full and its policy is to reject; or the policy is to wait,
    /// but the wait would never end because the caller itself is in the way.
    #[error("the queue is full")]
    Full,
    /// The pool or the serializer's group is shutting down.
    #[error("the pool is shutting down")]
    ShutDown,
}

/// Why a synchronous push has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The task never entered the queue.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The wait would never end: each serializer of the cycle waits for the
    /// next one.
    #[error("waiting would never end: {0}")]
    Deadlock(Cycle),
    /// The task panicked.
    #[error("the task panicked")]
    Panicked,
    /// The task was dropped before it ran, by an overflow policy or by a
    /// shutdown.
    #[error("the task was dropped before it ran")]
    Dropped,
    /// A simulation has nothing left that could run the task.
    #[error("nothing in the simulation can run the task")]
    Stalled,
}

/// The serializers of a deadlock, each waiting for the next; the last one waits
/// for the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle(pub(crate) Vec<String>);

impl Cycle {
    /// The names; each waits for the next.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.0 {
            write!(f, "{name} → ")?;
        }
        f.write_str(self.0.first().map_or("", String::as_str))
    }
}

impl From<Rejected> for PushError {
    fn from(rejected: Rejected) -> Self {
        match rejected.reason {
            Reason::ShutDown => Self::ShutDown,
            _ => Self::Full,
        }
    }
}
