//! A worker's own queues: its FIFO of plain tasks and its run queue.

use std::time::Duration;

use super::{fifo::TaskFifo, task_cell::TaskCell};
use crate::{
    pool::{context, entity::Token},
    run_queue::{Class, QueueEnd, RunQueue, SchedState, Thresholds, WorkerId},
    task::Task,
};

/// Guarded by the worker's biased lock.
#[repr(C)] // A switch reads what comes first, up to the first ranks of the run queue.
pub(in crate::pool) struct Local {
    /// Whether the FIFO is in the run queue.
    fifo_is_queued: bool,
    /// A shutdown took everything and will not look again.
    is_closed: bool,
    fifo: TaskFifo,
    pub(in crate::pool) run_queue: RunQueue<Runnable>,
    fifo_sched_state: SchedState,
}

/// What the run queue orders.
pub(in crate::pool) enum Runnable {
    /// The worker's plain tasks.
    Fifo,
    Entity(Token),
}

/// The work that a thief or a shutdown takes.
#[derive(Default)]
pub(in crate::pool) struct WorkBatch {
    pub(in crate::pool) tasks: TaskFifo,
    pub(in crate::pool) tokens: Vec<Token>,
}

impl Local {
    pub(in crate::pool) fn new(worker: WorkerId, thresholds: Thresholds) -> Self {
        Self {
            fifo_is_queued: false,
            is_closed: false,
            fifo: TaskFifo::new(),
            run_queue: RunQueue::with_thresholds(worker, DEFAULT_TICK, thresholds),
            fifo_sched_state: SchedState::default(),
        }
    }

    /// Queues the task that `make` creates; returns how many wait, or `make`
    /// after a shutdown.
    #[inline(always)]
    pub(in crate::pool) fn push<M: FnOnce() -> Task>(&mut self, make: M) -> Result<usize, M> {
        if self.is_closed {
            return Err(make);
        }
        self.fifo.push(make);
        Ok(self.fifo.len())
    }

    /// The scheduling state of an entity that this worker's thread creates. It
    /// shares the counter of the one that pays for the turn: an entity, or the
    /// FIFO; unless that waits for its turn, which it would change.
    #[inline(never)]
    pub(in crate::pool) fn fork(&mut self, class: Class) -> SchedState {
        match context::fork_payer(&self.run_queue, class) {
            Some(child) => child,
            None if self.fifo_is_queued => SchedState::new(class),
            None => self.run_queue.fork(&mut self.fifo_sched_state, class),
        }
    }

    /// Moves the oldest plain task to `task_cell`; returns whether there was
    /// one.
    #[inline(always)]
    pub(in crate::pool) fn pop(&mut self, task_cell: &mut TaskCell) -> bool {
        self.fifo.pop(task_cell)
    }

    /// Queues an entity; returns how many wait, or the token after a shutdown.
    #[inline(always)]
    pub(in crate::pool) fn wake(&mut self, token: Token) -> Result<usize, Token> {
        if self.is_closed {
            return Err(token);
        }
        token.wake(&mut self.run_queue);
        Ok(self.entity_len())
    }

    /// Like [`wake`](Self::wake), for an entity that has just run for `ran_ns`.
    pub(in crate::pool) fn put_back(&mut self, token: Token, ran_ns: u64) -> Result<usize, Token> {
        token.with_share(|share| self.run_queue.charge_ns(&mut share.sched_state, ran_ns));
        self.wake(token)
    }

    /// The number of waiting plain tasks.
    #[inline(always)]
    pub(in crate::pool) fn fifo_len(&self) -> usize {
        self.fifo.len()
    }

    /// The number of waiting entities.
    #[inline(always)]
    pub(in crate::pool) fn entity_len(&self) -> usize {
        self.run_queue.len() - usize::from(self.fifo_is_queued)
    }

    /// Charges the one that ran last, and returns the next one to run.
    #[inline(always)]
    pub(in crate::pool) fn switch(
        &mut self,
        last: Option<Runnable>,
        ran_ns: u64,
    ) -> Option<Runnable> {
        match last {
            Some(Runnable::Entity(token)) => Some(self.switch_from(token, ran_ns)),
            Some(Runnable::Fifo) => self.switch_from_lane(ran_ns),
            None => self.next(),
        }
    }

    /// Whether there is no plain task and the FIFO is not queued.
    #[inline(always)]
    pub(in crate::pool) fn has_only_entities(&self) -> bool {
        self.fifo.is_empty() && !self.fifo_is_queued
    }

