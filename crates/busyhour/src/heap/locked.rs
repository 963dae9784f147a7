use super::{Handle, Heap, Min, Order};
use crate::sync::{Mutex, MutexGuard, lock};

/// A [`Heap`] behind a mutex of its own, for owners that have no lock yet.
///
/// Single operations lock by themselves. For several that belong together,
/// such as a traversal, hold [`Locked::lock`].
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
/// A comparison that panics leaves every entry in the heap, in an order that
/// [`Heap::verify`] reports.
#[derive(Debug)]
pub struct Locked<T, C = Min> {
    heap: Mutex<Heap<T, C>>,
}

impl<T, C: Order<T>> Locked<T, C> {
    /// Puts a lock around `heap`.
    pub fn new(heap: Heap<T, C>) -> Self {
        let heap = Mutex::new(heap);
        Self { heap }
    }

    /// Locks the heap for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Heap<T, C>> {
        lock(&self.heap)
    }

    /// [`Heap::push`] under the lock.
    pub fn push(&self, value: T) -> Handle {
        self.lock().push(value)
    }

    /// [`Heap::pop`] under the lock.
    pub fn pop(&self) -> Option<T> {
        self.lock().pop()
    }

    /// [`Heap::remove`] under the lock.
    pub fn remove(&self, handle: Handle) -> Option<T> {
        self.lock().remove(handle)
    }

    /// [`Heap::update`] under the lock: `change` must not use this heap.
    pub fn update<R>(&self, handle: Handle, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().update(handle, change)
    }

    /// [`Heap::len`] under the lock.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// [`Heap::is_empty`] under the lock.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}
