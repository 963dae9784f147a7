//! The waiting tasks of one serializer, oldest first.

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use crate::{pool::TaskCell, task::Task};

/// The first waiting task is stored in the serializer itself, since most have
/// one or none. The others are in a list, which is freed when it is empty.
#[derive(Default)]
pub(super) struct TaskQueue {
    first: TaskCell,
    rest: Option<Box<TaskList>>,
}

/// All but the first.
#[derive(Default)]
struct TaskList {
    tasks: VecDeque<KeyedTask>,
    /// How many tasks were taken from here; places are counted from it.
    taken: u64,
    /// Where the waiting task of each key is, counted from the first task that
    /// ever was here.
    places: HashMap<u64, u64>,
}

pub(super) struct KeyedTask {
    task: Task,
    key: Option<u64>,
}

impl TaskQueue {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        !self.first.is_taken() && self.rest.is_none()
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.tasks.len());
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
            rest.places
                .insert(key, rest.taken + rest.tasks.len() as u64);
        }
        rest.tasks.push_back(KeyedTask { task, key });
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
        if rest.tasks.is_empty() {
            self.rest = None;
        }
        let is_some = oldest.is_some();
        if let Some(keyed) = oldest {
            task_cell.put(|| keyed.task);
        }
        is_some
    }

    /// Takes the oldest task.
    pub(super) fn take(&mut self) -> Option<Task> {
        let mut task_cell = TaskCell::EMPTY;
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
    #[inline]
    fn pop(&mut self) -> Option<KeyedTask> {
        let oldest = self.tasks.pop_front()?;
        self.taken += 1;
        if let Some(key) = &oldest.key {
            self.places.remove(key);
        }
        Some(oldest)
    }

    fn at(&mut self, key: u64) -> Option<&mut KeyedTask> {
        let offset = self.places.get(&key)? - self.taken;
        self.tasks.get_mut(offset as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

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
}
