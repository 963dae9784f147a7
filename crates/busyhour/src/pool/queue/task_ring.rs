//! A growing ring buffer of packed tasks: first in, first out.

use std::mem;

use super::task_cell::TaskCell;
use crate::task::{PACKED_WORDS_MAX, Task, Word, pack, packed_words, unpack};

/// The tasks follow each other from `head` to `tail`, each in one piece. One that
/// begins before the end of the ring may reach beyond it, where the memory has room
/// for one task; the next one begins at 0.
pub(crate) struct TaskRing {
    /// As many words as the ring is long, and [`PACKED_WORDS_MAX`] more; or none.
    words: Box<[Word]>,
    head: usize,
    tail: usize,
    len: usize,
}

impl TaskRing {
    /// An empty ring, without memory.
    pub(crate) fn new() -> Self {
        Self {
            words: Box::new([]),
            head: 0,
            tail: 0,
            len: 0,
        }
    }

    /// An empty ring of so many words.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            words: Box::<[u64]>::new_uninit_slice(capacity + PACKED_WORDS_MAX),
            head: 0,
            tail: 0,
            len: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its length in words.
    #[inline(always)]
    pub(super) fn capacity(&self) -> usize {
        self.words.len().saturating_sub(PACKED_WORDS_MAX)
    }

    /// The words of its tasks, or its whole length if they are not in one piece.
    pub(super) fn words(&self) -> usize {
        match self.tail > self.head {
            true => self.tail - self.head,
            false => self.capacity(),
        }
    }

    /// Appends the task that `make` creates. The first one allocates room for so many
    /// words, [`PACKED_WORDS_MAX`] at least.
    #[inline(always)]
    pub(crate) fn push(&mut self, capacity: usize, make: impl FnOnce() -> Task) {
        if !self.has_room() {
            self.grow(capacity);
        }
        let task = make();
        // SAFETY: there is room for one task, whatever its length.
        let words = unsafe { pack(task, self.words.as_mut_ptr().add(self.tail)) };
        self.tail = self.next(self.tail, words);
        self.len += 1;
    }

    /// Moves the oldest task to an empty cell; returns whether there was one.
    #[inline(always)]
    pub(crate) fn pop(&mut self, task_cell: &mut TaskCell) -> bool {
        if self.len == 0 {
            return false;
        }
        // SAFETY: a task begins at `head`, and the ring leaves it behind.
        let words = unsafe { task_cell.put_packed(self.words.as_ptr().add(self.head)) };
        self.leave_behind(words);
        true
    }

    /// Takes the oldest task.
    pub(super) fn take(&mut self) -> Option<Task> {
        if self.len == 0 {
            return None;
        }
        let mut task = mem::MaybeUninit::uninit();
        // SAFETY: a task begins at `head`; it is moved, and the ring leaves it behind.
        unsafe {
            let words = unpack(self.words.as_ptr().add(self.head), task.as_mut_ptr());
            self.leave_behind(words);
            Some(task.assume_init())
        }
    }

    /// Moves the oldest tasks of `other`, at most `len_max`, behind its own. The first
    /// one allocates room for so many words.
    pub(super) fn append(&mut self, capacity: usize, other: &mut Self, len_max: usize) {
        if other.len <= len_max && self.append_piece(other) {
            return;
        }
        for _ in 0..other.len.min(len_max) {
            if !self.has_room() {
                self.grow(capacity);
            }
            // SAFETY: a task of the other ring begins at its `head`, and there is room
            // for one here; the other ring leaves it behind.
            let words = unsafe { self.copy_here(other.words.as_ptr().add(other.head)) };
            other.leave_behind(words);
        }
    }

    /// Moves all tasks of `other` at once, if they are in one piece, before the end of their
    /// ring, and would be here.
    fn append_piece(&mut self, other: &mut Self) -> bool {
        let words = other.tail.saturating_sub(other.head);
        let is_vacant_behind = self.tail >= self.head && self.has_room();
        if words == 0 || !is_vacant_behind || self.tail + words > self.capacity() {
            return false;
        }
        // SAFETY: all tasks of the other ring are in these words, since its `head` is
        // before its `tail`; it leaves them behind. Here so many words are vacant, from
        // `tail` to the end of the ring.
        unsafe {
            let from = other.words.as_ptr().add(other.head);
            let to = self.words.as_mut_ptr().add(self.tail);
            from.copy_to_nonoverlapping(to, words);
        }
        self.tail = self.next(self.tail, words);
        self.len += mem::take(&mut other.len);
        other.head = other.tail;
        true
    }

