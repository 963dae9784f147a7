use super::{Topic, expiry::Expiry, registry::Registry};
use crate::{
    bus::{
        Event, SubscriptionEvent,
        nodes::{Folding, NodeId},
        topic_inner::{TopicInner, TopicParts},
    },
    task::Executor,
    timer::Timers,
};
use std::sync::Arc;

/// Configures a new topic; see [`Topic::builder`].
#[must_use]
pub struct TopicBuilder<E: Event> {
    parts: TopicParts<E>,
    registry: Option<Registry>,
}

impl<E: Event> TopicBuilder<E> {
    /// Shards of a topic: many more than threads that publish at once, so that
    /// two threads seldom use the same one; few enough that a subscription is
    /// cheap.
    const SHARD_COUNT: usize = 64;
    /// The default limit of keys: more than any topic of a server needs, and
    /// some gigabytes at most.
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
                announcements: None,
            },
            registry: None,
        }
    }

    /// Keeps the last event of each key.
    pub fn cached(mut self) -> Self {
        self.parts.cached = true;
        self
    }

    /// The maximum number of keys with a last value; 16,777,216 by default.
    ///
    /// An event of a new key beyond the limit is neither cached nor delivered,
    /// so that the cache and the subscribers agree. The publisher sees it in
    /// [`Published::refused`](crate::bus::Published::refused), and
    /// `TopicStats::refused` counts it. To avoid it, raise the limit, remove
    /// keys with [`Topic::remove`], or publish events that expire. If several
    /// publishers add new keys at the same moment, each of them may exceed the
    /// limit by one.
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

    /// Allows [`Topic::publish_with_ttl`]. Expired keys are removed on
    /// `executor`; the callbacks of subscriptions without an executor of their
    /// own then run there too.
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

    /// Combines the states that several nodes have of a key
    /// ([`Topic::publish_from`]) into one. What this node publishes is the
    /// state of `local`. The topic becomes cached.
    ///
    /// `fold` gets the state of every node, at least two, in the order of their
    /// ids, and returns one state for the same key. It runs under no lock, and
    /// runs again if another node publishes the key meanwhile.
    ///
    /// A key that no other node has published is not folded; its publishes only
    /// check that there is nothing to fold.
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

    /// The id of this node; 0 by default. Subscribers receive it as the origin
    /// of what is published here ([`Delivery::Event`](crate::bus::Delivery::Event)).
    ///
    /// # Examples
    ///
    /// Pass on what this node publishes, and nothing that came from others:
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
    ///     match delivery {
    ///         Delivery::Event(tick, origin) if origin == here => to_others.send(tick.0).unwrap(),
    ///         _ => {}
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

    /// Publishes on `announcements` when a subscription of this topic starts, and
    /// removes its key there when it ends; see [`SubscriptionEvent`]. One topic
    /// may hold the subscriptions of many topics.
    ///
    /// The thread that starts or ends the subscription publishes, and waits for
    /// room if a subscription of `announcements` has declared
    /// [`Overflow::Block`](crate::task::Overflow::Block).
    pub fn announce_subscriptions(mut self, announcements: &Topic<SubscriptionEvent>) -> Self {
        self.parts.announcements = Some(Arc::clone(&announcements.0));
        self
    }

    /// Lists the topic in a registry, which collects statistics.
    pub fn registry(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Uses one shard only: for a topic with few keys and a short life.
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
