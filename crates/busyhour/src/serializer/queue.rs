//! The waiting tasks of one serializer, oldest first.

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use crate::{pool::TaskCell, task::Task};

/// The first waiting task is stored in the serializer itself, since most have
/// one or none. The others are in a list, which is freed when it is empty.
///
/// A *pinned* task is one that no overflow policy may drop.
#[derive(Default)]
pub(super) struct TaskQueue {
    first: TaskCell,
    rest: Option<Box<TaskList>>,
}

/// All but the first.
#[derive(Default)]
struct TaskList {
    /// Those that are not pinned.
    tasks: VecDeque<KeyedTask>,
    /// How many tasks were taken from there; places are counted from it.
    taken: u64,
    pinned: VecDeque<PinnedTask>,
    /// Where the waiting task of each key is, counted from the first task that
    /// ever was here.
    places: HashMap<u64, u64>,
}

pub(super) struct KeyedTask {
    task: Task,
    key: Option<u64>,
}

/// Has a list of its own, so that the oldest task that may be dropped is found
/// at once.
struct PinnedTask {
    task: Task,
    /// How many tasks that are not pinned were ever put in before it.
    behind: u64,
}

impl TaskQueue {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        !self.first.is_taken() && self.rest.is_none()
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len());
        usize::from(self.first.is_taken()) + rest
    }

    /// Stores the task that `make` creates directly in its place in the empty
    /// queue.
    #[inline(always)]
    pub(super) fn put_first(&mut self, make: impl FnOnce() -> Task) {
        debug_assert!(self.is_empty());
        self.first.put(make);
    }

    /// Appends a task behind the first; a task with a `key` may be replaced by
    /// a later one.
    pub(super) fn append(&mut self, task: Task, key: Option<u64>) {
        let rest = self.rest.get_or_insert_default();
        if let Some(key) = key {
            rest.places.insert(key, rest.next_place());
        }
        rest.tasks.push_back(KeyedTask { task, key });
    }

    /// Appends a task behind the first that is not to be dropped for room.
    pub(super) fn append_pinned(&mut self, task: Task) {
        let rest = self.rest.get_or_insert_default();
        let behind = rest.next_place();
        rest.pinned.push_back(PinnedTask { task, behind });
    }

    /// Takes the oldest task that is not pinned; `keeps_first` says whether the
    /// first one is.
    pub(super) fn take_unpinned(&mut self, keeps_first: bool) -> Option<Task> {
        if !keeps_first && self.first.is_taken() {
            return self.first.take();
        }
        let rest = self.rest.as_mut()?;
        let oldest = rest.pop_unpinned();
        self.rest.take_if(|rest| rest.is_empty());
        oldest
    }

    /// Moves the oldest task to an empty cell; returns whether there was one.
    #[inline(always)]
    pub(super) fn pop(&mut self, task_cell: &mut TaskCell) -> bool {
        self.first.move_to(task_cell) || self.pop_rest(task_cell)
    }

    #[inline]
    fn pop_rest(&mut self, task_cell: &mut TaskCell) -> bool {
        let Some(rest) = &mut self.rest else {
            return false;
        };
        let oldest = rest.pop();
        if rest.is_empty() {
            self.rest = None;
        }
        let is_some = oldest.is_some();
        if let Some(task) = oldest {
            task_cell.put(|| task);
        }
        is_some
    }

    /// Takes the oldest task.
    pub(super) fn take(&mut self) -> Option<Task> {
        let mut task_cell = TaskCell::empty();
        self.pop(&mut task_cell);
        task_cell.take()
    }

    /// Replaces the waiting task with the same key by `task` and returns the
    /// old one; returns `task` if there is none.
    pub(super) fn replace(&mut self, task: Task, key: u64) -> Result<Task, Task> {
        match self.rest.as_mut().and_then(|rest| rest.at(key)) {
            Some(keyed) => Ok(mem::replace(&mut keyed.task, task)),
            None => Err(task),
        }
    }
}

