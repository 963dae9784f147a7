//! Stand-ins for workers that block. See README.md, "Standing in".

use std::sync::{Arc, atomic::Ordering};

use crate::pool::{context, shared::Shared, worker::CurrentWorker};

/// Runs `f`, which may block. If this thread is a worker of any pool, another
/// worker takes over its queues meanwhile.
pub(crate) fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let _stand_in = stand_in();
    f()
}

/// Finds a stand-in for this thread if it is a worker of any pool and has none
/// yet: a sleeper, or a new thread if none sleeps.
pub(crate) fn stand_in() -> Option<StandIn> {
    let pool = context::current_pool()?;
    let worker = CurrentWorker::of(&pool)?.worker;
    if worker.has_stand_in.swap(true, Ordering::Relaxed) {
        return None;
    }
    let number = worker.number;
    pool.workers.slots.block();
    find_stand_in(&pool);
    Some(StandIn { pool, number })
}

fn find_stand_in(pool: &Shared) {
    let workers = &pool.workers;
    if workers.sleepers.asleep_len() > 0 {
        workers.wake_one(None);
    } else if !pool.is_sealed() && workers.slots.may_grow(workers.counts.maximum) {
        pool.grow(1);
    }
}

/// While this lives, another worker stands in for the one in this slot;
/// afterwards the stand-in stays until it has been idle for the idle timeout.
#[must_use]
pub(crate) struct StandIn {
    pool: Arc<Shared>,
    number: usize,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let worker = &self.pool.workers[self.number];
        worker.has_stand_in.store(false, Ordering::Relaxed);
        self.pool.workers.slots.unblock();
    }
}
