use super::{Delivery, Event, Message, Origin};

/// What waits in a mailbox: a [`Message`] that bears its origin only where
/// that is another node.
///
/// So what this node says takes no more room, and no more time, than it would
/// if there were no other node.
pub(super) enum Item<E: Event> {
    Event(E),
    Cleared(E::Key),
    Replayed,
    Lost(u64),
    /// What another node said.
    Remote(Box<Message<E>>),
}

impl<E: Event> Item<E> {
    /// An event that was said here, or by the node that is named.
    #[inline(always)]
    pub(super) fn event(event: E, speaker: Option<Origin>) -> Self {
        match speaker {
            None => Self::Event(event),
            Some(origin) => Self::Remote(Box::new(Message::Event(event, origin))),
        }
    }

    /// That a key was cleared, here or by the node that is named.
    pub(super) fn cleared(key: E::Key, speaker: Option<Origin>) -> Self {
        match speaker {
            None => Self::Cleared(key),
            Some(origin) => Self::Remote(Box::new(Message::Cleared(key, origin))),
        }
    }

    /// What it is about.
    pub(super) fn key(&self) -> Option<&E::Key> {
        match self {
            Self::Event(event) => Some(event.key()),
            Self::Cleared(key) => Some(key),
            Self::Replayed | Self::Lost(_) => None,
            Self::Remote(message) => message.key(),
        }
    }

    /// Hands it to the callback; `local` is the node this is.
    #[inline(always)]
    pub(super) fn deliver(self, local: Origin, callback: &mut dyn FnMut(Delivery<'_, E>)) {
        match self {
            Self::Event(event) => callback(Delivery::Event(&event, local)),
            Self::Cleared(key) => callback(Delivery::Cleared(&key, local)),
            Self::Replayed => callback(Delivery::Replayed),
            Self::Lost(count) => callback(Delivery::Lost(count)),
            Self::Remote(message) => callback(message.as_delivery()),
        }
    }

    /// The same with its origin; `local` is the node this is.
    pub(super) fn into_message(self, local: Origin) -> Message<E> {
        match self {
            Self::Event(event) => Message::Event(event, local),
            Self::Cleared(key) => Message::Cleared(key, local),
            Self::Replayed => Message::Replayed,
            Self::Lost(count) => Message::Lost(count),
            Self::Remote(message) => *message,
        }
    }
}
