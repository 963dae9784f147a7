use std::sync::Arc;

use super::core::Core;
use crate::pool::Entity;

/// A guard: while it lives, the serializer starts no tasks.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool};
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// let calls = pool.serializer("calls").build().unwrap();
/// let suspension = calls.suspend();
/// calls.push(|| ()).unwrap();
/// while pool.step() {}
/// assert_eq!(calls.stats().processed, 0);
/// suspension.resume();
/// while pool.step() {}
/// assert_eq!(calls.stats().processed, 1);
/// ```
#[must_use = "dropping it resumes the serializer at once"]
pub struct Suspension(Arc<Core>);

impl Suspension {
    pub(super) fn new(core: Arc<Core>) -> Self {
        core.suspend();
        Self(core)
    }

    /// Resumes the serializer (unless other guards remain), like dropping the
    /// guard.
    pub fn resume(self) {}
}

impl Core {
    fn suspend(self: &Arc<Self>) {
        self.state.lock().rare().suspension_count += 1;
        if !self.is_listed() {
            self.pool().registry.suspend(&self.as_entity());
            if self.pool().is_sealed() {
                // The shutdown may have passed this serializer already.
                self.abandon();
            }
        }
    }

    fn resume(self: &Arc<Self>) {
        if !self.is_listed() {
            self.pool().registry.resume(&self.as_entity());
        }
        let mut state = self.state.lock();
        state.rare().suspension_count -= 1;
        self.after_change(state, self.pool().thread_context());
    }
}

impl Drop for Suspension {
    fn drop(&mut self) {
        self.0.resume();
    }
}

impl std::fmt::Debug for Suspension {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Suspension").field(&self.0.name()).finish()
    }
}