    /// Begins at the start of the memory again, so that it has most room in one piece.
    pub(super) fn rewind(&mut self) {
        if self.len == 0 {
            (self.head, self.tail) = (0, 0);
        }
    }

    /// Copies a task to the end; returns how many words it has.
    ///
    /// # Safety
    ///
    /// - A task is packed at `from`, and [`PACKED_WORDS_MAX`] words may be read there,
    ///   none of which is in this ring.
    /// - This ring has room for one.
    #[inline(always)]
    unsafe fn copy_here(&mut self, from: *const Word) -> usize {
        // SAFETY: by contract.
        let words = unsafe {
            let to = self.words.as_mut_ptr().add(self.tail);
            from.copy_to_nonoverlapping(to, PACKED_WORDS_MAX);
            packed_words(from)
        };
        self.tail = self.next(self.tail, words);
        self.len += 1;
        words
    }

    /// Whether the longest task fits between `tail` and `head`. Before the end of the
    /// ring it always does.
    #[inline(always)]
    fn has_room(&self) -> bool {
        match self.tail.cmp(&self.head) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => self.len == 0 && !self.words.is_empty(),
            std::cmp::Ordering::Less => self.head - self.tail >= PACKED_WORDS_MAX,
        }
    }

    #[inline(always)]
    fn leave_behind(&mut self, words: usize) {
        self.head = self.next(self.head, words);
        self.len -= 1;
    }

    /// Where the task behind the one at `at` begins.
    #[inline(always)]
    fn next(&self, at: usize, words: usize) -> usize {
        let next = at + words;
        if next + PACKED_WORDS_MAX < self.words.len() {
            next
        } else {
            0
        }
    }

    #[cold]
    fn grow(&mut self, capacity: usize) {
        assert!(capacity >= PACKED_WORDS_MAX);
        let mut grown = Self::with_capacity((2 * self.capacity()).max(capacity));
        grown.append(capacity, self, usize::MAX);
        *self = grown;
    }
}

/// If a drop panics, the other tasks are still dropped.
impl Drop for TaskRing {
    fn drop(&mut self) {
        while let Some(task) = self.take() {
            let others = TasksLeft(self);
            drop(task);
            mem::forget(others);
        }
    }
}

/// The tasks after one whose drop has panicked.
struct TasksLeft<'a>(&'a mut TaskRing);

