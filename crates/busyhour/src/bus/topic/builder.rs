use super::{Topic, expiry::Expiry, registry::Registry};
use crate::{
    bus::{
        Event,
        nodes::{Folding, NodeId},
        topic_inner::{TopicInner, TopicParts},
    },
    task::Executor,
    timer::Timers,
};
use std::sync::Arc;

/// Describes a topic before it is made; see [`Topic::builder`].
#[must_use]
pub struct TopicBuilder<E: Event> {
    parts: TopicParts<E>,
    registry: Option<Registry>,
}

impl<E: Event> TopicBuilder<E> {
    /// Shards of a topic: many more than threads that publish at once, so that
    /// two of them seldom meet; few enough that a subscription is cheap.
    const SHARD_COUNT: usize = 64;
    /// Keys of a cache unless told: more than any topic of a server is for,
    /// and some gigabytes at most.
    const KEY_LIMIT: usize = 1 << 24;

    pub(in crate::bus) fn new(name: String) -> Self {
        Self {
            parts: TopicParts {
                name,
                cached: false,
                shard_count: Self::SHARD_COUNT,
                key_limit: Self::KEY_LIMIT,
                local: NodeId::default(),
                folding: None,
                expiry: None,
            },
            registry: None,
        }
    }

    /// Keeps the last event of each key.
    pub fn cached(mut self) -> Self {
        self.parts.cached = true;
        self
    }

    /// How many keys may have a last value; 16,777,216 unless told.
    ///
    /// An event of one key more is refused whole, neither cached nor
    /// delivered, so that what subscribers hear and what the cache holds stay
    /// one: [`Published::refused`](crate::bus::Published::refused) says it to the
    /// publisher, and `TopicStats::refused` counts it. The remedy is a higher
    /// limit, [`Topic::remove`], or events with a limited time. Publishers who
    /// bring new keys at the same moment may each go one beyond the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Event, Topic};
    ///
    /// #[derive(Clone)]
    /// struct Seen(u32);
    /// impl Event for Seen {
    ///     type Key = u32;
    ///     fn key(&self) -> &u32 { &self.0 }
    /// }
    ///
    /// let seen = Topic::builder("seen").cached().key_limit(1).build();
    /// assert!(!seen.publish(Seen(1)).refused);
    /// assert!(seen.publish(Seen(2)).refused);
    /// assert!(!seen.publish(Seen(1)).refused);
    /// assert_eq!((seen.len(), seen.stats().refused), (1, 1));
    /// ```
    pub fn key_limit(mut self, key_count: usize) -> Self {
        self.parts.key_limit = key_count;
        self
    }

    /// Lets [`Topic::publish_with_ttl`] limit the time of events. The timers remove
    /// the keys on `executor`, and with that run the callbacks of
    /// subscriptions that named none of their own.
    pub fn with_ttl<X: Executor + Clone + 'static>(
        mut self,
        timers: &Timers,
        executor: &X,
    ) -> Self {
        let shared = executor.to_shared();
        let shared = shared.unwrap_or_else(|| Arc::new(executor.clone()));
        self.parts.expiry = Some(Expiry::new(timers, shared));
        self
    }

    /// Makes one state of a key from the states that several nodes have of it
    /// ([`Topic::publish_from`]). What this node publishes is `local`'s.
    ///
    /// `fold` gets every node's state, two at least, in the order of their
    /// origins, and returns one for the same key. It runs under no lock, and
    /// again if another node speaks of the key meanwhile. The topic is cached.
    ///
    /// As long as no other node has spoken of a key, its events pass by all
    /// this: the cost is to find that there is nothing to fold.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::bus::{Event, NodeId, Topic};
    ///
    /// #[derive(Clone)]
    /// struct Calls { line: u32, count: u32 }
    /// impl Event for Calls {
    ///     type Key = u32;
    ///     fn key(&self) -> &u32 { &self.line }
    /// }
    ///
    /// let calls = Topic::builder("calls")
    ///     .fold(NodeId(1), |parts: &[(NodeId, Calls)]| Calls {
    ///         line: parts[0].1.line,
    ///         count: parts.iter().map(|(_, calls)| calls.count).sum(),
    ///     })
    ///     .build();
    /// _ = calls.publish(Calls { line: 7, count: 2 });
    /// _ = calls.publish_from(NodeId(2), Calls { line: 7, count: 3 });
    /// assert_eq!(calls.get(&7).unwrap().count, 5);
    /// let _ = calls.remove_node(NodeId(2));
    /// assert_eq!(calls.get(&7).unwrap().count, 2);
    /// ```
    pub fn fold(
        mut self,
        local: NodeId,
        fold: impl Fn(&[(NodeId, E)]) -> E + Send + Sync + 'static,
    ) -> Self {
        let fold = Arc::new(fold);
        self.parts.folding = Some(Folding { local, fold });
        self.node(local).cached()
    }

    /// The node this is; node 0 unless told. What is published here bears its
    /// number where subscribers hear of it
    /// ([`Delivery::Event`](crate::bus::Delivery::Event)).
    ///
    /// # Examples
    ///
    /// Pass on what this node says, and nothing that came from others:
    ///
    /// ```
    /// use busyhour::bus::{Delivery, Event, NodeId, Topic};
    /// use std::sync::mpsc;
    /// # #[derive(Clone)]
    /// # struct Tick(u32);
    /// # impl Event for Tick {
    /// #     type Key = u32;
    /// #     fn key(&self) -> &u32 { &self.0 }
    /// # }
    ///
    /// let here = NodeId(1);
    /// let ticks = Topic::<Tick>::builder("ticks").cached().node(here).build();
    /// let (to_others, passed_on) = mpsc::channel();
    /// let _bridge = ticks.subscribe().replay().start(move |delivery| {
    ///     if let Delivery::Event(tick, origin) = delivery && origin == here {
    ///         to_others.send(tick.0).unwrap();
    ///     }
    /// });
    /// _ = ticks.publish(Tick(7));
    /// _ = ticks.publish_from(NodeId(2), Tick(8));
    /// assert_eq!(passed_on.try_iter().collect::<Vec<_>>(), [7]);
    /// assert_eq!(ticks.origin_of(&8), Some(NodeId(2)));
    /// ```
    pub fn node(mut self, local: NodeId) -> Self {
        self.parts.local = local;
        if let Some(folding) = &mut self.parts.folding {
            folding.local = local;
        }
        self
    }

    /// Lists the topic in a registry, which shows its statistics.
    pub fn registry(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// One shard only: for a topic with few keys and a short life.
    pub(in crate::bus) fn small(mut self) -> Self {
        self.parts.shard_count = 1;
        self
    }

    /// Makes the topic.
    pub fn build(self) -> Topic<E> {
        let topic = Topic(Arc::new(TopicInner::new(self.parts)));
        if let Some(registry) = self.registry {
            registry.add(&topic);
        }
        topic
    }
}
