use crate::bus::{Event, publish_result::PublishResult};
use std::ops::AddAssign;

/// What a [`Topic::remove`](crate::bus::Topic::remove) did.
///
/// Its notices wait in the same bounded queues as events do, so they can be
/// lost in the same ways. Events that wait for a subscriber when their key is
/// removed are not taken from it: it hears them and then the notice. Only a
/// subscription that [conflates](crate::bus::SubscriptionBuilder::conflate) hears
/// the notice instead of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a loss is the publisher's to know"]
pub struct Removed {
    /// Keys of which something was taken away: 0 or 1 unless many were removed.
    pub key_count: u64,
    /// Subscriptions for which the notice now waits or has already been handled.
    pub delivered: u64,
    /// Deliveries lost to a full queue: the notice, or an older event that was
    /// dropped to make room for it. The subscriptions are told as well, with
    /// [`Delivery::Lost`](crate::bus::Delivery::Lost).
    pub lost: u64,
    /// Events of the key that still waited and that the notice replaced, as
    /// the subscription asked for: they are not among the lost.
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
