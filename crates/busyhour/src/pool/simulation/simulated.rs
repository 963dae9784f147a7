//! The queue of a pool without threads: the seed decides which task runs next.

use std::sync::OnceLock;

use super::random::Random;
use crate::{
    pool::entity::Token,
    sync::{Mutex, lock},
    task::Task,
};

/// What one step can run.
pub(in crate::pool) enum SimulatedStep {
    Task(Task),
    Entity(Token),
}

pub(in crate::pool) struct Simulated {
    queue: Mutex<SimulatedQueue>,
    /// Called when a task waits and nothing can run: lets time pass.
    idle_hook: OnceLock<IdleHook>,
}

/// Returns whether it brought work.
pub(in crate::pool) type IdleHook = Box<dyn Fn() -> bool + Send + Sync>;

struct SimulatedQueue {
    waiting: Vec<SimulatedStep>,
    random: Random,
    high_water: usize,
}

impl Simulated {
    pub(in crate::pool) fn new(seed: u64) -> Self {
        Self {
            queue: Mutex::new(SimulatedQueue {
                waiting: Vec::new(),
                random: Random::new(seed),
                high_water: 0,
            }),
            idle_hook: OnceLock::new(),
        }
    }

    pub(in crate::pool) fn set_idle_hook(&self, hook: IdleHook) {
        let _only_the_first_counts = self.idle_hook.set(hook);
    }

    pub(super) fn call_idle_hook(&self) -> bool {
        self.idle_hook.get().is_some_and(|hook| hook())
    }

    pub(in crate::pool) fn len(&self) -> usize {
        lock(&self.queue).waiting.len()
    }

    pub(in crate::pool) fn high_water(&self) -> usize {
        lock(&self.queue).high_water
    }

    pub(in crate::pool) fn push(&self, step: SimulatedStep) {
        let mut queue = lock(&self.queue);
        queue.waiting.push(step);
        queue.high_water = queue.high_water.max(queue.waiting.len());
    }

    pub(in crate::pool) fn take(&self) -> Option<SimulatedStep> {
        let mut queue = lock(&self.queue);
        let len = queue.waiting.len();
        (len > 0).then(|| {
            let index = queue.random.below(len);
            queue.waiting.swap_remove(index)
        })
    }
}
