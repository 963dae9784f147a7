use crate::sync::{Condvar, Mutex, lock};

/// Lets threads sleep until something that is protected elsewhere has changed.
///
/// Who changes it rings after the change; who waits looks again after every
/// ring. The look and the falling asleep are one step for the ringer, so no
/// ring is missed: it comes either before the look, which then sees the
/// change, or after the sleep began, and ends it.
pub(super) struct EventCount {
    looking: Mutex<()>,
    rung: Condvar,
}

impl EventCount {
    pub(super) fn new() -> Self {
        Self {
            looking: Mutex::new(()),
            rung: Condvar::new(),
        }
    }

    /// Sleeps until `is_reached`, looking once at first and after every ring.
    pub(super) fn wait_until(&self, is_reached: impl Fn() -> bool) {
        let mut looking = lock(&self.looking);
        while !is_reached() {
            looking = self
                .rung
                .wait(looking)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Wakes everybody who waits. The lock of what changed must be free.
    pub(super) fn ring(&self) {
        drop(lock(&self.looking));
        self.rung.notify_all();
    }
}
