mod builder;
mod registry;
mod forward;
mod removed;
mod expiry;
mod watch;
mod published_all;

use crate::{
    bus::{
        Event, delivery::SubscriptionBuilder, nodes::NodeId, publish_result::PublishResult,
        topic_inner::TopicInner,
    },
    stats::{SubscriptionStats, TopicStats},
    timer::AddError,
};
pub use builder::TopicBuilder;
pub(in crate::bus) use expiry::{Expiry, Limited};
pub use forward::{Forward, ForwardError};
pub use published_all::PublishedAll;
pub use registry::Registry;
pub use removed::Removed;
use std::{fmt, future::Future, sync::Arc, time::Duration};
pub use watch::{Watch, WatchClosed};

/// A stream of events of one type, with the last value of each key if it is cached.
///
/// Cheap to clone; all clones are the same topic. The topic lives as long as a
/// clone or a subscription.
///
/// # Examples
///
/// See the [module](crate::bus) for a complete one.
///
/// ```
/// use busyhour::bus::{Event, Topic};
///
/// #[derive(Clone)]
/// struct Load { line: u32, calls: u32 }
/// impl Event for Load {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.line }
/// }
///
/// let loads = Topic::builder("load").cached().build();
/// _ = loads.publish(Load { line: 7, calls: 1 });
/// _ = loads.publish(Load { line: 7, calls: 2 });
/// assert_eq!(loads.get(&7).unwrap().calls, 2);
/// assert_eq!(loads.remove(&7).key_count, 1);
/// assert!(loads.get(&7).is_none());
/// ```
#[doc(alias("broadcast", "watch", "stasis_topic", "ast_event", "pubsub"))]
pub struct Topic<E: Event>(pub(super) Arc<TopicInner<E>>);

/// The result of a publish.
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
/// let ticks = Topic::<Tick>::builder("ticks").build();
/// let pool = TaskPool::simulated(1, Clock::simulated(Default::default()));
/// // Nobody takes what waits for this one: the pool is not stepped.
/// let _slow = ticks.subscribe().capacity(1).on(&pool).start(|_| ());
/// let _quick = ticks.subscribe().start(|_| ());
/// assert_eq!(ticks.publish(Tick(1)).delivered, 2);
/// let second = ticks.publish(Tick(2));
/// assert_eq!((second.delivered, second.lost), (1, 1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a loss is the publisher's to know"]
pub struct Published {
    /// Subscriptions that have the event in their queue, have handled it
    /// already, or will read the last one of its key from the cache.
    pub delivered: u64,
    /// Deliveries lost to a full queue: of this event, or of an older one that
    /// was dropped to make room for it.
    pub lost: u64,
    /// The topic, or one it forwards to, holds as many keys as its
    /// [limit](TopicBuilder::key_limit) allows: that topic neither cached nor
    /// delivered the event, whose key is new.
    pub refused: bool,
}

/// Why a published event will not expire by itself.
///
/// ```
/// use busyhour::bus::{Event, Topic, TtlError};
/// use std::time::Duration;
///
/// #[derive(Clone)]
/// struct Binding(u32);
/// impl Event for Binding {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let bindings = Topic::builder("bindings").cached().build();
/// let published = bindings.publish_with_ttl(Binding(7), Duration::from_secs(3600));
/// assert_eq!(published, Err(TtlError::NoTimers));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TtlError {
    /// The topic was built without [`TopicBuilder::with_ttl`]; the event was
    /// not published.
    NoTimers,
    /// The timer could not be set; the event was published and does not expire.
    NoTimer(AddError),
}

impl fmt::Display for TtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimers => f.write_str("the topic has no timers"),
            Self::NoTimer(error) => write!(f, "the event stays: {error}"),
        }
    }
}

impl std::error::Error for TtlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoTimer(error) => Some(error),
            _ => None,
        }
    }
}

impl From<AddError> for TtlError {
    fn from(error: AddError) -> Self {
        Self::NoTimer(error)
    }
}

impl<E: Event> Topic<E> {
    /// Describes a new topic. The name appears in statistics.
    pub fn builder(name: impl Into<String>) -> TopicBuilder<E> {
        TopicBuilder::new(name.into())
    }

    /// A topic for a short life: not cached, not listed in a registry, as small
    /// as possible.
    pub fn ephemeral() -> Self {
        TopicBuilder::new(String::new()).small().build()
    }

