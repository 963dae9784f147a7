//! The state that handles, workers and serializers of one pool share.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use super::{
    builder::{TaskPoolBuilder, WorkerCounts},
    context::{self, within},
    entity::EntityRef,
    future::{AwaitedFutures, PollContext},
    lifecycle::{DescribedParts, EntityRegistry, Lifecycle, Subscriptions},
    simulation::Simulated,
    watermarks::PoolWatermarks,
    worker::{CurrentWorker, ThreadFactory, WorkerSet},
};
use crate::{
    clock::Clock,
    stats::{KeyTableStats, SerializerGroupStats},
    sync::fences,
};

/// One pool, as the parts that it consists of; each has the methods for its own
/// state. Workers and serializers hold references to the pool; the last handle
/// closes it.
pub(crate) struct Shared {
    /// The `Arc` that it lives in.
    this: Weak<Self>,
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(super) workers: WorkerSet,
    pub(super) thread_factory: ThreadFactory,
    /// Used instead of workers in a simulation.
    pub(super) simulated: Option<Simulated>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) registry: EntityRegistry,
    pub(crate) key_tables: DescribedParts<KeyTableStats>,
    pub(crate) groups: DescribedParts<SerializerGroupStats>,
    /// Those of the pool's own queue, if it has any.
    pub(super) marks: Option<PoolWatermarks>,
    pub(crate) subscriptions: Subscriptions,
    pub(super) awaited_futures: AwaitedFutures,
    pub(super) poll_context: Option<PollContext>,
}

impl Shared {
    pub(super) fn new(
        builder: TaskPoolBuilder,
        counts: WorkerCounts,
        seed: Option<u64>,
    ) -> Arc<Self> {
        fences::prepare();
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            marks: PoolWatermarks::new(&builder, QUEUES_PER_SLOT * counts.places()),
            workers: WorkerSet::new(&builder, counts),
            name: builder.name,
            clock: builder.clock,
            thread_factory: ThreadFactory {
                on_thread_start: builder.on_thread_start,
                on_thread_stop: builder.on_thread_stop,
                processors: builder.processors,
            },
            simulated: seed.map(Simulated::new),
            lifecycle: Lifecycle::open(),
            registry: EntityRegistry::default(),
            key_tables: DescribedParts::default(),
            groups: DescribedParts::default(),
            subscriptions: Subscriptions::default(),
            awaited_futures: AwaitedFutures::default(),
            poll_context: builder.poll_context,
        })
    }

    /// The `Arc` in which it is stored, until it is dropped.
    pub(super) fn to_arc(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    #[inline(always)]
    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Whether this thread runs a task of this pool, or collects for it.
    #[inline(always)]
    pub(crate) fn is_inside(&self) -> bool {
        context::is_inside(self)
    }

    /// Whether the caller may add tasks now.
    #[inline(always)]
    pub(crate) fn admits(&self) -> bool {
        self.lifecycle.is_open() || self.admits_insiders()
    }

    #[cold]
    fn admits_insiders(&self) -> bool {
        !self.is_sealed() && self.is_inside()
    }

    /// Whether no task may start any more.
    #[inline(always)]
    pub(crate) fn is_sealed(&self) -> bool {
        self.lifecycle.is_sealed()
    }

    /// Runs foreign code; returns whether it panicked, which is counted.
    #[inline(always)]
    pub(crate) fn isolate(&self, foreign: impl FnOnce()) -> bool {
        debug_assert!(self.is_outside_of_biased_locks());
        let outcome = catch_unwind(AssertUnwindSafe(foreign));
        let panicked = outcome.is_err();
        if let Err(payload) = outcome {
            self.thread_context().count_panic(payload);
        }
        panicked
    }

    /// Whether this thread may run foreign code.
    pub(super) fn is_outside_of_biased_locks(&self) -> bool {
        CurrentWorker::of(self).is_none_or(|current| current.is_outside())
    }

    /// Runs `f`, which runs tasks of `entity`.
    #[inline(always)]
    pub(crate) fn as_entity<R>(&self, entity: EntityRef<'_>, f: impl FnOnce() -> R) -> R {
        within(self, Some(entity), f)
    }
}

impl Drop for Shared {
    /// Drops what the host gave where its panics do no harm.
    fn drop(&mut self) {
        let hooks = self.thread_factory.take_hooks();
        let alert_hooks = self.marks.as_mut().map(PoolWatermarks::take_hooks);
        let simulated = self.simulated.take();
        let poll_context = self.poll_context.take();
        hooks.into_iter().for_each(|hook| {
            self.isolate(|| drop(hook));
        });
        for hook in alert_hooks.into_iter().flatten() {
            self.isolate(|| drop(hook));
        }
        self.isolate(|| drop(simulated));
        self.isolate(|| drop(poll_context));
    }
}

/// The FIFO, the run queue and the inject queue.
const QUEUES_PER_SLOT: usize = 3;
