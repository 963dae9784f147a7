//! Counters of what ran, without a shared cache line.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one worker (or all threads that are none) did. Counters only grow.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(super) pushed: AtomicU64,
    pub(super) started: AtomicU64,
    pub(super) processed: AtomicU64,
    pub(super) panicked: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) stolen: AtomicU64,
}

/// A tally, and whether this thread is the only one that writes it.
#[derive(Clone, Copy)]
pub(super) struct Tallier<'a> {
    pub(super) tally: &'a Tally,
    pub(super) is_alone: bool,
}

impl Tallier<'_> {
    /// Adds to one of the tally's counters.
    #[inline(always)]
    pub(super) fn add(&self, counter: impl Fn(&Tally) -> &AtomicU64, count: u64) {
        let counter = counter(self.tally);
        if self.is_alone {
            let before = counter.load(Ordering::Relaxed);
            counter.store(before + count, Ordering::Relaxed);
        } else {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
}
