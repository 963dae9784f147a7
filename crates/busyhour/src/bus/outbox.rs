use super::{Event, Origin, hub::Hub, item::Item, panics::Panics, tally::Tally};
use std::{collections::VecDeque, mem, sync::Arc};

/// What happened in a shard and is still to happen on the topics it is
/// forwarded to; behind the shard's lock.
///
/// One thread at a time takes it from here, with no lock held, so that the
/// events of a key arrive there in the order in which they happened here.
pub(super) struct Outbox<E: Event> {
    parcels: VecDeque<Parcel<E>>,
    /// A thread is handing them over.
    is_served: bool,
}

/// One change for one topic.
pub(super) struct Parcel<E: Event> {
    pub(super) to: Arc<Hub<E>>,
    pub(super) item: Item<E>,
    pub(super) speaker: Origin,
}

impl<E: Event> Outbox<E> {
    pub(super) fn new() -> Self {
        Self {
            parcels: VecDeque::new(),
            is_served: false,
        }
    }

    pub(super) fn push(&mut self, parcel: Parcel<E>) {
        self.parcels.push_back(parcel);
    }

    /// Whether publishers should wait a little for the thread that serves it.
    pub(super) fn is_long(&self) -> bool {
        self.is_served && self.parcels.len() > LONG
    }

    /// Hands out everything to who serves the outbox, or who will do so from
    /// now on; `None` to somebody else, or when there is nothing left.
    pub(super) fn take(&mut self, serves: &mut bool) -> Option<VecDeque<Parcel<E>>> {
        if self.is_served && !*serves {
            return None;
        }
        *serves = !self.parcels.is_empty();
        self.is_served = *serves;
        self.is_served.then(|| mem::take(&mut self.parcels))
    }
}

impl<E: Event> Parcel<E> {
    /// Makes it happen on the other topic. No lock may be held. A panic does
    /// not keep what comes after it from arriving.
    pub(super) fn hand_over(self, tally: &mut Tally<E>, panics: &mut Panics) {
        panics.catch(|| match &self.item {
            Item::Event(event) => self.to.publish_forwarded(event, self.speaker, tally),
            Item::Cleared(key) => self.to.clear_forwarded(key, self.speaker, tally),
            Item::Replayed | Item::Lost(_) => {}
        });
        panics.drop(self);
    }
}

/// So many parcels may wait before publishers are slowed down.
const LONG: usize = 1024;
