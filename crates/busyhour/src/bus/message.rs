use super::{Delivery, Event};

/// What a subscription hears, as a value of its own: a [`Delivery`] that can
/// be kept.
#[derive(Debug, Clone)]
pub enum Message<E: Event> {
    /// An event: replayed from the cache, or published.
    Event(E),
    /// The key was cleared and has no last value any more.
    Cleared(E::Key),
    /// Everything the cache held has been told.
    Replayed,
    /// So many deliveries were lost since the last notice of this kind.
    Lost(u64),
}

impl<E: Event> Message<E> {
    /// The same without giving it away.
    #[inline]
    pub fn as_delivery(&self) -> Delivery<'_, E> {
        match self {
            Self::Event(event) => Delivery::Event(event),
            Self::Cleared(key) => Delivery::Cleared(key),
            Self::Replayed => Delivery::Replayed,
            Self::Lost(count) => Delivery::Lost(*count),
        }
    }

    /// The event, if it is one.
    pub fn into_event(self) -> Option<E> {
        match self {
            Self::Event(event) => Some(event),
            Self::Cleared(_) | Self::Replayed | Self::Lost(_) => None,
        }
    }

    /// What it is about.
    pub(super) fn key(&self) -> Option<&E::Key> {
        match self {
            Self::Event(event) => Some(event.key()),
            Self::Cleared(key) => Some(key),
            Self::Replayed | Self::Lost(_) => None,
        }
    }
}
