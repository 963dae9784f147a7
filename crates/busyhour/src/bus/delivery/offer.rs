use super::item::Item;
use crate::bus::Event;

/// What became of an item that was offered.
#[must_use]
pub(in crate::bus) enum Offer<E: Event> {
    Queued,
    /// The same, and the caller must wake the consumer.
    QueuedFirst,
    /// The subscription has ended.
    Closed,
    /// It replaced this older item of its key.
    Conflated {
        older: Item<E>,
        wake: bool,
    },
    /// It was queued, and the oldest one was lost for it.
    DroppedOldest {
        oldest: Option<Item<E>>,
        wake: bool,
    },
    /// It is lost.
    Refused {
        wake: bool,
    },
    /// It is lost, and the shard has to be fetched from the cache.
    FellBehind {
        wake: bool,
    },
}
