use super::{Delivery, Event, NodeId};

/// An owned [`Delivery`], which can be kept.
///
/// ```
/// use busyhour::bus::{Event, Message, NodeId};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let message = Message::Event(Tick(1), NodeId(3));
/// assert_eq!(message.origin(), Some(NodeId(3)));
/// assert_eq!(message.into_event(), Some(Tick(1)));
/// assert_eq!(Message::<Tick>::Lost(5).into_event(), None);
/// ```
#[derive(Debug, Clone)]
pub enum Message<E: Event> {
    /// An event, replayed from the cache or published, and the node that
    /// published it.
    Event(E, NodeId),
    /// The key was removed, and the node that removed it.
    Removed(E::Key, NodeId),
    /// Everything in the cache has been delivered.
    Replayed,
    /// This many deliveries were lost since the last `Lost`.
    Lost(u64),
}

impl<E: Event> Message<E> {
    /// Borrows the message as a [`Delivery`].
    #[inline]
    pub fn as_delivery(&self) -> Delivery<'_, E> {
        match self {
            Self::Event(event, origin) => Delivery::Event(event, *origin),
            Self::Removed(key, origin) => Delivery::Removed(key, *origin),
            Self::Replayed => Delivery::Replayed,
            Self::Lost(count) => Delivery::Lost(*count),
        }
    }

    /// The event, if the message is one.
    pub fn into_event(self) -> Option<E> {
        match self {
            Self::Event(event, _) => Some(event),
            Self::Removed(..) | Self::Replayed | Self::Lost(_) => None,
        }
    }

    /// The node that published the event or removed the key; `None` for the
    /// other messages.
    pub fn origin(&self) -> Option<NodeId> {
        match self {
            Self::Event(_, origin) | Self::Removed(_, origin) => Some(*origin),
            Self::Replayed | Self::Lost(_) => None,
        }
    }
}
