use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    entity::Entity,
    shared::{Phase, Queue, Runnable, Shared},
};

/// What a shutdown did, and what it left undone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Tasks that ran between the call and the end of the draining.
    pub ran: u64,
    /// Accepted tasks that were dropped without having run.
    pub not_run: u64,
    /// Named serializers that lost tasks, and how many each.
    pub left: Vec<Leftover>,
    /// Workers still inside a task when the deadline passed; they end with that task.
    pub unfinished_workers: u64,
}

impl ShutdownReport {
    /// Whether everything accepted has run and every worker has ended.
    pub fn is_clean(&self) -> bool {
        self.not_run == 0 && self.unfinished_workers == 0
    }
}

/// A serializer whose tasks a shutdown dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The serializer's name.
    pub serializer: String,
    /// Tasks dropped.
    pub not_run: u64,
}

impl Shared {
    pub(super) fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        let ends_at = Instant::now() + deadline;
        let ran_before = self.started();
        self.enter(Phase::Draining);
        self.drain(deadline, ends_at);
        self.enter(Phase::Sealed);
        let unfinished_workers = self.await_workers(ends_at);
        let not_run = self.unstarted();
        ShutdownReport {
            ran: self.started() - ran_before,
            not_run,
            left: self.drop_leftovers(),
            unfinished_workers,
        }
    }

    /// Until nothing waits and nothing runs, or the time is up.
    fn drain(&self, deadline: Duration, ends_at: Instant) {
        if self.is_simulated() {
            let steps_max = deadline.as_micros();
            let _drained = (0..steps_max).find(|_| !self.step());
        } else {
            let own = usize::from(self.is_inside());
            self.lock().closing += own;
            self.wait_until(ends_at, Queue::is_quiet);
            self.lock().closing -= own;
        }
    }

    /// Workers that are still inside a task when the time is up.
    fn await_workers(&self, ends_at: Instant) -> u64 {
        let own = usize::from(self.is_inside() && !self.is_simulated());
        self.wait_until(ends_at, |queue| queue.workers <= own);
        self.lock().workers.saturating_sub(own) as u64
    }

    fn wait_until(&self, ends_at: Instant, done: impl Fn(&Queue) -> bool) {
        let mut queue = self.lock();
        while !done(&queue) {
            let left = ends_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let (woken, _) = (self.quiet.wait_timeout(queue, left))
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            queue = woken;
        }
    }

    fn started(&self) -> u64 {
        self.counters.started.load(Ordering::Relaxed)
    }

    /// Accepted, and neither begun nor lost by a declared policy.
    fn unstarted(&self) -> u64 {
        let dropped = self.counters.dropped.load(Ordering::Relaxed);
        let pushed = self.counters.pushed.load(Ordering::Relaxed);
        pushed - self.started() - dropped
    }

    fn drop_leftovers(&self) -> Vec<Leftover> {
        let left: Vec<_> = self.registry.living().iter().filter_map(leftover).collect();
        for runnable in self.take_all() {
            match runnable {
                Runnable::Task(_) => self.count_dropped(1),
                Runnable::Entity(entity) => drop(entity.abandon()),
            }
        }
        left
    }
}

fn leftover(entity: &Arc<dyn Entity>) -> Option<Leftover> {
    let not_run = entity.abandon();
    (not_run > 0).then(|| Leftover {
        serializer: entity.name(),
        not_run,
    })
}
