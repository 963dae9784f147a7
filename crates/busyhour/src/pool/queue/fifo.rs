//! Plain tasks, oldest first: those of a worker, or a chunk on its way to one.

use super::task_cell::TaskCell;
use crate::{ring::Ring, task::Task};
use std::mem;

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

    /// Appends the oldest tasks of `other`, at most `tasks_max`. If there are no others, a chunk changes hands
    /// with its memory, and `other` has what this list had.
    pub(in crate::pool) fn append(&mut self, other: &mut Self, tasks_max: usize) {
        let is_chunk = other.0.capacity() == CHUNK_LEN;
        // A chunk behind a few tasks made it so long; what is longer has been needed.
        let is_short = self.0.capacity() <= 2 * CHUNK_LEN;
        let is_all = !other.is_empty() && other.len() <= tasks_max;
        if self.is_empty() && is_short && is_chunk && is_all {
            return mem::swap(self, other);
        }
        self.0.append(CHUNK_LEN, &mut other.0, tasks_max);
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

    /// Whether it has memory for one chunk, and no task.
    pub(in crate::pool) fn is_vacant_chunk(&self) -> bool {
        self.0.is_empty() && self.0.capacity() == CHUNK_LEN
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

    /// So many tasks that do nothing.
    fn tasks(count: usize) -> TaskFifo {
        let mut fifo = TaskFifo::new();
        (0..count).for_each(|_| fifo.push(|| Task::new(|| ())));
        fifo
    }

    #[test]
    fn tasks_change_hands_with_their_memory() {
        let (mut fifo, mut chunk) = (tasks(1), tasks(CHUNK_LEN));
        drop(fifo.take());
        assert!(fifo.is_vacant_chunk() && !chunk.is_vacant_chunk());
        fifo.append(&mut chunk, usize::MAX);
        assert_eq!(fifo.len(), CHUNK_LEN);
        assert!(
            chunk.is_vacant_chunk(),
            "it has the memory of the other list"
        );
        fifo.append(&mut tasks(3), 2);
        assert_eq!(
            fifo.len(),
            CHUNK_LEN + 2,
            "others are copied behind those that are there"
        );
    }

    #[test]
    fn a_thief_of_few_tasks_gets_no_memory_for_many_and_one_of_none_takes_no_memory() {
        let (mut victim, mut stolen, mut thief) = (tasks(5000), tasks(0), tasks(0));
        stolen.append(&mut victim, 128);
        thief.append(&mut stolen, usize::MAX);
        assert_eq!((thief.len(), thief.0.capacity()), (128, CHUNK_LEN));
        let (mut victim, mut stolen) = (tasks(1), tasks(0));
        stolen.append(&mut victim, 0);
        drop(victim.take());
        stolen.append(&mut victim, 0);
        assert!(victim.is_vacant_chunk());
    }

    #[test]
    fn a_list_with_more_memory_keeps_it() {
        let (mut fifo, mut chunk) = (tasks(2 * CHUNK_LEN + 1), tasks(CHUNK_LEN));
        while fifo.take().is_some() {}
        fifo.append(&mut chunk, usize::MAX);
        assert_eq!(fifo.0.capacity(), 4 * CHUNK_LEN);
        assert!(chunk.is_vacant_chunk());
    }

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
