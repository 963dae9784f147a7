//! Plain tasks, oldest first: those of a worker, or a chunk on its way to one.

use super::{task_cell::TaskCell, task_ring::TaskRing};
use crate::task::{PACKED_WORDS_MAX, Task};
use std::mem;

pub(in crate::pool) struct TaskFifo(TaskRing);

impl TaskFifo {
    pub(in crate::pool) fn new() -> Self {
        Self(TaskRing::new())
    }

    /// An empty chunk with memory for as many tasks of the same lengths.
    pub(in crate::pool) fn vacant_chunk(&self) -> Self {
        let words = self.0.words().next_power_of_two();
        Self(TaskRing::with_capacity(ROOM_WORDS.max(words)))
    }

    #[inline(always)]
    pub(in crate::pool) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has memory.
    pub(in crate::pool) fn has_memory(&self) -> bool {
        self.0.capacity() > 0
    }

    /// Appends the task that `make` creates.
    #[inline(always)]
    pub(in crate::pool) fn push(&mut self, make: impl FnOnce() -> Task) {
        self.0.push(ROOM_WORDS, make);
    }

    /// Appends the oldest tasks of `other`, at most `tasks_max`. If there are no others, a chunk changes hands
    /// with its memory, and `other` has what this list had.
    pub(in crate::pool) fn append(&mut self, other: &mut Self, tasks_max: usize) {
        let is_chunk = other.0.capacity() <= CHUNK_WORDS_MAX;
        // A chunk behind a few tasks made it so long; what is longer has been needed.
        let is_short = self.0.capacity() <= 2 * CHUNK_WORDS_MAX;
        let is_all = !other.is_empty() && other.len() <= tasks_max;
        if self.is_empty() && is_short && is_chunk && is_all {
            return mem::swap(self, other);
        }
        self.0.append(ROOM_WORDS, &mut other.0, tasks_max);
    }

    /// Moves the oldest task to an empty cell; returns whether there was one.
    #[inline(always)]
    pub(in crate::pool) fn pop(&mut self, task_cell: &mut TaskCell) -> bool {
        self.0.pop(task_cell)
    }

    /// Whether it has memory for one chunk at most, and no task.
    pub(in crate::pool) fn is_vacant_chunk(&self) -> bool {
        self.is_empty() && self.has_memory() && self.0.capacity() <= CHUNK_WORDS_MAX
    }

    /// A list without tasks begins at the start of its memory again.
    pub(in crate::pool) fn rewind(&mut self) {
        self.0.rewind();
    }

    /// Takes the oldest task.
    pub(in crate::pool) fn take(&mut self) -> Option<Task> {
        self.0.take()
    }
}

impl Default for TaskFifo {
    fn default() -> Self {
        Self::new()
    }
}

/// How many tasks change hands at once.
pub(in crate::pool) const CHUNK_LEN: usize = 256;
/// 4 KiB: the room that the first task makes, in which a chunk of two words a task is in one piece.
const ROOM_WORDS: usize = 2 * CHUNK_LEN + PACKED_WORDS_MAX;
/// Its room is doubled twice if its tasks are the longest.
const CHUNK_WORDS_MAX: usize = 4 * ROOM_WORDS;
const _: () = assert!(CHUNK_WORDS_MAX >= CHUNK_LEN * PACKED_WORDS_MAX);

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
        assert_eq!((thief.len(), thief.0.capacity()), (128, ROOM_WORDS));
        let (mut victim, mut stolen) = (tasks(1), tasks(0));
        stolen.append(&mut victim, 0);
        drop(victim.take());
        stolen.append(&mut victim, 0);
        assert!(victim.is_vacant_chunk());
    }

    #[test]
    fn a_list_with_more_memory_keeps_it() {
        let (mut fifo, mut chunk) = (tasks(2 * CHUNK_WORDS_MAX + 1), tasks(CHUNK_LEN));
        let capacity = fifo.0.capacity();
        assert!(capacity > 2 * CHUNK_WORDS_MAX);
        while fifo.take().is_some() {}
        fifo.append(&mut chunk, usize::MAX);
        assert_eq!((fifo.len(), fifo.0.capacity()), (CHUNK_LEN, capacity));
        assert!(chunk.is_vacant_chunk());
    }

    #[test]
    fn the_longest_tasks_of_a_chunk_have_room_in_one() {
        let mut chunk = TaskFifo::new();
        for _ in 0..CHUNK_LEN {
            let padding = [0_u64; 6];
            chunk.push(|| Task::labelled(&"longest", move || assert_eq!(padding, [0; 6])));
        }
        let (mut fifo, mut other) = (TaskFifo::new(), chunk.vacant_chunk());
        assert!(other.is_vacant_chunk());
        let room = tasks(CHUNK_LEN).vacant_chunk().0.capacity();
        assert_eq!(room, ROOM_WORDS, "short tasks have less room again");
        fifo.append(&mut chunk, usize::MAX);
        assert_eq!(
            (fifo.len(), chunk.has_memory()),
            (CHUNK_LEN, false),
            "it changed hands"
        );
        other.push(|| Task::new(|| ()));
        assert!(!other.is_vacant_chunk());
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
