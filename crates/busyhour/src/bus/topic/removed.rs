use crate::bus::{Event, publish_result::PublishResult};
use std::ops::AddAssign;

/// The result of a [`Topic::remove`](crate::bus::Topic::remove).
///
/// The notices of a removal wait in the same bounded queues as events, so they
/// can be lost in the same ways. Events that wait for a subscriber when their
/// key is removed stay in its queue: the subscriber receives them and then the
/// notice. Only for a subscription that
/// [conflates](crate::bus::SubscriptionBuilder::conflate) does the notice replace
/// them.
///
/// ```
/// use busyhour::bus::{Event, Topic};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let ticks = Topic::builder("ticks").cached().build();
/// let _watch = ticks.subscribe().start(|_| ());
/// _ = ticks.publish(Tick(1));
/// let removed = ticks.remove(&1);
/// assert_eq!((removed.key_count, removed.delivered, removed.lost), (1, 1, 0));
/// assert!(ticks.remove(&1).is_nothing());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a loss is the publisher's to know"]
pub struct Removed {
    /// Keys of which a state was removed: 0 or 1, except by `remove_matching`
    /// and `remove_node`.
    pub key_count: u64,
    /// Subscriptions that have the notice in their queue or have handled it
    /// already.
    pub delivered: u64,
    /// Deliveries lost to a full queue: of the notice, or of an older event
    /// that was dropped to make room for it. The subscriptions also receive
    /// [`Delivery::Lost`](crate::bus::Delivery::Lost).
    pub lost: u64,
    /// Events of the key that still waited and that the notice replaced in
    /// queues that conflate. They do not count as lost.
    pub conflated: u64,
}

impl Removed {
    /// Whether there was nothing to remove.
    pub fn is_nothing(&self) -> bool {
        self.key_count == 0
    }

    pub(in crate::bus) fn new<E: Event>(is_changed: bool, result: &PublishResult<E>) -> Self {
        Self {
            key_count: u64::from(is_changed),
            delivered: result.counts.delivered,
            lost: result.counts.lost,
            conflated: result.counts.conflated,
        }
    }
}

impl AddAssign for Removed {
    fn add_assign(&mut self, other: Self) {
        self.key_count += other.key_count;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.conflated += other.conflated;
    }
}
