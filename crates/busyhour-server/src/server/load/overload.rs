//! Whether the server keeps up, by the time that requests wait in it.
//!
//! Measured is how long a request of a device waits from its arrival until its
//! serializer begins it. What the disk takes for the commit comes later and is
//! not in it, nor is the wait of a request behind its own device's commit: a
//! slow disk is not a busy server. Of each half second the shortest wait
//! counts. When even that is long, half second after half second, then the
//! queue stands and does not merely have a crest (the idea of CoDel, RFC 8289).
//! A single one says nothing: a machine that stood still, or a process that was
//! stopped, finds all that came before at once.
//!
//! What can't be done in time is refused before it costs anything, so that the
//! work which is done is work that somebody still waits for.
//!
//! Where the receivers can rest, waits hardly get so long: the queue stands in
//! the kernel then (see [`super::backlog`]), and that they rested half second
//! after half second is what tells of it.

use busyhour::clock::Instant;
use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    time::Duration,
};

/// How much of the load is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Shedding {
    /// None of it.
    Nothing,
    /// Some of the newcomers: as many as the backlog affords.
    Surplus,
    /// Devices that are not known yet, and new subscriptions.
    Newcomers,
    /// Every registration and publication, and new subscriptions.
    All,
}

/// Watches the waits.
///
/// Each figure stands for itself: a wait that falls between two intervals may
/// count for either, and nothing else hangs on their order.
#[derive(Debug)]
pub(in crate::server) struct Overload {
    ends_at_ns: AtomicU64,
    /// Of this interval so far; all ones where there was none.
    shortest_ns: AtomicU64,
    /// Receivers rested in this interval, since too much waited.
    has_rested: AtomicBool,
    /// What the interval before would shed by itself, in steps.
    level: AtomicU8,
    /// What is shed: as much as the last two intervals agree on.
    steps: AtomicU8,
}

impl Overload {
    pub(in crate::server) fn new() -> Self {
        Self {
            ends_at_ns: AtomicU64::new(0),
            shortest_ns: AtomicU64::new(NONE),
            has_rested: AtomicBool::new(false),
            level: AtomicU8::new(0),
            steps: AtomicU8::new(0),
        }
    }

    /// A request was begun after such a wait.
    pub(in crate::server) fn record(&self, now: Instant, wait: Duration) {
        self.advance(now);
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(NONE - 1);
        // All requests share the line, and few are the shortest: it is written seldom.
        if wait_ns < self.shortest_ns.load(Ordering::Relaxed) {
            self.shortest_ns.fetch_min(wait_ns, Ordering::Relaxed);
        }
    }

    /// A receiver rests, since as much waits as may.
    pub(in crate::server) fn record_rest(&self, now: Instant) {
        self.advance(now);
        if !self.has_rested.load(Ordering::Relaxed) {
            self.has_rested.store(true, Ordering::Relaxed);
        }
    }

    /// What is refused now.
    pub(in crate::server) fn shedding(&self, now: Instant) -> Shedding {
        self.advance(now);
        match self.steps.load(Ordering::Relaxed) {
            0 => Shedding::Nothing,
            1 => Shedding::Surplus,
            2 => Shedding::Newcomers,
            _ => Shedding::All,
        }
    }

    /// Whether anything was refused when somebody last looked.
    pub(in crate::server) fn is_shedding(&self) -> bool {
        self.steps.load(Ordering::Relaxed) > 0
    }

    /// The thread that sees an interval end draws the conclusion, and no other.
    fn advance(&self, now: Instant) {
        let ends_at = self.ends_at_ns.load(Ordering::Relaxed);
        let now_ns = now.as_nanos();
        let swap = || {
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            self.ends_at_ns
                .compare_exchange(ends_at, now_ns + INTERVAL_NS, success, failure)
        };
        if now_ns < ends_at || swap().is_err() {
            return;
        }
        let shortest = self.shortest_ns.swap(NONE, Ordering::Relaxed);
        let has_rested = self.has_rested.swap(false, Ordering::Relaxed);
        let is_old = now_ns >= ends_at + INTERVAL_NS;
        let level = match shortest {
            // Nobody came for as long as that: what was then is no more.
            _ if is_old => 0,
            // Nothing was begun: what was refused has made room.
            NONE if self.steps.load(Ordering::Relaxed) > 2 => 2,
            NONE => u8::from(has_rested),
            wait if wait > WAIT_MAX_NS => 3,
            wait if wait > WAIT_GOOD_NS => 2,
            _ => u8::from(has_rested),
        };
        let before = self.level.swap(level, Ordering::Relaxed);
        self.steps.store(level.min(before), Ordering::Relaxed);
    }
}

