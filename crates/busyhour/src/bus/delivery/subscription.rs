use super::{
    attribute::Attribute,
    consumer::{Consumer, Filter, Subscriber},
    mailbox::Mailbox,
    stream::EventStream,
};
use crate::{
    bus::{Delivery, Event, panics::Panics, topic_inner::TopicInner},
    task::{Deliveries, Executor, Overflow},
};
use std::{fmt, hash::Hash, mem, sync::Arc};

/// Configures a subscription before it starts; see
/// [`Topic::subscribe`](crate::bus::Topic::subscribe).
///
/// By default it receives every event from now on, on the thread that publishes
/// it, with room for 1,024 events and [`Overflow::Reject`].
#[doc(alias("ast_event_subscribe", "stasis_subscribe"))]
#[must_use]
pub struct SubscriptionBuilder<E: Event> {
    topic: Arc<TopicInner<E>>,
    name: Box<str>,
    filter: Filter<E>,
    replays: bool,
    conflates: bool,
    capacity: usize,
    overflow: Overflow,
    executor: Option<Arc<dyn Executor>>,
}

impl<E: Event> SubscriptionBuilder<E> {
    const CAPACITY: usize = 1024;

    pub(in crate::bus) fn new(topic: Arc<TopicInner<E>>) -> Self {
        Self {
            topic,
            name: Box::default(),
            filter: Filter::All,
            replays: false,
            conflates: false,
            capacity: Self::CAPACITY,
            overflow: Overflow::default(),
            executor: None,
        }
    }

    /// A name that identifies the subscription in statistics, for example as
    /// the slow one.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Receives only events of this key. Publishers of other keys do not pay
    /// for the subscription. Replaces an earlier `key`, `matching` or `having`.
    pub fn key(mut self, key: E::Key) -> Self {
        let (hash, key) = self.topic.shared_key(key);
        self.filter = Filter::Key { hash, key };
        self
    }

    /// Receives only events for which `wanted` returns true. It runs on the
    /// publisher's thread under no lock, and more than once for an event if
    /// something changes meanwhile. The removal of a key is always delivered,
    /// whatever its last event was. Replaces an earlier `key`, `matching` or
    /// `having`.
    pub fn matching(mut self, wanted: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Filter::Matching(Arc::new(wanted));
        self
    }

    /// Receives only events whose `attribute` equals `value`. Publishers of
    /// other values do not pay for the subscription, as with [`Self::key`]. The
    /// removal of a key is always delivered, whatever its last event was.
    /// Replaces an earlier `key`, `matching` or `having`.
    pub fn having<A>(mut self, attribute: &Attribute<E, A>, value: A) -> Self
    where
        A: Eq + Hash + Send + Sync + 'static,
    {
        self.filter = Filter::Having(attribute.wanted(value));
        self
    }

    /// First delivers the last event of every cached key, then
    /// [`Delivery::Replayed`], then every later change. If the subscription
    /// loses events later, it is brought up to date from the cache in the same
    /// way.
    pub fn replay(mut self) -> Self {
        self.replays = true;
        self
    }

    /// Keeps only the newest of the waiting events of a key, in the place of
    /// the oldest, whether or not the queue is full. So the newest event of a
    /// waiting key is never lost. [`Overflow::Conflate`] does the same,
    /// combined with [`Overflow::Reject`].
    ///
    /// The capacity is then the number of keys that may wait. An event of one
    /// key more is lost by the declared overflow (by default it is rejected),
    /// counted and announced. With [`Self::replay`] on a cached topic nothing
    /// is lost: the newest event of each key then comes from the cache, and the
    /// events it replaced count as conflated. So give the queue room for all
    /// keys, or use replay.
    ///
    /// With replay on a cached topic, and with an executor or as a stream, such a
    /// subscription to all events has no queue at all: it reads what has changed from
    /// the cache, publishers do nothing for it, and however slow it is it costs
    /// them nothing. Then the capacity means nothing, and the order of events of
    /// different keys is that of their shards.
    #[doc(alias("coalesce", "watch channel"))]
    pub fn conflate(mut self) -> Self {
        self.conflates = true;
        self
    }

    /// How many events may wait; at least one. Events that a turn has taken
    /// count until they are delivered, except for at most sixteen; events that
    /// are replayed from the cache do not count. With [`Overflow::Block`] the
    /// queue may exceed the capacity by one event for each publisher that found
    /// room at the same moment; and, if publishers cannot wait, by as much
    /// again and 64 more.
    pub fn capacity(mut self, event_count: usize) -> Self {
        self.capacity = event_count.max(1);
        self
    }

