//! The one switch between the standard library's concurrency primitives and
//! those of the model checkers.
//!
//! Every hand-written lock-free protocol takes its atomics, cells, locks and
//! threads from here, so that `cargo test -p busyhour-loom` checks the code that
//! ships: each order of the steps of a few threads, with what the memory model
//! allows. `cargo test -p busyhour-shuttle` takes random orders of the steps of
//! a whole runtime instead, all of them sequentially consistent. Both compile
//! these sources once more, with a cfg of that name. No other file mentions
//! `cfg(loom)` or `cfg(shuttle)` for a primitive.

mod event_count;
#[cfg(shuttle)]
pub(crate) mod scheduled;
pub(crate) mod fences;
mod initial_exec;
mod spin;

pub(crate) use event_count::EventCount;
pub(crate) use initial_exec::*;
pub(crate) use spin::{SpinGuard, SpinLock, SpinWait};

#[cfg(not(loom))]
use std::cell::UnsafeCell as StdUnsafeCell;
use std::{
    cell::Cell,
    sync::{
        TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};

#[cfg(shuttle)]
pub(crate) use self::scheduled as atomic;
#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    lazy_static,
    sync::{Condvar, Mutex, MutexGuard},
    thread, thread_local,
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};

/// Primitives that only a whole runtime needs. Loom's models, which are
/// smaller, do not run it, so there they remain those of the standard library.
pub(crate) mod runtime {
    #[cfg(not(shuttle))]
    pub(crate) use std::{sync::atomic, thread, thread_local};

    #[cfg(shuttle)]
    pub(crate) use super::{atomic, thread, thread_local};
}

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

/// Loads in the single order of all sequentially consistent operations.
///
/// loom treats a sequentially consistent load as an acquiring one, so its
/// models add the fence that such a load implies.
#[inline(always)]
pub(crate) fn load_sequential_u64(from: &atomic::AtomicU64) -> u64 {
    fence_for_loom();
    from.load(atomic::Ordering::SeqCst)
}

/// Like [`load_sequential_u64`].
#[inline(always)]
pub(crate) fn load_sequential_usize(from: &atomic::AtomicUsize) -> usize {
    fence_for_loom();
    from.load(atomic::Ordering::SeqCst)
}

/// Like [`load_sequential_u64`].
#[inline(always)]
pub(crate) fn load_sequential_u32(from: &atomic::AtomicU32) -> u32 {
    fence_for_loom();
    from.load(atomic::Ordering::SeqCst)
}

/// Like [`load_sequential_u64`].
#[inline(always)]
pub(crate) fn load_sequential_pointer<T>(from: &atomic::AtomicPtr<T>) -> *mut T {
    fence_for_loom();
    from.load(atomic::Ordering::SeqCst)
}

/// Stores in the single order of all sequentially consistent operations, by an
/// exchange: on processors with an instruction for that, it costs half of a
/// store and a fence.
#[inline(always)]
pub(crate) fn store_sequential_u64(to: &atomic::AtomicU64, value: u64) {
    to.swap(value, atomic::Ordering::SeqCst);
    fence_for_loom();
}

#[inline(always)]
fn fence_for_loom() {
    #[cfg(loom)]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// A static that is initialised when it is first used. A model initialises it
/// again in each of its runs.
#[cfg(not(any(loom, shuttle)))]
macro_rules! lazy_static {
    ($(static ref $name:ident: $type:ty = $value:expr;)*) => {
        $(static $name: std::sync::LazyLock<$type> = std::sync::LazyLock::new(|| $value);)*
    };
}

#[cfg(not(any(loom, shuttle)))]
pub(crate) use lazy_static;
#[cfg(loom)]
pub(crate) use loom::lazy_static;

/// A static whose value is a constant, or which a model initialises again in each of its runs.
#[cfg(not(any(loom, shuttle)))]
macro_rules! modelled_static {
    (static $name:ident: $type:ty = $value:expr;) => {
        static $name: $type = $value;
    };
}
#[cfg(any(loom, shuttle))]
macro_rules! modelled_static {
    (static $name:ident: $type:ty = $value:expr;) => {
        $crate::sync::lazy_static! { static ref $name: $type = $value; }
    };
}
pub(crate) use modelled_static;

/// Locks a mutex whose protected state stays valid when a holder panics.
///
/// Busyhour isolates panics of user code and never runs user code under a
/// lock, so a poisoned lock carries no information and is entered anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Like [`lock`], if the mutex is free.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits for a notification, with the mutex released meanwhile. Poisoning is
/// ignored, as in [`lock`].
pub(crate) fn wait<'a, T>(signal: &Condvar, state: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    signal
        .wait(state)
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Like [`wait`], for at most `timeout`.
pub(crate) fn wait_timeout<'a, T>(
    signal: &Condvar,
    state: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    let waited = signal.wait_timeout(state, timeout);
    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
}

/// Distinguishes the running thread from every other running thread; cheaper
/// than its `ThreadId`, which counts references.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
pub(crate) fn thread_token() -> usize {
    NUMBER.with(|number| std::ptr::from_ref(number).addr())
}

/// Distinguishes the running thread from every other running thread.
#[cfg(any(loom, shuttle))]
pub(crate) fn thread_token() -> usize {
    thread_local!(static TOKEN: Box<u8> = Box::new(0));
    TOKEN.with(|token| std::ptr::from_ref(&**token).addr())
}

/// The number of the running thread, in the order in which threads first ask
/// for one. It spreads threads over shards and stripes. No other thread ever
/// has the same number; a [`thread_token`] may be reused once its thread has
/// ended.
#[inline]
pub(crate) fn thread_index() -> usize {
    NUMBER.with(|number| {
        if number.get() == UNNUMBERED {
            number.set(1 + NEXT_INDEX.fetch_add(1, Ordering::Relaxed));
        }
        number.get() - 1
    })
}

zeroed_thread_local! {
    /// One more than the thread's index.
    static NUMBER: Cell<usize>;
}

static NEXT_INDEX: AtomicUsize = AtomicUsize::new(0);
const UNNUMBERED: usize = 0;

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
