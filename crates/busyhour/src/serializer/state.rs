//! The mutable state of a serializer, guarded by its lock.

use std::time::Duration;

use super::{exclusive::WaitingSection, queue::TaskQueue, rare_state::RareState};
use crate::{
    clock::Instant,
    pool::TaskCell,
    task::{Overflow, Task},
};

/// How many tasks may wait, and what happens to a push beyond that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// At least one.
    pub(super) capacity: u32,
    pub(super) overflow: Overflow,
}

/// Kept small: there may be a million idle ones.
pub(super) struct SerializerState {
    pub(super) queue: TaskQueue,
    rare: Option<Box<RareState>>,
    /// A lower bound of the time since which the oldest task waits: since it
    /// was pushed, or since the task before it was taken.
    head_since: Instant,
    running_since: Instant,
    pub(super) processed: u64,
    pub(super) high_water: u32,
    capacity: u32,
    pub(super) overflow: Overflow,
    /// Whether the first waiting task may not be dropped for room.
    pins_first: bool,
    /// Whether the token exists.
    pub(super) is_scheduled: bool,
    pub(super) is_running: bool,
    pub(super) admission: Admission,
    /// Whether the named state has watermarks.
    pub(super) has_marks: bool,
}

/// Whether a push is accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Open,
    /// Its group is shutting down. A subscription's turn that runs here may
    /// queue itself again, so that it delivers what it has taken.
    Closed,
    /// The waiting tasks were dropped: closed for good.
    Sealed,
}

/// The result of offering a task.
pub(super) enum PushOutcome {
    Queued,
    /// The task waits in the place of this one, which had the same key.
    Replaced(Task),
    /// The task waits; this one was dropped to make room.
    Displaced(Task),
    /// There is no room; the policy decides whether to wait for it.
    NoRoom(Task),
    Closed(Task),
}

/// What a worker does after a task.
pub(super) enum NextTask {
    /// The next task is in the cell.
    Run,
    /// There are more tasks, but the turn is over.
    Later,
    /// The token is used up.
    Done,
}

impl SerializerState {
    pub(super) fn new(bound: Bound, has_marks: bool) -> Self {
        Self {
            queue: TaskQueue::default(),
            rare: None,
            head_since: Instant::ZERO,
            running_since: Instant::ZERO,
            processed: 0,
            high_water: 0,
            capacity: bound.capacity,
            overflow: bound.overflow,
            pins_first: false,
            is_scheduled: false,
            is_running: false,
            admission: Admission::Open,
            has_marks,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.admission != Admission::Open
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.is_running && self.section().is_none()
    }

    /// Whether a task may start now.
    #[inline(always)]
    pub(super) fn may_begin(&self) -> bool {
        let has_tasks = !self.queue.is_empty();
        let rare = self.rare.as_ref();
        !self.is_running && rare.map_or(has_tasks, |rare| rare.may_begin(has_tasks))
    }

    #[inline(always)]
    pub(super) fn must_be_scheduled(&self) -> bool {
        !self.is_scheduled && self.may_begin()
    }

    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        match &self.rare {
            None => self.queue.is_empty() || self.queue.len() < self.capacity as usize,
            Some(rare) => self.queue.len() + rare.room.kept_count() < self.capacity as usize,
        }
    }