const INTERVAL_NS: u64 = 500_000_000;
/// A client sends again after 500 ms, and then after 1.5 s (RFC 3261's T1, and
/// twice that). The first copy in vain costs little, since copies of what is in
/// work are dropped; a request that waits when the second ends waits too long.
const WAIT_GOOD_NS: u64 = 1_000_000_000;
/// Past the second copy, and before the third after 3.5 s.
const WAIT_MAX_NS: u64 = 2_000_000_000;
const NONE: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// What is shed when each interval's shortest wait was such, in ms.
    fn after(waits: impl IntoIterator<Item = u64>) -> Shedding {
        let overload = Overload::new();
        let mut millis = 1;
        for wait in waits {
            overload.record(at(millis), Duration::from_millis(wait));
            overload.record(at(millis + 1), Duration::from_millis(wait + 5000));
            millis += 501;
        }
        overload.shedding(at(millis))
    }

    #[test]
    fn one_that_is_begun_quickly_shows_that_the_queue_does_not_stand() {
        assert_eq!(after([10, 10, 10]), Shedding::Nothing);
        assert_eq!(after([3000, 3000, 10]), Shedding::Nothing);
    }

    #[test]
    fn waits_that_are_merely_slow_shed_nobody() {
        assert_eq!(after([300; 20]), Shedding::Nothing);
        assert_eq!(after([1000; 20]), Shedding::Nothing);
    }

    #[test]
    fn a_single_halt_sheds_nobody() {
        assert_eq!(after([10, 9000]), Shedding::Nothing);
        assert_eq!(after([10, 9000, 10, 9000]), Shedding::Nothing);
    }

    #[test]
    fn two_halts_far_apart_shed_nobody() {
        let overload = Overload::new();
        for minute in 1..10 {
            overload.record(at(60_000 * minute), Duration::from_secs(9));
            assert_eq!(overload.shedding(at(60_000 * minute)), Shedding::Nothing);
        }
    }

    #[test]
    fn receivers_that_rest_on_and_on_shed_what_is_too_much() {
        let overload = Overload::new();
        let rest = |millis| {
            overload.record(at(millis), Duration::from_millis(40));
            overload.record_rest(at(millis));
            overload.shedding(at(millis))
        };
        assert_eq!(rest(1), Shedding::Nothing, "a crest");
        assert_eq!(rest(502), Shedding::Nothing, "a long one");
        assert_eq!(rest(1003), Shedding::Surplus);
        overload.record(at(1504), Duration::from_millis(40));
        overload.record(at(2005), Duration::from_millis(40));
        assert_eq!(overload.shedding(at(2005)), Shedding::Nothing);
    }

    #[test]
    fn a_queue_that_stands_sheds_newcomers_first_and_ends_by_and_by() {
        assert_eq!(after([1001, 1001]), Shedding::Newcomers);
        assert_eq!(after([1001, 3000]), Shedding::Newcomers);
        let overload = Overload::new();
        overload.record(at(1), Duration::from_millis(2001));
        overload.record(at(502), Duration::from_millis(2001));
        assert_eq!(
            overload.shedding(at(1001)),
            Shedding::Nothing,
            "not over yet"
        );
        assert_eq!(overload.shedding(at(1002)), Shedding::All);
        assert_eq!(overload.shedding(at(1503)), Shedding::Newcomers);
        assert_eq!(overload.shedding(at(2004)), Shedding::Nothing);
    }
}
