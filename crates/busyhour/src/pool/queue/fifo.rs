//! A worker's plain tasks, oldest first.

use super::task_cell::TaskCell;
use crate::{ring::Ring, task::Task};

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

    /// Appends the task that `make` creates.
    #[inline(always)]
    pub(in crate::pool) fn push(&mut self, make: impl FnOnce() -> Task) {
        self.0.push_back(CAPACITY_MIN, make);
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

/// 16 KiB of tasks.
const CAPACITY_MIN: usize = 256;

#[cfg(test)]
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
        let mut task_cell = TaskCell::EMPTY;
        assert!(fifo.pop(&mut task_cell));
        assert!(task_cell.run().is_ok());
        drop(fifo);
        drop(sender);
        assert!(receiver.iter().eq(0..1), "the others were dropped unrun");
    }
}
