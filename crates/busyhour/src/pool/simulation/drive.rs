//! Runs tasks on a thread that is no worker: a simulation's thread, or one that
//! waits.

use std::sync::Arc;

use super::simulated::SimulatedStep;
use crate::{
    pool::{
        PushError, WaitError,
        context::{self, simulating, within},
        queue::TaskCell,
        shared::Shared,
        wait::{OneshotReceiver, Waiting, wait_for_ref},
        worker::TimeSlice,
    },
    task::Task,
};

impl Shared {
    /// Runs one task of a simulated pool; `false` when there is none.
    pub(crate) fn step(self: &Arc<Self>) -> bool {
        let step = self
            .simulated
            .as_ref()
            .and_then(|simulated| simulated.take());
        match step {
            Some(SimulatedStep::Task(task)) => {
                self.thread_context().count_started();
                self.run_here(task);
            }
            Some(SimulatedStep::Entity(token)) => {
                // What waits further down on this thread's stack cannot end
                // before the entity that runs on top of it.
                let _beneath: Option<Waiting> = wait_for_ref(token.entity_ref()).ok();
                let token = simulating(self, || token.run(&mut TimeSlice::single()));
                if let Some(token) = token {
                    self.thread_context().schedule(token);
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

    /// Runs a task at once on this thread, inside a task of the pool and as a
    /// part of it: if this task waits for something, the entity of that task
    /// waits for it.
    pub(in crate::pool) fn run_now(&self, task: Task) -> Result<(), PushError> {
        if self.is_sealed() {
            return Err(PushError::ShutDown);
        }
        self.thread_context().expose_collected();
        self.thread_context()
            .metrics()
            .add(|metrics| &metrics.inlined, 1);
        let mut task_cell = TaskCell::empty();
        task_cell.put(|| task);
        context::as_part_of_the_task(self, || self.thread_context().run_task(&mut task_cell));
        Ok(())
    }

    fn run_here(&self, task: Task) {
        let mut task_cell = TaskCell::empty();
        task_cell.put(|| task);
        within(self, None, || {
            self.thread_context().run_task(&mut task_cell)
        });
    }

    /// Waits for a result that arrives without help; a simulation runs other
    /// tasks meanwhile.
    pub(in crate::pool) fn await_oneshot<F, R>(
        self: &Arc<Self>,
        receiver: OneshotReceiver<F, R>,
    ) -> Result<R, WaitError> {
        if !self.is_simulated() {
            return receiver.wait();
        }
        loop {
            if let Some(outcome) = receiver.take() {
                return outcome;
            }
            if !self.step_or_pass_time() {
                return match receiver.withdraw() {
                    true => Err(WaitError::Stalled),
                    false => receiver.wait(),
                };
            }
        }
    }
}
