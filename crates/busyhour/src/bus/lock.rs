use crate::sync::{
    UnsafeCell,
    atomic::{AtomicBool, Ordering},
    spin_loop, thread,
};
use std::ops::{Deref, DerefMut};

/// A lock for critical sections of some tens of nanoseconds.
///
/// Taking it costs one atomic read-modify-write and leaving it a plain store,
/// half of what a lock costs that can put its waiters to sleep. Who finds it
/// taken spins a little and then yields its time slice, so that a holder who
/// was preempted gets on. There is no poisoning: what it protects stays valid
/// when a holder panics.
pub(super) struct Lock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `Guard`, of which there is one
// at a time, so sharing the lock sends the value from thread to thread.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: a lock owns its value.
unsafe impl<T: Send> Send for Lock<T> {}

/// The right to use what the lock protects.
pub(super) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Lock<T> {
    /// Tries before the waiter yields its time slice: about a microsecond.
    const SPINS: u32 = 32;

    pub(super) fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> Guard<'_, T> {
        if !self.try_take() {
            self.wait();
        }
        Guard { lock: self }
    }

    #[inline(always)]
    fn try_take(&self) -> bool {
        self.taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0;
        loop {
            while self.taken.load(Ordering::Relaxed) {
                spins += 1;
                if spins < Self::SPINS {
                    spin_loop();
                } else {
                    thread::yield_now();
                }
            }
            if self.try_take() {
                return;
            }
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one, so nobody else writes.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only one and is borrowed mutably.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_that_contend_lose_no_step() {
        let lock = Lock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_lock_admits_one_at_a_time() {
        loom::model(|| {
            let lock = Arc::new(Lock::new(0));
            let other = Arc::clone(&lock);
            let thread = loom::thread::spawn(move || *other.lock() += 1);
            *lock.lock() += 1;
            thread.join().unwrap();
            assert_eq!(*lock.lock(), 2);
        });
    }
}
