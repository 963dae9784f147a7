//! A change of a key, as it is offered to subscribers.

use super::item::{Item, Queued};
use crate::bus::{
    Event,
    cache::{EventCopy, SharedEvent},
};
use std::sync::Arc;

/// A change of a key.
pub(in crate::bus) enum ShardChange<'a, E: Event> {
    Event {
        event: &'a SharedEvent<E>,
        /// For the first subscriber that wants the event.
        copy: &'a mut EventCopy<E>,
    },
    Removed(&'a Arc<E::Key>),
}

/// The kind of a [`ShardChange`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::bus) enum ChangeKind {
    Event,
    Removed,
}

impl<E: Event> ShardChange<'_, E> {
    #[inline(always)]
    pub(in crate::bus) fn kind(&self) -> ChangeKind {
        match self {
            Self::Event { .. } => ChangeKind::Event,
            Self::Removed(_) => ChangeKind::Removed,
        }
    }

    #[inline(always)]
    pub(in crate::bus) fn to_item(&self) -> Item<E> {
        match self {
            Self::Event { event, .. } => Item::Event(SharedEvent::clone(event)),
            Self::Removed(key) => Item::Removed(Arc::clone(key)),
        }
    }

    /// What one subscriber gets: the copy, if it is still there.
    #[inline(always)]
    pub(super) fn queued(&mut self) -> Queued<E> {
        let copy = match self {
            Self::Event { copy, .. } => copy.take(),
            Self::Removed(_) => None,
        };
        match copy {
            Some(event) => Queued::Copied(event),
            None => Queued::Shared(self.to_item()),
        }
    }
}
