//! All workers of a pool: which have a thread, which sleep, which one gets the
//! next push from outside, and how much waits for them.

use std::{ops::Deref, time::Duration};

use super::{
    inline_runner::{INLINE_RUNNERS_MAX, InlineRunners},
    worker_thread::Worker,
};
use crate::{
    pool::{
        Selector,
        builder::{TaskPoolBuilder, WorkerCounts},
        entity::Token,
        metrics::{MetricsWriter, WorkerMetrics},
        queue::InjectClosed,
        sleep::{Sleepers, WorkerSlots},
    },
    sync::{
        CachePadded, Mutex, MutexGuard, lock,
        runtime::atomic::{AtomicUsize, Ordering},
        thread_index,
    },
    task::{Reason, Rejected, Task},
};

/// Dereferences to the slice of all slots, taken or not; those of inline
/// runners come last.
pub(in crate::pool) struct WorkerSet {
    places: Box<[Worker]>,
    pub(in crate::pool) counts: WorkerCounts,
    pub(in crate::pool) slots: WorkerSlots,
    pub(in crate::pool) sleepers: Sleepers,
    pub(in crate::pool) inline_runners: InlineRunners,
    /// The counters of threads that are no worker of this pool.
    others: CachePadded<WorkerMetrics>,
    selector: Selector,
    next_worker: AtomicUsize,
    /// How many plain tasks may wait.
    pub(in crate::pool) capacity: usize,
    /// Each worker's share of the capacity.
    capacity_share: usize,
    growth_threshold: usize,
    /// Each slot's share of the threshold: as long as every slot is below it,
    /// the pool does not grow. With watermarks it may be lower, so that no push
    /// that reaches them is missed.
    long_share: usize,
    /// Whether the pool's own queue has watermarks.
    has_marks: bool,
    /// How many workers are added at a time.
    auto_increment: usize,
    /// Held while workers are added for what waits: two threads at a time would
    /// both take the same room below the maximum.
    growing: Mutex<()>,
    idle_timeout: Duration,
}

impl WorkerSet {
    pub(in crate::pool) fn new(builder: &TaskPoolBuilder, counts: WorkerCounts) -> Self {
        Self {
            places: (0..counts.places() + INLINE_RUNNERS_MAX)
                .map(|number| Worker::new(number, builder.thresholds))
                .collect(),
            counts,
            slots: WorkerSlots::new(counts.places()),
            sleepers: Sleepers::default(),
            inline_runners: InlineRunners::new(counts.places()),
            others: CachePadded::default(),
            selector: builder.selector,
            next_worker: AtomicUsize::new(0),
            capacity: builder.capacity,
            capacity_share: builder.capacity / counts.maximum.max(1),
            growth_threshold: builder.growth_threshold,
            long_share: long_share(builder, counts),
            has_marks: builder.marks.is_some(),
            auto_increment: builder.auto_increment,
            growing: Mutex::new(()),
            idle_timeout: builder.idle_timeout,
        }
    }