    /// What happens when the queue is full. With [`Self::replay`] on a cached
    /// topic, both `Reject` and `DropOldest` mean that the subscription is
    /// brought up to date from the cache.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Runs the callback on this executor, one call at a time, in order. Without
    /// an executor it runs on the thread that publishes, inside of its call; if
    /// it is running there already, other publishers leave their events to it.
    ///
    /// A pool and a serializer accept a subscription's turn even when they are
    /// full, and a turn that they drop before it runs sends itself again. If
    /// another kind of executor refuses a turn, the events wait until the next
    /// one is published.
    pub fn on<X: Executor + Clone + 'static>(mut self, executor: &X) -> Self {
        let shared = executor.to_shared();
        self.executor = Some(shared.unwrap_or_else(|| Arc::new(executor.clone())));
        self
    }

    /// Starts the subscription, which ends when the returned value is dropped.
    /// [`on`](Self::on) says where the callback runs.
    ///
    /// The callback may use the bus freely, and may publish on this topic. A
    /// panic in it goes on to the executor; the subscription continues with the
    /// next event.
    pub fn start(
        mut self,
        callback: impl FnMut(Delivery<'_, E>) + Send + 'static,
    ) -> Subscription<E> {
        let consumer = Consumer::callback(self.executor.take(), Box::new(callback));
        let filter = mem::replace(&mut self.filter, Filter::All);
        let subscriber = self.subscribe(filter, consumer);
        self.subscription(subscriber)
    }

    /// Starts the subscription as a stream for a task of any async runtime.
    /// Events are consumed by the task that polls the stream. When the executor
    /// given with [`Self::on`], or the topic's runtime, is shut down, the
    /// stream delivers what waits and then ends; publishers are then told that
    /// their events are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{pin::pin, task::{Context, Poll, Waker}};
    /// use futures_core::Stream;
    /// use busyhour::bus::{Event, Message, Topic};
    /// # #[derive(Clone, Debug, PartialEq)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// let ticks = Topic::builder("ticks").cached().build();
    /// _ = ticks.publish(Tick(7));
    /// let mut events = pin!(ticks.subscribe().replay().stream());
    /// let mut context = Context::from_waker(Waker::noop());
    /// let first = events.as_mut().poll_next(&mut context);
    /// assert!(matches!(first, Poll::Ready(Some(Message::Event(Tick(7), _)))));
    /// ```
    pub fn stream(mut self) -> EventStream<E> {
        let filter = mem::replace(&mut self.filter, Filter::All);
        let consumer = Consumer::stream(self.executor.take());
        let subscriber = self.subscribe(filter, consumer);
        EventStream::new(Arc::clone(&subscriber), self.subscription(subscriber))
    }

    fn subscribe(&self, filter: Filter<E>, consumer: Consumer<E>) -> Arc<Subscriber<E>> {
        let conflates = self.conflates || self.overflow == Overflow::Conflate;
        let reseeds = self.replays && self.topic.is_cached();
        let reads_cache = reseeds && conflates && self.may_read_cache(&filter, &consumer);
        let mailbox = match reads_cache {
            true => Mailbox::of_reader(self.capacity),
            false => Mailbox::new(self.capacity, self.overflow, conflates, reseeds),
        };
        let name = self.name.clone();
        let subscriber = Subscriber::new(&self.topic, name, filter, mailbox, consumer);
        Arc::new(subscriber)
    }

    /// Whether a subscription that wants the last value of each key can read it from the cache.
    /// With a key or an attribute it is found by an index, a predicate runs where the event is
    /// published, and without an executor so does the callback.
    fn may_read_cache(&self, filter: &Filter<E>, consumer: &Consumer<E>) -> bool {
        let is_inline = matches!(consumer, Consumer::Callback { executor: None, .. });
        matches!(filter, Filter::All) && self.overflow != Overflow::Block && !is_inline
    }

    fn subscription(self, subscriber: Arc<Subscriber<E>>) -> Subscription<E> {
        // Made first, so that the subscription ends if a callback panics during
        // its replay.
        let mut subscription = Subscription {
            topic: self.topic,
            subscriber: Some(Arc::clone(&subscriber)),
            announced: None,
        };
        if !subscriber.register() {
            let _nothing_waits = subscriber.end();
        }
        subscription.topic.add(&subscriber, self.replays);
        subscription.announced = subscription.topic.announce(&subscriber);
        subscription
    }
}

