use crate::config::Runtime;
use busyhour::pool::{TaskPool, TaskPoolBuilder};
use std::{num::NonZeroUsize, thread, time::Duration};

impl Runtime {
    /// The options of the worker pool. Where the number at the start is not given, it is
    /// one for each core, within the bounds that are given.
    pub fn pool(&self) -> TaskPoolBuilder {
        let cores = thread::available_parallelism().map_or(2, NonZeroUsize::get);
        let workers = self.workers.unwrap_or_else(|| {
            let least = self.workers_min.unwrap_or(1);
            cores.max(least).min(self.workers_max.unwrap_or(usize::MAX))
        });
        TaskPool::builder()
            .workers(workers)
            .minimum(self.workers_min.unwrap_or(workers))
            .maximum(self.workers_max.unwrap_or(workers))
            .auto_increment(self.worker_increment)
            .growth_threshold(self.growth_threshold)
            .idle_timeout(Duration::from_secs(self.worker_idle_seconds.into()))
    }
}
