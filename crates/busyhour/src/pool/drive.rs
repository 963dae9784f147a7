//! Running tasks from a thread that is no worker: a simulation's, or one that waits.

use std::sync::Arc;

use super::{
    PushError, WaitError,
    context::current_entity,
    reply::Reply,
    shared::{Phase, Runnable, Shared},
    waits::Waiting,
};
use crate::task::Task;

impl Shared {
    /// Runs one task of a simulated pool; `false` when there is none.
    pub(crate) fn step(&self) -> bool {
        let next = if self.is_simulated() {
            self.try_next()
        } else {
            None
        };
        let stepped = next.is_some();
        if let Some(runnable) = next {
            let _beneath = self.stands_on(&runnable);
            self.run(runnable, true);
        }
        stepped
    }

    /// Whoever waits on this thread cannot end before the entity that is run on top.
    fn stands_on(&self, runnable: &Runnable) -> Option<Waiting<'_>> {
        let Runnable::Entity(entity) = runnable else {
            return None;
        };
        let entity = Arc::clone(entity);
        self.waits.begin(current_entity(), entity).ok()
    }

    /// Runs a task at once on this thread, inside a task of the pool.
    pub(super) fn run_now(&self, task: Task) -> Result<(), PushError> {
        if self.lock().phase == Phase::Sealed {
            return Err(PushError::ShutDown);
        }
        self.count_pushed();
        self.run_task(None, task);
        Ok(())
    }

    /// Waits for a reply that needs no help; a simulation runs others meanwhile.
    pub(super) fn await_reply<R>(&self, reply: &Reply<R>) -> Result<R, WaitError> {
        if !self.is_simulated() {
            return reply.wait();
        }
        loop {
            if let Some(outcome) = reply.take() {
                return outcome;
            }
            if !self.step() {
                return Err(WaitError::Stalled);
            }
        }
    }
}
