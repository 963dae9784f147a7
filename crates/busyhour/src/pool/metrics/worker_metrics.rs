//! Counters of tasks, without a shared cache line.

use super::log_counts::LogCounts;
use crate::sync::{
    atomic::{AtomicU64, Ordering},
    fences,
};

/// Counters of one worker (or of all threads that are no worker). They only
/// grow.
#[derive(Debug, Default)]
pub(crate) struct WorkerMetrics {
    /// Accepted; without tasks that ran at once.
    pub(in crate::pool) pushed: AtomicU64,
    /// Taken out of a queue to run; counted while the queue is still locked.
    pub(in crate::pool) started: AtomicU64,
    /// Run at once, without being queued.
    pub(in crate::pool) inlined: AtomicU64,
    /// Ended, whether queued or not.
    pub(in crate::pool) processed: AtomicU64,
    pub(in crate::pool) panicked: AtomicU64,
    pub(in crate::pool) rejected: AtomicU64,
    /// Lost by an overflow policy.
    pub(in crate::pool) dropped: AtomicU64,
    /// Dropped because the pool is shut down.
    pub(in crate::pool) abandoned: AtomicU64,
    pub(in crate::pool) stolen: AtomicU64,
    /// Futures that were spawned, and those that were freed, by whichever worker.
    pub(in crate::pool) spawned: AtomicU64,
    pub(in crate::pool) freed: AtomicU64,
    /// The time between clock readings in which the worker ran something.
    pub(in crate::pool) busy_ns: AtomicU64,
    /// An estimate of the time in which the worker chose what to run.
    pub(in crate::pool) choosing_ns: AtomicU64,
    pub(in crate::pool) run_ns: LogCounts,
    pub(in crate::pool) wait_ns: LogCounts,
}

impl WorkerMetrics {
    /// Whether a task runs on the worker, at the time of the last of the loads.
    pub(in crate::pool) fn is_in_task(&self) -> bool {
        let processed = self.processed.load(Ordering::SeqCst);
        self.begun() > processed
    }

    /// Tasks that have begun.
    pub(in crate::pool) fn begun(&self) -> u64 {
        self.started.load(Ordering::SeqCst) + self.inlined.load(Ordering::SeqCst)
    }
}

/// Metrics, and whether this thread is their only writer.
#[derive(Clone, Copy)]
pub(in crate::pool) struct MetricsWriter<'a> {
    pub(in crate::pool) metrics: &'a WorkerMetrics,
    pub(in crate::pool) is_alone: bool,
}

impl MetricsWriter<'_> {
    /// Counts a task that has ended, before the worker reads the phase for the
    /// next one. A shutdown changes the phase before it reads this: see
    /// README.md, "Why the report is exact".
    #[inline(always)]
    pub(in crate::pool) fn end_task(&self) {
        self.add(|metrics| &metrics.processed, 1);
        fences::light();
    }

    /// Adds to one of the metrics' counters.
    #[inline(always)]
    pub(in crate::pool) fn add(&self, counter: impl Fn(&WorkerMetrics) -> &AtomicU64, count: u64) {
        let counter = counter(self.metrics);
        if self.is_alone {
            let before = counter.load(Ordering::Relaxed);
            // Released, so that a shutdown that reads it sees what was done
            // before.
            counter.store(before + count, Ordering::Release);
        } else {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::{
        pool::phase::{Phase, PhaseCell},
        sync::atomic::AtomicBool,
    };
    use loom::sync::Arc;

    #[derive(Default)]
    struct ModelWorker {
        metrics: WorkerMetrics,
        has_left: AtomicBool,
    }

    /// The forbidden outcome: a shutdown saw the worker inside a task, or gone,
    /// and the worker begins another one.
    #[test]
    fn loom_nothing_begins_after_a_worker_has_settled() {
        loom::model(|| {
            let phase = Arc::new(PhaseCell::open());
            let place = Arc::new(ModelWorker::default());
            let worker = {
                let (phase, place) = (Arc::clone(&phase), Arc::clone(&place));
                loom::thread::spawn(move || work(&phase, &place))
            };
            phase.enter(Phase::Sealed);
            fences::heavy();
            let settled = place.metrics.is_in_task() || place.has_left.load(Ordering::SeqCst);
            let begun = place.metrics.begun();
            worker.join().unwrap();
            if settled {
                assert_eq!(place.metrics.begun(), begun, "a task began unseen");
            }
        });
    }

    /// At most two tasks; same steps as `WorkerLoop`.
    fn work(phase: &PhaseCell, place: &ModelWorker) {
        let metrics = MetricsWriter {
            metrics: &place.metrics,
            is_alone: true,
        };
        for _ in 0..2 {
            if phase.get() == Phase::Sealed {
                break;
            }
            metrics.add(|metrics| &metrics.started, 1);
            metrics.end_task();
        }
        place.has_left.store(true, Ordering::SeqCst);
    }
}
