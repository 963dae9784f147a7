//! The end of a pool whose last handle is gone. See README.md, "The last handle".

use std::sync::atomic::Ordering;

use super::{phase::Phase, shared::Shared};

impl Shared {
    /// The last handle is gone: what is queued still runs, then the workers end.
    pub(super) fn end_without_handle(&self) {
        self.has_no_handle.store(true, Ordering::SeqCst);
        self.enter(Phase::Ending);
        if self.crew.len() == 0 {
            self.seal_if_ended();
            self.close_without_handle();
        }
    }

    /// Seals the pool when nobody has a handle and nothing waits or runs.
    pub(super) fn seal_if_ended(&self) {
        let may_end = self.phase.get() == Phase::Ending;
        if may_end && (self.is_simulated() || self.is_quiet(0)) {
            self.enter(Phase::Sealed);
        }
    }

    /// A worker's thread has ended. Whether all others sleep is looked at once
    /// more, since the last of them to fall asleep counted this one as awake.
    pub(super) fn leave(&self, number: usize) {
        let is_owed = self.crew.leave(number);
        if is_owed && !self.is_sealed() {
            self.grow(1);
        }
        self.after_falling_asleep(self.sleepers.asleep_len());
        self.tell_end();
        if self.crew.len() == 0 {
            self.close_without_handle();
        }
    }

    /// Closes every queue, and drops what came too late to be run. Without a
    /// handle no shutdown will do so: the last worker does.
    fn close_without_handle(&self) {
        if self.is_sealed() && self.has_no_handle.load(Ordering::SeqCst) {
            let _nobody_asks = self.drop_leftovers();
            self.awaited.wake_all();
        }
    }
}