    /// The name given to [`Topic::builder`].
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Caches the event, if the topic is cached, and offers it to every
    /// subscription that wants it.
    ///
    /// Waits for room only if a subscription has declared
    /// [`Overflow::Block`](crate::task::Overflow::Block).
    #[inline]
    pub fn publish(&self, event: E) -> Published {
        if self.0.is_idle() {
            return Published::default();
        }
        self.publish_heard(event)
    }

    /// Like [`publish`](Self::publish), but where a subscription has declared
    /// [`Overflow::Block`](crate::task::Overflow::Block) and is full, this waits
    /// without blocking the thread.
    ///
    /// Publishers that wait for a subscription are woken in the order in which
    /// they began to wait; one that finds room does not wait for them. If the
    /// future is dropped before it is ready, nothing was published. In an
    /// [exclusive section](crate::serializer::Serializer::spawn_exclusive) that
    /// keeps the subscription's serializer the wait would never end: as
    /// `publish` does then, it goes on beyond the capacity.
    ///
    /// ```
    /// use busyhour::{bus::Event, runtime::Runtime, task::Overflow};
    ///
    /// #[derive(Clone)]
    /// struct Tick(u32);
    /// impl Event for Tick {
    ///     type Key = u32;
    ///     fn key(&self) -> &u32 { &self.0 }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let ticks = runtime.topic::<Tick>("ticks").build();
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let _slow = ticks.subscribe().capacity(1).overflow(Overflow::Block).on(runtime.pool())
    ///     .start(move |_| sender.send(()).unwrap());
    /// let published = runtime.pool().spawn(async move {
    ///     for number in 0..100 {
    ///         assert_eq!(ticks.publish_async(Tick(number)).await.lost, 0);
    ///     }
    /// });
    /// published.wait()?;
    /// assert_eq!(receiver.iter().take(100).count(), 100);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("send", "back pressure"))]
    pub fn publish_async(&self, event: E) -> impl Future<Output = Published> + Send + use<E> {
        let topic = Arc::clone(&self.0);
        async move { topic.publish_async(event).await }
    }

    /// Publishes the event if the topic has no last value of its key, or one of which
    /// `may_replace` says that the event may replace it; otherwise `None`. Decision and publish
    /// are one step: if another thread publishes the key meanwhile, its event is judged. It costs
    /// one search, where [`get`](Self::get) and then [`publish`](Self::publish) cost two.
    ///
    /// `may_replace` gets the last event, and is not asked if there is none. It may run several
    /// times, and replaced events of other keys wait for it to return before they are dropped. A
    /// topic that is not [cached](TopicBuilder::cached) has no last values.
    ///
    /// # Panics
    ///
    /// If `may_replace` publishes an event of the same key on this topic each time it runs.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Event, Topic};
    ///
    /// #[derive(Clone)]
    /// struct Reading { sensor: u32, value: i64 }
    /// impl Event for Reading {
    ///     type Key = u32;
    ///     fn key(&self) -> &u32 { &self.sensor }
    /// }
    ///
    /// let changes = Topic::builder("changes").cached().build();
    /// let offer = |sensor, value| {
    ///     changes.publish_if(Reading { sensor, value }, |last| last.value != value).is_some()
    /// };
    /// assert!(offer(17, 20));
    /// assert!(!offer(17, 20), "a repetition");
    /// assert!(offer(17, 21));
    /// ```
    #[doc(alias("send_if_modified", "compare and swap", "distinct until changed"))]
    pub fn publish_if(&self, event: E, may_replace: impl Fn(&E) -> bool) -> Option<Published> {
        if self.0.is_idle() {
            return Some(Published::default());
        }
        self.0.publish_if(event, &|last, _| may_replace(last))
    }

