use super::{
    Event, Message, Registry, SubscriptionBuilder,
    consumer::{Lane, Subscriber},
    listener::{Lag, Tally},
    shard::{Shard, Wait},
};
use crate::stats::TopicStats;
use foldhash::fast::{FixedState, RandomState};
use std::{
    collections::VecDeque,
    fmt,
    hash::BuildHasher,
    iter::StepBy,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

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

/// What all handles of a topic share.
pub(super) struct Hub<E: Event> {
    name: String,
    cached: bool,
    /// Chooses the shard; the same in every process, since the order of a
    /// replay depends on it.
    sharding: FixedState,
    /// Chooses the place in a table; nobody outside can guess it.
    placing: RandomState,
    shards: Box<[Shard<E>]>,
    subscriber_count: AtomicUsize,
}

/// What a publish did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a loss is the publisher's to know"]
pub struct Published {
    /// Subscriptions for which the event now waits or has already been handled.
    pub delivered: u64,
    /// Deliveries lost to a full queue: this event's, or an older one's that
    /// was dropped to make room for it.
    pub lost: u64,
}

impl<E: Event> Topic<E> {
    /// Describes a new topic. The name is for people who read statistics.
    pub fn builder(name: impl Into<String>) -> TopicBuilder<E> {
        TopicBuilder {
            name: name.into(),
            cached: false,
            registry: None,
            make: Self::new,
        }
    }

    /// A topic for a short life: not cached, not listed, as small as can be.
    pub fn ephemeral() -> Self {
        Self::new(String::new(), false, 1)
    }

    fn new(name: String, cached: bool, shard_count: usize) -> Self {
        let shard = |index| Shard::new(index, cached);
        Self(Arc::new(Hub {
            name,
            cached,
            sharding: FixedState::with_seed(0),
            placing: RandomState::default(),
            shards: (0..shard_count).map(shard).collect(),
            subscriber_count: AtomicUsize::new(0),
        }))
    }

    /// The name given to [`Topic::builder`].
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Caches the event, if the topic is cached, and offers it to every
    /// subscription that wants it.
    ///
    /// Waits for room only where a subscription declared
    /// [`Overflow::Block`](crate::task::Overflow::Block).
    pub fn publish(&self, event: E) -> Published {
        let hub = &*self.0;
        if !hub.cached && hub.subscriber_count() == 0 {
            return Published::default();
        }
        let tally = hub.publish(event);
        let published = Published {
            delivered: tally.delivered,
            lost: tally.lost,
        };
        tally.wake_all();
        published
    }

    /// The last event of the key.
    pub fn get(&self, key: &E::Key) -> Option<E> {
        let (shard, hash) = self.0.locate(key);
        self.0.shards[shard].get(hash, key)
    }

    /// Takes the last value of the key away and tells the subscribers; `false`
    /// when the key has none.
    pub fn clear(&self, key: &E::Key) -> bool {
        let (shard, hash) = self.0.locate(key);
        let tally = self.0.shards[shard].clear(hash, key);
        tally.map(Tally::wake_all).is_some()
    }

    /// The last event of every key: each key's at one moment, different keys'
    /// not necessarily at the same one. The order is the same in every run
    /// that published the same.
    pub fn snapshot(&self) -> Vec<E> {
        let mut events = Vec::with_capacity(self.len());
        for shard in &self.0.shards {
            shard.snapshot(&mut events);
        }
        events
    }

    /// Keys with a last value.
    pub fn len(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.len()).sum()
    }

    /// Whether no key has a last value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some subscription might want an event of this key. A publisher
    /// asks before it makes an event that is dear to make.
    pub fn would_deliver(&self, key: &E::Key) -> bool {
        if self.0.subscriber_count() == 0 {
            return false;
        }
        let (shard, hash) = self.0.locate(key);
        self.0.shards[shard].want(hash, key)
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

/// Describes a topic before it is made; see [`Topic::builder`].
#[must_use]
pub struct TopicBuilder<E: Event> {
    name: String,
    cached: bool,
    registry: Option<Registry>,
    make: fn(String, bool, usize) -> Topic<E>,
}

impl<E: Event> TopicBuilder<E> {
    /// Shards of a topic: many more than threads that publish at once, so that
    /// two of them seldom meet; few enough that a subscription is cheap.
    const SHARD_COUNT: usize = 64;

    /// Keeps the last event of each key.
    pub fn cached(mut self) -> Self {
        self.cached = true;
        self
    }

    /// Lists the topic in a registry, which shows its statistics.
    pub fn registry(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Makes the topic.
    pub fn build(self) -> Topic<E> {
        let topic = (self.make)(self.name, self.cached, Self::SHARD_COUNT);
        if let Some(registry) = self.registry {
            registry.add(&topic);
        }
        topic
    }
}

impl<E: Event> Hub<E> {
    pub(super) fn is_cached(&self) -> bool {
        self.cached
    }

    /// How many lanes of so many there can be.
    pub(super) fn lanes_for(&self, wanted: usize) -> usize {
        wanted.clamp(1, self.shards.len())
    }

    pub(super) fn hash(&self, key: &E::Key) -> u64 {
        self.placing.hash_one(key)
    }

    /// The shard of the key, and its hash within the shard.
    #[inline]
    fn locate(&self, key: &E::Key) -> (usize, u64) {
        let shard = self.sharding.hash_one(key) as usize & (self.shards.len() - 1);
        (shard, self.hash(key))
    }

    #[inline]
    fn publish(&self, event: E) -> Tally<E> {
        let (shard, hash) = self.locate(event.key());
        let mut tally = Tally::new();
        let shard = &self.shards[shard];
        if let Err(wait) = shard.publish(hash, event, true, &mut tally) {
            publish_when_there_is_room(shard, hash, wait, &mut tally);
        }
        tally
    }

    fn subscriber_count(&self) -> usize {
        self.subscriber_count.load(Ordering::Acquire)
    }

    /// The shards a subscriber has to listen to.
    fn shards_of(&self, subscriber: &Subscriber<E>) -> StepBy<Range<usize>> {
        let Lane { index, count } = subscriber.lane();
        match subscriber.key() {
            None => (index..self.shards.len()).step_by(count),
            Some((_, key)) => {
                let (shard, _) = self.locate(key);
                (shard..shard + 1).step_by(1)
            }
        }
    }

    /// Makes the subscriber hear everything from now on, and before that, if
    /// it replays, everything there is.
    pub(super) fn add(&self, subscriber: &Arc<Subscriber<E>>, replays: bool) {
        self.subscriber_count.fetch_add(1, Ordering::AcqRel);
        let from_cache = replays && self.cached;
        for shard in self.shards_of(subscriber) {
            let lag = from_cache.then_some(Lag::NEW);
            self.shards[shard].add(Arc::clone(subscriber), lag);
        }
        if replays {
            self.order_replay(subscriber);
        }
    }

    fn order_replay(&self, subscriber: &Arc<Subscriber<E>>) {
        let shards = self.shards_of(subscriber).filter(|_| self.cached);
        if subscriber.mailbox().order_replay(shards) {
            Arc::clone(subscriber).wake();
        }
    }

    pub(super) fn remove(&self, subscriber: &Arc<Subscriber<E>>) {
        for shard in self.shards_of(subscriber) {
            self.shards[shard].remove(subscriber);
        }
        self.subscriber_count.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn catch_up(
        &self,
        shard: usize,
        subscriber: &Arc<Subscriber<E>>,
        batch: &mut VecDeque<Message<E>>,
    ) {
        self.shards[shard].catch_up(subscriber, batch);
    }

    pub(super) fn stats(&self) -> TopicStats {
        let mut stats = TopicStats {
            name: self.name.clone(),
            subscriber_count: self.subscriber_count() as u64,
            ..TopicStats::default()
        };
        for shard in &self.shards {
            let counters = shard.counters();
            stats.cached_count += counters.cached_count;
            stats.retired_count += counters.retired_count;
            stats.published += counters.published;
            stats.delivered += counters.delivered;
            stats.lost += counters.lost;
            stats.conflated += counters.conflated;
        }
        stats
    }
}

/// Waits for whoever has no room, and tries again.
#[cold]
fn publish_when_there_is_room<E: Event>(
    shard: &Shard<E>,
    hash: u64,
    mut wait: Wait<E>,
    tally: &mut Tally<E>,
) {
    loop {
        let may_wait = wait.full.wait_for_room();
        match shard.publish(hash, wait.event, may_wait, tally) {
            Ok(()) => return,
            Err(again) => wait = again,
        }
    }
}
