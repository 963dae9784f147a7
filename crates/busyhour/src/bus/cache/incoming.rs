use super::shared::{Given, SharedEvent};
use crate::bus::{
    Event,
    packing::{PackedEvent, Packing},
    panics::Held,
};
use std::mem;

/// An event on its way into a topic. After the publish, a replaced event that
/// is to be dropped takes its place.
pub(in crate::bus) struct Incoming<E> {
    pub(in crate::bus) given: Held<Given<E>>,
    pub(in crate::bus) copy: EventCopy<E>,
}

/// What is made of an event before a lock is taken, since user code makes it.
///
/// Two cores that share an event both write its reference count, so each waits
/// for the other's cache line. A small copy is in the queue, which its
/// subscriber reads anyway. The copy is made before a lock is taken, since
/// `clone` is user code. Its drop runs no code, so a queue can drop it under a
/// lock.
pub(in crate::bus) struct EventCopy<E> {
    /// A copy for the first subscriber that wants it; `None` if a copy would not be cheaper.
    pub(super) event: Option<E>,
    /// The words for the table, if there is one and events of this type are packed.
    pub(super) packed: Option<PackedEvent>,
}

impl<E: Event> Incoming<E> {
    /// An event that may have subscribers. Runs user code if it has: no lock
    /// may be held.
    #[inline(always)]
    pub(in crate::bus) fn new(event: E, is_cached: bool, is_heard: impl FnOnce() -> bool) -> Self {
        let copy = EventCopy::of(&event, is_cached, is_heard);
        let given = Held::new(Given::Plain(event));
        Self { given, copy }
    }

    /// Drops a replaced event that a publish left in the place of this event.
    /// No lock may be held.
    #[inline(always)]
    pub(in crate::bus) fn drop_overdue(&mut self) {
        mem::replace(&mut self.given, Held::EMPTY).drop_overdue();
    }

    /// An event that is already shared.
    pub(in crate::bus) fn shared(event: SharedEvent<E>) -> Self {
        let given = Held::new(Given::SharedEvent(event));
        let copy = EventCopy::NONE;
        Self { given, copy }
    }
}

impl<E> EventCopy<E> {
    pub(in crate::bus) const NONE: Self = Self {
        event: None,
        packed: None,
    };

    /// Whether a copy costs less than a reference count that two cores write.
    pub(in crate::bus) const IS_WORTH_IT: bool = !mem::needs_drop::<E>() && size_of::<E>() <= 64;

    #[inline(always)]
    pub(in crate::bus) fn take(&mut self) -> Option<E> {
        self.event.take()
    }

    #[inline(always)]
    pub(in crate::bus) fn packed(&self) -> Option<PackedEvent> {
        self.packed
    }
}

impl<E: Event> EventCopy<E> {
    #[inline(always)]
    fn of(event: &E, is_cached: bool, is_heard: impl FnOnce() -> bool) -> Self {
        let packing = Packing::of().filter(|_| is_cached);
        let packed = packing.map(|packing| packing.pack(event));
        let event = (Self::IS_WORTH_IT && is_heard()).then(|| event.clone());
        Self { event, packed }
    }
}
