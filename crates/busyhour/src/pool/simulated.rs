//! The queue of a pool without threads: who runs next is the seed's choice.

use super::{entity::Token, random::Random};
use crate::{
    sync::{Mutex, lock},
    task::Task,
};

/// Something a step can run.
pub(super) enum Step {
    Task(Task),
    Entity(Token),
}

pub(super) struct Simulated(Mutex<Queue>);

struct Queue {
    waiting: Vec<Step>,
    random: Random,
    high_water: usize,
}

impl Simulated {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(Queue {
            waiting: Vec::new(),
            random: Random::new(seed),
            high_water: 0,
        }))
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.0).waiting.len()
    }

    pub(super) fn high_water(&self) -> usize {
        lock(&self.0).high_water
    }

    pub(super) fn push(&self, step: Step) {
        let mut queue = lock(&self.0);
        queue.waiting.push(step);
        queue.high_water = queue.high_water.max(queue.waiting.len());
    }

    pub(super) fn take(&self) -> Option<Step> {
        let mut queue = lock(&self.0);
        let len = queue.waiting.len();
        (len > 0).then(|| {
            let index = queue.random.below(len);
            queue.waiting.swap_remove(index)
        })
    }
}
