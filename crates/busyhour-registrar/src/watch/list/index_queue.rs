//! Places of a list that wait to be told, each once, in the order in which they came.

use std::collections::VecDeque;

/// A queue of numbers below a bound, none of them twice: at most one entry a number, whatever
/// happens how often.
#[derive(Debug)]
pub(in crate::watch) struct IndexQueue {
    order: VecDeque<u32>,
    /// A bit for each number that waits.
    waits: Box<[u64]>,
}

impl IndexQueue {
    /// For numbers below `bound`; all of them wait, in order.
    pub(in crate::watch) fn full(bound: usize) -> Self {
        let mut queue = Self {
            order: VecDeque::new(),
            waits: vec![0; bound.div_ceil(64)].into(),
        };
        queue.fill(bound);
        queue
    }

    /// All numbers below `bound` wait, in order.
    pub(in crate::watch) fn fill(&mut self, bound: usize) {
        self.order.clear();
        self.waits.fill(0);
        for index in 0..bound as u32 {
            self.push(index);
        }
    }

    /// `false` if it waits already, or is out of bounds.
    pub(in crate::watch) fn push(&mut self, index: u32) -> bool {
        let is_new = self.mark(index);
        if is_new {
            self.order.push_back(index);
        }
        is_new
    }

    /// It waits before all others.
    pub(in crate::watch) fn push_first(&mut self, index: u32) {
        if self.mark(index) {
            self.order.push_front(index);
        }
    }

    fn mark(&mut self, index: u32) -> bool {
        let Some(word) = self.waits.get_mut(index as usize / 64) else {
            return false;
        };
        let bit = 1 << (index % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(in crate::watch) fn first(&self) -> Option<u32> {
        self.order.front().copied()
    }

    pub(in crate::watch) fn pop(&mut self) -> Option<u32> {
        let index = self.order.pop_front()?;
        self.waits[index as usize / 64] &= !(1 << (index % 64));
        Some(index)
    }

    pub(in crate::watch) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.iter().copied()
    }

    pub(in crate::watch) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
