use std::sync::Arc;

use super::core::Core;

/// A guard: while it lives, the serializer starts no tasks.
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
