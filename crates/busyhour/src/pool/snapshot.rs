//! Statistics of what the pool holds and has done.

use super::{
    metrics::{LogCounts, WorkerMetrics},
    shared::Shared,
    worker::Worker,
};
use crate::{
    stats::{Histogram, PoolStats},
    sync::atomic::{AtomicU64, Ordering},
};

impl Shared {
    pub(super) fn stats(&self) -> PoolStats {
        let count = |counter: fn(&WorkerMetrics) -> &AtomicU64| {
            self.workers
                .sum(|metrics| counter(metrics).load(Ordering::Relaxed))
        };
        PoolStats {
            worker_count: self.workers.slots.len() as u64,
            idle_worker_count: self.idle_len() as u64,
            queued_len: self.queued_len() as u64,
            pushed: self.workers.pushed() + count(|metrics| &metrics.inlined),
            processed: count(|metrics| &metrics.processed),
            rejected: count(|metrics| &metrics.rejected),
            dropped: count(|metrics| &metrics.dropped) + count(|metrics| &metrics.abandoned),
            panicked: count(|metrics| &metrics.panicked),
            stolen: count(|metrics| &metrics.stolen),
            queued_high_water: self.high_water() as u64,
            oldest_waiting_ns: self.oldest_waiting_ns(),
            run_ns: self.histogram(|metrics| &metrics.run_ns),
            wait_ns: self.histogram(|metrics| &metrics.wait_ns),
        }
    }

    /// Sleeping workers that will find no work until they are woken.
    fn idle_len(&self) -> usize {
        let is_settled = |number: usize| self.workers[number].has_settled_to_sleep();
        self.workers.sleepers.count(is_settled)
    }

    fn oldest_waiting_ns(&self) -> u64 {
        let living = self.registry.living();
        let ages = living.iter().map(|entity| entity.stats().oldest_waiting_ns);
        ages.max().unwrap_or(0)
    }

    fn histogram(&self, counts: fn(&WorkerMetrics) -> &LogCounts) -> Histogram {
        let mut histogram = Histogram::default();
        for worker in self.workers.iter() {
            counts(&worker.gauges.metrics).add_to(&mut histogram);
        }
        histogram
    }

    /// The sum of each worker's maximum, so an upper bound.
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
