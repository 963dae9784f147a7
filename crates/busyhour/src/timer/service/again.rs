use super::record::{REFUSED_RETRY, Repeat, Work};
use crate::clock::Instant;
use std::time::Duration;

/// A periodic timer's way back into the queue.
pub(in crate::timer) struct Again {
    pub(in crate::timer) repeat: Box<Repeat>,
    pub(in crate::timer) deadline: Instant,
    /// Ticks left out on the way there.
    pub(in crate::timer) missed: u64,
}

impl Again {
    /// After a run whose callback returned `told`; `Err` hands back the work
    /// of a timer that has run for the last time.
    pub(super) fn after_run(
        mut repeat: Box<Repeat>,
        now: Instant,
        told: Duration,
    ) -> Result<Self, Work> {
        let Some(next) = repeat.advance(now, told) else {
            return Err(Work::Repeat(repeat));
        };
        Ok(Self {
            deadline: repeat.deadline(),
            missed: next.missed,
            repeat,
        })
    }

    /// After a delivery that was lost. That does not stop a periodic timer;
    /// one whose callback says when to come again is asked at once.
    pub(super) fn after_loss(work: Work, now: Instant) -> Result<Self, Work> {
        match work {
            Work::Repeat(repeat) => Self::after_run(repeat, now, REFUSED_RETRY),
            other => Err(other),
        }
    }
}
