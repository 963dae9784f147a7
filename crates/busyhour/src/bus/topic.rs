use super::{
    Event, Forward, ForwardError, Origin, SubscriptionBuilder, TopicBuilder, hub::Hub,
    listener::Tally,
};
use crate::{stats::TopicStats, timer::AddError};
use std::{fmt, sync::Arc, time::Duration};

/// A stream of events of one type, with the last value of each key if it is cached.
///
/// Cheap to clone; all clones are the same topic. It lives as long as a clone
/// or a subscription does.
///
/// # Examples
///
/// See the [module](crate::bus) for a whole one.
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
/// loads.publish(Load { line: 7, calls: 1 });
/// loads.publish(Load { line: 7, calls: 2 });
/// assert_eq!(loads.get(&7).unwrap().calls, 2);
/// assert!(loads.clear(&7));
/// assert!(loads.get(&7).is_none());
/// ```
pub struct Topic<E: Event>(pub(super) Arc<Hub<E>>);

/// What a publish did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a loss is the publisher's to know"]
pub struct Published {
    /// Subscriptions for which the event now waits or has already been handled.
    pub delivered: u64,
    /// Deliveries lost to a full queue: this event's, or an older one's that
    /// was dropped to make room for it.
    pub lost: u64,
    /// The topic holds as many keys as it may ([`TopicBuilder::key_limit`]):
    /// the event of a new key was neither cached nor delivered.
    pub refused: bool,
}

/// Why an event that was published will not be cleared by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotExpiring {
    /// The topic was built without [`TopicBuilder::expiring`]; the event was
    /// not published.
    #[error("the topic has no timers")]
    NoTimers,
    /// No timer could be set; the event was published and stays.
    #[error("the event stays: {0}")]
    NoTimer(#[from] AddError),
}

impl<E: Event> Topic<E> {
    /// Describes a new topic. The name is for people who read statistics.
    pub fn builder(name: impl Into<String>) -> TopicBuilder<E> {
        TopicBuilder::new(name.into())
    }

    /// A topic for a short life: not cached, not listed, as small as can be.
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
    /// Waits for room only where a subscription declared
    /// [`Overflow::Block`](crate::task::Overflow::Block).
    #[inline]
    pub fn publish(&self, event: E) -> Published {
        if self.0.is_idle() {
            return Published::default();
        }
        self.publish_as(event, None)
    }

    /// Publishes what another node says of the key; see [`TopicBuilder::fold`].
    /// On a topic that does not fold, the last node that speaks is right.
    pub fn publish_from(&self, origin: Origin, event: E) -> Published {
        self.publish_as(event, Some(origin))
    }

    #[inline]
    fn publish_as(&self, event: E, origin: Option<Origin>) -> Published {
        let mut tally = Tally::new();
        self.0.publish(event, origin, &mut tally);
        let published = Published::from(&tally);
        tally.wake_all();
        published
    }

    /// Publishes an event that is cleared after `life` unless a newer event of
    /// its key is published before.
    ///
    /// # Errors
    ///
    /// [`NotExpiring`] when the topic has no timers or none could be set.
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
    /// let bindings = Topic::builder("bindings").cached().expiring(&timers, &pool).build();
    ///
    /// bindings.publish_for(Binding(7), Duration::from_secs(3600))?;
    /// clock.as_virtual().unwrap().advance(Duration::from_secs(3600));
    /// timers.run_due(clock.now());
    /// while pool.step() {}
    /// assert!(bindings.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish_for(&self, event: E, life: Duration) -> Result<Published, NotExpiring> {
        let mut tally = Tally::new();
        let limited = self.0.publish_for(event, life, &mut tally);
        let published = Published::from(&tally);
        tally.wake_all();
        limited.map(|()| published)
    }

    /// The last event of the key. Takes no lock and stops no publisher.
    #[inline]
    pub fn get(&self, key: &E::Key) -> Option<E> {
        let (shard, hash) = self.0.locate(key);
        self.0.shards()[shard].get(hash, key)
    }

    /// Takes the last value of the key away and tells the subscribers; `false`
    /// when the key has none. Where other nodes have a state of the key, that
    /// remains.
    pub fn clear(&self, key: &E::Key) -> bool {
        self.clear_as(key, None)
    }

    /// Takes away what another node says of the key; `false` when it has said
    /// nothing.
    pub fn clear_from(&self, origin: Origin, key: &E::Key) -> bool {
        self.clear_as(key, Some(origin))
    }

    fn clear_as(&self, key: &E::Key, origin: Option<Origin>) -> bool {
        let mut tally = Tally::new();
        let is_cleared = self.0.clear(key, origin, &mut tally);
        tally.wake_all();
        is_cleared
    }

    /// Takes away all that a node has said, because it is gone; the number of
    /// keys it had a state of.
    pub fn forget_origin(&self, origin: Origin) -> usize {
        let keys = self
            .0
            .shards()
            .iter()
            .flat_map(|shard| shard.keys_of(origin));
        let keys: Vec<E::Key> = keys.collect();
        let forgotten = keys.iter().filter(|key| self.clear_from(origin, key));
        forgotten.count()
    }

    /// Makes everything that happens here happen on `to` as well, in the same
    /// order by key, until the [`Forward`] is dropped. What is cached here is
    /// published there at once.
    ///
    /// Publishers here never wait for subscriptions there: such a subscription
    /// may hold more than its capacity.
    ///
    /// # Errors
    ///
    /// [`ForwardError`] when events would come back here, or go there twice.
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
    /// one.publish(Tick(1));
    /// other.publish(Tick(2));
    /// assert_eq!(all.len(), 2);
    /// assert!(all.forward_to(&one).is_err());
    /// # Ok::<(), busyhour::bus::ForwardError>(())
    /// ```
    pub fn forward_to(&self, to: &Self) -> Result<Forward<E>, ForwardError> {
        Forward::new(self, to)
    }

    /// The last event of every key: each key's at one moment, different keys'
    /// not necessarily at the same one. The order is the same in every run
    /// that published the same.
    pub fn snapshot(&self) -> Vec<E> {
        let mut events = Vec::with_capacity(self.len());
        for shard in self.0.shards() {
            shard.snapshot(&mut events);
        }
        events
    }

    /// Keys with a last value.
    pub fn len(&self) -> usize {
        self.0.shards().iter().map(|shard| shard.len()).sum()
    }

    /// Whether no key has a last value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some subscription might want an event of this key. A publisher
    /// asks before it makes an event that is dear to make.
    pub fn would_deliver(&self, key: &E::Key) -> bool {
        self.0.would_deliver(key)
    }

    /// Describes a new subscription.
    pub fn subscribe(&self) -> SubscriptionBuilder<E> {
        SubscriptionBuilder::new(Arc::clone(&self.0))
    }

    /// What the topic holds and has done.
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

impl<E: Event> From<&Tally<E>> for Published {
    fn from(tally: &Tally<E>) -> Self {
        Self {
            delivered: tally.counts.delivered,
            lost: tally.counts.lost,
            refused: tally.refused,
        }
    }
}
