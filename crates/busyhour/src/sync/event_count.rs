use std::time::Instant;

use super::{Condvar, Mutex, lock, wait, wait_timeout};

/// Lets threads sleep until a state has changed that is protected elsewhere.
///
/// A thread that changes the state calls `notify_all` after the change; a
/// waiting thread looks again after every notification. For the notifying
/// thread, a waiter's look and the start of its sleep are one step, so no
/// notification is missed: it comes either before the look, which then sees the
/// change, or after the sleep began, and ends it.
#[doc(alias("event", "condition variable"))]
#[derive(Debug)]
pub(crate) struct EventCount {
    looking: Mutex<()>,
    changed: Condvar,
}

impl EventCount {
    pub(crate) fn new() -> Self {
        Self {
            looking: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Sleeps until `is_reached`, checking it first and after every `notify_all`.
    pub(crate) fn wait_until(&self, is_reached: impl Fn() -> bool) {
        self.wait_until_or(None, is_reached);
    }

    /// Like [`wait_until`](Self::wait_until), or until `ends_at`.
    pub(crate) fn wait_until_or(&self, ends_at: Option<Instant>, is_reached: impl Fn() -> bool) {
        let mut looking = lock(&self.looking);
        while !is_reached() {
            looking = match ends_at.map(|end| end.saturating_duration_since(Instant::now())) {
                None => wait(&self.changed, looking),
                Some(left) if left.is_zero() => return,
                Some(left) => wait_timeout(&self.changed, looking, left),
            };
        }
    }

    /// Wakes all waiting threads. The lock that protects the changed state must
    /// be free.
    pub(crate) fn notify_all(&self) {
        drop(lock(&self.looking));
        self.changed.notify_all();
    }
}
