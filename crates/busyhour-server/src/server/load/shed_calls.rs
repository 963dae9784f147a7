//! Which INVITEs were refused for too much load, so that a late copy of one does not ring after its
//! caller has heard that it failed (RFC 3261 §17.2.1).
//!
//! A refusal must cost little, so its answer is not kept but written again, the same as before,
//! and what is kept is a keyed hash of the request. There are two sets: the younger one becomes
//! the older one after [`LIFE`], and the older one is dropped, so a hash is known for one to two
//! lives. One source has a share of each set.

use super::shares::{Holder, Shares};
use crate::server::stats::counters::Counter;
use busyhour::clock::Instant;
use foldhash::fast::RandomState;
use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The INVITEs that were refused lately.
pub(in crate::server) struct ShedCalls {
    sets: Mutex<Sets>,
    /// What holders have in the younger set.
    shares: Shares,
    /// Whether a set has anything: most of the time none has, and each INVITE asks.
    is_any: AtomicBool,
    pub(in crate::server) not_kept: Counter,
}

#[derive(Default)]
struct Sets {
    younger: HashSet<u64, RandomState>,
    older: HashSet<u64, RandomState>,
    turns_at: Instant,
}

impl ShedCalls {
    /// Room for as many in each set as the shares have.
    pub(in crate::server) fn new(shares: Shares) -> Self {
        Self {
            sets: Mutex::default(),
            shares,
            is_any: AtomicBool::new(false),
            not_kept: Counter::default(),
        }
    }

    /// An INVITE is refused; counted if its source has its share.
    pub(super) fn note(&self, now: Instant, invite: u64, holder: Holder) {
        let mut sets = self.lock();
        self.turn(now, &mut sets);
        if sets.younger.contains(&invite) {
            return;
        }
        if self.shares.take(holder, 1).is_err() {
            return self.not_kept.increment();
        }
        sets.younger.insert(invite);
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Whether an INVITE was refused lately.
    pub(super) fn knows(&self, now: Instant, invite: u64) -> bool {
        if !self.is_any.load(Ordering::Relaxed) {
            return false;
        }
        let mut sets = self.lock();
        self.turn(now, &mut sets);
        sets.younger.contains(&invite) || sets.older.contains(&invite)
    }

    /// Frees what is no longer needed. Call it now and then.
    pub(super) fn sweep(&self, now: Instant) {
        if self.is_any.load(Ordering::Relaxed) {
            self.turn(now, &mut self.lock());
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        let sets = self.lock();
        (sets.younger.len() + sets.older.len()) as u64
    }

    fn turn(&self, now: Instant, sets: &mut Sets) {
        if now < sets.turns_at {
            return;
        }
        let is_late = now >= sets.turns_at + LIFE;
        sets.older = std::mem::take(&mut sets.younger);
        if is_late {
            sets.older = HashSet::default();
        }
        sets.turns_at = now + LIFE;
        self.shares.clear();
        self.is_any.store(!sets.older.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 64 × T1: a client sends an INVITE again for so long (RFC 3261 §17.1.1.2).
const LIFE: Duration = Duration::from_secs(32);
/// In each of the two sets.
pub(in crate::server) const CAPACITY: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::load::shares::{Holders, Parts};

    fn calls() -> ShedCalls {
        ShedCalls::new(Shares::new(
            100,
            Parts {
                by_source: 10,
                by_account: 10,
                by_domain: 100,
                least: 1,
            },
        ))
    }

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    fn holder(host: u8) -> Holder {
        Holders::new(1).of([192, 0, 2, host].into(), None)
    }

    #[test]
    fn a_refused_invite_is_known_for_one_to_two_lives() {
        let calls = calls();
        assert!(!calls.knows(at(0), 1));
        calls.note(at(0), 1, holder(1));
        calls.note(at(31), 2, holder(1));
        for s in [31, 32, 63] {
            assert!(calls.knows(at(s), 1) && calls.knows(at(s), 2), "{s}");
        }
        assert!(!calls.knows(at(64), 1) && !calls.knows(at(64), 2));
        assert_eq!(calls.len(), 0);
    }

    #[test]
    fn what_is_not_asked_for_is_freed_by_the_sweep() {
        let calls = calls();
        calls.note(at(0), 1, holder(1));
        calls.sweep(at(40));
        assert_eq!(calls.len(), 1);
        calls.sweep(at(72));
        assert_eq!(calls.len(), 0);
        calls.note(at(100), 1, holder(1));
        calls.sweep(at(200));
        assert_eq!(calls.len(), 0, "two lives at once");
    }

    #[test]
    fn one_source_takes_its_share_and_no_more() {
        let calls = calls();
        for invite in 0..50 {
            calls.note(at(1), invite, holder(1));
        }
        assert_eq!((calls.len(), calls.not_kept.get()), (10, 40));
        // The same once more takes nothing.
        calls.note(at(2), 0, holder(1));
        assert_eq!(calls.not_kept.get(), 40);
        calls.note(at(2), 99, holder(2));
        assert!(calls.knows(at(2), 99));
        // Of the next set it has its share as well.
        calls.note(at(34), 100, holder(1));
        assert!(calls.knows(at(34), 100) && calls.knows(at(34), 0));
    }
}
