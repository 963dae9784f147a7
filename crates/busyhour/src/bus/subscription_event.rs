use super::Event;
use crate::stats::SubscriptionFilter;
use std::sync::Arc;

/// A subscription has started; its key is removed when the subscription ends.
///
/// Such events are published on the topic that is given to
/// [`TopicBuilder::announce_subscriptions`](crate::bus::TopicBuilder::announce_subscriptions).
/// If that topic is cached, it holds the subscriptions that there are, and
/// [`replay`](crate::bus::SubscriptionBuilder::replay) reports those that
/// started earlier.
///
/// # Examples
///
/// ```
/// use busyhour::bus::{Event, SubscriptionEvent, Topic};
/// # #[derive(Clone)]
/// # struct Tick(u32);
/// # impl Event for Tick {
/// #     type Key = u32;
/// #     fn key(&self) -> &u32 { &self.0 }
/// # }
///
/// let subscriptions = Topic::<SubscriptionEvent>::builder("subscriptions").cached().build();
/// let ticks = Topic::<Tick>::builder("ticks").announce_subscriptions(&subscriptions).build();
/// let watcher = ticks.subscribe().name("watcher").key(7).start(|_| ());
///
/// let there = subscriptions.snapshot();
/// assert_eq!((&*there[0].topic, &*there[0].name), ("ticks", "watcher"));
/// drop(watcher);
/// assert!(subscriptions.is_empty());
/// ```
#[doc(alias("AST_EVENT_SUB", "AST_EVENT_UNSUB", "ast_event_report_subs"))]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionEvent {
    /// The number of the subscription, which no other one of the process gets.
    pub id: u64,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The subscription's name; empty if it has none.
    pub name: Arc<str>,
    /// What it wants.
    pub filter: SubscriptionFilter,
}

impl Event for SubscriptionEvent {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.id
    }
}
