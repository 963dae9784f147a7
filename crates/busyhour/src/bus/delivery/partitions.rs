use crate::{
    bus::{Delivery, Event},
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{marker::PhantomData, sync::Arc};

/// A callback that several partitions call at the same time.
pub(in crate::bus) struct ParallelCallback<E, F> {
    callback: F,
    /// Partitions that have not replayed yet.
    replaying_count: AtomicUsize,
    event: PhantomData<fn(&E)>,
}

/// One partition's handle of the callback.
pub(in crate::bus) struct PartitionCallback<E, F> {
    partitions: Arc<ParallelCallback<E, F>>,
    has_replayed: bool,
}

impl<E: Event, F: Fn(Delivery<'_, E>)> ParallelCallback<E, F> {
    pub(in crate::bus) fn new(partition_count: usize, callback: F) -> Self {
        Self {
            callback,
            replaying_count: AtomicUsize::new(partition_count),
            event: PhantomData,
        }
    }
}

impl<E: Event, F: Fn(Delivery<'_, E>)> PartitionCallback<E, F> {
    pub(in crate::bus) fn new(partitions: Arc<ParallelCallback<E, F>>) -> Self {
        let has_replayed = false;
        Self {
            partitions,
            has_replayed,
        }
    }

    pub(in crate::bus) fn hear(&mut self, delivery: Delivery<'_, E>) {
        if !matches!(delivery, Delivery::Replayed) || self.is_news() {
            (self.partitions.callback)(delivery);
        }
    }

    /// The partition that finishes its replay last announces the first replay.
    /// By the counter, its own deliveries and those of the other partitions
    /// come before.
    fn is_news(&mut self) -> bool {
        if self.has_replayed {
            return true;
        }
        self.has_replayed = true;
        self.partitions
            .replaying_count
            .fetch_sub(1, Ordering::AcqRel)
            == 1
    }
}
