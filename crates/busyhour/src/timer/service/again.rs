use super::record::{OtherWork, REFUSED_RETRY, Repeat, Work};
use crate::clock::Instant;
use std::time::Duration;

/// How a periodic timer returns to the queue.
pub(in crate::timer) struct Again {
    pub(in crate::timer) repeat: Box<Repeat>,
    pub(in crate::timer) deadline: Instant,
    /// Ticks skipped before the next run.
    pub(in crate::timer) missed: u64,
}

impl Again {
    /// After a run whose callback returned `returned_delay`; `Err` returns the work of a
    /// timer that has run for the last time.
    pub(super) fn after_run(
        mut repeat: Box<Repeat>,
        now: Instant,
        returned_delay: Duration,
    ) -> Result<Self, Work> {
        let Some(next) = repeat.advance(now, returned_delay) else {
            return Err(Work::Other(OtherWork::Repeat(repeat)));
        };
        Ok(Self {
            deadline: repeat.deadline(),
            missed: next.missed,
            repeat,
        })
    }

    /// After a lost delivery. It does not stop a periodic timer; if the
    /// callback would return the next delay, the timer is due again at once.
    pub(super) fn after_loss(work: Work, now: Instant) -> Result<Self, Work> {
        match work {
            Work::Other(OtherWork::Repeat(repeat)) => Self::after_run(repeat, now, REFUSED_RETRY),
            other => Err(other),
        }
    }
}
