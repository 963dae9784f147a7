use super::{
    Delivery, Event,
    consumer::{Filter, Subscriber},
    mailbox::Mailbox,
    topic::Hub,
};
use crate::task::{Executor, Overflow};
use std::{fmt, sync::Arc};

/// Describes a subscription before it starts; see [`Topic::subscribe`](super::Topic::subscribe).
///
/// Without further words it hears every event from now on, on the thread that
/// publishes it, with room for 1,024 events and [`Overflow::Reject`].
#[must_use]
pub struct SubscriptionBuilder<E: Event> {
    topic: Arc<Hub<E>>,
    filter: Filter<E>,
    replays: bool,
    conflates: bool,
    capacity: usize,
    overflow: Overflow,
    executor: Option<Arc<dyn Executor>>,
}

impl<E: Event> SubscriptionBuilder<E> {
    const CAPACITY: usize = 1024;

    pub(super) fn new(topic: Arc<Hub<E>>) -> Self {
        Self {
            topic,
            filter: Filter::All,
            replays: false,
            conflates: false,
            capacity: Self::CAPACITY,
            overflow: Overflow::default(),
            executor: None,
        }
    }

    /// Only events of this key. Publishers of other keys do not notice the
    /// subscription. Replaces an earlier choice of events.
    pub fn key(mut self, key: E::Key) -> Self {
        let hash = self.topic.hash(&key);
        self.filter = Filter::Key { hash, key };
        self
    }

    /// Only events for which `wanted` is true. It runs while a part of the
    /// topic is locked: it must be quick and must not call the bus. That a key
    /// was cleared is told whatever its last event was. Replaces an earlier
    /// choice of events.
    pub fn matching(mut self, wanted: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Filter::Matching(Box::new(wanted));
        self
    }

    /// First the last event of every cached key, then every later change, and
    /// [`Delivery::Replayed`] between the two. When the subscription lags
    /// behind later on, it is brought up to date in the same way, from the
    /// cache, instead of missing changes.
    pub fn replay(mut self) -> Self {
        self.replays = true;
        self
    }

    /// Of several waiting events of one key, only the newest.
    pub fn conflate(mut self) -> Self {
        self.conflates = true;
        self
    }

    /// How many events may wait; at least one. A batch in the callback's hands
    /// does not count, nor, with [`Overflow::Block`], one event for each
    /// publisher who found room at the same moment.
    pub fn capacity(mut self, event_count: usize) -> Self {
        self.capacity = event_count.max(1);
        self
    }

    /// What happens when too many events wait. With [`Self::replay`] on a
    /// cached topic, `Reject` and `DropOldest` alike mean to be brought up to
    /// date from the cache.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Runs the callback there, one at a time, in order. It should be an
    /// executor that does not drop tasks: where one is dropped, the events
    /// wait until the next one is published.
    pub fn on<X: Executor + Clone + 'static>(mut self, executor: &X) -> Self {
        self.executor = Some(Arc::new(executor.clone()));
        self
    }

    /// Starts the subscription.
    ///
    /// The callback may use the bus freely, publish on this topic included. A
    /// panic in it passes to the executor; the subscription goes on with the
    /// next event.
    pub fn start(self, callback: impl FnMut(Delivery<'_, E>) + Send + 'static) -> Subscription<E> {
        let topic = self.topic;
        let conflates = self.conflates || self.overflow == Overflow::Conflate;
        let reseeds = self.replays && topic.is_cached();
        let mailbox = Mailbox::new(self.capacity, self.overflow, conflates, reseeds);
        let callback = Box::new(callback);
        let subscriber = Subscriber::new(&topic, self.filter, mailbox, self.executor, callback);
        let subscriber = Arc::new(subscriber);
        topic.add(&subscriber, self.replays);
        Subscription { topic, subscriber }
    }
}

/// A running subscription; ends when it is dropped.
pub struct Subscription<E: Event> {
    topic: Arc<Hub<E>>,
    subscriber: Arc<Subscriber<E>>,
}

impl<E: Event> Subscription<E> {
    /// Ends the subscription: when this returns, the callback is not running
    /// and will not run again.
    ///
    /// Waits for a callback that is running now, unless called from it.
    /// Dropping the subscription does the same.
    pub fn unsubscribe(self) {}

    /// Whether nothing waits and no callback is running or on its way.
    pub fn is_idle(&self) -> bool {
        self.subscriber.mailbox().is_idle()
    }

    /// Events waiting.
    pub fn queued_len(&self) -> usize {
        self.subscriber.mailbox().len()
    }
}

impl<E: Event> Drop for Subscription<E> {
    fn drop(&mut self) {
        self.topic.remove(&self.subscriber);
        self.subscriber.mailbox().close();
    }
}

impl<E: Event> fmt::Debug for Subscription<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Subscription")
            .field("queued_len", &self.queued_len())
            .finish_non_exhaustive()
    }
}
