use crate::bus::{
    Delivery, Event, Message,
    cache::{EventCopy, SharedEvent, UnreadChange},
    nodes::NodeId,
};
use std::sync::Arc;

/// What waits in a mailbox: a [`Message`] without its origin, which
/// [`Items`](super::items::Items) store separately, and with pointers instead
/// of values that only user code can copy.
pub(in crate::bus) enum Item<E: Event> {
    Event(SharedEvent<E>),
    Removed(Arc<E::Key>),
    Replayed,
    Lost(u64),
}

impl<E: Event> Item<E> {
    /// The key of the item.
    pub(in crate::bus) fn key(&self) -> Option<&E::Key> {
        match self {
            Self::Event(event) => Some(event.key()),
            Self::Removed(key) => Some(key),
            Self::Replayed | Self::Lost(_) => None,
        }
    }

    /// The delivery that a callback gets.
    #[inline(always)]
    pub(in crate::bus) fn as_delivery(&self, origin: NodeId) -> Delivery<'_, E> {
        match self {
            Self::Event(event) => Delivery::Event(event, origin),
            Self::Removed(key) => Delivery::Removed(&**key, origin),
            Self::Replayed => Delivery::Replayed,
            Self::Lost(count) => Delivery::Lost(*count),
        }
    }

    /// The message with its origin, as an owned value. No lock may be held.
    pub(super) fn into_message(self, origin: NodeId) -> Message<E> {
        match self {
            Self::Event(event) => Message::Event(event.unwrap_or_clone(), origin),
            Self::Removed(key) => Message::Removed(Arc::unwrap_or_clone(key), origin),
            Self::Replayed => Message::Replayed,
            Self::Lost(count) => Message::Lost(count),
        }
    }
}

/// An entry of one subscriber's queue.
pub(in crate::bus) enum Queued<E: Event> {
    Shared(Item<E>),
    /// An event that only this subscriber has; see
    /// [`EventCopy`](crate::bus::cache::EventCopy).
    Copied(E),
}

impl<E: Event> Queued<E> {
    /// What a reader of the cache receives of a change. Runs user code: no lock may be held.
    #[inline(always)]
    pub(in crate::bus) fn read(change: &UnreadChange<'_, E>) -> Self {
        if change.is_removed() {
            let key = change.event.event().key().clone();
            return Self::Shared(Item::Removed(Arc::new(key)));
        }
        match EventCopy::<E>::IS_WORTH_IT {
            true => Self::Copied(change.event.event().clone()),
            false => Self::Shared(Item::Event(change.event.share())),
        }
    }

    /// The delivery that a callback gets.
    #[inline(always)]
    pub(in crate::bus) fn as_delivery(&self, origin: NodeId) -> Delivery<'_, E> {
        match self {
            Self::Shared(item) => item.as_delivery(origin),
            Self::Copied(event) => Delivery::Event(event, origin),
        }
    }

    /// The message with its origin, as an owned value. No lock may be held.
    #[inline(always)]
    pub(super) fn into_message(self, origin: NodeId) -> Message<E> {
        match self {
            Self::Shared(item) => item.into_message(origin),
            Self::Copied(event) => Message::Event(event, origin),
        }
    }

    /// The part of it that needs a drop; `None` for a copy.
    pub(super) fn into_item(self) -> Option<Item<E>> {
        match self {
            Self::Shared(item) => Some(item),
            Self::Copied(_) => None,
        }
    }
}

impl<E: Event> Clone for Item<E> {
    /// Runs no user code.
    fn clone(&self) -> Self {
        match self {
            Self::Event(event) => Self::Event(event.clone()),
            Self::Removed(key) => Self::Removed(Arc::clone(key)),
            Self::Replayed => Self::Replayed,
            Self::Lost(count) => Self::Lost(*count),
        }
    }
}
