//! Measures turns with few clock readings. See README.md, "Time".

use super::worker_thread::WorkerGauges;
use crate::clock::{Clock, Instant};

/// The stopwatch of one worker.
#[derive(Debug)]
pub(in crate::pool) struct TurnClock<'a> {
    clock: Clock,
    /// Where the worker's tasks are counted and its last reading is published.
    gauges: &'a WorkerGauges,
    /// Tasks begun before the last reading.
    begun: u64,
    /// The last reading.
    now: Instant,
    /// How many turns may end without a reading, and how many of them are left.
    unread_max: u32,
    unread_left: u32,
    /// The last measured time per turn, charged to a turn without a reading.
    share_ns: u64,
    /// Turns for which the clock is still read each time.
    precise_turns: u32,
}

impl<'a> TurnClock<'a> {
    pub(in crate::pool) fn new(clock: &Clock, gauges: &'a WorkerGauges) -> Self {
        let turn_clock = Self {
            clock: clock.clone(),
            gauges,
            begun: gauges.metrics.begun(),
            now: clock.now(),
            unread_max: 0,
            unread_left: 0,
            share_ns: 0,
            precise_turns: PRECISE_TURNS,
        };
        gauges.set_now(turn_clock.now);
        turn_clock
    }

    /// The last reading: exact within a few short turns.
    #[inline(always)]
    pub(in crate::pool) fn now(&self) -> Instant {
        self.now
    }

    /// Whether the clock was read just before the current turn.
    #[inline(always)]
    pub(super) fn is_fresh(&self) -> bool {
        self.unread_left == self.unread_max
    }

    /// Whether the turn has taken so long since the last reading that others
    /// must run. Called once in [`TASKS_UNREAD_MAX`] tasks, and only if others
    /// wait.
    #[inline(never)]
    pub(in crate::pool) fn is_turn_over(&self) -> bool {
        self.clock.now().nanos_since(self.now) > TURN_MAX_NS
    }

    /// Records how long the current entity waited, if the clock was read just
    /// before.
    #[inline(always)]
    pub(super) fn note_wait_since(&self, since: Instant) {
        if self.is_fresh() {
            let wait_ns = &self.gauges.metrics.wait_ns;
            wait_ns.add(self.now.nanos_since(since), 1);
        }
    }

    /// Discards time in which nothing ran.
    pub(super) fn restart(&mut self) {
        self.begun = self.gauges.metrics.begun();
        self.begin(self.clock.now());
    }

    /// Ends a turn; returns the nanoseconds to charge it. `is_exhausted` says
    /// that it used up its allowance.
    #[inline(always)]
    pub(super) fn end_turn(&mut self, is_exhausted: bool) -> u64 {
        if is_exhausted || self.unread_left == 0 {
            return self.read();
        }
        self.unread_left -= 1;
        self.share_ns
    }

    /// Time that was not charged to turns without a reading is charged to the
    /// turn that just ended.
    #[cold]
    fn read(&mut self) -> u64 {
        let now = self.clock.now();
        let elapsed_ns = now.nanos_since(self.now);
        self.note_runs(elapsed_ns);
        self.gauges.note_busy(elapsed_ns);
        let unread_turns = u64::from(self.unread_max - self.unread_left);
        let owed_ns = elapsed_ns.saturating_sub(self.share_ns * unread_turns);
        self.share_ns = elapsed_ns / (unread_turns + 1);
        self.precise_turns = match self.share_ns > SHORT_TURN_NS {
            true => PRECISE_TURNS,
            false => self.precise_turns.saturating_sub(1),
        };
        self.begin(now);
        owed_ns
    }

    /// Continues from a reading.
    fn begin(&mut self, now: Instant) {
        self.now = now;
        self.gauges.set_now(now);
        self.unread_max = match self.precise_turns {
            0 if self.share_ns <= TINY_TURN_NS => UNREAD_TINY_TURNS_MAX,
            0 => UNREAD_TURNS_MAX,
            _ => 0,
        };
        self.unread_left = self.unread_max;
    }

