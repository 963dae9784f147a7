use super::{Delivery, Event};
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::{marker::PhantomData, sync::Arc};

/// A callback that several lanes call at the same time.
pub(super) struct InLanes<E, F> {
    callback: F,
    /// Lanes that have not replayed yet.
    replaying_count: AtomicUsize,
    event: PhantomData<fn(&E)>,
}

/// One lane's way to the callback.
pub(super) struct InLane<E, F> {
    lanes: Arc<InLanes<E, F>>,
    has_replayed: bool,
}

impl<E: Event, F: Fn(Delivery<'_, E>)> InLanes<E, F> {
    pub(super) fn new(lane_count: usize, callback: F) -> Self {
        Self {
            callback,
            replaying_count: AtomicUsize::new(lane_count),
            event: PhantomData,
        }
    }
}

impl<E: Event, F: Fn(Delivery<'_, E>)> InLane<E, F> {
    pub(super) fn new(lanes: Arc<InLanes<E, F>>) -> Self {
        let has_replayed = false;
        Self {
            lanes,
            has_replayed,
        }
    }

    pub(super) fn hear(&mut self, delivery: Delivery<'_, E>) {
        if !matches!(delivery, Delivery::Replayed) || self.is_news() {
            (self.lanes.callback)(delivery);
        }
    }

    /// The first replay is told by the lane that finishes it last. Its own
    /// deliveries and, by the counter, those of the other lanes come before.
    fn is_news(&mut self) -> bool {
        if self.has_replayed {
            return true;
        }
        self.has_replayed = true;
        self.lanes.replaying_count.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
