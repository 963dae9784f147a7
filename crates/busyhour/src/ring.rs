//! A growing ring buffer: first in, first out, at a few instructions each.

use std::mem::{self, MaybeUninit};

/// The values are the `len` ones from `head` on, modulo the length of the ring,
/// which is 0 or a power of two.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Box<[MaybeUninit<T>]>,
    head: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// An empty ring, without memory.
    pub(crate) fn new() -> Self {
        Self {
            slots: Box::new([]),
            head: 0,
            len: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many values it holds before it grows.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Appends what `make` creates, directly in its place. The first one
    /// allocates room for `capacity`, a power of two.
    #[inline(always)]
    pub(crate) fn push_back(&mut self, capacity: usize, make: impl FnOnce() -> T) {
        if self.len == self.slots.len() {
            self.grow(capacity);
        }
        let index = self.index(self.len);
        self.slot(index).write(make());
        self.len += 1;
    }

    /// Puts `value` before all others; like `push`, the first one allocates
    /// room.
    #[inline]
    pub(crate) fn push_front(&mut self, capacity: usize, value: T) {
        if self.len == self.slots.len() {
            self.grow(capacity);
        }
        self.head = self.index(self.slots.len() - 1);
        self.slot(self.head).write(value);
        self.len += 1;
    }

    /// Takes out the oldest value.
    #[inline(always)]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let head = self.head;
        self.head = self.index(1);
        self.len -= 1;
        // SAFETY: the oldest was there, and the head has left it behind.
        Some(unsafe { self.slot(head).assume_init_read() })
    }

    /// Takes out the oldest value and appends `value`; returns `value` if the
    /// ring is empty.
    #[inline(always)]
    pub(crate) fn rotate(&mut self, value: T) -> T {
        if self.len == 0 {
            return value;
        }
        let (head, tail) = (self.head, self.index(self.len));
        // SAFETY: the oldest is there, and the head leaves it behind; in a full
        // ring the tail is its slot, which is vacant by then.
        let oldest = unsafe { self.slot(head).assume_init_read() };
        self.slot(tail).write(value);
        self.head = self.index(1);
        oldest
    }

    /// Takes out the oldest value for which `is_it` is true, which rotates the
    /// whole ring once. Nothing moves before the value is found, so `is_it` may
    /// panic.
    pub(crate) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let place = (0..self.len).find(|&offset| is_it(self.value(offset)))?;
        let mut removed = None;
        for offset in 0..self.len {
            let value = self.pop_front()?;
            if offset == place {
                removed = Some(value);
            } else {
                self.push_back(1, || value);
            }
        }
        removed
    }

    fn value(&self, offset: usize) -> &T {
        debug_assert!(offset < self.len);
        let slot = &self.slots[self.index(offset)];
        // SAFETY: the values are the `len` slots from `head` on.
        unsafe { slot.assume_init_ref() }
    }

    #[inline(always)]
    fn index(&self, offset: usize) -> usize {
        self.head.wrapping_add(offset) & self.slots.len().wrapping_sub(1)
    }

    #[inline(always)]
    fn slot(&mut self, index: usize) -> &mut MaybeUninit<T> {
        debug_assert!(index < self.slots.len());
        // SAFETY: each caller has made or seen a slot, so the length of
        // the ring is a power of two, and `index` was masked with it less one.
        unsafe { self.slots.get_unchecked_mut(index) }
    }

    #[cold]
    fn grow(&mut self, capacity: usize) {
        debug_assert!(capacity.is_power_of_two());
        let len = (self.slots.len() * 2).max(capacity);
        let mut slots = Box::new_uninit_slice(len);
        for offset in 0..self.len {
            let from = &self.slots[self.index(offset)];
            // SAFETY: `from` is one of the values; the old slots forget it below.
            slots[offset].write(unsafe { from.assume_init_read() });
        }
        self.slots = slots;
        self.head = 0;
    }
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// If a drop panics, the other values are still dropped.
impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while let Some(value) = self.pop_front() {
            let others = DropRest(self);
            drop(value);
            mem::forget(others);
        }
    }
}

/// The values after one whose drop has panicked.
struct DropRest<'a, T>(&'a mut Ring<T>);

impl<T> Drop for DropRest<'_, T> {
    fn drop(&mut self) {
        while self.0.pop_front().is_some() {}
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use std::{collections::VecDeque, sync::Arc};

    proptest! {
        #[test]
        fn it_is_a_deque(steps in vec((0..6_u8, any::<u8>()), 0..400)) {
            let (mut ring, mut deque) = (Ring::new(), VecDeque::new());
            for (step, number) in steps {
                match step {
                    0 | 1 => {
                        ring.push_back(4, || number);
                        deque.push_back(number);
                    }
                    2 => {
                        ring.push_front(4, number);
                        deque.push_front(number);
                    }
                    3 => prop_assert_eq!(ring.pop_front(), deque.pop_front()),
                    4 => {
                        deque.push_back(number);
                        prop_assert_eq!(Some(ring.rotate(number)), deque.pop_front());
                    }
                    _ => {
                        let place = deque.iter().position(|other| *other == number % 8);
                        let removed = place.and_then(|place| deque.remove(place));
                        prop_assert_eq!(ring.remove(|other| *other == number % 8), removed);
                    }
                }
                prop_assert_eq!(ring.len, deque.len());
                prop_assert_eq!(ring.is_empty(), deque.is_empty());
            }
            let rest: Vec<_> = std::iter::from_fn(|| ring.pop_front()).collect();
            prop_assert_eq!(rest, Vec::from(deque));
        }
    }

    #[test]
    fn a_ring_drops_the_values_it_contains_and_no_others() {
        let witness = Arc::new(());
        let mut ring = Ring::new();
        (0..1000).for_each(|_| ring.push_back(256, || Arc::clone(&witness)));
        let given = ring.pop_front().unwrap();
        drop(ring);
        assert_eq!(Arc::strong_count(&witness), 2);
        drop(given);
    }
}
