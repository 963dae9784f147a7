use super::shared::{Given, SharedEvent};
use crate::bus::{Event, panics::Held};
use std::mem;

/// An event on its way into a topic, until something replaced lies in its place.
pub(in crate::bus) struct Incoming<E> {
    pub(in crate::bus) given: Held<Given<E>>,
    pub(in crate::bus) copy: EventCopy<E>,
}

/// A copy of an event for the first subscriber that wants it; none where there
/// is nothing to win.
///
/// Two cores that share an event both write its count of references, so each
/// waits for the other's cache line. A small copy lies in the queue, where its
/// subscriber has to read anyway. It is made before a lock is taken, since
/// `clone` is the user's code, and runs nothing when it is dropped, so that a
/// queue can drop it under a lock.
pub(in crate::bus) struct EventCopy<E>(Option<E>);

impl<E: Event> Incoming<E> {
    /// An event that subscribers may hear. Runs the user's code if they do: no
    /// lock may be held.
    #[inline(always)]
    pub(in crate::bus) fn new(event: E, is_heard: impl FnOnce() -> bool) -> Self {
        let copy = EventCopy::of(&event, is_heard);
        let given = Held::new(Given::Plain(event));
        Self { given, copy }
    }

    /// Drops what a publish left in the place of an event, which was replaced
    /// before. No lock may be held.
    #[inline(always)]
    pub(in crate::bus) fn drop_overdue(&mut self) {
        mem::replace(&mut self.given, Held::EMPTY).drop_overdue();
    }

    /// An event that is shared with whom it is for.
    pub(in crate::bus) fn shared(event: SharedEvent<E>) -> Self {
        let given = Held::new(Given::SharedEvent(event));
        let copy = EventCopy::NONE;
        Self { given, copy }
    }
}

impl<E> EventCopy<E> {
    pub(in crate::bus) const NONE: Self = Self(None);

    /// Whether a copy costs less than a reference that two cores write.
    const IS_WORTH_IT: bool = !mem::needs_drop::<E>() && size_of::<E>() <= 64;

    #[inline(always)]
    pub(in crate::bus) fn take(&mut self) -> Option<E> {
        self.0.take()
    }
}

impl<E: Event> EventCopy<E> {
    #[inline(always)]
    fn of(event: &E, is_heard: impl FnOnce() -> bool) -> Self {
        Self((Self::IS_WORTH_IT && is_heard()).then(|| event.clone()))
    }
}
