//! Waiting for a serializer without occupying a worker.
//!
//! A thread that waits inside a task of the same pool would occupy a worker
//! just when one is needed. So it *helps*: it runs the awaited serializer's own
//! tasks until the awaited one is done, and sleeps only while another thread
//! runs them. Except in a simulation it never runs other tasks, so its stack
//! holds no task that the awaited one could depend on.

use std::{sync::Arc, time::Duration};

use super::core::Core;
use crate::{
    clock::Instant,
    pool::{
        Cycle, Entity, PushError, Shared, StandIn, WaitError, Waiting, blocking, current_entity,
        cycle_by_shutdown, oneshot, outlast_shutdown, stand_in, wait_for,
    },
    task::{HelpOutcome, Reason, Rejected, Task},
};

/// The wait would not help.
pub(super) struct CannotHelp(WaitError);

/// A worker that runs another serializer's tasks while its own wait. If this
/// takes long it gets a stand-in.
#[derive(Default)]
pub(super) struct Helping {
    since: Option<Instant>,
    stand_in: Option<StandIn>,
}

impl Helping {
    /// Reads the clock before the next task is run.
    pub(super) fn go_on(&mut self, pool: &Shared) {
        if self.stand_in.is_none() {
            let now = pool.clock.now();
            let since = *self.since.get_or_insert(now);
            if now - since > HELPING_MAX {
                self.stand_in = stand_in();
            }
        }
    }
}

/// How long the worker's own queues wait at most while it helps.
const HELPING_MAX: Duration = Duration::from_millis(1);

impl Core {
    pub(super) fn push_wait<R, F>(self: &Arc<Self>, f: F) -> Result<R, WaitError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let _waiting = self.wait_for().map_err(WaitError::Deadlock)?;
        let (sender, receiver) = oneshot(f);
        let task = Task::new(move || sender.fulfil());
        self.push_or_wait(task, None).map_err(PushError::from)?;
        if !self.may_help() {
            return receiver.wait();
        }
        match self.help_until(|| receiver.is_filled()) {
            Err(hopeless) if receiver.withdraw() => Err(hopeless.0),
            // The task has begun, and what it refers to may be the caller's.
            Err(_) => outlast_shutdown(|| receiver.wait()),
            Ok(()) => receiver.wait(),
        }
    }

    /// Pushes when there is room. With a reference of its own, since a task
    /// that runs here meanwhile may free the caller's, if that is a C program.
    pub(super) fn push_with_room(
        self: Arc<Self>,
        task: Task,
        key: Option<u64>,
    ) -> Result<(), Rejected> {
        let mut task = task;
        loop {
            if self.await_room().is_err() {
                return Err(self.refuse(task, Reason::Full));
            }
            match self.try_push(task, key) {
                Err(rejected) if self.waits_for_room(&rejected) => task = rejected.task,
                outcome => return outcome,
            }
        }
    }

    /// Waits until there is room.
    fn await_room(self: &Arc<Self>) -> Result<(), CannotHelp> {
        let _waiting = (self.wait_for()).map_err(|cycle| CannotHelp(WaitError::Deadlock(cycle)))?;
        self.help_until(|| self.has_room())
    }

    /// Runs one of its tasks for a thread that waits for them.
    pub(super) fn assist(self: &Arc<Self>) -> HelpOutcome {
        let Ok(_waiting) = self.wait_for() else {
            return HelpOutcome::WouldDeadlock;
        };
        if self.runs_nothing_more() {
            return HelpOutcome::WouldDeadlock;
        }
        let helped = self.may_help() && self.run_one();
        if helped || self.pool().step() {
            HelpOutcome::Helped
        } else if self.pool().is_simulated() {
            HelpOutcome::WouldDeadlock
        } else {
            HelpOutcome::Wait
        }
    }

    /// Runs `wait`, in which a thread sleeps until something changes at this
    /// serializer. Returns at once if the wait would never end; `assist` then
    /// says so.
    pub(super) fn sleep_for(self: &Arc<Self>, wait: &mut dyn FnMut()) {
        if let Ok(_waiting) = self.wait_for() {
            blocking(wait);
        }
    }

    fn wait_for(self: &Arc<Self>) -> Result<Waiting, Cycle> {
        wait_for(&self.as_entity())
    }

    fn cycle_by_shutdown(self: &Arc<Self>) -> Option<Cycle> {
        cycle_by_shutdown(&self.as_entity())
    }

    fn may_help(&self) -> bool {
        self.pool().is_inside() || self.pool().is_simulated()
    }

    fn help_until(self: &Arc<Self>, done: impl Fn() -> bool) -> Result<(), CannotHelp> {
        let helps = self.may_help();
        let mut helping = Helping::default();
        while !done() {
            if helps && self.run_one() {
                if done() {
                    break;
                }
                helping.go_on(self.pool());
                continue;
            }
            if !self.pool().is_simulated() {
                self.await_change(helps, || done() || self.cycle_by_shutdown().is_some());
                if let Some(cycle) = self.cycle_by_shutdown().filter(|_| !done()) {
                    return Err(CannotHelp(WaitError::Deadlock(cycle)));
                }
            } else if !self.pool().step_or_pass_time() {
                return Err(CannotHelp(WaitError::Stalled));
            }
        }
        Ok(())
    }
}

/// Whether this thread runs a task of `entity`.
pub(super) fn is_task_of(entity: Arc<dyn Entity>) -> bool {
    current_entity().is_some_and(|current| Arc::ptr_eq(&current, &entity))
}
