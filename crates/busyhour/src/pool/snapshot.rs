//! Statistics of what the pool holds and has done.

use super::{
    metrics::{LogCounts, WorkerMetrics},
    shared::Shared,
    watermarks::PoolWatermarks,
    worker::Worker,
};
use crate::{
    stats::{Histogram, PoolStats, WorkerStats},
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
            // Freed first: a future that is freed in between must not be missing.
            future_count: {
                let freed = count(|metrics| &metrics.freed);
                count(|metrics| &metrics.spawned).saturating_sub(freed)
            },
            queued_high_water: self.high_water() as u64,
            oldest_waiting_ns: self.oldest_waiting_ns(),
            run_ns: self.histogram(|metrics| &metrics.run_ns),
            wait_ns: self.histogram(|metrics| &metrics.wait_ns),
            low_watermark: self.marks.as_ref().map(|marks| marks.low as u64),
            high_watermark: self.marks.as_ref().map(|marks| marks.high as u64),
            is_high: self.marks.as_ref().is_some_and(PoolWatermarks::is_high),
            alerts_raised: self.marks.as_ref().map_or(0, PoolWatermarks::raised),
        }
    }

    /// Each worker that has a thread, by number.
    pub(super) fn worker_stats(&self) -> Vec<WorkerStats> {
        let asleep = self.workers.sleepers.list();
        let stats = |number: usize| {
            let worker = &self.workers[number];
            let metrics = &worker.gauges.metrics;
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            WorkerStats {
                number: number as u64,
                is_idle: asleep.contains(&number) && worker.has_settled_to_sleep(),
                is_running: metrics.is_in_task(),
                queued_len: worker.waiting_len() as u64,
                queued_high_water: worker.high_water() as u64,
                processed: count(&metrics.processed),
                panicked: count(&metrics.panicked),
                stolen: count(&metrics.stolen),
                switches: worker.gauges.turns(),
                choosing_ns: count(&metrics.choosing_ns),
                busy_ns: count(&metrics.busy_ns),
                is_bucketed: worker.gauges.is_bucketed(),
                epoch: worker.gauges.epoch(),
                run_ns: sum([&metrics.run_ns]),
                wait_ns: sum([&metrics.wait_ns]),
            }
        };
        self.workers.slots.taken().into_iter().map(stats).collect()
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
        sum(self
            .workers
            .iter()
            .map(|worker| counts(&worker.gauges.metrics)))
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

    pub(super) fn queued_len(&self) -> usize {
        let waiting: usize = self.workers.iter().map(Worker::waiting_len).sum();
        waiting
            + self
                .simulated
                .as_ref()
                .map_or(0, |simulated| simulated.len())
    }
}

fn sum<'a>(all: impl IntoIterator<Item = &'a LogCounts>) -> Histogram {
    let mut histogram = Histogram::default();
    for counts in all {
        counts.add_to(&mut histogram);
    }
    histogram
}
