//! Running tasks from a thread that is no worker: a simulation's, or one that waits.

use std::sync::Arc;

use super::{
    PushError, WaitError,
    berth::Berth,
    context::{self, within},
    phase::Phase,
    reply::Reply,
    shared::Shared,
    simulated::Step,
    turn::Turn,
    waits::{Waiting, wait_for_ref},
};
use crate::task::Task;

impl Shared {
    /// Runs one task of a simulated pool; `false` when there is none.
    pub(crate) fn step(self: &Arc<Self>) -> bool {
        let step = self
            .simulated
            .as_ref()
            .and_then(|simulated| simulated.take());
        match step {
            Some(Step::Task(task)) => {
                self.count_started();
                self.run_here(task);
            }
            Some(Step::Entity(token)) => {
                // Whoever waits on this thread cannot end before the entity that is run on top.
                let _beneath: Option<Waiting> = wait_for_ref(token.entity_ref()).ok();
                if let Some(token) = token.run(&mut Turn::single(self)) {
                    self.schedule(token);
                }
            }
            None => return false,
        }
        true
    }

    /// Runs one task of a simulated pool, or lets time pass if there is none.
    pub(crate) fn step_or_pass_time(self: &Arc<Self>) -> bool {
        let passed = || {
            self.simulated
                .as_ref()
                .is_some_and(|simulated| simulated.call_idle_hook())
        };
        self.step() || passed()
    }

    /// Runs a task at once on this thread, inside a task of the pool, as a part
    /// of it: what this one waits for, the entity of that task waits for.
    pub(super) fn run_now(&self, task: Task) -> Result<(), PushError> {
        if self.phase.get() == Phase::Sealed {
            return Err(PushError::ShutDown);
        }
        self.stop_keeping();
        self.tallier().add(|tally| &tally.inlined, 1);
        let mut berth = Berth::EMPTY;
        berth.put(|| task);
        context::as_part_of_the_task(self, || self.run_task(&mut berth));
        Ok(())
    }

    fn run_here(&self, task: Task) {
        let mut berth = Berth::EMPTY;
        berth.put(|| task);
        within(self, None, || self.run_task(&mut berth));
    }

    /// Waits for a reply that needs no help; a simulation runs others meanwhile.
    pub(super) fn await_reply<R>(self: &Arc<Self>, reply: &Reply<R>) -> Result<R, WaitError> {
        if !self.is_simulated() {
            return reply.wait();
        }
        loop {
            if let Some(outcome) = reply.take() {
                return outcome;
            }
            if !self.step_or_pass_time() {
                return Err(WaitError::Stalled);
            }
        }
    }
}