    #[inline(always)]
    pub(in crate::pool) fn switch_from(&mut self, token: Token, ran_ns: u64) -> Runnable {
        self.queue_fifo();
        let next = token.switch(&mut self.run_queue, ran_ns);
        self.fifo_is_queued &= !matches!(next, Runnable::Fifo);
        next
    }

    #[inline(never)]
    fn switch_from_lane(&mut self, ran_ns: u64) -> Option<Runnable> {
        if self.fifo.is_empty() || self.run_queue.is_empty() {
            (self.run_queue).charge_ns(&mut self.fifo_sched_state, ran_ns);
            return self.next();
        }
        let fifo = &mut self.fifo_sched_state;
        self.run_queue.sync_epoch(fifo);
        let next = (self.run_queue).switch_after(Runnable::Fifo, fifo, ran_ns);
        self.fifo_is_queued = !matches!(next, Runnable::Fifo);
        Some(next)
    }

    /// Takes out the next one to run.
    #[inline(always)]
    pub(in crate::pool) fn next(&mut self) -> Option<Runnable> {
        if self.run_queue.is_empty() {
            return (!self.fifo.is_empty()).then_some(Runnable::Fifo);
        }
        self.queue_fifo();
        let next = self.run_queue.pick();
        self.fifo_is_queued &= !matches!(next, Some(Runnable::Fifo));
        next
    }

    /// Queues the FIFO among the entities, if it has tasks.
    #[inline(always)]
    fn queue_fifo(&mut self) {
        if !self.fifo.is_empty() && !self.fifo_is_queued {
            self.fifo_is_queued = true;
            (self.run_queue).wake(Runnable::Fifo, &mut self.fifo_sched_state, QueueEnd::Back);
        }
    }

    /// Adds work that came from outside or was stolen. Returns it after a
    /// shutdown, and otherwise an empty batch with the memory that is left over.
    pub(in crate::pool) fn take_over(&mut self, mut batch: WorkBatch) -> WorkBatch {
        if self.is_closed {
            return batch;
        }
        self.fifo.append(&mut batch.tasks, usize::MAX);
        for token in batch.tokens.drain(..) {
            token.wake(&mut self.run_queue);
        }
        batch
    }

    /// Takes half of what waits, at most a fixed number: the oldest tasks, and
    /// the entities that would be next.
    pub(in crate::pool) fn give_half(&mut self) -> WorkBatch {
        let tasks = self.fifo.len().div_ceil(2).min(BATCH_MAX);
        let mut batch = WorkBatch {
            tasks: self.take_tasks(tasks),
            tokens: Vec::new(),
        };
        let tokens = self.entity_len().div_ceil(2).min(BATCH_MAX);
        while batch.tokens.len() < tokens {
            let Some(token) = self.pick_entity() else {
                break;
            };
            token.with_share(|share| self.run_queue.sync_epoch(&mut share.sched_state));
            batch.tokens.push(token);
        }
        batch
    }

    /// Takes everything, for a shutdown; afterwards nothing can be queued here.
    pub(in crate::pool) fn give_all(&mut self) -> WorkBatch {
        self.is_closed = true;
        let tokens = std::iter::from_fn(|| self.pick_entity()).collect();
        self.fifo_is_queued = false;
        WorkBatch {
            tasks: self.take_tasks(usize::MAX),
            tokens,
        }
    }

    fn take_tasks(&mut self, tasks_max: usize) -> TaskFifo {
        let mut taken = TaskFifo::new();
        taken.append(&mut self.fifo, tasks_max);
        taken
    }

    fn pick_entity(&mut self) -> Option<Token> {
        loop {
            match self.run_queue.pick()? {
                Runnable::Entity(token) => return Some(token),
                Runnable::Fifo => self.fifo_is_queued = false,
            }
        }
    }
}

impl WorkBatch {
    pub(in crate::pool) fn of_task(task: Task) -> Self {
        let mut batch = Self::default();
        batch.tasks.push(|| task);
        batch
    }

    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.tokens.is_empty()
    }

    /// The number of tasks and entities.
    pub(in crate::pool) fn len(&self) -> usize {
        self.tasks.len() + self.tokens.len()
    }
}

const DEFAULT_TICK: Duration = RunQueue::<Runnable>::DEFAULT_TICK;
/// The most that is stolen at once, of each kind: a thief holds the biased lock
/// while it moves them.
const BATCH_MAX: usize = 128;
