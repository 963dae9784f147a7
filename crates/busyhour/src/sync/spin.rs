//! A lock for a few instructions: one atomic read-modify-write to take it, one
//! plain store to release it. A lock that can put its waiters to sleep needs
//! two read-modify-writes.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use super::{
    UnsafeCell,
    atomic::{AtomicBool, Ordering},
    spin_loop, thread,
};

/// Guards a `T` for critical sections of constant, short length, in which no
/// foreign code runs.
///
/// A thread that finds it taken spins a little and then yields its processor,
/// so that a preempted holder can continue. There is no poisoning: the
/// protected state stays valid when a holder panics.
#[repr(C)]
pub(crate) struct SpinLock<T> {
    /// Before the value, whose first fields are on the same cache line.
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `is_taken` lets one thread at a time reach the value, so sharing the
// lock sends the value from thread to thread.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: a lock owns its value.
unsafe impl<T: Send> Send for SpinLock<T> {}

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
        let mut wait = SpinWait::default();
        while self.is_taken.load(Ordering::Relaxed) || !self.try_take() {
            wait.once();
        }
    }
}

impl<T: Default> Default for SpinLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").finish_non_exhaustive()
    }
}

/// Holds the lock while it lives.
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// A guard stays on its thread.
    _not_send: PhantomData<*const T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one, so nobody else writes.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only one and is borrowed mutably.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.is_taken.store(false, Ordering::Release);
    }
}

/// Spins a little, then yields the processor: the awaited thread may have lost
/// its own.
#[derive(Default)]
pub(crate) struct SpinWait(u32);

impl SpinWait {
    pub(crate) fn once(&mut self) {
        if self.0 < SPINS && !cfg!(any(loom, shuttle)) {
            self.0 += 1;
            spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

/// About a microsecond.
const SPINS: u32 = 48;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn threads_that_contend_lose_no_step() {
        let lock = SpinLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_spin_lock_admits_one_at_a_time() {
        loom::model(|| {
            let lock = Arc::new(SpinLock::new(0));
            let other = Arc::clone(&lock);
            let thread = loom::thread::spawn(move || *other.lock() += 1);
            *lock.lock() += 1;
            thread.join().unwrap();
            assert_eq!(*lock.lock(), 2);
        });
    }
}
