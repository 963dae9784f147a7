//! What a worker can run besides plain tasks.

use std::{any::Any, sync::Arc};

use crate::stats::SerializerStats;

/// A queue of tasks that runs one at a time. Serializers are the entities; the
/// pool knows them only by this trait, so that the dependency points one way.
pub(crate) trait Entity: Any + Send + Sync {
    /// What diagnostics call it.
    fn name(&self) -> String;
    /// Runs tasks for one quantum (or exactly one task, if `single`).
    /// Schedules itself again if there are more.
    fn run(self: Arc<Self>, single: bool);
    /// The listing's line.
    fn stats(&self) -> SerializerStats;
    /// Refuses all further tasks and drops the waiting ones; returns how many.
    fn abandon(&self) -> u64;
}

/// The concrete entity behind the trait.
pub(crate) fn downcast<E: Entity>(entity: Arc<dyn Entity>) -> Option<Arc<E>> {
    let any: Arc<dyn Any + Send + Sync> = entity;
    any.downcast().ok()
}
