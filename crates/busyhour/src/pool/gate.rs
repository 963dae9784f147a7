//! A lock that its owner enters almost for free. See README.md, "The gate".

use super::fences;
use crate::sync::{
    UnsafeCell, Wait,
    atomic::{AtomicBool, Ordering},
};

/// Guards a `T` that one thread, the owner, uses all the time and others seldom.
#[derive(Debug)]
pub(super) struct Gate<T> {
    /// Written by the owner alone.
    owner_inside: AtomicBool,
    /// Taken by one stranger at a time.
    stranger_inside: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the protocol lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for Gate<T> {}

impl<T> Gate<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            owner_inside: AtomicBool::new(false),
            stranger_inside: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Enters as the owner.
    ///
    /// # Safety
    ///
    /// - At most one thread at a time is the owner, and the caller is it.
    /// - `work` does not enter this gate again.
    #[inline(always)]
    pub(super) unsafe fn as_owner<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        debug_assert!(!self.owner_is_inside(), "entered twice");
        self.owner_inside.store(true, Ordering::Relaxed);
        fences::light();
        if self.stranger_inside.load(Ordering::Acquire) {
            self.wait_outside();
        }
        let _leave = Leave(&self.owner_inside);
        // SAFETY: `owner_inside` was set before a fence and no stranger was
        // seen after it, so each stranger waits for `Leave`.
        self.value.with_mut(|value| work(unsafe { &mut *value }))
    }

    /// Whether the owner is inside; for the owner to ask.
    pub(super) fn owner_is_inside(&self) -> bool {
        self.owner_inside.load(Ordering::Relaxed)
    }

    /// Enters as somebody else; waits for the owner and for other strangers.
    pub(super) fn as_stranger<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut wait = Wait::default();
        while !self.try_be_the_stranger() {
            wait.once();
        }
        let _leave = Leave(&self.stranger_inside);
        fences::heavy();
        while self.owner_inside.load(Ordering::Acquire) {
            wait.once();
        }
        // SAFETY: `stranger_inside` keeps other strangers out, and was set
        // before a fence after which the owner was not inside, so the owner
        // waits for `Leave`.
        self.value.with_mut(|value| work(unsafe { &mut *value }))
    }

    /// As [`as_stranger`](Self::as_stranger), but gives up when somebody is
    /// inside: they may have lost their processor there.
    pub(super) fn try_as_stranger<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.try_be_the_stranger() {
            return None;
        }
        let _leave = Leave(&self.stranger_inside);
        fences::heavy();
        if self.owner_inside.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: as in `as_stranger`.
        Some(self.value.with_mut(|value| work(unsafe { &mut *value })))
    }

    fn try_be_the_stranger(&self) -> bool {
        self.stranger_inside
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The owner gives way to a stranger, then enters.
    #[cold]
    fn wait_outside(&self) {
        let mut wait = Wait::default();
        loop {
            self.owner_inside.store(false, Ordering::Release);
            while self.stranger_inside.load(Ordering::Acquire) {
                wait.once();
            }
            self.owner_inside.store(true, Ordering::Relaxed);
            fences::light();
            if !self.stranger_inside.load(Ordering::Acquire) {
                return;
            }
        }
    }
}

/// Leaves on drop, also when the work panics.
struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_owner_and_strangers_never_meet() {
        let gate = Arc::new(Gate::new(0_u64));
        let strangers: Vec<_> = (0..2)
            .map(|_| {
                let gate = Arc::clone(&gate);
                std::thread::spawn(move || {
                    for _ in 0..1000 {
                        gate.as_stranger(|value| *value += 1);
                    }
                })
            })
            .collect();
        for _ in 0..100_000 {
            // SAFETY: only this thread enters as the owner.
            unsafe { gate.as_owner(|value| *value += 1) };
        }
        strangers
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(gate.as_stranger(|value| *value), 102_000);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_the_owner_and_a_stranger_never_meet() {
        loom::model(|| {
            super::super::fences::prepare();
            let gate = Arc::new(Gate::new(0_u64));
            let stranger = {
                let gate = Arc::clone(&gate);
                loom::thread::spawn(move || gate.as_stranger(|value| *value += 1))
            };
            for _ in 0..2 {
                // SAFETY: only this thread enters as the owner.
                unsafe { gate.as_owner(|value| *value += 1) };
            }
            stranger.join().unwrap();
            assert_eq!(gate.as_stranger(|value| *value), 3);
        });
    }

    /// The strangers keep each other out as well, one of them giving up if it
    /// finds the owner inside.
    #[test]
    fn loom_two_strangers_and_the_owner_never_meet() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let gate = Arc::new(Gate::new(0_u64));
            let patient = {
                let gate = Arc::clone(&gate);
                loom::thread::spawn(move || gate.as_stranger(|value| *value += 1))
            };
            let hasty = {
                let gate = Arc::clone(&gate);
                loom::thread::spawn(move || gate.try_as_stranger(|value| *value += 1))
            };
            // SAFETY: only this thread enters as the owner.
            unsafe { gate.as_owner(|value| *value += 1) };
            patient.join().unwrap();
            let came_in = u64::from(hasty.join().unwrap().is_some());
            assert_eq!(gate.as_stranger(|value| *value), 2 + came_in);
        });
    }
}