    /// The counters of all threads that are no worker.
    #[inline(always)]
    pub(in crate::pool) fn external_metrics(&self) -> MetricsWriter<'_> {
        MetricsWriter {
            metrics: &self.others,
            is_alone: false,
        }
    }

    /// The sum over all workers, and the threads that are no worker.
    pub(in crate::pool) fn sum(&self, count: impl Fn(&WorkerMetrics) -> u64) -> u64 {
        let workers = self.iter().map(|worker| &worker.gauges.metrics);
        workers.map(&count).sum::<u64>() + count(&self.others)
    }

    /// Tasks accepted into a queue, from any thread.
    pub(in crate::pool) fn pushed(&self) -> u64 {
        let injected = self.iter().map(|worker| worker.inject_queue.pushed());
        injected.sum::<u64>() + self.sum(|metrics| metrics.pushed.load(Ordering::SeqCst))
    }

    /// Tasks that a thread has begun to run.
    pub(in crate::pool) fn begun(&self) -> u64 {
        self.sum(WorkerMetrics::begun)
    }

    /// Tasks that were accepted, and neither begun nor lost by an overflow
    /// policy.
    pub(in crate::pool) fn not_run(&self) -> u64 {
        let taken = |metrics: &WorkerMetrics| {
            metrics.started.load(Ordering::SeqCst) + metrics.dropped.load(Ordering::SeqCst)
        };
        let taken = self.sum(taken);
        self.pushed().saturating_sub(taken)
    }

    /// Whether the pool holds as many plain tasks as allowed. It checks one
    /// worker's share first, and reads the other workers' counts only if that
    /// share is used up.
    #[inline(always)]
    pub(in crate::pool) fn is_full(&self, worker: &Worker) -> bool {
        worker.task_len() >= self.capacity_share && self.task_len() >= self.capacity
    }

    #[cold]
    fn task_len(&self) -> usize {
        self.iter().map(Worker::task_len).sum()
    }

    /// Tasks and entities that wait in the queues of all slots.
    #[cold]
    pub(in crate::pool) fn waiting_len(&self) -> usize {
        self.iter().map(Worker::waiting_len).sum()
    }

    pub(in crate::pool) fn any_work(&self) -> bool {
        self.iter().any(|worker| worker.waiting_len() > 0)
    }

    /// The same for a thread that is no worker.
    #[inline(always)]
    fn is_full_outside(&self, worker: &Worker) -> bool {
        worker.inject_queue.task_len_max() >= self.capacity_share && self.is_full(worker)
    }

    /// Creates a plain task in the inject queue of the worker that the selector
    /// chooses; returns the number of that one and the length, or `make` if this
    /// worker has left or is full.
    #[inline(always)]
    pub(in crate::pool) fn inject_first<M: FnOnce() -> Task>(
        &self,
        make: M,
    ) -> Result<(usize, usize), M> {
        let worker = &self.places[self.select()];
        if self.is_full_outside(worker) {
            return Err(make);
        }
        match worker.inject_queue.push(make) {
            Ok(len) => Ok((worker.number, len)),
            Err(InjectClosed(make)) => Err(make),
        }
    }

    /// Puts a plain task into an inject queue, whose number and length it
    /// returns; `forced` ignores the bound. A worker that leaves at this moment
    /// has closed its queue, so the task goes to the next one.
    #[inline(always)]
    pub(in crate::pool) fn inject(
        &self,
        mut task: Task,
        forced: bool,
    ) -> Result<(usize, usize), Rejected> {
        for worker in self.selected_first() {
            if !forced && self.is_full_outside(worker) {
                let reason = Reason::Full;
                return Err(Rejected { task, reason });
            }
            match worker.inject_queue.push(|| task) {
                Ok(len) => return Ok((worker.number, len)),
                Err(InjectClosed(make)) => task = make(),
            }
        }
        let reason = Reason::ShutDown;
        Err(Rejected { task, reason })
    }

    /// Like [`inject`](Self::inject), for an entity, which has no bound;
    /// returns the token if every queue is closed.
    #[inline(always)]
    pub(in crate::pool) fn inject_token(&self, mut token: Token) -> Result<(usize, usize), Token> {
        for worker in self.selected_first() {
            match worker.inject_queue.push_token(token) {
                Ok(len) => return Ok((worker.number, len)),
                Err(InjectClosed(back)) => token = back,
            }
        }
        Err(token)
    }

    /// All workers, starting with the one that the selector chooses.
    fn selected_first(&self) -> impl Iterator<Item = &Worker> {
        let selected = self.select();
        let (before, from_there) = self.split_at(selected);
        from_there.iter().chain(before)
    }

    #[inline]
    fn select(&self) -> usize {
        let len = self.slots.len().clamp(1, self.places.len());
        match self.selector {
            // In 32 bits a division takes a few cycles.
            Selector::Default => (thread_index() as u32 % len as u32) as usize,
            Selector::Sequential => self.next_worker.fetch_add(1, Ordering::Relaxed) % len,
            Selector::LeastFull => self.least_full(),
        }
    }

    /// The open slot with the fewest waiting tasks.
    fn least_full(&self) -> usize {
        let open = self.iter().filter(|worker| worker.inject_queue.is_open());
        let least = open.min_by_key(|worker| worker.waiting_len());
        least.map_or(0, |worker| worker.number)
    }

    #[cold]
    pub(in crate::pool) fn wake_one(&self, preferred: Option<usize>) {
        if let Some(number) = self.sleepers.take_sleeper(preferred) {
            self[number].unpark();
        }
    }

    pub(in crate::pool) fn wake_all(&self) {
        for number in self.sleepers.take_all() {
            self[number].unpark();
        }
    }

    /// Whether this many in one queue may be a reason to add a worker, or too
    /// many.
    #[inline(always)]
    pub(in crate::pool) fn is_long(&self, len: usize) -> bool {
        len > self.long_share && (self.has_marks || self.may_grow())
    }

    /// Whether fewer workers than the maximum have a thread that is not blocked.
    #[inline]
    pub(in crate::pool) fn may_grow(&self) -> bool {
        self.room() > 0
    }

    /// How many workers may still be added.
    #[inline]
    fn room(&self) -> usize {
        (self.counts.maximum + self.slots.blocked_len()).saturating_sub(self.slots.len())
    }

    /// How many workers are to be added, if too few are there; nobody else adds
    /// some as long as the guard lives.
    pub(in crate::pool) fn growth(&self) -> (usize, MutexGuard<'_, ()>) {
        let growing = lock(&self.growing);
        (self.auto_increment.min(self.room()), growing)
    }

    /// Whether more tasks wait in the whole pool than the threshold, and no
    /// worker sleeps. It sums the queues only once per as many pushes as there
    /// are workers, since each queue is another cache line.
    #[cold]
    pub(in crate::pool) fn is_short(&self, len: usize) -> bool {
        let is_due = len % self.slots.len().max(1) == 0;
        let threshold = self.growth_threshold;
        (len > threshold || (is_due && self.waiting_len() > threshold))
            && self.sleepers.asleep_len() == 0
    }

    /// The same for a worker that was the last to search: one of what waits it
    /// runs itself.
    pub(in crate::pool) fn is_short_after_search(&self) -> bool {
        self.waiting_len() > self.growth_threshold.saturating_add(1)
            && self.sleepers.asleep_len() == 0
    }

    /// Whether there are more workers than needed, apart from those that are
    /// blocked.
    pub(in crate::pool) fn has_spare(&self) -> bool {
        self.slots.len() > self.slots.least(self.counts.minimum)
    }

    /// After which time a sleeping worker checks whether it may end; a stand-in
    /// checks whether the worker it stands in for is unblocked.
    pub(in crate::pool) fn idle_timeout(&self) -> Option<Duration> {
        if self.slots.len() <= self.counts.minimum {
            None
        } else if self.slots.blocked_len() == 0 {
            Some(self.idle_timeout)
        } else {
            Some(self.idle_timeout.max(STAND_IN_TIMEOUT_MIN))
        }
    }

    /// Workers that have a thread, plus inline runs. To check for work as well,
    /// a caller must look at the queues after this.
    pub(in crate::pool) fn present_len(&self) -> usize {
        self.slots.len() + self.inline_runs_len()
    }

    /// Whether nothing waits, and nothing runs except what is one of `closing`.
    pub(in crate::pool) fn is_quiet(&self, closing: usize) -> bool {
        self.sleepers
            .look(|asleep| asleep + closing >= self.present_len() && !self.any_work())
    }

    /// The number of inline runs now.
    fn inline_runs_len(&self) -> usize {
        let places = self.get(self.inline_runners.first..).unwrap_or_default();
        let at_work = |worker: &&Worker| worker.is_at_work.load(Ordering::SeqCst);
        places.iter().filter(at_work).count()
    }
}

impl Deref for WorkerSet {
    type Target = [Worker];

    #[inline(always)]
    fn deref(&self) -> &[Worker] {
        &self.places
    }
}

const STAND_IN_TIMEOUT_MIN: Duration = Duration::from_millis(10);

/// Each slot has three queues: the FIFO, the run queue and the inject queue.
fn long_share(builder: &TaskPoolBuilder, counts: WorkerCounts) -> usize {
    let places = counts.places().max(1);
    let growth_share = builder.growth_threshold / places;
    let mark_share = builder.marks.map(|(_, high)| high / (3 * places));
    mark_share.map_or(growth_share, |share| {
        share.saturating_sub(1).min(growth_share)
    })
}
