//! Starts the threads of a pool's workers.

use std::{io, sync::Arc};

use super::{affinity, worker_thread::occupy};
use crate::{
    pool::{Hook, shared::Shared},
    sync::runtime::thread,
};

/// What each worker's thread does before its first turn and after its last.
pub(in crate::pool) struct ThreadFactory {
    pub(in crate::pool) on_thread_start: Option<Hook>,
    pub(in crate::pool) on_thread_stop: Option<Hook>,
    /// The processors for the workers, assigned in rotation.
    pub(in crate::pool) processors: Vec<usize>,
}

impl ThreadFactory {
    /// Starts a thread that is the worker with this number until its loop ends.
    fn start(&self, shared: Arc<Shared>, number: usize) -> io::Result<()> {
        let thread = thread::Builder::new().name(format!("{}-{number}", shared.name));
        let started = thread.spawn(move || occupy(&shared, number));
        started.map(drop)
    }

    /// What a worker's thread does before its first turn.
    pub(super) fn begin_thread(&self, shared: &Shared, number: usize) {
        self.keep_to_processor(number);
        call(shared, &self.on_thread_start);
    }

    /// What a worker's thread does after its last turn.
    pub(super) fn end_thread(&self, shared: &Shared) {
        call(shared, &self.on_thread_stop);
    }

    /// The processors were checked when the pool was built. If one has
    /// disappeared since, it is better to run anywhere than not at all.
    fn keep_to_processor(&self, number: usize) {
        if let Some(index) = number.checked_rem(self.processors.len()) {
            let _kept = affinity::pin(self.processors[index]);
        }
    }

    /// The host's hooks, to be dropped where their panics do no harm.
    pub(in crate::pool) fn take_hooks(&mut self) -> [Option<Hook>; 2] {
        [self.on_thread_start.take(), self.on_thread_stop.take()]
    }
}

fn call(shared: &Shared, hook: &Option<Hook>) {
    if let Some(hook) = hook {
        shared.isolate(|| hook());
    }
}

impl Shared {
    /// Starts the initial workers; if one fails, those already started end
    /// again.
    pub(in crate::pool) fn start(&self) -> io::Result<()> {
        for _ in 0..self.workers.counts.initial {
            self.start_worker()?;
        }
        Ok(())
    }

    /// Starts as many workers as are added at a time, up to the maximum.
    #[cold]
    pub(in crate::pool) fn grow_for_queue(&self) {
        let (count, _growing) = self.workers.growth();
        self.grow(count);
    }

    /// Starts more workers. A refused thread is no error here: the pool
    /// continues with the workers it has, and a later push tries again.
    #[cold]
    pub(in crate::pool) fn grow(&self, count: usize) {
        for _ in 0..count {
            let _refused = self.start_worker();
        }
    }

    /// Starts as many workers as are added at a time in a pool that may have
    /// none, if none is there or all that are there leave. `false` if the pool is sealed, or if the system
    /// refuses the thread. See README.md, "No worker".
    #[cold]
    pub(in crate::pool) fn ensure_worker(&self) -> bool {
        let (count, _growing) = self.workers.growth();
        if self.is_sealed() {
            return false;
        }
        if self.workers.slots.are_deserted() {
            if self.start_worker().is_err() {
                return false;
            }
            self.grow(count.saturating_sub(1));
        }
        true
    }

    /// A worker for what an inline run has left: a sleeper, or the first one of
    /// a pool that has none.
    pub(super) fn wake_or_start_one(&self) {
        if self.workers.sleepers.should_wake() {
            self.workers.wake_one(None);
        } else if self.workers.counts.minimum == 0 {
            self.ensure_worker();
        }
    }

    /// After a worker has left: an inline run may have left something behind
    /// when it saw that worker.
    pub(super) fn look_after_the_last(&self) {
        if self.workers.slots.are_deserted() && self.workers.any_work() {
            self.ensure_worker();
        }
    }

    /// Adds workers for pushes that found a worker asleep or searching, and left
    /// it to that one to see what waits.
    #[cold]
    pub(in crate::pool) fn grow_after_search(&self) {
        if self.workers.is_short_after_search() && self.lifecycle.is_open() {
            self.grow_for_queue();
        }
    }

    fn start_worker(&self) -> io::Result<()> {
        let Some(shared) = self.to_arc() else {
            return Ok(());
        };
        let Some(number) = self.workers.slots.take_slot() else {
            return Ok(());
        };
        self.workers[number].inject_queue.open();
        let started = self.thread_factory.start(shared, number);
        if started.is_err() {
            self.workers[number].inject_queue.close();
            self.leave(number);
        }
        started
    }
}
