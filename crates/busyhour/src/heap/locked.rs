use super::{Heap, HeapHandle, Min, Order};
use crate::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
    lock, thread_token,
};

/// A [`Heap`] behind a mutex of its own, for owners that have no lock.
///
/// Each method locks by itself. To make several operations under one lock, such
/// as a traversal, hold [`Locked::lock`].
///
/// ```
/// use busyhour::heap::{Heap, Locked};
///
/// let jobs = Locked::new(Heap::min());
/// std::thread::scope(|scope| {
///     scope.spawn(|| jobs.push(2));
///     scope.spawn(|| jobs.push(1));
/// });
/// let mut held = jobs.lock();
/// assert_eq!((held.pop(), held.pop()), (Some(1), Some(2)));
/// ```
///
/// Comparisons, and the closure given to [`Locked::update`], run under the
/// lock, which is its purpose. They must not use this heap: if they do so on
/// their own thread, [`Locked::lock`] panics, since it would wait for itself.
/// If they panic, the heap is as described for [`Heap`], and the lock is free.
#[derive(Debug)]
pub struct Locked<T, C = Min> {
    heap: Mutex<Heap<T, C>>,
    /// The thread that is inside a single operation; 0 if there is none.
    inside: AtomicUsize,
}

impl<T, C: Order<T>> Locked<T, C> {
    /// Puts a lock around `heap`.
    pub fn new(heap: Heap<T, C>) -> Self {
        Self {
            heap: Mutex::new(heap),
            inside: AtomicUsize::new(0),
        }
    }

    /// Locks the heap while the guard lives.
    ///
    /// # Panics
    ///
    /// Inside a comparison of this heap, or inside its [`Locked::update`].
    pub fn lock(&self) -> MutexGuard<'_, Heap<T, C>> {
        let inside = self.inside.load(Ordering::Relaxed);
        assert_ne!(
            inside,
            thread_token(),
            "a comparison or an update of a locked heap must not use that heap"
        );
        lock(&self.heap)
    }

    /// [`Heap::push`] under the lock.
    pub fn push(&self, value: T) -> HeapHandle {
        // If a comparison panics, `value` is dropped after the lock is
        // released.
        let mut inside = self.enter();
        let target = inside.heap.target_of(&value);
        inside.heap.insert(target, value)
    }

    /// [`Heap::pop`] under the lock.
    pub fn pop(&self) -> Option<T> {
        self.enter().heap.pop()
    }

    /// [`Heap::remove`] under the lock.
    pub fn remove(&self, handle: HeapHandle) -> Option<T> {
        self.enter().heap.remove(handle)
    }

    /// [`Heap::update`] under the lock: `change` must not use this heap.
    pub fn update<R>(&self, handle: HeapHandle, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.enter().heap.update(handle, change)
    }

    /// [`Heap::len`] under the lock.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// [`Heap::is_empty`] under the lock.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn enter(&self) -> Inside<'_, T, C> {
        let heap = self.lock();
        self.inside.store(thread_token(), Ordering::Relaxed);
        Inside {
            inside: &self.inside,
            heap,
        }
    }
}

/// An operation is in progress. A thread can read its own token only if it
/// wrote it itself, so the word needs no ordering with others.
struct Inside<'a, T, C> {
    inside: &'a AtomicUsize,
    heap: MutexGuard<'a, Heap<T, C>>,
}

impl<T, C> Drop for Inside<'_, T, C> {
    fn drop(&mut self) {
        self.inside.store(0, Ordering::Relaxed);
    }
}
