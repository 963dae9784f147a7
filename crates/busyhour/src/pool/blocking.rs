//! Standing in for a worker that is blocked.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{context, phase::Phase, shared::Shared, worker::Seat};

/// How many workers are blocked and said so.
#[derive(Debug, Default)]
pub(super) struct Blocked(AtomicUsize);

impl Blocked {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `f`, which may block. If this thread is a worker, of whichever pool,
/// another one sees to its queues meanwhile.
pub(crate) fn blocking<R>(f: impl FnOnce() -> R) -> R {
    match context::current_pool() {
        Some(pool) => pool.blocking(f),
        None => f(),
    }
}

impl Shared {
    /// Runs `f`, which may block. If this is a worker, another one sees to its
    /// queues meanwhile: a sleeper, or a new thread if none sleeps.
    pub(crate) fn blocking<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        if Seat::of(self).is_none() {
            return f();
        }
        self.blocked.0.fetch_add(1, Ordering::SeqCst);
        let _unblocked = Unblocked(&self.blocked);
        self.find_stand_in();
        f()
    }

    fn find_stand_in(self: &Arc<Self>) {
        if self.sleepers.asleep_len() > 0 {
            self.wake_one(None);
        } else if self.may_grow() && self.phase.get() < Phase::Sealed {
            self.grow(1);
        }
    }
}

/// The worker is back, also after a panic. Who stood in stays until it has
/// nothing to do for the idle timeout.
struct Unblocked<'a>(&'a Blocked);

impl Drop for Unblocked<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}
