//! The waiting tasks of one serializer, oldest first.

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use crate::{
    pool::{TaskCell, TaskRing},
    task::Task,
};

/// The first waiting task is stored in the serializer itself, since most have
/// one or none. The others, and one with a key, are in a list, which is freed when it
/// is empty.
///
/// A *pinned* task is one that no overflow policy may drop.
#[derive(Default)]
pub(super) struct TaskQueue {
    first: TaskCell,
    rest: Option<Box<TaskList>>,
}

/// All but the first.
struct TaskList {
    unpinned: Unpinned,
    /// How many tasks were taken from there; places are counted from it.
    taken: u64,
    pinned: VecDeque<PinnedTask>,
}

/// The tasks that are not pinned.
enum Unpinned {
    /// In as few words as they need; none has a key.
    Packed(TaskRing),
    /// Of a serializer that conflates.
    Keyed(Box<KeyedTasks>),
}

/// Tasks of which some have a key.
#[derive(Default)]
struct KeyedTasks {
    tasks: VecDeque<KeyedTask>,
    /// Where the waiting task of each key is, counted from the first task that
    /// ever was in the list.
    places: HashMap<u64, u64>,
}

struct KeyedTask {
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

    /// Appends a task behind the first. If the serializer `conflates`, a task with a `key`
    /// may be replaced by a later one.
    pub(super) fn append(&mut self, task: Task, key: Option<u64>, conflates: bool) {
        let rest = self.rest(conflates);
        let place = rest.next_place();
        rest.unpinned.append(task, key, place);
    }

    /// Appends a task behind the first that is not to be dropped for room.
    pub(super) fn append_pinned(&mut self, task: Task, conflates: bool) {
        let rest = self.rest(conflates);
        let behind = rest.next_place();
        rest.pinned.push_back(PinnedTask { task, behind });
    }

    fn rest(&mut self, conflates: bool) -> &mut TaskList {
        let new = || Box::new(TaskList::new(conflates));
        self.rest.get_or_insert_with(new)
    }

    /// Takes the oldest task that is not pinned; `keeps_first` says whether the
    /// first one is.
    pub(super) fn take_unpinned(&mut self, keeps_first: bool) -> Option<Task> {
        if !keeps_first && self.first.is_taken() {
            return self.first.take();
        }
        let rest = self.rest.as_mut()?;
        let mut task_cell = TaskCell::empty();
        rest.pop_unpinned(&mut task_cell);
        self.rest.take_if(|rest| rest.is_empty());
        task_cell.take()
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
        let is_some = rest.pop(task_cell);
        if rest.is_empty() {
            self.rest = None;
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
            Some(waiting) => Ok(mem::replace(waiting, task)),
            None => Err(task),
        }
    }
}

impl TaskList {
    fn new(conflates: bool) -> Self {
        Self {
            unpinned: match conflates {
                true => Unpinned::Keyed(Box::default()),
                false => Unpinned::Packed(TaskRing::new()),
            },
            taken: 0,
            pinned: VecDeque::new(),
        }
    }

    fn len(&self) -> usize {
        self.unpinned.len() + self.pinned.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of the next task that is not pinned.
    fn next_place(&self) -> u64 {
        self.taken + self.unpinned.len() as u64
    }

    #[inline]
    fn pop(&mut self, task_cell: &mut TaskCell) -> bool {
        let pinned = self.pinned.front();
        if pinned.is_none_or(|pinned| pinned.behind > self.taken) {
            return self.pop_unpinned(task_cell);
        }
        let pinned = self.pinned.pop_front();
        put_if_some(task_cell, pinned.map(|pinned| pinned.task))
    }

    #[inline]
    fn pop_unpinned(&mut self, task_cell: &mut TaskCell) -> bool {
        let is_some = self.unpinned.pop(task_cell);
        self.taken += u64::from(is_some);
        is_some
    }

    fn at(&mut self, key: u64) -> Option<&mut Task> {
        match &mut self.unpinned {
            Unpinned::Packed(_) => None,
            Unpinned::Keyed(keyed) => keyed.at(key, self.taken),
        }
    }
}

impl Unpinned {
    fn len(&self) -> usize {
        match self {
            Self::Packed(ring) => ring.len(),
            Self::Keyed(keyed) => keyed.tasks.len(),
        }
    }

    fn append(&mut self, task: Task, key: Option<u64>, place: u64) {
        match self {
            Self::Packed(ring) => ring.push(RING_WORDS, || task),
            Self::Keyed(keyed) => keyed.append(task, key, place),
        }
    }

    #[inline]
    fn pop(&mut self, task_cell: &mut TaskCell) -> bool {
        match self {
            Self::Packed(ring) => ring.pop(task_cell),
            Self::Keyed(keyed) => put_if_some(task_cell, keyed.pop()),
        }
    }
}

impl KeyedTasks {
    fn append(&mut self, task: Task, key: Option<u64>, place: u64) {
        if let Some(key) = key {
            self.places.insert(key, place);
        }
        self.tasks.push_back(KeyedTask { task, key });
    }

