use crate::clock::Instant;
use std::time::Duration;

/// How a fixed-rate timer treats ticks that came due while it could not run.
///
/// ```
/// use std::time::Duration;
/// use busyhour::{runtime::Runtime, timer::MissedTicks};
///
/// let runtime = Runtime::simulated(7);
/// let simulation = runtime.simulation().unwrap();
/// let period = Duration::from_secs(1);
/// let ticks_after_a_pause = |name: &str, missed: MissedTicks| {
///     let ticks = runtime.serializer(name).build().unwrap().with_state(0);
///     let counts = ticks.clone();
///     let timer = runtime.timers().timer().on(ticks.serializer()).missed(missed);
///     let timer = timer.run_every(period, move || _ = counts.push(|count| *count += 1)).unwrap();
///     let pause = ticks.serializer().suspend();
///     simulation.run_for(5 * period + period / 2);
///     drop(pause);
///     simulation.run_for(period / 4);
///     _ = runtime.timers().cancel(&timer);
///     ticks.push_wait(|count| *count).unwrap()
/// };
/// assert_eq!(ticks_after_a_pause("burst", MissedTicks::Burst), 5);
/// assert_eq!(ticks_after_a_pause("skip", MissedTicks::Skip), 1);
/// ```
#[doc(alias = "MissedTickBehavior")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MissedTicks {
    /// Runs every missed tick at once, one after the other, until it has caught up.
    Burst,
    /// Skips missed ticks and continues with the next tick of the same grid.
    #[default]
    Skip,
    /// Skips missed ticks and starts a new grid one period from now.
    Delay,
}

/// When a periodic timer is due again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// A grid with one tick each `period`, however long the callback takes.
    Rate {
        period: Duration,
        missed: MissedTicks,
    },
    /// A pause after the end of each run.
    FixedDelay(Duration),
    /// The delay that the callback returned, counted from its deadline; zero
    /// stops the timer.
    ReturnedDelay,
}

/// The next run of a periodic timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextRun {
    pub(super) due: Instant,
    /// Ticks skipped before it.
    pub(super) missed: u64,
}

impl Rule {
    /// A grid; a period of zero counts as one nanosecond.
    pub(super) fn rate(period: Duration, missed: MissedTicks) -> Self {
        let period = period.max(Duration::from_nanos(1));
        Self::Rate { period, missed }
    }

    /// The run after the one that was due at `due` and ended at `now`; `None`
    /// if the delay that the callback returned stops the timer.
    pub(super) fn next(
        self,
        due: Instant,
        now: Instant,
        returned_delay: Duration,
    ) -> Option<NextRun> {
        match self {
            Self::Rate { period, missed } => Some(missed.next(due, now, period)),
            Self::FixedDelay(gap) => Some(NextRun::at(now + gap)),
            Self::ReturnedDelay if returned_delay.is_zero() => None,
            Self::ReturnedDelay => Some(NextRun::at(now.max(due + returned_delay))),
        }
    }
}

impl MissedTicks {
    pub(super) fn next(self, due: Instant, now: Instant, period: Duration) -> NextRun {
        let period_ns = (Instant::ZERO + period).as_nanos();
        let behind_ns = now.as_nanos().saturating_sub(due.as_nanos());
        let ticks = behind_ns.div_ceil(period_ns).max(1);
        if ticks == 1 || self == Self::Burst {
            return NextRun::at(due + period);
        }
        let due = match self {
            Self::Delay => now + period,
            _ => due + Duration::from_nanos(period_ns.saturating_mul(ticks)),
        };
        let missed = ticks - 1;
        NextRun { due, missed }
    }
}

impl NextRun {
    fn at(due: Instant) -> Self {
        Self { due, missed: 0 }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn next(missed: MissedTicks, due: u64, now: u64) -> (u64, u64) {
        let next = missed.next(at(due), at(now), Duration::from_nanos(10));
        (next.due.as_nanos(), next.missed)
    }

    #[test]
    fn without_delay_every_policy_keeps_the_grid() {
        for policy in [MissedTicks::Burst, MissedTicks::Skip, MissedTicks::Delay] {
            assert_eq!(next(policy, 100, 100), (110, 0));
            assert_eq!(next(policy, 100, 109), (110, 0));
            assert_eq!(next(policy, 100, 110), (110, 0));
        }
    }

    #[test]
    fn with_delay_each_policy_does_what_it_promises() {
        assert_eq!(next(MissedTicks::Burst, 100, 135), (110, 0));
        assert_eq!(next(MissedTicks::Skip, 100, 135), (140, 3));
        assert_eq!(next(MissedTicks::Skip, 100, 130), (130, 2));
        assert_eq!(next(MissedTicks::Delay, 100, 135), (145, 3));
    }

    #[test]
    fn a_clock_that_went_back_keeps_the_grid() {
        assert_eq!(next(MissedTicks::Skip, 100, 20), (110, 0));
    }

    #[test]
    fn the_end_of_time_saturates() {
        let rule = Rule::rate(Duration::MAX, MissedTicks::Skip);
        let next = rule.next(at(5), Instant::FAR_FUTURE, Duration::ZERO);
        assert_eq!(next.map(|next| next.due), Some(Instant::FAR_FUTURE));
    }

    #[test]
    fn a_period_of_zero_is_a_nanosecond() {
        let rule = Rule::rate(Duration::ZERO, MissedTicks::Burst);
        let next = rule.next(at(5), at(5), Duration::ZERO);
        assert_eq!(next.map(|next| next.due), Some(at(6)));
    }

    #[test]
    fn the_callback_decides_whether_and_when_it_runs_again() {
        let returned_delay =
            |delay, now| Rule::ReturnedDelay.next(at(100), at(now), Duration::from_nanos(delay));
        assert_eq!(returned_delay(0, 100), None);
        assert_eq!(returned_delay(7, 103), Some(NextRun::at(at(107))));
        assert_eq!(returned_delay(7, 120), Some(NextRun::at(at(120))));
    }

    #[test]
    fn a_gap_counts_from_the_end_of_the_run() {
        let gap = Rule::FixedDelay(Duration::from_nanos(30));
        assert_eq!(
            gap.next(at(100), at(150), Duration::ZERO),
            Some(NextRun::at(at(180)))
        );
    }
}
