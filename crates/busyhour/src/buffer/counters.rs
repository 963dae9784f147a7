//! How many buffers of each size were opened and released, counted apart by
//! thread so that counting costs no shared cache line.

use super::address::CLASS_COUNT;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The counts of one thread, or of all that have ended.
#[derive(Debug, Default)]
pub(super) struct BufferCounters {
    opened: [AtomicU64; RANGE_COUNT],
    released: [AtomicU64; RANGE_COUNT],
    found: AtomicU64,
}

impl BufferCounters {
    /// Counts an opening; by the thread that owns these counters.
    #[inline]
    pub(super) fn opened(&self, range_index: usize) {
        add_alone(&self.opened[range_index]);
    }

    /// Counts an opening for a pin instead of a value; by the thread that owns
    /// these counters.
    #[inline]
    pub(super) fn found(&self) {
        add_alone(&self.found);
    }

    /// Counts a release; by the thread that owns these counters.
    #[inline]
    pub(super) fn released(&self, range_index: usize) {
        add_alone(&self.released[range_index]);
    }

    /// Counts an opening beside other threads.
    pub(super) fn opened_shared(&self, range_index: usize) {
        self.opened[range_index].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an opening for a pin beside other threads.
    pub(super) fn found_shared(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were opened for a pin.
    pub(super) fn found_total(&self) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    /// Counts a release beside other threads.
    pub(super) fn released_shared(&self, range_index: usize) {
        self.released[range_index].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds all of `other`, beside other threads.
    pub(super) fn absorb(&self, other: &BufferCounters) {
        let pairs = [
            (&self.opened, &other.opened),
            (&self.released, &other.released),
        ];
        let found = other.found.load(Ordering::Relaxed);
        self.found.fetch_add(found, Ordering::Relaxed);
        for (sums, counts) in pairs {
            for (sum, count) in sums.iter().zip(counts) {
                sum.fetch_add(count.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// What was opened so far, and what of it is live, by range.
    pub(super) fn totals(&self) -> impl Iterator<Item = Total> {
        self.opened
            .iter()
            .zip(&self.released)
            .map(|(opened, released)| {
                let released = released.load(Ordering::Acquire);
                let opened = opened.load(Ordering::Acquire);
                Total {
                    opened,
                    live: opened.saturating_sub(released),
                }
            })
    }
}

/// The counts of one range.
#[derive(Debug, Clone, Copy)]
pub(super) struct Total {
    pub(super) opened: u64,
    pub(super) live: u64,
}

#[inline]
fn add_alone(count: &AtomicU64) {
    // A load and a store instead of a read-modify-write: nobody else writes.
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// Every size class, and the granules.
const RANGE_COUNT: usize = CLASS_COUNT + 1;
