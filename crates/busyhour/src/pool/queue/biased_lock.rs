//! A lock that costs its owner almost nothing. See README.md, "The biased
//! lock".

use crate::sync::{
    SpinWait, UnsafeCell,
    atomic::{AtomicBool, Ordering},
    fences,
};

/// Guards a `T` that one thread, the owner, uses all the time and other threads
/// rarely.
#[derive(Debug)]
#[repr(C)] // The flags lie beside the first fields of the value.
pub(in crate::pool) struct BiasedLock<T> {
    /// Written only by the owner.
    owner_inside: AtomicBool,
    /// Held by one remote thread at a time.
    remote_inside: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the protocol lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    pub(in crate::pool) fn new(value: T) -> Self {
        Self {
            owner_inside: AtomicBool::new(false),
            remote_inside: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Enters as the owner.
    ///
    /// # Safety
    ///
    /// - At most one thread at a time is the owner, and the caller is it.
    /// - `work` does not enter this biased lock again.
    #[inline(always)]
    pub(in crate::pool) unsafe fn as_owner<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        debug_assert!(!self.owner_is_inside(), "entered twice");
        self.owner_inside.store(true, Ordering::Relaxed);
        fences::light();
        if self.remote_inside.load(Ordering::Acquire) {
            self.wait_outside();
        }
        let _leave = Leave(&self.owner_inside);
        // SAFETY: `owner_inside` was set before a fence and no remote thread was
        // seen after it, so each remote thread waits for `Leave`.
        self.value.with_mut(|value| work(unsafe { &mut *value }))
    }

    /// Whether the owner is inside; only the owner may ask.
    pub(in crate::pool) fn owner_is_inside(&self) -> bool {
        self.owner_inside.load(Ordering::Relaxed)
    }

    /// Enters as a remote thread; waits for the owner and for other remote
    /// threads.
    pub(in crate::pool) fn as_remote<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut wait = SpinWait::default();
        while !self.try_enter_as_remote() {
            wait.once();
        }
        let _leave = Leave(&self.remote_inside);
        fences::heavy();
        while self.owner_inside.load(Ordering::Acquire) {
            wait.once();
        }
        // SAFETY: `remote_inside` keeps other remote threads out, and was set
        // before a fence after which the owner was not inside, so the owner
        // waits for `Leave`.
        self.value.with_mut(|value| work(unsafe { &mut *value }))
    }

    /// Like [`as_remote`](Self::as_remote), but gives up if another thread is
    /// inside: it may have lost its processor there.
    pub(in crate::pool) fn try_as_remote<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.try_enter_as_remote() {
            return None;
        }
        let _leave = Leave(&self.remote_inside);
        fences::heavy();
        if self.owner_inside.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: as in `as_remote`.
        Some(self.value.with_mut(|value| work(unsafe { &mut *value })))
    }

    fn try_enter_as_remote(&self) -> bool {
        self.remote_inside
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The owner lets a remote thread go first, then enters.
    #[cold]
    fn wait_outside(&self) {
        let mut wait = SpinWait::default();
        loop {
            self.owner_inside.store(false, Ordering::Release);
            while self.remote_inside.load(Ordering::Acquire) {
                wait.once();
            }
            self.owner_inside.store(true, Ordering::Relaxed);
            fences::light();
            if !self.remote_inside.load(Ordering::Acquire) {
                return;
            }
        }
    }
}

/// Leaves the lock on drop, also when the work panics.
struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_owner_and_remotes_never_meet() {
        let biased_lock = Arc::new(BiasedLock::new(0_u64));
        let remotes: Vec<_> = (0..2)
            .map(|_| {
                let biased_lock = Arc::clone(&biased_lock);
                std::thread::spawn(move || {
                    for _ in 0..1000 {
                        biased_lock.as_remote(|value| *value += 1);
                    }
                })
            })
            .collect();
        for _ in 0..100_000 {
            // SAFETY: only this thread enters as the owner.
            unsafe { biased_lock.as_owner(|value| *value += 1) };
        }
        remotes
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(biased_lock.as_remote(|value| *value), 102_000);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_the_owner_and_a_remote_never_meet() {
        loom::model(|| {
            crate::sync::fences::prepare();
            let biased_lock = Arc::new(BiasedLock::new(0_u64));
            let remote = {
                let biased_lock = Arc::clone(&biased_lock);
                loom::thread::spawn(move || biased_lock.as_remote(|value| *value += 1))
            };
            for _ in 0..2 {
                // SAFETY: only this thread enters as the owner.
                unsafe { biased_lock.as_owner(|value| *value += 1) };
            }
            remote.join().unwrap();
            assert_eq!(biased_lock.as_remote(|value| *value), 3);
        });
    }

    /// The remote threads exclude each other as well; one of them gives up if
    /// it finds the owner inside.
    #[test]
    fn loom_two_remotes_and_the_owner_never_meet() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let biased_lock = Arc::new(BiasedLock::new(0_u64));
            let patient = {
                let biased_lock = Arc::clone(&biased_lock);
                loom::thread::spawn(move || biased_lock.as_remote(|value| *value += 1))
            };
            let hasty = {
                let biased_lock = Arc::clone(&biased_lock);
                loom::thread::spawn(move || biased_lock.try_as_remote(|value| *value += 1))
            };
            // SAFETY: only this thread enters as the owner.
            unsafe { biased_lock.as_owner(|value| *value += 1) };
            patient.join().unwrap();
            let came_in = u64::from(hasty.join().unwrap().is_some());
            assert_eq!(biased_lock.as_remote(|value| *value), 2 + came_in);
        });
    }
}
