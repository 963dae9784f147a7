//! Whether the server keeps up, by the time that requests wait in it.
//!
//! The measure is how long a request waits from its arrival until its serializer begins
//! it. It does not include the commit, nor the wait of a request behind its own
//! device's commit: a slow disk is not a busy server. The shortest wait of each half
//! second counts. If even that is long in consecutive half seconds, there is a standing
//! queue and not just a peak (the idea of CoDel, RFC 8289). A single half second says
//! nothing: after a pause of the machine or the process, everything that came in the
//! meantime arrives at once.
//!
//! Requests that cannot be served in time are refused before they cost anything, so
//! that the server works only on requests whose sender still waits.
//!
//! If the receivers can pause, waits hardly get so long: then the queue is in the
//! kernel (see [`super::backlog`]), and pauses in consecutive half seconds show it.

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
/// The fields are independent: a wait between two intervals may count for either, and
/// nothing else depends on their order.
#[derive(Debug)]
pub(in crate::server) struct Overload {
    ends_at_ns: AtomicU64,
    /// The shortest wait of this interval so far; all ones if there was none.
    shortest_ns: AtomicU64,
    /// Receivers paused in this interval, since too many requests waited.
    has_rested: AtomicBool,
    /// The level of shedding that the previous interval alone would give.
    level: AtomicU8,
    /// The level of shedding: the lower one of the last two intervals.
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

    /// A request began after this wait.
    pub(in crate::server) fn record(&self, now: Instant, wait: Duration) {
        self.advance(now);
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(NONE - 1);
        // All requests share this cache line, and few waits are the shortest: it is
        // written seldom.
        if wait_ns < self.shortest_ns.load(Ordering::Relaxed) {
            self.shortest_ns.fetch_min(wait_ns, Ordering::Relaxed);
        }
    }

    /// A receiver pauses, since the maximum of requests waits.
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

    /// Whether requests were shed at the last check.
    pub(in crate::server) fn is_shedding(&self) -> bool {
        self.steps.load(Ordering::Relaxed) > 0
    }

    /// Only the thread that ends an interval computes the new level.
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
            // No request came for a whole interval: the old values do not count any
            // more.
            _ if is_old => 0,
            // No request began: the refusals have made room.
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
/// A client sends again after 500 ms, and then after 1.5 s (RFC 3261's T1, and twice
/// that). The first needless copy costs little, since copies of requests in progress
/// are dropped; a request that still waits after one second has waited too long.
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
    fn one_short_wait_shows_that_the_queue_does_not_stand() {
        assert_eq!(after([10, 10, 10]), Shedding::Nothing);
        assert_eq!(after([3000, 3000, 10]), Shedding::Nothing);
    }

    #[test]
    fn slow_waits_alone_shed_no_request() {
        assert_eq!(after([300; 20]), Shedding::Nothing);
        assert_eq!(after([1000; 20]), Shedding::Nothing);
    }

    #[test]
    fn a_single_pause_sheds_no_request() {
        assert_eq!(after([10, 9000]), Shedding::Nothing);
        assert_eq!(after([10, 9000, 10, 9000]), Shedding::Nothing);
    }

    #[test]
    fn two_pauses_far_apart_shed_no_request() {
        let overload = Overload::new();
        for minute in 1..10 {
            overload.record(at(60_000 * minute), Duration::from_secs(9));
            assert_eq!(overload.shedding(at(60_000 * minute)), Shedding::Nothing);
        }
    }

    #[test]
    fn repeated_pauses_of_the_receivers_shed_the_excess() {
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
    fn a_standing_queue_sheds_new_devices_first_and_stops_gradually() {
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