    /// Publishes each of the events as [`publish_if`](Self::publish_if) does; `may_replace` gets
    /// the last value and the event. Where there are many keys this takes less time than
    /// one call for each event, since memory is read for sixteen events at once.
    ///
    /// Each event is judged after the ones before it have been published. Up to sixteen are taken
    /// from the iterator before the first of them is published; if user code panics, those that
    /// have not been published are dropped.
    ///
    /// # Panics
    ///
    /// As [`publish_if`](Self::publish_if).
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Event, Topic};
    ///
    /// #[derive(Clone)]
    /// struct Reading { sensor: u32, value: i64 }
    /// impl Event for Reading {
    ///     type Key = u32;
    ///     fn key(&self) -> &u32 { &self.sensor }
    /// }
    ///
    /// let changes = Topic::builder("changes").cached().build();
    /// let datagram = [(17, 20), (17, 20), (18, 5), (17, 21)];
    /// let readings = datagram.map(|(sensor, value)| Reading { sensor, value });
    /// let published = changes.publish_all_if(readings, |last, new| last.value != new.value);
    /// assert_eq!(published.count, 3, "one is a repetition");
    /// assert_eq!(changes.get(&17).unwrap().value, 21);
    /// ```
    #[doc(alias("publish_many", "publish_batch", "send_all"))]
    pub fn publish_all_if(
        &self,
        events: impl IntoIterator<Item = E>,
        may_replace: impl Fn(&E, &E) -> bool,
    ) -> PublishedAll {
        self.0.publish_all_if(events.into_iter(), &may_replace)
    }

    /// Publishes an event on behalf of another node; see
    /// [`TopicBuilder::fold`]. On a topic that does not fold, the event becomes
    /// the last one of its key, whichever node published before. Subscribers
    /// receive it with this origin.
    pub fn publish_from(&self, origin: NodeId, event: E) -> Published {
        if self.0.is_idle() {
            return Published::default();
        }
        let mut result = PublishResult::new();
        self.0.publish_from(origin, event, &mut result);
        let published = Published::from(&result);
        result.wake_all();
        published
    }

    /// Not inlined, so that a publish without subscribers needs none of its
    /// stack.
    #[inline(never)]
    fn publish_heard(&self, event: E) -> Published {
        self.0.publish(event)
    }

    /// Publishes an event that is removed after `life` unless a newer event of
    /// its key is published first.
    ///
    /// # Errors
    ///
    /// [`TtlError`] if the topic has no timers or the timer could not be set.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{bus::{Event, Topic}, clock::{Clock, UnixTime}, pool::TaskPool, timer::Timers};
    /// # #[derive(Clone)]
    /// # struct Binding(u32);
    /// # impl Event for Binding {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = Clock::simulated(UnixTime::from_secs(0));
    /// let pool = TaskPool::simulated(1, clock.clone());
    /// let timers = Timers::builder().clock(clock.clone()).build();
    /// let bindings = Topic::builder("bindings").cached().with_ttl(&timers, &pool).build();
    ///
    /// _ = bindings.publish_with_ttl(Binding(7), Duration::from_secs(3600))?;
    /// clock.as_virtual().unwrap().advance(Duration::from_secs(3600));
    /// timers.run_due(clock.now());
    /// while pool.step() {}
    /// assert!(bindings.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish_with_ttl(&self, event: E, life: Duration) -> Result<Published, TtlError> {
        let mut result = PublishResult::new();
        let limited = self.0.publish_with_ttl(event, life, &mut result);
        let published = Published::from(&result);
        result.wake_all();
        limited.map(|()| published)
    }

    /// The last event of the key. Takes no lock and blocks no publisher.
    ///
    /// A subscription may be delivered an event a moment before this finds it. So a subscriber takes the event from the
    /// delivery: if it looks it up instead, it may find the one before, and hears of no other one.
    ///
    /// The key is of the event's own key type, and not of one that can be borrowed from it as for a
    /// `HashMap`: for keys of the type `String` that is `get(&"alice".to_owned())`. A
    /// [`Name`](crate::bus::Name) is a string that costs nothing to clone.
    #[doc(alias("ast_event_get_cached", "last value"))]
    #[inline]
    pub fn get(&self, key: &E::Key) -> Option<E> {
        let (shard, hash) = self.0.locate(key);
        self.0.shards()[shard].get(hash, key)
    }

    /// The node that published last for the key; `None` if the key has no last
    /// value.
    pub fn origin_of(&self, key: &E::Key) -> Option<NodeId> {
        let (shard, hash) = self.0.locate(key);
        self.0.shards()[shard].origin_of(&self.0, (hash, key))
    }

    /// The state of the key at one node, on a topic that folds; [`Topic::get`]
    /// returns the folded state of all nodes. On a topic that does not fold,
    /// the last event if that node published it.
    pub fn get_from(&self, origin: NodeId, key: &E::Key) -> Option<E> {
        let (shard, hash) = self.0.locate(key);
        self.0.shards()[shard].get_from(&self.0, (hash, key), origin)
    }

    /// Removes the last value of the key and tells the subscribers. On a topic
    /// that folds, it removes this node's state; the states of other nodes
    /// remain.
    ///
    /// Like [`Topic::publish`], it returns how many notices were delivered and
    /// lost, and waits for room if a subscription has declared
    /// [`Overflow::Block`](crate::task::Overflow::Block).
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::{bus::{Event, Topic}, pool::TaskPool};
    /// # #[derive(Clone)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// let ticks = Topic::builder("ticks").cached().build();
    /// // Nobody takes what waits for this one: the pool is not stepped.
    /// let pool = TaskPool::simulated(1, busyhour::clock::Clock::simulated(Default::default()));
    /// let slow = ticks.subscribe().capacity(1).on(&pool).start(|_| ());
    /// assert_eq!(ticks.publish(Tick(7)).delivered, 1);
    /// let removed = ticks.remove(&7);
    /// assert_eq!((removed.key_count, removed.delivered, removed.lost), (1, 0, 1));
    /// assert_eq!(slow.lost(), 1);
    /// assert!(ticks.remove(&7).is_nothing());
    /// ```
    pub fn remove(&self, key: &E::Key) -> Removed {
        self.0.remove(key)
    }

    /// Removes another node's state of the key; does nothing if that node has
    /// none. On a topic that does not fold, it removes the last value,
    /// whichever node published it.
    pub fn remove_from(&self, origin: NodeId, key: &E::Key) -> Removed {
        self.0.remove_from(origin, key)
    }

    /// Removes every key whose last event satisfies `is_wanted`, one after the
    /// other; an event that is published meanwhile may stay. `is_wanted` runs
    /// under no lock, and twice for an event that satisfies it.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Event, Topic};
    /// # #[derive(Clone)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// let ticks = Topic::builder("ticks").cached().build();
    /// for number in 0..10 {
    ///     let _ = ticks.publish(Tick(number));
    /// }
    /// assert_eq!(ticks.remove_matching(|tick| tick.0 < 4).key_count, 4);
    /// assert_eq!(ticks.remove_matching(|_| true).key_count, 6);
    /// ```
    pub fn remove_matching(&self, is_wanted: impl Fn(&E) -> bool) -> Removed {
        self.0.remove_matching(&is_wanted)
    }

    /// Removes all states of a node that is gone. On a topic that does not
    /// fold, it removes the keys that the node published last. On a topic that
    /// folds, it removes the node's state of each key; if `origin` is this node
    /// itself, only of keys that another node has published too. Waits for room
    /// like [`Topic::publish`].
    pub fn remove_node(&self, origin: NodeId) -> Removed {
        self.0.remove_node(origin)
    }

    /// Forwards every change of this topic to `to`, in the same order by key,
    /// until the [`Forward`] is dropped. The events that are cached here are
    /// published there at once. Events keep their origin, except that a topic
    /// that folds treats forwarded events as states of its own node.
    ///
    /// Publishers of this topic never wait for subscriptions of the other one,
    /// so such a subscription may hold more than its capacity.
    ///
    /// # Errors
    ///
    /// [`ForwardError`] if events would come back to this topic, or if it is
    /// forwarded there already.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Event, Topic};
    /// # #[derive(Clone)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// let (one, other) = (Topic::builder("one").build(), Topic::builder("other").build());
    /// let all = Topic::builder("all").cached().build();
    /// let _one = one.forward_to(&all)?;
    /// let _other = other.forward_to(&all)?;
    /// _ = one.publish(Tick(1));
    /// _ = other.publish(Tick(2));
    /// assert_eq!(all.len(), 2);
    /// assert!(all.forward_to(&one).is_err());
    /// # Ok::<(), busyhour::bus::ForwardError>(())
    /// ```
    pub fn forward_to(&self, to: &Self) -> Result<Forward<E>, ForwardError> {
        Forward::new(self, to)
    }

    /// The last event of every key. Each is right at one moment, but not all at
    /// the same moment. The order is the same in every run that published the
    /// same events.
    pub fn snapshot(&self) -> Vec<E> {
        let mut events = Vec::with_capacity(self.len());
        for shard in self.0.shards() {
            shard.snapshot(&mut events);
        }
        events
    }

    /// The last event of some key that satisfies `is_wanted`: of those, the
    /// first in the order of [`Topic::snapshot`].
    ///
    /// It looks at every key until it has found one; [`Topic::get`] finds a key
    /// at once. `is_wanted` runs under no lock; a panic in it goes on to the
    /// caller.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Event, Topic};
    /// # #[derive(Clone, Debug, PartialEq)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// let ticks = Topic::builder("ticks").cached().build();
    /// _ = ticks.publish(Tick(3));
    /// _ = ticks.publish(Tick(8));
    /// assert_eq!(ticks.find(|tick| tick.0 > 5), Some(Tick(8)));
    /// assert_eq!(ticks.find(|tick| tick.0 > 8), None);
    /// ```
    #[doc(alias = "ast_event_get_cached")]
    pub fn find(&self, is_wanted: impl Fn(&E) -> bool) -> Option<E> {
        let mut shards = self.0.shards().iter();
        shards.find_map(|shard| shard.find(&is_wanted))
    }

    /// The number of keys with a last value.
    pub fn len(&self) -> usize {
        self.0.shards().iter().map(|shard| shard.len()).sum()
    }

    /// Whether no key has a last value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any subscription may want an event of this key. A publisher can
    /// ask this before it makes an event that is expensive to make.
    pub fn would_deliver(&self, key: &E::Key) -> bool {
        self.0.would_deliver(key)
    }

    /// Describes a new subscription.
    pub fn subscribe(&self) -> SubscriptionBuilder<E> {
        SubscriptionBuilder::new(Arc::clone(&self.0))
    }

    /// Ends the topic's [streams](crate::bus::SubscriptionBuilder::stream) and
    /// [watches](Self::watch), those that there are and those that are made
    /// later: each delivers what waits, and then ends. The shutdown of a
    /// runtime does this to its topics.
    ///
    /// The cache and subscriptions with a callback go on, and events can still
    /// be published; streams do not get them, which counts as lost. Without a
    /// runtime this is the only way to end a stream from the publisher's side,
    /// since a stream keeps its topic.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Event, Topic, WatchClosed};
    /// # #[derive(Clone, Debug, PartialEq)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let ticks = Topic::builder("ticks").cached().build();
    /// let mut watch = ticks.watch(7);
    /// _ = ticks.publish(Tick(7));
    /// ticks.close();
    /// assert_eq!(watch.changed().await, Ok(()));
    /// assert_eq!(watch.latest(), Some(&Tick(7)));
    /// assert_eq!(watch.changed().await, Err(WatchClosed));
    /// assert_eq!(ticks.watch(7).changed().await, Err(WatchClosed));
    /// # });
    /// ```
    pub fn close(&self) {
        self.0.end_streams();
    }

    /// The subscriptions of the topic, the longest queue first: what each wants,
    /// what waits for it, and what it has received and lost.
    ///
    /// Each shard of the topic is locked while its subscriptions are counted
    /// through; publishers to the other shards go on.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::{bus::{Event, Topic}, pool::TaskPool, stats::SubscriptionFilter};
    /// # #[derive(Clone)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// let ticks = Topic::builder("ticks").build();
    /// // Nobody takes what waits for this one: the pool is not stepped.
    /// let pool = TaskPool::simulated(1, busyhour::clock::Clock::simulated(Default::default()));
    /// let _slow = ticks.subscribe().name("slow").key(7).on(&pool).start(|_| ());
    /// let _quick = ticks.subscribe().name("quick").start(|_| ());
    /// _ = ticks.publish(Tick(7));
    ///
    /// let all = ticks.subscriptions();
    /// assert_eq!((&*all[0].name, all[0].queued_len, all[0].delivered), ("slow", 1, 0));
    /// assert_eq!((&*all[1].name, all[1].queued_len, all[1].delivered), ("quick", 0, 1));
    /// assert_eq!(all[0].filter, SubscriptionFilter::Key);
    /// ```
    #[doc(alias("core show hints", "stasis show subscriptions"))]
    pub fn subscriptions(&self) -> Vec<SubscriptionStats> {
        self.0.subscriptions()
    }

    /// Statistics of the topic: what it holds now and what it has done.
    pub fn stats(&self) -> TopicStats {
        self.0.stats()
    }
}

impl<E: Event> Clone for Topic<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Event> fmt::Debug for Topic<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Topic")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl<E: Event> From<&PublishResult<E>> for Published {
    fn from(result: &PublishResult<E>) -> Self {
        Self {
            delivered: result.counts.delivered,
            lost: result.counts.lost,
            refused: result.refused,
        }
    }
}