impl Drop for TasksLeft<'_> {
    fn drop(&mut self) {
        while self.0.take().is_some() {}
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use std::{
        cell::RefCell,
        collections::VecDeque,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
    };

    thread_local! {
        /// What the tasks of this thread told.
        static TOLD: RefCell<VecDeque<u8>> = const { RefCell::new(VecDeque::new()) };
    }

    fn tell(number: u64) {
        TOLD.with_borrow_mut(|told| told.push_back(number as u8));
    }

    fn told() -> Option<u8> {
        TOLD.with_borrow_mut(VecDeque::pop_front)
    }

    /// A task of one to eight words, which its number decides, and what it tells when it runs.
    fn task(number: u8) -> (Task, u8) {
        fn telling<const WORDS: usize>(number: u8) -> impl FnOnce() + Send {
            let words = [u64::from(number); WORDS];
            move || tell(words[WORDS - 1])
        }
        let task = match number % 8 {
            0 => return (Task::new(|| tell(200)), 200),
            1 => Task::new(telling::<1>(number)),
            2 => Task::new(telling::<2>(number)),
            3 => Task::new(telling::<4>(number)),
            4 => Task::new(telling::<6>(number)),
            5 => Task::new(telling::<9>(number)),
            6 => Task::labelled(&LABELS[0], telling::<1>(number)),
            _ => Task::labelled(&LABELS[1], telling::<6>(number)),
        };
        (task, number)
    }

    /// The label of the task that tells this.
    fn label(told: u8) -> Option<&'static str> {
        let number = told.checked_sub(6).filter(|_| told < 200)?;
        (number % 8 < 2).then(|| LABELS[usize::from(number % 8)])
    }

    static LABELS: [&str; 2] = ["short", "longest"];

    proptest! {
        /// Two rings against two deques: tasks are pushed, taken in two ways, and moved
        /// from one to the other.
        #[test]
        fn it_is_a_queue(steps in vec((0..8_u8, 0..200_u8), 0..600), room in 3..6_u32) {
            let room = 1 << room;
            let (mut rings, mut deques) = ([TaskRing::new(), TaskRing::new()], [VecDeque::new(), VecDeque::new()]);
            for (step, number) in steps {
                let [ring, other] = &mut rings;
                let [deque, other_deque] = &mut deques;
                match step {
                    0..=2 => {
                        let (task, tells) = task(number);
                        ring.push(room, || task);
                        deque.push_back(tells);
                    }
                    3 => {
                        let (task, tells) = task(number);
                        other.push(room, || task);
                        other_deque.push_back(tells);
                    }
                    4 => {
                        let (mut cell, oldest) = (TaskCell::empty(), deque.pop_front());
                        prop_assert_eq!(ring.pop(&mut cell), oldest.is_some());
                        prop_assert_eq!(cell.label(), oldest.and_then(label));
                        prop_assert!(cell.run().is_ok());
                        prop_assert_eq!(told(), oldest);
                    }
                    5 => {
                        let (taken, oldest) = (ring.take(), deque.pop_front());
                        prop_assert_eq!(taken.as_ref().and_then(Task::label), oldest.and_then(label));
                        taken.into_iter().for_each(Task::run);
                        prop_assert_eq!(told(), oldest);
                    }
                    6 => {
                        let len = if number % 2 == 0 { usize::MAX } else { usize::from(number % 8) };
                        ring.append(room, other, len);
                        deque.extend(other_deque.drain(..len.min(other_deque.len())));
                    }
                    _ => {
                        ring.rewind();
                        rings.reverse();
                        deques.reverse();
                    }
                }
                prop_assert_eq!(rings.each_ref().map(TaskRing::len), deques.each_ref().map(VecDeque::len));
            }
            for (mut ring, deque) in rings.into_iter().zip(deques) {
                std::iter::from_fn(|| ring.take()).for_each(Task::run);
                prop_assert_eq!(TOLD.take(), deque);
            }
        }
    }

    /// A piece that ends where the ring does, and one that would end a word behind.
    #[test]
    fn a_piece_is_moved_at_once_only_where_all_of_it_is_before_the_end() {
        for len in 20..=40 {
            let (mut ring, mut other) = (TaskRing::new(), TaskRing::with_capacity(64));
            (0..8).for_each(|_| ring.push(32, || task(0).0));
            (0..len).for_each(|_| other.push(64, || task(0).0));
            ring.append(32, &mut other, usize::MAX);
            (0..4).for_each(|_| ring.push(32, || task(1).0));
            std::iter::from_fn(|| ring.take()).for_each(Task::run);
            let expected = (0..8 + len).map(|_| 200).chain([1; 4]);
            assert_eq!(
                TOLD.take(),
                expected.collect::<VecDeque<u8>>(),
                "{len} tasks"
            );
        }
    }

    #[test]
    fn tasks_that_stay_are_dropped_once_though_one_panics() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let witness = Arc::new(());
        let mut ring = TaskRing::new();
        let mut hold = || {
            let held = Arc::clone(&witness);
            ring.push(16, || Task::new(move || drop(held)));
        };
        (0..100).for_each(|_| hold());
        let panics = Panics;
        ring.push(16, || Task::new(move || drop(panics)));
        (0..100).for_each(|_| {
            let held = Arc::clone(&witness);
            ring.push(16, || Task::new(move || drop(held)));
        });
        drop(ring.take());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(ring))).is_err());
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn a_ring_that_is_emptied_again_and_again_does_not_grow() {
        let mut ring = TaskRing::new();
        for _ in 0..10_000 {
            (0..7).for_each(|number: u64| ring.push(16, || Task::new(move || assert!(number < 7))));
            while ring.take().is_some() {}
        }
        assert_eq!(
            ring.capacity(),
            32,
            "seven tasks of two words, and room for a long one"
        );
    }
}
