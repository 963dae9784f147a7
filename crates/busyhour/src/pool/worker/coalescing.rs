//! How long a worker waits before it takes tasks that another thread pushes one after
//! the other. See README.md, "The inject queue".

use std::{cell::Cell, hint::spin_loop};

/// As network cards coalesce interrupts: each look at the inject queue takes its cache
/// line from the thread that pushes, so a worker with nothing else to run looks less
/// often while tasks keep coming, and finds more of them at once.
#[derive(Default)]
pub(super) struct Coalescing {
    spins: Cell<u32>,
}

impl Coalescing {
    /// Waits as long as the last takes have taught, unless `seen` tasks are enough.
    pub(super) fn wait(&self, seen: usize) {
        if seen < ENOUGH {
            (0..self.spins.get()).for_each(|_| spin_loop());
        }
    }

    /// Learns from a take, which brought `taken` tasks where `seen` had been there
    /// before the wait.
    pub(super) fn learn(&self, seen: usize, taken: usize) {
        self.spins.set(next_spins(self.spins.get(), seen, taken));
    }
}

fn next_spins(spins: u32, seen: usize, taken: usize) -> u32 {
    let is_over = spins > 0 && taken <= seen;
    match taken {
        ENOUGH.. => spins - spins / 4,
        // Who pushes one task at a time does not wait for the line.
        0 | 1 => 0,
        // A burst, after which nothing came.
        _ if is_over => 0,
        _ => (2 * spins).clamp(SPINS_MIN, SPINS_MAX),
    }
}

/// So many tasks at once pay for the lines that a take moves.
const ENOUGH: usize = 128;
/// A third of a microsecond: longer than a push takes.
const SPINS_MIN: u32 = 16;
/// Some three microseconds.
const SPINS_MAX: u32 = 128;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// How long a worker waits after so many takes of what comes meanwhile.
    fn after(takes: usize, seen: usize, per_spin: usize) -> u32 {
        (0..takes).fold(0, |spins, _| {
            next_spins(spins, seen, seen + per_spin * spins as usize)
        })
    }

    #[test]
    fn it_waits_for_nobody_who_pushes_one_task_at_a_time() {
        assert_eq!(after(100, 1, 0), 0);
    }

    #[test]
    fn it_waits_until_a_take_brings_enough_and_no_longer() {
        // Two tasks a spin, so 64 spins are enough.
        let spins = after(100, 2, 2);
        assert!((48..ENOUGH as u32).contains(&spins), "{spins}");
        // So slow that it never is enough: the wait has an end.
        assert_eq!(next_spins(SPINS_MAX, 2, 20), SPINS_MAX);
    }

    #[test]
    fn after_a_burst_it_waits_once_for_what_does_not_come() {
        assert_eq!(next_spins(0, 3, 3), SPINS_MIN);
        assert_eq!(next_spins(SPINS_MIN, 3, 3), 0);
    }
}
