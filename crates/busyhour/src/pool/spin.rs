//! A lock for a few instructions: one atomic read-modify-write to take it, one
//! plain store to give it back. A std mutex pays two.

use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use super::gate::Wait;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Guards a `T` for critical sections of constant, short length, in which no
/// foreign code runs. A waiting thread spins, then yields its processor.
#[derive(Debug, Default)]
pub(crate) struct SpinLock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `is_taken` lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        if !self.try_take() {
            self.wait();
        }
        SpinGuard {
            lock: self,
            _not_send: PhantomData,
        }
    }

    #[inline(always)]
    fn try_take(&self) -> bool {
        self.is_taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    fn wait(&self) {
        let mut wait = Wait::default();
        while self.is_taken.load(Ordering::Relaxed) || !self.try_take() {
            wait.once();
        }
    }
}

/// The lock is taken while this lives.
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// A guard stays on its thread.
    _not_send: PhantomData<*const T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is ours while the guard lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is ours while the guard lives.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::UnsafeCell as TrackedCell;
    use loom::sync::Arc;

    #[test]
    fn loom_two_threads_are_never_inside_together() {
        loom::model(|| {
            let lock = Arc::new(SpinLock::new(TrackedCell::new(0)));
            let other = Arc::clone(&lock);
            let add = |lock: &SpinLock<TrackedCell<i32>>| {
                // SAFETY: the lock is taken; loom would see another access.
                lock.lock().with_mut(|value| unsafe { *value += 1 });
            };
            let thread = loom::thread::spawn(move || add(&other));
            add(&lock);
            thread.join().unwrap();
            // SAFETY: as above.
            assert_eq!(lock.lock().with(|value| unsafe { *value }), 2);
        });
    }
}
