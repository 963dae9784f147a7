//! Standing in for a worker that is blocked. See README.md, "Standing in".

use super::{context, phase::Phase, shared::Shared, worker::Seat};

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
    fn blocking<R>(&self, f: impl FnOnce() -> R) -> R {
        if Seat::of(self).is_none() {
            return f();
        }
        self.crew.block();
        let _unblocked = Unblocked(self);
        self.find_stand_in();
        f()
    }

    fn find_stand_in(&self) {
        if self.sleepers.asleep_len() > 0 {
            self.wake_one(None);
        } else if self.phase.get() < Phase::Sealed && self.crew.may_grow(self.counts.maximum) {
            self.grow(1);
        }
    }
}

/// The worker is back, also after a panic. Who stood in stays until it has
/// nothing to do for the idle timeout.
struct Unblocked<'a>(&'a Shared);

impl Drop for Unblocked<'_> {
    fn drop(&mut self) {
        self.0.crew.unblock();
    }
}
