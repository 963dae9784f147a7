//! What a worker can run besides plain tasks.

use std::{
    any::Any,
    cell::{Cell, UnsafeCell},
    marker::PhantomData,
    sync::Arc,
    time::Duration,
};

use super::{local::Runnable, turn::Turn};
use crate::{
    run_queue::{Place, RunQueue, Standing},
    stats::SerializerStats,
};

/// A queue of tasks that runs one at a time. Serializers are the entities; the
/// pool knows them only by this trait, so that the dependency points one way.
pub(crate) trait Entity: Any + Send + Sync {
    /// What diagnostics call it.
    fn name(&self) -> String;
    /// What only the holder of its token may touch.
    fn share(&self) -> &ShareCell;
    /// Runs tasks as long as `turn` allows. `true` if there are more to run;
    /// else the turn was charged and the token is spent.
    fn run(&self, token: &Token, turn: &mut Turn<'_, '_>) -> bool;
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

/// The right to run an entity in turn, and its place in the run queues. There
/// is one at a time for each entity; see README.md, "The token".
pub(crate) struct Token {
    entity: Arc<dyn Entity>,
    /// Not `Sync`: who has a reference to it is alone with the entity's share.
    _not_sync: PhantomData<Cell<()>>,
}

impl Token {
    /// # Safety
    ///
    /// - No other token of `entity` exists, but one that is spent.
    pub(crate) unsafe fn new(entity: Arc<dyn Entity>) -> Self {
        Self {
            entity,
            _not_sync: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn entity(&self) -> &Arc<dyn Entity> {
        &self.entity
    }

    /// Queues the entity for its next turn.
    #[inline(always)]
    pub(super) fn wake(self, queue: &mut RunQueue<Runnable>) {
        let share = self.entity.share().0.get();
        // SAFETY: the token, and with it the entity, goes into the queue, which
        // outlives the borrow and does not look into the token.
        let standing = unsafe { &mut (*share).standing };
        queue.wake(Runnable::Entity(self), standing, Place::Back);
    }

    /// Charges the entity and queues it again.
    #[inline(always)]
    pub(super) fn put_back(self, queue: &mut RunQueue<Runnable>, ran: Duration) {
        let share = self.entity.share().0.get();
        // SAFETY: as in `wake`.
        let standing = unsafe { &mut (*share).standing };
        queue.put_back(Runnable::Entity(self), standing, ran);
    }

    /// The entity's share of the workers, for `work`, which asks no token for it again.
    #[inline(always)]
    pub(super) fn with_share<R>(&self, work: impl FnOnce(&mut Share) -> R) -> R {
        // SAFETY: there is one token, on this thread, and `work` does not come here.
        work(unsafe { &mut *self.entity.share().0.get() })
    }
}

/// An entity's share of the workers.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pub(crate) standing: Standing,
    /// Log2 of the tasks it may run in a turn.
    pub(super) allowance_log2: u8,
}

/// Holds a [`Share`] inside the entity, for the holder of the token.
#[derive(Debug, Default)]
pub(crate) struct ShareCell(UnsafeCell<Share>);

// SAFETY: only the holder of the entity's token, of which there is one, reaches the share.
unsafe impl Sync for ShareCell {}

impl ShareCell {
    pub(crate) fn new(standing: Standing) -> Self {
        let allowance_log2 = 0;
        Self(UnsafeCell::new(Share {
            standing,
            allowance_log2,
        }))
    }
}