    fn pop(&mut self) -> Option<Task> {
        let oldest = self.tasks.pop_front()?;
        if let Some(key) = &oldest.key {
            self.places.remove(key);
        }
        Some(oldest.task)
    }

    fn at(&mut self, key: u64, taken: u64) -> Option<&mut Task> {
        let offset = self.places.get(&key)? - taken;
        let keyed = self.tasks.get_mut(offset as usize)?;
        Some(&mut keyed.task)
    }
}

/// Returns whether there is a task.
fn put_if_some(task_cell: &mut TaskCell, task: Option<Task>) -> bool {
    let is_some = task.is_some();
    if let Some(task) = task {
        task_cell.put(|| task);
    }
    is_some
}

/// A new ring has room for eight tasks whose closures hold one word; one that has gone
/// round, for fewer.
const RING_WORDS: usize = 16;

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
                false => queue.append(task(), None, false),
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
        queue.append(Task::labelled(&"old", || ()), Some(1), true);
        queue.append(Task::labelled(&"other", || ()), Some(2), true);
        let old = queue.replace(Task::labelled(&"new", || ()), 1).unwrap();
        assert_eq!(old.label(), Some("old"));
        assert!(queue.replace(Task::new(|| ()), 3).is_err());
        assert_eq!(queue.take().unwrap().label(), Some("new"));
        assert_eq!(queue.len(), 1);
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Append,
        Conflate(u64),
        Pin,
        Pop,
        Displace,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => Just(Operation::Append),
            1 => (0..3_u64).prop_map(Operation::Conflate),
            2 => Just(Operation::Pin),
            4 => Just(Operation::Pop),
            2 => Just(Operation::Displace),
        ]
    }

    /// A task of the model.
    struct Waiting {
        number: u32,
        is_pinned: bool,
        key: Option<u64>,
    }

    /// The queue with the flag that its owner keeps beside it, and as the model
    /// a list in which each task is searched for.
    #[derive(Default)]
    struct Driver {
        queue: TaskQueue,
        conflates: bool,
        pins_first: bool,
        model: VecDeque<Waiting>,
        next: u32,
    }

    impl Driver {
        /// A task of one word or of four.
        fn task(number: u32) -> Task {
            let padding = [u64::from(number); 4];
            match number % 2 {
                0 => Task::new(move || LAST.set(number)),
                _ => Task::new(move || LAST.set(padding[3] as u32)),
            }
        }

        fn put(&mut self, is_pinned: bool, key: Option<u64>) {
            let number = self.next;
            self.next += 1;
            match (self.queue.is_empty() && key.is_none(), is_pinned) {
                (true, _) => {
                    self.queue.put_first(|| Self::task(number));
                    self.pins_first = is_pinned;
                }
                (false, true) => (self.queue).append_pinned(Self::task(number), self.conflates),
                (false, false) => (self.queue).append(Self::task(number), key, self.conflates),
            }
            self.model.push_back(Waiting {
                number,
                is_pinned,
                key,
            });
        }

        /// Replaces the waiting task of the key, or puts one with it.
        fn conflate(&mut self, key: u64) {
            let number = self.next;
            let model = self.model.iter_mut().find(|one| one.key == Some(key));
            match (self.queue.replace(Self::task(number), key), model) {
                (Ok(replaced), Some(waiting)) => {
                    assert_eq!(Self::number(Some(replaced)), Some(waiting.number));
                    waiting.number = number;
                    self.next += 1;
                }
                (Err(_), None) => self.put(false, Some(key)),
                (replaced, _) => panic!("key {key}: replaced: {}", replaced.is_ok()),
            }
        }

        fn displaced(&mut self) -> Option<u32> {
            let place = self.model.iter().position(|one| !one.is_pinned);
            Some(self.model.remove(place?)?.number)
        }

        fn run(&mut self, operation: &Operation) {
            match operation {
                Operation::Conflate(key) if self.conflates => self.conflate(*key),
                Operation::Append | Operation::Conflate(_) => self.put(false, None),
                Operation::Pin => self.put(true, None),
                Operation::Pop => {
                    let oldest = self.model.pop_front().map(|one| one.number);
                    assert_eq!(Self::number(self.queue.take()), oldest);
                }
                Operation::Displace => {
                    let expected = self.displaced();
                    let displaced = self.queue.take_unpinned(self.pins_first);
                    assert_eq!(Self::number(displaced), expected);
                }
            }
            assert_eq!(self.queue.len(), self.model.len());
            assert_eq!(self.queue.is_empty(), self.model.is_empty());
        }

        fn number(task: Option<Task>) -> Option<u32> {
            task.map(|task| {
                task.run();
                LAST.get()
            })
        }
    }

    thread_local! {
        static LAST: Cell<u32> = const { Cell::new(0) };
    }

    proptest! {
        #[test]
        fn a_task_keeps_its_place_and_a_pinned_one_is_never_displaced(
            conflates: bool,
            operations in proptest::collection::vec(operation(), 0..200)
        ) {
            let mut driver = Driver { conflates, ..Driver::default() };
            operations.iter().for_each(|operation| driver.run(operation));
        }
    }
}
