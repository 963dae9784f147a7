//! The one switch between the standard library's concurrency primitives and loom's.
//!
//! Every hand-written lock-free protocol takes its atomics, cells, locks and
//! threads from here, so that `RUSTFLAGS="--cfg loom"` checks the code that
//! ships. No other file mentions `cfg(loom)` for a primitive.

#[cfg(not(loom))]
pub(crate) use std::{
    cell::UnsafeCell as StdUnsafeCell,
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread, thread_local,
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread, thread_local,
};

/// An `UnsafeCell` with loom's access-tracking interface on both sides.
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

/// An `UnsafeCell` with loom's access-tracking interface on both sides.
#[cfg(not(loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(StdUnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(StdUnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Locks a mutex whose protected state stays valid when a holder panics.
///
/// Busyhour isolates panics of user code and never runs user code under a
/// lock, so a poisoned lock carries no information and is entered anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Keeps its value on cache lines of its own (two lines: adjacent-line prefetch).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> std::ops::DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
