/// One subscription: what it wants, what waits for it, and what it has received.
///
/// ```
/// use busyhour::{bus::{Event, Topic}, clock::Clock, pool::TaskPool};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// let ticks = Topic::builder("ticks").build();
/// let _slow = ticks.subscribe().name("slow").capacity(8).on(&pool).start(|_| ());
/// _ = ticks.publish(Tick(1));
/// let stats = &ticks.subscriptions()[0];
/// assert_eq!((&*stats.name, stats.capacity, stats.queued_len), ("slow", 8, 1));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SubscriptionStats {
    /// The topic's name.
    pub topic: String,
    /// The name given to it; empty if it has none.
    pub name: String,
    /// What it wants.
    pub filter: SubscriptionFilter,
    /// The [name](crate::task::Executor::name) of its executor; empty if that
    /// has none, or if the publisher's thread delivers.
    pub executor: String,
    /// How many events may wait.
    pub capacity: u64,
    /// Events that wait, including those that a turn has taken already; for a
    /// subscription that reads from the cache, the changes that it has not read.
    pub queued_len: u64,
    /// Events, removals and notices that its consumer has received.
    pub delivered: u64,
    /// Deliveries that it has lost.
    pub lost: u64,
    /// Whether it lags and will be brought up to date from the cache.
    pub is_lagging: bool,
}

/// What a subscription wants.
///
/// ```
/// use busyhour::{bus::{Event, Topic}, stats::SubscriptionFilter};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let ticks = Topic::<Tick>::builder("ticks").build();
/// let _one = ticks.subscribe().key(1).start(|_| ());
/// assert_eq!(ticks.subscriptions()[0].filter, SubscriptionFilter::Key);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum SubscriptionFilter {
    /// Every event.
    #[default]
    All,
    /// The events of one key.
    Key,
    /// The events that a predicate accepts.
    Predicate,
    /// The events with one value of an attribute.
    Attribute,
}

/// Statistics of one topic: what it holds now and what it has done.
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
/// _ = ticks.publish(Tick(1));
/// let stats = ticks.stats();
/// assert_eq!((stats.cached_count, stats.published, stats.delivered), (1, 2, 2));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TopicStats {
    /// Its unique name.
    pub name: String,
    /// Keys with a last value in the cache.
    pub cached_count: u64,
    /// Subscriptions.
    pub subscriber_count: u64,
    /// Events published.
    pub published: u64,
    /// Events refused because the cache held as many keys as its limit allows.
    pub refused: u64,
    /// Deliveries put into subscribers' queues or read from the cache,
    /// including replays.
    pub delivered: u64,
    /// Deliveries lost by an overflow policy.
    pub lost: u64,
    /// How often a publisher did not wait for room in a blocking subscription,
    /// because the wait would never have ended: the subscription waits for the
    /// publisher, or its executor runs nothing more. The event was queued
    /// beyond the capacity, or was lost.
    pub refused_waits: u64,
    /// Deliveries replaced by a newer event of the same key before they were
    /// delivered.
    pub conflated: u64,
    /// Subscriptions that lag and must be brought up to date, counted once for
    /// each shard of the topic in which they lag.
    pub lagging_count: u64,
    /// The name of the subscription with the longest queue; empty if no events
    /// wait, or if it has no name.
    pub slowest_subscriber: String,
    /// The length of that queue.
    pub slowest_queued_len: u64,
    /// Replaced events that are kept because a lookup may still be reading
    /// them.
    pub retired_count: u64,
}
