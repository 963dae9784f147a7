//! A mutex that a panic has not made useless.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it. A thread that panicked under the lock was counted where it was caught; what it guards here is sound at
/// every step, so others go on with it.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
