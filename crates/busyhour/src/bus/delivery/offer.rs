use super::item::Item;
use crate::bus::Event;

/// The result of offering an item to a mailbox.
#[must_use]
pub(in crate::bus) enum Offer<E: Event> {
    Queued,
    /// Queued, and the caller must wake the consumer.
    QueuedFirst,
    /// The subscription has ended.
    Closed,
    /// The item replaced this older item of its key.
    Conflated {
        older: Item<E>,
        wake: bool,
    },
    /// The item was queued, and the oldest one was dropped to make room.
    DroppedOldest {
        oldest: Option<Item<E>>,
        wake: bool,
    },
    /// The item is lost.
    Refused {
        wake: bool,
    },
    /// The item is lost, and the shard's changes must be fetched from the
    /// cache.
    FellBehind {
        wake: bool,
    },
}