impl TaskList {
    fn len(&self) -> usize {
        self.tasks.len() + self.pinned.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of the next task that is not pinned.
    fn next_place(&self) -> u64 {
        self.taken + self.tasks.len() as u64
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        let pinned = self.pinned.front();
        match pinned.is_some_and(|pinned| pinned.behind <= self.taken) {
            true => self.pinned.pop_front().map(|pinned| pinned.task),
            false => self.pop_unpinned(),
        }
    }

    #[inline]
    fn pop_unpinned(&mut self) -> Option<Task> {
        let oldest = self.tasks.pop_front()?;
        self.taken += 1;
        if let Some(key) = &oldest.key {
            self.places.remove(key);
        }
        Some(oldest.task)
    }

    fn at(&mut self, key: u64) -> Option<&mut KeyedTask> {
        let offset = self.places.get(&key)? - self.taken;
        self.tasks.get_mut(offset as usize)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{cell::Cell, sync::mpsc};

    #[test]
    fn a_queue_is_first_in_first_out_and_keeps_nothing_when_empty() {
        let (sender, receiver) = mpsc::channel();
        let mut queue = TaskQueue::default();
        let push = |queue: &mut TaskQueue, number: i32| {
            let sender = sender.clone();
            let task = || Task::new(move || sender.send(number).unwrap());
            match queue.is_empty() {
                true => queue.put_first(task),
                false => queue.append(task(), None),
            }
        };
        (0..3).for_each(|number| push(&mut queue, number));
        queue.take().unwrap().run();
        (3..5).for_each(|number| push(&mut queue, number));
        assert_eq!(queue.len(), 4);
        while let Some(task) = queue.take() {
            task.run();
        }
        assert!(receiver.try_iter().eq(0..5));
        assert!(queue.is_empty() && queue.rest.is_none());
    }

    #[test]
    fn a_key_replaces_in_place() {
        let mut queue = TaskQueue::default();
        queue.append(Task::labelled(&"old", || ()), Some(1));
        queue.append(Task::labelled(&"other", || ()), Some(2));
        let old = queue.replace(Task::labelled(&"new", || ()), 1).unwrap();
        assert_eq!(old.label(), Some("old"));
        assert!(queue.replace(Task::new(|| ()), 3).is_err());
        assert_eq!(queue.take().unwrap().label(), Some("new"));
        assert_eq!(queue.len(), 1);
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Append,
        Pin,
        Pop,
        Displace,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            Just(Operation::Append),
            Just(Operation::Pin),
            Just(Operation::Pop),
            Just(Operation::Displace),
        ]
    }

    /// The queue with the flag that its owner keeps beside it, and as the model
    /// a list in which each task is searched for.
    #[derive(Default)]
    struct Driver {
        queue: TaskQueue,
        pins_first: bool,
        model: VecDeque<(u32, bool)>,
        next: u32,
    }

    impl Driver {
        fn put(&mut self, is_pinned: bool) {
            let number = self.next;
            let task = move || Task::new(move || LAST.set(number));
            match (self.queue.is_empty(), is_pinned) {
                (true, _) => {
                    self.queue.put_first(task);
                    self.pins_first = is_pinned;
                }
                (false, true) => self.queue.append_pinned(task()),
                (false, false) => self.queue.append(task(), None),
            }
            self.model.push_back((number, is_pinned));
            self.next += 1;
        }

        fn displaced(&mut self) -> Option<u32> {
            let place = self.model.iter().position(|(_, is_pinned)| !is_pinned);
            let (number, _) = self.model.remove(place?)?;
            Some(number)
        }

        fn run(&mut self, operation: &Operation) {
            let (taken, expected) = match operation {
                Operation::Append => return self.put(false),
                Operation::Pin => return self.put(true),
                Operation::Pop => {
                    let oldest = self.model.pop_front().map(|(number, _)| number);
                    (self.queue.take(), oldest)
                }
                Operation::Displace => {
                    let expected = self.displaced();
                    (self.queue.take_unpinned(self.pins_first), expected)
                }
            };
            let number = taken.map(|task| {
                task.run();
                LAST.get()
            });
            assert_eq!(number, expected);
            assert_eq!(self.queue.len(), self.model.len());
            assert_eq!(self.queue.is_empty(), self.model.is_empty());
        }
    }

    thread_local! {
        static LAST: Cell<u32> = const { Cell::new(0) };
    }

    proptest! {
        #[test]
        fn a_pinned_task_keeps_its_place_and_is_never_displaced(
            operations in proptest::collection::vec(operation(), 0..100)
        ) {
            let mut driver = Driver::default();
            operations.iter().for_each(|operation| driver.run(operation));
        }
    }
}
