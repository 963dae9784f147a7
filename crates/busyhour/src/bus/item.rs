use super::{Delivery, Event, Message, Origin};

/// What waits in a mailbox: a [`Message`] without its origin, which
/// [`Items`](super::items::Items) keep apart.
pub(super) enum Item<E: Event> {
    Event(E),
    Cleared(E::Key),
    Replayed,
    Lost(u64),
}

impl<E: Event> Item<E> {
    /// What it is about.
    pub(super) fn key(&self) -> Option<&E::Key> {
        match self {
            Self::Event(event) => Some(event.key()),
            Self::Cleared(key) => Some(key),
            Self::Replayed | Self::Lost(_) => None,
        }
    }

    /// What a callback hears of it.
    #[inline(always)]
    pub(super) fn as_delivery(&self, origin: Origin) -> Delivery<'_, E> {
        match self {
            Self::Event(event) => Delivery::Event(event, origin),
            Self::Cleared(key) => Delivery::Cleared(key, origin),
            Self::Replayed => Delivery::Replayed,
            Self::Lost(count) => Delivery::Lost(*count),
        }
    }

    /// The same with its origin.
    pub(super) fn into_message(self, origin: Origin) -> Message<E> {
        match self {
            Self::Event(event) => Message::Event(event, origin),
            Self::Cleared(key) => Message::Cleared(key, origin),
            Self::Replayed => Message::Replayed,
            Self::Lost(count) => Message::Lost(count),
        }
    }
}
