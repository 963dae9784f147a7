use std::fmt;

use crate::task::{Reason, Rejected};

/// Why a push was refused. The task did not run and will not.
///
/// ```
/// use busyhour::{clock::Clock, pool::{PushError, TaskPool}};
/// use std::time::Duration;
///
/// let pool = TaskPool::simulated(1, Clock::simulated(Default::default()));
/// let narrow = pool.serializer("narrow").capacity(1).build().unwrap();
/// assert_eq!(narrow.push(|| ()), Ok(()));
/// assert_eq!(narrow.push(|| ()), Err(PushError::Full));
/// pool.shutdown(Duration::from_secs(1));
/// assert_eq!(narrow.push(|| ()), Err(PushError::ShutDown));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// The queue is full and its policy is to reject; or the policy is to wait,
    /// but the wait would never end because the caller itself is in the way.
    Full,
    /// The pool or the serializer's group is shutting down.
    ShutDown,
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the queue is full",
            Self::ShutDown => "the pool is shutting down",
        })
    }
}

impl std::error::Error for PushError {}

/// Why a synchronous push has no result.
///
/// ```
/// use busyhour::pool::{TaskPool, WaitError};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let calls = pool.serializer("calls").build().unwrap();
/// let panics: Result<(), WaitError> = calls.push_wait(|| panic!("on purpose"));
/// assert_eq!(panics, Err(WaitError::Panicked));
/// let same = calls.clone();
/// let waits_for_itself = calls.push_wait(move || same.push_wait(|| ())).unwrap();
/// let WaitError::Deadlock(cycle) = waits_for_itself.unwrap_err() else { panic!() };
/// assert_eq!(cycle.names(), ["calls"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The task never entered the queue.
    Push(PushError),
    /// The wait would never end: each serializer of the cycle waits for the
    /// next one.
    Deadlock(Cycle),
    /// The task panicked.
    Panicked,
    /// The task was dropped before it ran, by an overflow policy or by a
    /// shutdown.
    Dropped,
    /// A simulation has nothing left that could run the task.
    Stalled,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push(error) => error.fmt(f),
            Self::Deadlock(cycle) => write!(f, "waiting would never end: {cycle}"),
            Self::Panicked => f.write_str("the task panicked"),
            Self::Dropped => f.write_str("the task was dropped before it ran"),
            Self::Stalled => f.write_str("nothing in the simulation can run the task"),
        }
    }
}

impl std::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Push(error) => error.source(),
            _ => None,
        }
    }
}

impl From<PushError> for WaitError {
    fn from(error: PushError) -> Self {
        Self::Push(error)
    }
}

/// The serializers of a deadlock, each waiting for the next; the last one waits
/// for the first.
///
/// ```
/// use busyhour::pool::{TaskPool, WaitError};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let calls = pool.serializer("calls").build().unwrap();
/// let same = calls.clone();
/// let inner = calls.push_wait(move || same.push_wait(|| ())).unwrap();
/// let Err(WaitError::Deadlock(cycle)) = inner else { panic!("{inner:?}") };
/// assert_eq!(cycle.to_string(), "calls → calls");
/// ```
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

impl From<Reason> for PushError {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Full => Self::Full,
            Reason::ShutDown => Self::ShutDown,
        }
    }
}

impl From<Rejected> for PushError {
    fn from(rejected: Rejected) -> Self {
        Self::from(rejected.reason)
    }
}
