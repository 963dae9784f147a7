//! Drops what a pool holds when it is sealed, and closes its queues.

use std::sync::Arc;

use crate::pool::{entity::Entity, queue::WorkBatch, shared::Shared, simulation::SimulatedStep};

/// A serializer whose tasks a shutdown dropped.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool};
/// use std::time::Duration;
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// let calls = pool.serializer("calls").build().unwrap();
/// calls.push(|| ()).unwrap();
/// let report = pool.shutdown(Duration::ZERO);
/// assert_eq!((&*report.left[0].serializer, report.left[0].not_run), ("calls", 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The serializer's name.
    pub serializer: String,
    /// Tasks dropped.
    pub not_run: u64,
}

/// Closes every place to push to, and drops what waits there; returns what the
/// named serializers lost.
pub(super) fn drop_leftovers(shared: &Shared) -> Vec<Leftover> {
    let living = shared.registry.living();
    let left = living.iter().filter_map(Leftover::of).collect();
    for entity in shared.registry.suspended() {
        entity.abandon();
    }
    drop_queued(shared);
    drop_simulated(shared);
    left
}

fn drop_queued(shared: &Shared) {
    let thread_context = shared.thread_context();
    for worker in shared.workers.iter() {
        thread_context.abandon(worker.as_remote(|local| local.give_all()));
        worker.inject_queue.seal();
        while worker.inject_queue.len() > 0 {
            thread_context.abandon(worker.inject_queue.take());
        }
    }
}

fn drop_simulated(shared: &Shared) {
    let take = || {
        shared
            .simulated
            .as_ref()
            .and_then(|simulated| simulated.take())
    };
    while let Some(step) = take() {
        match step {
            SimulatedStep::Task(task) => {
                shared.thread_context().abandon(WorkBatch::of_task(task));
            }
            SimulatedStep::Entity(token) => token.abandon(),
        }
    }
}

impl Leftover {
    fn of(entity: &Arc<dyn Entity>) -> Option<Self> {
        let not_run = entity.abandon();
        (not_run > 0).then(|| Self {
            serializer: entity.name(),
            not_run,
        })
    }
}
