//! How long a worker waits before it takes tasks that another thread pushes one after
//! the other. See README.md, "The inject queue".

use std::{cell::Cell, hint::spin_loop};

/// As network cards coalesce interrupts: each look at the inject queue takes its cache
/// line from the thread that pushes. So a worker with nothing else to run looks less
/// often while tasks come as fast as they can be pushed, and finds more of them at once.
///
/// A consumer of the bus does the same (`bus/delivery/adaptive_spin.rs`). It would sleep
/// instead, so it waits longer, and whatever comes; here what waits could run already.
#[derive(Default)]
pub(super) struct Coalescing(Cell<State>);

#[derive(Default, Clone, Copy)]
struct State {
    /// The number of pauses before the next take.
    pauses: u32,
    /// How many more takes do not wait.
    takes_to_skip: u32,
    /// How many do not after the next wait that brought little.
    backoff: u32,
}

impl Coalescing {
    /// Waits as long as the last takes have taught, unless `seen` tasks are enough.
    pub(super) fn wait(&self, seen: usize) {
        if seen < TASKS_WANTED {
            (0..self.0.get().pauses).for_each(|_| spin_loop());
        }
    }

    /// Learns from a take, which brought `taken` tasks where `seen` had been there
    /// before the wait.
    pub(super) fn learn(&self, seen: usize, taken: usize) {
        self.0.set(self.0.get().after(seen, taken));
    }
}

impl State {
    fn after(self, seen: usize, taken: usize) -> Self {
        let came = u32::try_from(taken.saturating_sub(seen)).unwrap_or(u32::MAX);
        if taken >= TASKS_WANTED {
            let pauses = self.pauses - self.pauses / 4;
            Self { pauses, ..self }
        } else if self.pauses == 0 && self.takes_to_skip > 0 {
            let takes_to_skip = self.takes_to_skip - 1;
            Self {
                takes_to_skip,
                ..self
            }
        } else if self.pauses == 0 {
            let pauses = if taken < 2 { 0 } else { PAUSES_MIN };
            Self { pauses, ..self }
        } else if came * PAUSES_PER_TASK < self.pauses {
            // What comes more slowly costs less to move than to wait for.
            Self {
                pauses: 0,
                takes_to_skip: self.backoff,
                backoff: (2 * self.backoff + 1).min(BACKOFF_MAX),
            }
        } else {
            let pauses = (2 * self.pauses).min(PAUSES_MAX);
            Self {
                pauses,
                takes_to_skip: 0,
                backoff: 0,
            }
        }
    }
}

/// So many tasks at once pay for the cache lines that a take moves.
const TASKS_WANTED: usize = 128;
/// Two thirds of a microsecond on an AMD EPYC. It takes half of that until who pushes has
/// its lines back.
const PAUSES_MIN: u32 = 32;
/// Some three microseconds.
const PAUSES_MAX: u32 = 128;
/// Who pushes as fast as possible takes fewer pauses for a task, some 125 ns, even if
/// its lines come from another core.
const PAUSES_PER_TASK: u32 = 6;
const BACKOFF_MAX: u32 = 63;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Times at which tasks come at random, one in so many pauses.
    fn arrivals(every: f64) -> Vec<f64> {
        let (mut state, mut now) = (1_u64, 0.0);
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let random = ((state >> 40) as f64 + 1.0) / (1_u64 << 24) as f64;
            now -= every * random.ln();
            now
        };
        (0..100_000).map(next).collect()
    }

    /// A worker that takes the tasks that have come and runs each for so many pauses.
    /// Returns how long they waited on average, and how many a take brought.
    fn served(arrivals: &[f64], run: f64, coalesces: bool) -> (f64, usize) {
        let (mut state, mut now) = (State::default(), 0.0_f64);
        let (mut taken, mut takes, mut waited) = (0, 0, 0.0);
        while taken < arrivals.len() {
            now = now.max(arrivals[taken]);
            let come = |now: f64| arrivals.partition_point(|&time| time <= now) - taken;
            let seen = come(now);
            if coalesces && seen < TASKS_WANTED {
                now += f64::from(state.pauses);
            }
            let batch = come(now);
            state = state.after(seen, batch);
            // A take moves lines, whatever it brings.
            now += 5.0;
            takes += 1;
            for time in &arrivals[taken..taken + batch] {
                waited += now - time;
                now += run;
            }
            taken += batch;
        }
        (waited / taken as f64, taken / takes)
    }

    #[test]
    fn tasks_that_are_pushed_without_a_pause_are_taken_many_at_a_time() {
        let arrivals = arrivals(1.0);
        let (_, without) = served(&arrivals, 0.1, false);
        let (_, with) = served(&arrivals, 0.1, true);
        assert!(with >= 64 && with > 4 * without, "{with} beside {without}");
    }

    #[test]
    fn tasks_that_come_more_slowly_hardly_wait() {
        // Loads of 50 to 90 %, of tasks of 0.1 to 5 us; six pauses are an eighth of one.
        for (every, run) in [
            (10.0, 5.0),
            (14.0, 10.0),
            (20.0, 10.0),
            (68.0, 48.0),
            (54.0, 48.0),
            (300.0, 240.0),
        ] {
            let arrivals = arrivals(every);
            let (without, _) = served(&arrivals, run, false);
            let (with, _) = served(&arrivals, run, true);
            assert!(
                with < 1.25 * without + 6.0,
                "{with} pauses beside {without}, one in {every}"
            );
        }
    }

    #[test]
    fn after_a_burst_it_waits_less_and_less_often_for_what_does_not_come() {
        let (mut state, mut waits) = (State::default(), 0);
        for _ in 0..1000 {
            waits += u32::from(state.pauses > 0);
            state = state.after(8, 8);
        }
        assert!((6..30).contains(&waits), "{waits} of 1,000 bursts");
    }
}