/// A running subscription; ends when it is dropped.
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
/// let ticks = Topic::<Tick>::builder("ticks").build();
/// let subscription = ticks.subscribe().key(7).start(|_| println!("a tick of 7"));
/// assert!(ticks.would_deliver(&7) && !ticks.would_deliver(&8));
/// _ = ticks.publish(Tick(7));
/// assert_eq!((subscription.queued_len(), subscription.lost()), (0, 0));
/// subscription.unsubscribe(); // as its drop does
/// assert!(!ticks.would_deliver(&7));
/// ```
#[doc(alias("Receiver", "ast_event_sub"))]
pub struct Subscription<E: Event> {
    topic: Arc<TopicInner<E>>,
    /// Until the subscription is dropped.
    subscriber: Option<Arc<Subscriber<E>>>,
    /// Its number, if it is announced.
    announced: Option<u64>,
}

impl<E: Event> Subscription<E> {
    /// Ends the subscription: when this returns, the callback is not running
    /// and will not run again.
    ///
    /// Waits for a callback that is running now, unless it is called from that
    /// callback. Dropping the subscription does the same.
    pub fn unsubscribe(self) {}

    /// Delivers the last event of every cached key again that the subscription
    /// wants, then [`Delivery::Replayed`], for a consumer that has lost its own
    /// state.
    ///
    /// Whatever waits is delivered before, and every later change after; nothing
    /// is lost between. While a replay has not begun, asking again adds nothing
    /// to it. On a topic without a cache only the notice is delivered.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Delivery, Event, Topic};
    /// use std::sync::mpsc;
    /// # #[derive(Clone)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// let ticks = Topic::<Tick>::builder("ticks").cached().build();
    /// let (sender, received) = mpsc::channel();
    /// let subscription = ticks.subscribe().start(move |delivery| {
    ///     if let Delivery::Event(tick, _) = delivery {
    ///         sender.send(tick.0).unwrap();
    ///     }
    /// });
    /// _ = ticks.publish(Tick(7));
    /// subscription.replay();
    /// assert_eq!(received.try_iter().collect::<Vec<_>>(), [7, 7]);
    /// ```
    #[doc(alias = "ast_event_dump_cache")]
    pub fn replay(&self) {
        // Inside, a callback of a C program may free the handle that holds this.
        let topic = self.topic.clone();
        if let Some(subscriber) = self.subscriber.clone() {
            topic.order_replay(&subscriber);
        }
    }

    /// Whether no event waits and no turn is running or scheduled.
    pub fn is_idle(&self) -> bool {
        let subscriber = self.subscriber.as_ref();
        subscriber.is_none_or(|subscriber| subscriber.mailbox().is_idle())
    }

    /// Deliveries that this subscription has lost so far, announced or not.
    pub fn lost(&self) -> u64 {
        let subscriber = self.subscriber.as_ref();
        subscriber.map_or(0, |subscriber| subscriber.mailbox().lost())
    }

    /// The number of events that wait: in the queue or, with [`replay`] and [`conflate`], of
    /// changes that have not been read from the cache yet.
    ///
    /// [`replay`]: SubscriptionBuilder::replay
    /// [`conflate`]: SubscriptionBuilder::conflate
    pub fn queued_len(&self) -> usize {
        let subscriber = self.subscriber.as_ref();
        subscriber.map_or(0, |it| it.mailbox().len()) + self.unread_len()
    }

    pub(super) fn unread_len(&self) -> usize {
        let subscriber = self.subscriber.as_ref();
        subscriber.map_or(0, |subscriber| self.topic.unread_len(subscriber))
    }
}

impl<E: Event> Drop for Subscription<E> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        if let Some(subscriber) = self.subscriber.take() {
            subscriber.unregister();
            panics.catch(|| self.topic.remove_subscriber(&subscriber));
            panics.catch(|| subscriber.mailbox().close());
            panics.drop(subscriber);
        }
        if let Some(id) = self.announced {
            panics.catch(|| self.topic.withdraw(id));
        }
    }
}

impl<E: Event> fmt::Debug for Subscription<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Subscription")
            .field("queued_len", &self.queued_len())
            .finish_non_exhaustive()
    }
}