    /// Whether a task without a key can simply be appended.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        !self.is_closed() && self.has_room()
    }

    #[inline(always)]
    pub(super) fn append(&mut self, now: Instant, make: impl FnOnce() -> Task) {
        if self.queue.is_empty() {
            self.head_since = now;
            self.queue.put_first(make);
            self.pins_first = false;
            self.high_water = self.high_water.max(1);
        } else {
            self.append_behind(make(), None);
        }
    }

    #[inline(never)]
    fn append_behind(&mut self, task: Task, key: Option<u64>) {
        self.queue.append(task, key, self.conflates());
        self.high_water = self.high_water.max(self.queue.len() as u32);
    }

    /// Appends a task that no overflow policy may drop.
    pub(super) fn append_pinned(&mut self, now: Instant, task: Task) {
        if self.queue.is_empty() {
            self.append(now, || task);
            self.pins_first = true;
        } else {
            self.queue.append_pinned(task, self.conflates());
            self.high_water = self.high_water.max(self.queue.len() as u32);
        }
    }

    fn conflates(&self) -> bool {
        self.overflow == Overflow::Conflate
    }

    pub(super) fn offer(&mut self, task: Task, key: Option<u64>, now: Instant) -> PushOutcome {
        if self.is_closed() {
            return PushOutcome::Closed(task);
        }
        match (self.overflow, key) {
            (Overflow::Conflate, Some(key)) => self.conflate(task, key, now),
            (Overflow::DropOldest, _) if !self.has_room() => self.displace(task, now),
            _ if !self.has_room() => PushOutcome::NoRoom(task),
            _ => {
                self.append(now, || task);
                PushOutcome::Queued
            }
        }
    }

    /// If all that wait are pinned, the task waits beyond the capacity.
    fn displace(&mut self, task: Task, now: Instant) -> PushOutcome {
        let oldest = self.queue.take_unpinned(self.pins_first);
        self.head_since = now;
        self.append(now, || task);
        match oldest {
            Some(oldest) => PushOutcome::Displaced(oldest),
            None => PushOutcome::Queued,
        }
    }

    fn conflate(&mut self, task: Task, key: u64, now: Instant) -> PushOutcome {
        let task = match self.queue.replace(task, key) {
            Ok(older) => return PushOutcome::Replaced(older),
            Err(task) if !self.has_room() => return PushOutcome::NoRoom(task),
            Err(task) => task,
        };
        if self.queue.is_empty() {
            self.head_since = now;
        }
        self.append_behind(task, Some(key));
        PushOutcome::Queued
    }

    /// Takes the oldest task to run it, unless a task runs already or none may
    /// run.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: Instant, task_cell: &mut TaskCell) -> bool {
        if self.rare.is_some() && !self.may_begin_task() {
            return self.begin_poll(now, task_cell);
        }
        if self.is_running || !self.queue.pop(task_cell) {
            return false;
        }
        self.is_running = true;
        self.running_since = now;
        self.head_since = now;
        true
    }

    /// Takes the section's poll to run it, if it was woken and may run. Cold, so that other
    /// tasks need no jump.
    #[cold]
    fn begin_poll(&mut self, now: Instant, task_cell: &mut TaskCell) -> bool {
        if self.is_running || self.suspension_count() > 0 {
            return false;
        }
        let section = self.section_mut();
        let poll = section.and_then(|section| section.poll.take());
        let begins = poll.is_some();
        if let Some(poll) = poll {
            task_cell.put(|| poll);
            self.is_running = true;
            self.running_since = now;
        }
        begins
    }

    /// Whether nothing holds the tasks up.
    #[cold]
    fn may_begin_task(&self) -> bool {
        self.suspension_count() == 0 && self.section().is_none()
    }

    pub(super) fn suspension_count(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.suspension_count)
    }

    pub(super) fn waiting_thread_count(&self) -> u32 {
        (self.rare.as_ref()).map_or(0, |rare| rare.waiting_thread_count)
    }

    pub(super) fn section(&self) -> Option<&WaitingSection> {
        self.rare.as_ref()?.section.as_ref()
    }

    pub(super) fn section_mut(&mut self) -> Option<&mut WaitingSection> {
        self.rare.as_mut()?.section.as_mut()
    }

    #[inline(always)]
    pub(super) fn is_rare(&self) -> bool {
        self.rare.is_some()
    }

    pub(super) fn rare(&mut self) -> &mut RareState {
        self.rare.get_or_insert_default()
    }

    /// Frees what is no longer needed.
    pub(super) fn relax(&mut self) {
        self.rare.take_if(|rare| rare.is_nothing());
    }

    #[inline(always)]
    pub(super) fn end(&mut self) {
        debug_assert!(self.is_running, "one task at a time");
        self.is_running = false;
        self.processed += 1;
    }

    /// Since when that which runs next waits, at least.
    #[inline(always)]
    pub(super) fn waiting_since(&self) -> Instant {
        match self.section() {
            None => self.head_since,
            Some(section) => section.woken_since,
        }
    }

    pub(super) fn oldest_waiting(&self, now: Instant) -> Duration {
        match self.queue.is_empty() {
            true => Duration::ZERO,
            false => now - self.head_since,
        }
    }

    /// For how long the current task has been running.
    pub(super) fn running_for(&self, now: Instant) -> Option<Duration> {
        self.is_running.then(|| now - self.running_since)
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