    /// Counts the tasks that began since the last reading, each with their mean
    /// duration.
    #[inline]
    fn note_runs(&mut self, elapsed_ns: u64) {
        let metrics = &self.gauges.metrics;
        let begun = metrics.begun();
        let tasks = begun - self.begun;
        self.begun = begun;
        if let Some(mean_ns) = elapsed_ns.checked_div(tasks) {
            metrics.run_ns.add(mean_ns, tasks);
        }
    }
}

/// The next allowance of an entity that used up its allowance in `ran_ns`.
pub(super) fn next_allowance_log2(allowance_log2: u8, ran_ns: u64) -> u8 {
    if ran_ns < QUANTUM_NS {
        (allowance_log2 + 1).min(ALLOWANCE_LOG2_MAX)
    } else {
        0
    }
}

/// A turn up to this length is not worth a clock reading.
const SHORT_TURN_NS: u64 = 2_000;
const UNREAD_TURNS_MAX: u32 = 15;
/// Of turns up to this length more go without a reading, since a reading costs as much as
/// one of them: together they take no longer than the others.
const TINY_TURN_NS: u64 = 250;
const UNREAD_TINY_TURNS_MAX: u32 = 63;
const _: () = assert!(
    (UNREAD_TINY_TURNS_MAX as u64 + 1) * TINY_TURN_NS
        < (UNREAD_TURNS_MAX as u64 + 1) * SHORT_TURN_NS
);
/// After this many short turns in a row the clock is no longer read at every
/// turn.
const PRECISE_TURNS: u32 = 64;
/// Others run after about this time.
const QUANTUM_NS: u64 = 50_000;
const ALLOWANCE_LOG2_MAX: u8 = 6;
/// A turn that takes longer is over, whatever its allowance. Turns without a
/// reading take less, all of them together, unless tiny turns become long at once: then a
/// turn among them may be over early, once.
const TURN_MAX_NS: u64 = 1_000_000;
const _: () = assert!(UNREAD_TURNS_MAX as u64 * QUANTUM_NS < TURN_MAX_NS);
/// Tasks of a turn between two clock readings.
pub(in crate::pool) const TASKS_UNREAD_MAX: u32 = 8;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::clock::UnixTime;
    use std::time::Duration;

    fn turn_clock(gauges: &WorkerGauges) -> (TurnClock<'_>, Clock) {
        let clock = Clock::simulated(UnixTime::from_secs(0));
        (TurnClock::new(&clock, gauges), clock)
    }

    fn turn(turn_clock: &mut TurnClock<'_>, clock: &Clock, ran: Duration) -> Duration {
        clock.as_virtual().unwrap().advance(ran);
        Duration::from_nanos(turn_clock.end_turn(false))
    }

    #[test]
    fn a_long_turn_is_charged_to_the_entity_that_ran() {
        let gauges = WorkerGauges::default();
        let (mut turn_clock, clock) = turn_clock(&gauges);
        let long = Duration::from_millis(1);
        assert_eq!(turn(&mut turn_clock, &clock, long), long);
        let short = Duration::from_nanos(100);
        assert_eq!(turn(&mut turn_clock, &clock, short), short);
        assert_eq!(turn(&mut turn_clock, &clock, long), long);
    }

    #[test]
    fn charges_add_up_to_the_time_that_passed() {
        let gauges = WorkerGauges::default();
        let (mut turn_clock, clock) = turn_clock(&gauges);
        let ran = |turn: u64| Duration::from_nanos(50 + turn % 7);
        let charged: Duration = (0..16 * 100 + 64)
            .map(|number| turn(&mut turn_clock, &clock, ran(number)))
            .sum();
        let passed = clock.now() - Instant::ZERO;
        assert!(charged.abs_diff(passed) < Duration::from_micros(1));
    }

    #[test]
    fn the_allowance_grows_while_turns_are_short() {
        let after =
            |times: usize, ran| (0..times).fold(0, |log2, _| next_allowance_log2(log2, ran));
        assert_eq!(after(20, 10_000), 6);
        assert_eq!(next_allowance_log2(6, 1_000_000), 0);
    }
}
