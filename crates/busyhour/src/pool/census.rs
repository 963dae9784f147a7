//! Counting what the pool holds and has done.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{shared::Shared, tally::Tally, worker::Worker};
use crate::stats::PoolStats;

impl Shared {
    pub(super) fn stats(&self) -> PoolStats {
        let count = |counter: fn(&Tally) -> &AtomicU64| {
            self.sum(|tally| counter(tally).load(Ordering::Relaxed))
        };
        PoolStats {
            worker_count: self.crew.len() as u64,
            idle_worker_count: self.sleepers.asleep_len() as u64,
            queued_len: self.queued_len() as u64,
            pushed: self.pushed(),
            processed: count(|tally| &tally.processed),
            rejected: count(|tally| &tally.rejected),
            dropped: count(|tally| &tally.dropped),
            panicked: count(|tally| &tally.panicked),
            stolen: count(|tally| &tally.stolen),
            queued_high_water: self.high_water() as u64,
        }
    }

    /// The sum of what each worker once had, so an upper bound.
    fn high_water(&self) -> usize {
        let workers: usize = self.workers.iter().map(Worker::high_water).sum();
        workers
            + self
                .simulated
                .as_ref()
                .map_or(0, |simulated| simulated.high_water())
    }

    fn queued_len(&self) -> usize {
        let waiting: usize = self.workers.iter().map(Worker::waiting_len).sum();
        waiting
            + self
                .simulated
                .as_ref()
                .map_or(0, |simulated| simulated.len())
    }
}
