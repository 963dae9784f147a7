//! Plain tasks, oldest first: those of a worker, or a chunk on its way to one.

use super::task_cell::TaskCell;
use crate::{ring::Ring, task::Task};

#[derive(Default)]
pub(in crate::pool) struct TaskFifo(Ring<Task>);

impl TaskFifo {
    pub(in crate::pool) fn new() -> Self {
        Self(Ring::new())
    }

    #[inline(always)]
    pub(in crate::pool) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the next push makes room for more tasks.
    #[inline(always)]
    pub(in crate::pool) fn is_full(&self) -> bool {
        self.0.len() == self.0.capacity()
    }

    /// Appends the task that `make` creates.
    #[inline(always)]
    pub(in crate::pool) fn push(&mut self, make: impl FnOnce() -> Task) {
        self.0.push_back(CHUNK_LEN, make);
    }

    /// Appends the oldest tasks of `other`, at most `tasks_max`.
    pub(in crate::pool) fn append(&mut self, other: &mut Self, tasks_max: usize) {
        self.0.append(&mut other.0, tasks_max);
    }

    /// Moves the oldest task to an empty cell; returns whether there was one.
    #[inline(always)]
    pub(in crate::pool) fn pop(&mut self, task_cell: &mut TaskCell) -> bool {
        let oldest = self.0.give_front();
        if let Some(oldest) = oldest {
            // SAFETY: the ring gave the task up, and is not used meanwhile.
            unsafe { task_cell.put_from(oldest) };
        }
        oldest.is_some()
    }

    /// Takes the oldest task.
    pub(in crate::pool) fn take(&mut self) -> Option<Task> {
        self.0.pop_front()
    }
}

/// 16 KiB of tasks: the room that the first one makes.
pub(in crate::pool) const CHUNK_LEN: usize = 256;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_task_moved_to_a_cell_runs_once() {
        let (sender, receiver) = mpsc::channel();
        let mut fifo = TaskFifo::new();
        for number in 0..300 {
            let sender = sender.clone();
            fifo.push(|| Task::new(move || sender.send(number).unwrap()));
        }
        let mut task_cell = TaskCell::empty();
        assert!(fifo.pop(&mut task_cell));
        assert!(task_cell.run().is_ok());
        drop(fifo);
        drop(sender);
        assert!(receiver.iter().eq(0..1), "the others were dropped unrun");
    }
}
