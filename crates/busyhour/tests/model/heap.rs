//! The model of the indexed heap: a map from handles to the values that they
//! name.

use std::collections::{HashMap, HashSet};

use busyhour::heap::{Heap, HeapHandle, Order};

/// An operation on the heap; an entry is named by its position in the order of
/// pushes.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    Push(u8),
    Pop,
    /// Removes the n-th pushed entry, whether it is still there or not.
    Remove(usize),
    /// Gives the n-th pushed entry another value.
    Update(usize, u8),
    Clear,
}

impl Operation {
    /// Makes an operation of 32 bits, whatever they are.
    pub fn decode(bits: u32) -> Self {
        let [kind, value, low, high] = bits.to_le_bytes();
        let index = usize::from(u16::from_le_bytes([low, high]));
        match kind % 32 {
            0..=12 => Self::Push(value),
            13..=18 => Self::Pop,
            19..=23 => Self::Remove(index),
            24..=30 => Self::Update(index, value),
            _ => Self::Clear,
        }
    }
}

/// Takes any bytes as operations; tests and fuzzer share this property.
pub fn hold(bytes: &[u8]) {
    let bits = |chunk: &[u8]| chunk.try_into().map(u32::from_le_bytes);
    let mut pair = Pair::new(Heap::min());
    for bits in bytes.chunks_exact(4).filter_map(|chunk| bits(chunk).ok()) {
        pair.apply(&Operation::decode(bits));
    }
    assert!(pair.drain().is_sorted());
}

/// The heap and its oracle: the entries that were pushed and have not left, by
/// handle.
pub struct Pair<C> {
    heap: Heap<(u8, usize), C>,
    pushed: Vec<HeapHandle>,
    /// All handles so far, to check that none is used twice.
    seen: HashSet<HeapHandle>,
    present: HashMap<HeapHandle, (u8, usize)>,
}

impl<C: Order<(u8, usize)>> Pair<C> {
    pub fn new(heap: Heap<(u8, usize), C>) -> Self {
        Self {
            heap,
            pushed: Vec::new(),
            seen: HashSet::new(),
            present: HashMap::new(),
        }
    }

    pub fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Push(value) => self.push(value),
            Operation::Pop => self.pop(),
            Operation::Remove(index) => self.remove(index),
            Operation::Update(index, value) => self.update(index, value),
            Operation::Clear => {
                self.heap.clear();
                self.present.clear();
            }
        }
        self.check();
    }

    fn push(&mut self, value: u8) {
        let entry = (value, self.pushed.len());
        let handle = self.heap.push(entry);
        self.pushed.push(handle);
        assert!(self.seen.insert(handle), "a handle names a later entry");
        assert_eq!(self.present.insert(handle, entry), None);
    }

    fn pop(&mut self) {
        let handle = self.heap.peek_handle();
        let popped = self.heap.pop();
        assert_eq!(
            popped,
            handle.and_then(|handle| self.present.remove(&handle))
        );
    }

    fn remove(&mut self, index: usize) {
        if let Some(handle) = self.any_handle(index) {
            assert_eq!(self.heap.remove(handle), self.present.remove(&handle));
        }
    }

    fn update(&mut self, index: usize, value: u8) {
        if let Some(handle) = self.any_handle(index) {
            let expected = self.present.get_mut(&handle).map(|entry| entry.0 = value);
            assert_eq!(self.heap.update(handle, |entry| entry.0 = value), expected);
        }
    }

    fn any_handle(&self, index: usize) -> Option<HeapHandle> {
        let count = self.pushed.len().max(1);
        self.pushed.get(index % count).copied()
    }

    fn check(&self) {
        self.heap.verify().unwrap();
        assert_eq!(self.heap.len(), self.present.len());
        assert_eq!(self.heap.is_empty(), self.present.is_empty());
        let by_position = (0..).map_while(|position| self.heap.peek_at(position));
        assert!(self.heap.iter().eq(by_position));
        assert!(
            self.present
                .iter()
                .all(|(&handle, entry)| self.heap.get(handle) == Some(entry))
        );
        let stale = self
            .pushed
            .iter()
            .filter(|handle| !self.present.contains_key(handle));
        assert!(stale.into_iter().all(|&handle| !self.heap.contains(handle)));
    }

    pub fn drain(mut self) -> Vec<u8> {
        std::iter::from_fn(|| self.heap.pop())
            .map(|entry| entry.0)
            .collect()
    }
}
