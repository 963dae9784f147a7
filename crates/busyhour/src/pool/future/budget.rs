//! Limits a future whose steps are always ready.

use std::{cell::Cell, time::Duration};

use crate::{clock::Instant, sync::zeroed};

/// Counts the steps of a thread's futures since its turn began, or since one of
/// them yielded, and their time. The clock is read at the second step, and then
/// at intervals that depend on how long the steps took: a reading costs as much
/// as a short step.
#[derive(Debug, Default)]
pub(in crate::pool) struct StepBudget {
    spent: Cell<u32>,
    look_at: Cell<u32>,
    /// Steps between two clock readings.
    stride: Cell<u32>,
    has_looked: Cell<bool>,
    last_look: Cell<Instant>,
}

zeroed!(StepBudget {
    spent,
    look_at,
    stride,
    has_looked,
    last_look
});

/// A clock reading, and when the turn began.
#[derive(Debug, Clone, Copy)]
pub(in crate::pool) struct Look {
    pub(in crate::pool) now: Instant,
    pub(in crate::pool) since: Instant,
}

impl StepBudget {
    /// Resets the budget for a new turn. Every turn does this but few use a
    /// step, so the first step resets the rest.
    #[inline(always)]
    pub(in crate::pool) fn renew(&self) {
        self.spent.set(0);
    }

    /// Uses one step; returns whether the budget is used up, and then renews
    /// it. Without a clock only the steps count.
    #[inline]
    pub(in crate::pool) fn spend(&self, look: impl FnOnce() -> Option<Look>) -> bool {
        let spent = self.spent.get() + 1;
        self.spent.set(spent);
        if spent == 1 {
            self.look_at.set(1);
            self.stride.set(1);
            self.has_looked.set(false);
        }
        let is_over =
            spent >= STEPS_MAX || (spent > self.look_at.get() && self.has_passed(spent, look()));
        if is_over {
            self.renew();
        }
        is_over
    }

    #[cold]
    fn has_passed(&self, spent: u32, look: Option<Look>) -> bool {
        let Some(Look { now, since }) = look else {
            self.look_at.set(STEPS_MAX);
            return false;
        };
        let is_quick = self.has_looked.get() && now - self.last_look.get() < LENGTH / 32;
        let stride = match is_quick {
            true => (2 * self.stride.get()).min(STRIDE_MAX),
            false => (self.stride.get() / 2).max(1),
        };
        self.look_at.set(spent + stride - 1);
        self.stride.set(stride);
        self.has_looked.set(true);
        self.last_look.set(now);
        now - since > LENGTH
    }
}

/// The maximum number of steps in a row.
const STEPS_MAX: u32 = 128;
/// The maximum time of the steps, except for those between two readings.
const LENGTH: Duration = Duration::from_micros(200);
const STRIDE_MAX: u32 = 16;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The number of steps until the budget is used up if each step takes this
    /// long, and the number of clock readings.
    fn steps(step: Duration) -> (u32, u32) {
        let (budget, mut now, mut looks) = (StepBudget::default(), Instant::ZERO, 0);
        for number in 1.. {
            now = now + step;
            let look = || {
                looks += 1;
                let since = Instant::ZERO;
                Some(Look { now, since })
            };
            if budget.spend(look) {
                return (number, looks);
            }
        }
        unreachable!("128 steps are the end")
    }

    #[test]
    fn long_steps_end_it_by_time_and_short_ones_by_their_number() {
        assert_eq!(steps(Duration::from_millis(1)), (2, 1));
        assert_eq!(steps(Duration::from_micros(150)), (2, 1));
        let (few, _) = steps(Duration::from_micros(10));
        assert!((21..=24).contains(&few), "{few}");
        let (all, looks) = steps(Duration::ZERO);
        assert_eq!(all, STEPS_MAX);
        assert!(looks <= 12, "{looks}");
    }

    #[test]
    fn without_a_clock_the_steps_count() {
        let budget = StepBudget::default();
        let over = (1..=256).filter(|_| budget.spend(|| None)).count();
        assert_eq!(over, 2);
    }

    #[test]
    fn a_new_turn_has_the_whole_budget() {
        let budget = StepBudget::default();
        assert!(!(0..100).any(|_| budget.spend(|| None)));
        budget.renew();
        assert!(!(1..STEPS_MAX).any(|_| budget.spend(|| None)));
        assert!(budget.spend(|| None));
    }

    #[test]
    fn a_new_turn_reads_the_clock_as_early_as_the_first_one() {
        let (budget, looks) = (StepBudget::default(), Cell::new(0));
        let now = Instant::ZERO;
        let look = || {
            looks.set(looks.get() + 1);
            Some(Look { now, since: now })
        };
        let looks_in_ten = || {
            let before = looks.get();
            assert!(!(0..10).any(|_| budget.spend(look)));
            looks.get() - before
        };
        let first = looks_in_ten();
        let later = looks_in_ten();
        assert!(later < first, "{later} and {first}");
        budget.renew();
        assert_eq!(looks_in_ten(), first);
    }
}
