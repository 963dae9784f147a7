use std::time::Instant;

use super::{Condvar, Mutex, lock, wait, wait_timeout};

/// Lets threads sleep until something that is protected elsewhere has changed.
///
/// Who changes it rings after the change; who waits looks again after every
/// ring. The look and the falling asleep are one step for the ringer, so no
/// ring is missed: it comes either before the look, which then sees the
/// change, or after the sleep began, and ends it.
#[doc(alias("event", "condition variable"))]
pub(crate) struct EventCount {
    looking: Mutex<()>,
    rung: Condvar,
}

impl EventCount {
    pub(crate) fn new() -> Self {
        Self {
            looking: Mutex::new(()),
            rung: Condvar::new(),
        }
    }

    /// Sleeps until `is_reached`, looking once at first and after every ring.
    pub(crate) fn wait_until(&self, is_reached: impl Fn() -> bool) {
        self.wait_until_or(None, is_reached);
    }

    /// As [`wait_until`](Self::wait_until), or until `ends_at`.
    pub(crate) fn wait_until_or(&self, ends_at: Option<Instant>, is_reached: impl Fn() -> bool) {
        let mut looking = lock(&self.looking);
        while !is_reached() {
            looking = match ends_at.map(|end| end.saturating_duration_since(Instant::now())) {
                None => wait(&self.rung, looking),
                Some(left) if left.is_zero() => return,
                Some(left) => wait_timeout(&self.rung, looking, left),
            };
        }
    }

    /// Wakes everybody who waits. The lock of what changed must be free.
    pub(crate) fn ring(&self) {
        drop(lock(&self.looking));
        self.rung.notify_all();
    }
}
