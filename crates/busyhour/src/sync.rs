//! The one switch between the standard library's concurrency primitives and loom's.
//!
//! Every hand-written lock-free protocol takes its atomics, cells, locks and
//! threads from here, so that `RUSTFLAGS="--cfg loom"` checks the code that
//! ships. No other file mentions `cfg(loom)` for a primitive.

mod spin;

use std::mem::MaybeUninit;

pub(crate) use spin::{SpinGuard, SpinLock, Wait};

#[cfg(not(loom))]
pub(crate) use std::{
    cell::UnsafeCell as StdUnsafeCell,
    hint::spin_loop,
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
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

/// Loads in the one order of all sequentially consistent operations.
///
/// loom takes a sequentially consistent load for an acquiring one, so its
/// models put the fence in front that the load stands for.
#[inline(always)]
pub(crate) fn load_sequential_u64(from: &atomic::AtomicU64) -> u64 {
    fence_for_loom();
    from.load(atomic::Ordering::SeqCst)
}

/// As [`load_sequential_u64`].
#[inline(always)]
pub(crate) fn load_sequential_u32(from: &atomic::AtomicU32) -> u32 {
    fence_for_loom();
    from.load(atomic::Ordering::SeqCst)
}

/// As [`load_sequential_u64`].
#[inline(always)]
pub(crate) fn load_sequential_pointer<T>(from: &atomic::AtomicPtr<T>) -> *mut T {
    fence_for_loom();
    from.load(atomic::Ordering::SeqCst)
}

/// Stores in the one order of all sequentially consistent operations, as an
/// exchange: where a processor has an instruction for that, it costs half of
/// a store and a fence.
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

/// A static that is made when it is first used. A model makes it anew in each
/// of its runs.
#[cfg(not(loom))]
macro_rules! lazy_static {
    ($(static ref $name:ident: $type:ty = $value:expr;)*) => {
        $(static $name: std::sync::LazyLock<$type> = std::sync::LazyLock::new(|| $value);)*
    };
}

#[cfg(not(loom))]
pub(crate) use lazy_static;
#[cfg(loom)]
pub(crate) use loom::lazy_static;

/// Locks a mutex whose protected state stays valid when a holder panics.
///
/// Busyhour isolates panics of user code and never runs user code under a
/// lock, so a poisoned lock carries no information and is entered anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Tells the running thread from every other that runs; cheaper than its
/// `ThreadId`, which counts references.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn thread_token() -> usize {
    std::thread_local!(static ADDRESS: u8 = const { 0 });
    ADDRESS.with(|address| std::ptr::from_ref(address).addr())
}

/// Tells the running thread from every other that runs.
#[cfg(loom)]
pub(crate) fn thread_token() -> usize {
    loom::thread_local!(static TOKEN: Box<u8> = Box::new(0));
    TOKEN.with(|token| std::ptr::from_ref(&**token).addr())
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

/// A cell that is written by one thread while others read it, for protocols
/// that find out afterwards whether what they read was torn.
///
/// Such a race has no blessing in the language's memory model; the reads and
/// writes are volatile, as everywhere where a sequence lock is written in Rust
/// (crossbeam's `AtomicCell` is the usual reference), and a torn value never
/// becomes a `T`.
#[cfg(not(loom))]
#[repr(transparent)]
pub(crate) struct RacyCell<T>(StdUnsafeCell<MaybeUninit<T>>);

// SAFETY: a cell hands out bytes, which are sent, and by `peek` references,
// which are shared; its users see to who may turn bytes into a `T`.
#[cfg(not(loom))]
unsafe impl<T: Send + Sync> Sync for RacyCell<T> {}

#[cfg(not(loom))]
impl<T> RacyCell<T> {
    pub(crate) const fn uninit() -> Self {
        Self(StdUnsafeCell::new(MaybeUninit::uninit()))
    }

    /// A copy of the bytes: a `T` only if no write overlapped.
    #[inline(always)]
    pub(crate) fn read(&self) -> MaybeUninit<T> {
        // SAFETY: the pointer is valid and aligned, and any bytes at all are a
        // `MaybeUninit`.
        unsafe { self.0.get().read_volatile() }
    }

    /// Overwrites the bytes without dropping what was there.
    ///
    /// # Safety
    ///
    /// - No other thread writes at the same time.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, value: MaybeUninit<T>) {
        // SAFETY: the pointer is valid and aligned; by contract there is no
        // other writer, and readers expect torn bytes.
        unsafe { self.0.get().write_volatile(value) }
    }

    /// Looks at the value in place.
    ///
    /// # Safety
    ///
    /// - The cell holds a `T`, and nobody writes until this returns.
    #[inline(always)]
    pub(crate) unsafe fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: by contract a `T` is there and stays.
        look(unsafe { (*self.0.get()).assume_init_ref() })
    }
}

/// The model of the cell: its bytes as relaxed atomic words, which may tear
/// and may be read late, but are no race to loom.
#[cfg(loom)]
pub(crate) struct RacyCell<T> {
    words: Vec<atomic::AtomicU64>,
    value: std::marker::PhantomData<T>,
}

#[cfg(loom)]
impl<T> RacyCell<T> {
    const WORD_COUNT: usize = size_of::<T>().div_ceil(8);

    pub(crate) fn uninit() -> Self {
        Self {
            words: (0..Self::WORD_COUNT)
                .map(|_| atomic::AtomicU64::new(0))
                .collect(),
            value: std::marker::PhantomData,
        }
    }

    pub(crate) fn read(&self) -> MaybeUninit<T> {
        let mut bytes = MaybeUninit::<T>::uninit();
        for (index, word) in self.words.iter().enumerate() {
            let word = word.load(atomic::Ordering::Relaxed).to_ne_bytes();
            let length = (size_of::<T>() - index * 8).min(8);
            // SAFETY: `length` bytes from `index * 8` on lie within a `T`.
            unsafe {
                let to = bytes.as_mut_ptr().cast::<u8>().add(index * 8);
                std::ptr::copy_nonoverlapping(word.as_ptr(), to, length);
            }
        }
        bytes
    }

    pub(crate) unsafe fn write(&self, value: MaybeUninit<T>) {
        for (index, word) in self.words.iter().enumerate() {
            let mut bytes = [0; 8];
            let length = (size_of::<T>() - index * 8).min(8);
            // SAFETY: `length` bytes from `index * 8` on lie within a `T`, and
            // the types of the models have no padding.
            unsafe {
                let from = value.as_ptr().cast::<u8>().add(index * 8);
                std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), length);
            }
            word.store(u64::from_ne_bytes(bytes), atomic::Ordering::Relaxed);
        }
    }

    pub(crate) unsafe fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let copy = self.read();
        // SAFETY: by contract a `T` is there and nobody writes; the copy is
        // not dropped.
        look(unsafe { copy.assume_init_ref() })
    }
}
