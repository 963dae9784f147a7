use super::{
    Event, NodeId, Published, Removed, SubscriptionEvent, TtlError,
    cache::{Incoming, SharedEvent},
    delivery::{Items, Lag, RoomWait, Subscriber, ToFetch},
    nodes::Folding,
    panics::Panics,
    publish_options::{PublishOptions, RemoveCondition},
    publish_result::{PublishResult, ShardStats},
    shard::{FastPath, Known, LockedPublish, Shard},
    topic::{Expiry, Limited},
};
use crate::{stats::TopicStats, sync::CachePadded, task::Deliveries};
use foldhash::fast::{FixedState, RandomState};
use std::{
    hash::BuildHasher,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The state that all handles of a topic share.
pub(super) struct TopicInner<E: Event> {
    /// Identifies the topic among all topics of the process.
    id: u64,
    name: String,
    cached: bool,
    /// Chooses the shard of a key; the same in every process, since the order
    /// of a replay depends on it.
    sharding: FixedState,
    /// Chooses the slot in a table; the hash is secret, so that nobody outside
    /// can choose keys that collide.
    placing: RandomState,
    shards: Box<[Shard<E>]>,
    subscriber_count: AtomicUsize,
    forward_count: AtomicUsize,
    /// The number of keys with a last value. Changes only when a key is added
    /// or removed. On lines of its own, since each publish reads what is beside it.
    key_count: CachePadded<AtomicUsize>,
    key_limit: usize,
    /// Publishers that did not wait for room because the wait would never have
    /// ended.
    refused_waits: AtomicU64,
    /// The id of this node.
    local: NodeId,
    folding: Option<Folding<E>>,
    expiry: Option<Expiry>,
    announcements: Option<Arc<TopicInner<SubscriptionEvent>>>,
    /// Streams that are made from now on end at once.
    ends_streams: AtomicBool,
}

/// The parts of which a topic is built.
pub(super) struct TopicParts<E: Event> {
    pub(super) name: String,
    pub(super) cached: bool,
    pub(super) shard_count: usize,
    pub(super) key_limit: usize,
    pub(super) local: NodeId,
    pub(super) folding: Option<Folding<E>>,
    pub(super) expiry: Option<Expiry>,
    pub(super) announcements: Option<Arc<TopicInner<SubscriptionEvent>>>,
}

impl<E: Event> TopicInner<E> {
    pub(super) fn new(parts: TopicParts<E>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        debug_assert!(parts.shard_count.is_power_of_two());
        let shard = |index| Shard::new(index, parts.cached);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name: parts.name,
            cached: parts.cached,
            sharding: FixedState::with_seed(0),
            placing: RandomState::default(),
            shards: (0..parts.shard_count).map(shard).collect(),
            subscriber_count: AtomicUsize::new(0),
            forward_count: AtomicUsize::new(0),
            key_count: CachePadded(AtomicUsize::new(0)),
            key_limit: parts.key_limit,
            refused_waits: AtomicU64::new(0),
            local: parts.local,
            folding: parts.folding,
            expiry: parts.expiry,
            announcements: parts.announcements,
            ends_streams: AtomicBool::new(false),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The id of this node.
    pub(super) fn local(&self) -> NodeId {
        self.local
    }

    /// `None` for this node.
    fn remote(&self, origin: NodeId) -> Option<NodeId> {
        (origin != self.local).then_some(origin)
    }

    pub(super) fn is_cached(&self) -> bool {
        self.cached
    }

    /// The topic that learns of subscriptions.
    pub(super) fn announcements(&self) -> Option<&TopicInner<SubscriptionEvent>> {
        self.announcements.as_deref()
    }

    pub(super) fn shards(&self) -> &[Shard<E>] {
        &self.shards
    }

    pub(super) fn folding(&self) -> Option<&Folding<E>> {
        self.folding.as_ref()
    }

    /// Whether the topic has neither a cache nor a subscriber.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        !self.cached
            && self.subscriber_count.load(Ordering::Acquire) == 0
            && self.forward_count.load(Ordering::Acquire) == 0
    }

    /// Whether the cache holds as many keys as its limit allows.
    #[inline(always)]
    pub(super) fn has_all_keys(&self) -> bool {
        self.key_count.load(Ordering::Relaxed) >= self.key_limit
    }

    #[cold]
    pub(super) fn count_key(&self) {
        self.key_count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn forget_key(&self) {
        self.key_count.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn hash(&self, key: &E::Key) -> u64 {
        if cfg!(loom) {
            // A model must take the same path each time it runs.
            return self.sharding.hash_one(key);
        }
        self.placing.hash_one(key)
    }

    /// The shard of the key, and the key's hash within the shard.
    #[inline]
    pub(super) fn locate(&self, key: &E::Key) -> (usize, u64) {
        let shard = self.sharding.hash_one(key) as usize & (self.shards.len() - 1);
        (shard, self.hash(key))
    }

    #[inline(always)]
    pub(super) fn incoming(&self, event: E) -> Incoming<E> {
        let is_heard = || self.subscriber_count.load(Ordering::Relaxed) > 0;
        Incoming::new(event, self.cached, is_heard)
    }

    /// Publishes an event of this node.
    #[inline(always)]
    pub(super) fn publish(&self, event: E) -> Published {
        let mut event = self.incoming(event);
        let Some((shard, hash)) = self.shard_of(&event) else {
            return Published::default();
        };
        match shard.try_fast_path(self, (hash, &mut event)) {
            FastPath::Published { swept, .. } => {
                swept.drop_all();
                event.drop_overdue();
            }
            FastPath::Locked(locked) => {
                return self.publish_locked((shard, hash, &mut event), locked);
            }
            FastPath::NotApplicable => return self.publish_slowly((shard, hash, &mut event)),
        }
        Published::default()
    }

    #[inline(never)]
    fn publish_locked(
        &self,
        (shard, hash, event): (&Shard<E>, u64, &mut Incoming<E>),
        locked: LockedPublish<'_, E>,
    ) -> Published {
        let mut result = PublishResult::new();
        if shard.publish_in(locked, self, (hash, event), &mut result) {
            event.drop_overdue();
        } else {
            self.publish_at(
                (shard, hash, event),
                PublishOptions::from(None),
                &mut result,
            );
        }
        let published = Published::from(&result);
        result.wake_all();
        published
    }

    #[cold]
    fn publish_slowly(&self, event: (&Shard<E>, u64, &mut Incoming<E>)) -> Published {
        let mut result = PublishResult::new();
        self.publish_at(event, PublishOptions::from(None), &mut result);
        let published = Published::from(&result);
        result.wake_all();
        published
    }

    /// Publishes and fills `result`, for callers that need more than the
    /// counts.
    fn publish_with_result(&self, mut event: Incoming<E>, result: &mut PublishResult<E>) {
        let Some((shard, hash)) = self.shard_of(&event) else {
            return;
        };
        match shard.try_fast_path(self, (hash, &mut event)) {
            FastPath::Published {
                version,
                born,
                swept,
            } => {
                (result.version, result.born) = (version, born);
                swept.drop_all();
                return event.drop_overdue();
            }
            FastPath::Locked(locked) => {
                if shard.publish_in(locked, self, (hash, &mut event), result) {
                    return event.drop_overdue();
                }
            }
            FastPath::NotApplicable => {}
        }
        self.publish_at(
            (shard, hash, &mut event),
            PublishOptions::from(None),
            result,
        );
    }

    /// The shard of the event's key, and the key's hash within it.
    #[inline(always)]
    fn shard_of(&self, event: &Incoming<E>) -> Option<(&Shard<E>, u64)> {
        let (index, hash) = self.locate(event.given.get()?.event().key());
        Some((&self.shards[index], hash))
    }

    /// Publishes an event of the given node.
    pub(super) fn publish_from(&self, origin: NodeId, event: E, result: &mut PublishResult<E>) {
        let (remote, event) = (self.remote(origin), self.incoming(event));
        match remote {
            None => self.publish_with_result(event, result),
            Some(_) => self.publish_apart(event, PublishOptions::from(remote), result),
        }
    }

    fn publish_apart(
        &self,
        mut event: Incoming<E>,
        options: PublishOptions,
        result: &mut PublishResult<E>,
    ) {
        if let Some((shard, hash)) = self.shard_of(&event) {
            self.publish_at((shard, hash, &mut event), options, result);
        }
    }

    /// Publishes, and waits for subscriptions without room.
    #[inline(never)]
    fn publish_at(
        &self,
        (shard, hash, event): (&Shard<E>, u64, &mut Incoming<E>),
        mut options: PublishOptions,
        result: &mut PublishResult<E>,
    ) {
        let mut known = Known::new();
        while let Err(full) = shard.publish(self, (hash, event), options, &mut known, result) {
            options.may_wait = self.wait_for_room(&full);
        }
        event.drop_overdue();
    }

    /// Publishes, and waits for room as a future does.
    pub(super) async fn publish_async(&self, event: E) -> Published {
        let mut event = self.incoming(event);
        let (mut options, mut wait) = (PublishOptions::from(None), None::<RoomWait<E>>);
        loop {
            let full = match self.try_publish(&mut event, options) {
                Ok(published) => return published,
                Err(full) => full,
            };
            let wait = match wait.take().filter(|wait| wait.is_for(&full)) {
                Some(known) => wait.insert(known),
                None => wait.insert(RoomWait::new(full)),
            };
            options.may_wait = wait.room().await;
            if !options.may_wait {
                self.refused_waits.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Publishes unless a subscription has no room that is to be waited for.
    fn try_publish(
        &self,
        event: &mut Incoming<E>,
        options: PublishOptions,
    ) -> Result<Published, Arc<Subscriber<E>>> {
        let Some((shard, hash)) = self.shard_of(event).filter(|_| !self.is_idle()) else {
            return Ok(Published::default());
        };
        let mut result = PublishResult::new();
        shard.publish(self, (hash, event), options, &mut Known::new(), &mut result)?;
        event.drop_overdue();
        let published = Published::from(&result);
        result.wake_all();
        Ok(published)
    }

    /// Whether the publisher may continue to wait for room; if not, it goes on
    /// without.
    pub(super) fn wait_for_room(&self, full: &Arc<Subscriber<E>>) -> bool {
        let has_room = full.wait_for_room();
        if !has_room {
            self.refused_waits.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Publishes an event that another topic forwards; waits for no
    /// subscription.
    pub(super) fn publish_forwarded(
        &self,
        event: &SharedEvent<E>,
        origin: NodeId,
        result: &mut PublishResult<E>,
    ) {
        if self.is_idle() {
            return;
        }
        let outer = (result.version, result.born);
        let event = Incoming::shared(SharedEvent::clone(event));
        self.publish_apart(
            event,
            PublishOptions::forwarded(self.remote(origin)),
            result,
        );
        (result.version, result.born) = outer;
    }

    /// Removes a key that a forwarding topic has removed.
    pub(super) fn remove_forwarded(
        &self,
        key: &Arc<E::Key>,
        origin: NodeId,
        result: &mut PublishResult<E>,
    ) {
        let outer = (result.version, result.born);
        let options = PublishOptions::forwarded(self.remote(origin));
        self.remove_with_result(key, (&RemoveCondition::Any, options), result);
        (result.version, result.born) = outer;
    }

    /// Removes this node's state of a key.
    pub(super) fn remove(&self, key: &E::Key) -> Removed {
        self.remove_if(
            key.clone(),
            &RemoveCondition::Any,
            PublishOptions::from(None),
        )
    }

    /// Removes the given node's state of a key.
    pub(super) fn remove_from(&self, origin: NodeId, key: &E::Key) -> Removed {
        self.remove_if(
            key.clone(),
            &RemoveCondition::Any,
            PublishOptions::from(self.remote(origin)),
        )
    }

    fn remove_if(
        &self,
        key: E::Key,
        which: &RemoveCondition<'_, E>,
        options: PublishOptions,
    ) -> Removed {
        let key = Arc::new(key);
        let mut result = PublishResult::new();
        let is_changed = self.remove_with_result(&key, (which, options), &mut result);
        let removed = Removed::new(is_changed, &result);
        result.wake_all();
        removed
    }

    /// Removes and fills `result`; returns whether there was a state to remove.
    fn remove_with_result(
        &self,
        key: &Arc<E::Key>,
        (which, mut options): (&RemoveCondition<'_, E>, PublishOptions),
        result: &mut PublishResult<E>,
    ) -> bool {
        let (index, hash) = self.locate(key);
        let shard = &self.shards[index];
        let mut known = Known::new();
        let is_changed = loop {
            match shard.remove(self, (hash, key), (which, options), &mut known, result) {
                Ok(is_changed) => break is_changed,
                Err(full) => options.may_wait = self.wait_for_room(&full),
            }
        };
        if let Some(expiry) = self.expiry.as_ref().filter(|_| is_changed) {
            expiry.cancel((index, result.born), result.version);
        }
        is_changed
    }

    /// Removes every key whose last event satisfies `is_wanted`.
    pub(super) fn remove_matching(&self, is_wanted: &dyn Fn(&E) -> bool) -> Removed {
        let (mut removed, which) = (Removed::default(), RemoveCondition::Matching(is_wanted));
        for shard in &self.shards {
            for key in shard.keys_where(is_wanted) {
                removed += self.remove_if(key, &which, PublishOptions::from(None));
            }
        }
        removed
    }

    /// Removes all states of a node.
    pub(super) fn remove_node(&self, origin: NodeId) -> Removed {
        let mut removed = Removed::default();
        let which = match self.folding {
            Some(_) => RemoveCondition::Any,
            None => RemoveCondition::PublishedBy(self.remote(origin)),
        };
        for shard in &self.shards {
            for key in shard.keys_of(self, origin) {
                removed += self.remove_if(key, &which, PublishOptions::from(self.remote(origin)));
            }
        }
        removed
    }

    /// Publishes an event that is removed after `life` unless a newer one is
    /// published first.
    pub(super) fn publish_with_ttl(
        self: &Arc<Self>,
        event: E,
        life: Duration,
        result: &mut PublishResult<E>,
    ) -> Result<(), TtlError> {
        let expiry = self.expiry.as_ref().ok_or(TtlError::NoTimers)?;
        let event = self.incoming(event);
        let Some(key) = event.given.get().map(|it| it.event().key().clone()) else {
            return Ok(());
        };
        let mut panics = Panics::default();
        // The event has been published even if something panics afterwards: a
        // callback, or the `Drop` of another event.
        panics.catch(|| self.publish_with_result(event, result));
        let (shard, _) = self.locate(&key);
        let (version, born) = (result.version, result.born);
        if version == 0 {
            // It was not cached: the topic has no cache, or no room.
            return Ok(());
        }
        let limited = Limited {
            slot: (shard, born),
            key,
            version,
        };
        expiry.limit(Arc::downgrade(self), limited, life)?;
        Ok(())
    }

    /// An event has expired. Waits for no subscription: this thread may be the
    /// one that has to run the consumer without room.
    pub(super) fn expire(&self, limited: &Limited<E>) {
        let which = RemoveCondition::Version(limited.version);
        if let Some(expiry) = &self.expiry {
            expiry.forget(limited.slot, limited.version);
        }
        let _ = self.remove_if(limited.key.clone(), &which, PublishOptions::at_once());
    }

    /// Whether any subscriber may want an event of this key.
    pub(super) fn would_deliver(&self, key: &E::Key) -> bool {
        if self.subscriber_count() == 0 && self.forward_count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let (shard, hash) = self.locate(key);
        self.shards[shard].may_want(hash, key)
    }

    /// Whether a forwarded event of this key has a receiver here: the cache or
    /// a subscriber.
    pub(super) fn would_keep(&self, key: &E::Key) -> bool {
        self.cached || self.would_deliver(key)
    }

    /// The key that its subscriptions share, with its hash.
    pub(super) fn shared_key(&self, key: E::Key) -> (u64, Arc<E::Key>) {
        let (shard, hash) = self.locate(&key);
        (hash, self.shards[shard].shared_key(hash, key))
    }

    /// Ends every stream, also those that are made later.
    pub(super) fn end_streams(&self) {
        // A stream that is being made is in its shard before it looks at this, and
        // the shard's lock is taken below: one of the two sees the other.
        self.ends_streams.store(true, Ordering::Release);
        for shard in &self.shards {
            for subscriber in shard.subscribers() {
                if subscriber.is_stream() {
                    let _all_can_still_be_taken = subscriber.end();
                }
            }
        }
    }

    /// Drops replaced events that no reader can use any more.
    pub(super) fn sweep(&self) {
        let mut panics = Panics::default();
        for shard in &self.shards {
            panics.catch(|| shard.sweep());
        }
    }

    pub(super) fn add_forward(&self, to: &Arc<Self>) -> Published {
        self.forward_count.fetch_add(1, Ordering::AcqRel);
        let mut result = PublishResult::new();
        for shard in &self.shards {
            shard.add_forward(self, to, &mut result);
        }
        let published = Published::from(&result);
        result.wake_all();
        published
    }

    pub(super) fn remove_forward(&self, to: &Arc<Self>) {
        for shard in &self.shards {
            shard.remove_forward(to);
        }
        self.forward_count.fetch_sub(1, Ordering::AcqRel);
    }

    fn subscriber_count(&self) -> usize {
        self.subscriber_count.load(Ordering::Acquire)
    }

    /// The shards that a subscriber belongs to.
    fn shards_of(&self, subscriber: &Subscriber<E>) -> Range<usize> {
        match subscriber.key() {
            None => 0..self.shards.len(),
            Some((_, key)) => {
                let (shard, _) = self.locate(key);
                shard..shard + 1
            }
        }
    }

    /// Adds a subscriber: from now on it receives every event, and before that,
    /// if it replays, the cached ones.
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
        if subscriber.is_stream() && self.ends_streams.load(Ordering::Acquire) {
            let _all_can_still_be_taken = subscriber.end();
        }
    }

    /// Lets a subscriber receive every cached key, also those that it has
    /// received.
    pub(super) fn order_replay(&self, subscriber: &Arc<Subscriber<E>>) {
        let shards = self.shards_of(subscriber).filter(|_| self.cached);
        if subscriber.mailbox().order_replay(shards) {
            Arc::clone(subscriber).wake();
        }
    }

    pub(super) fn remove_subscriber(&self, subscriber: &Arc<Subscriber<E>>) {
        for shard in self.shards_of(subscriber) {
            self.shards[shard].remove_subscriber(subscriber);
        }
        self.subscriber_count.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn catch_up(
        &self,
        to_fetch: ToFetch,
        subscriber: &Arc<Subscriber<E>>,
        batch: &mut Items<E>,
    ) {
        let ToFetch { shard, whole } = to_fetch;
        let _lost = self.shards[shard].catch_up(subscriber, whole, batch);
        #[cfg(feature = "tracing")]
        if _lost > 0 {
            crate::trace::lagged(&self.name, subscriber.name(), _lost);
        }
    }

    /// Fills the batch with what a reader is to read of a shard next; whether there may be more.
    pub(super) fn read(
        &self,
        to_fetch: ToFetch,
        subscriber: &Arc<Subscriber<E>>,
        batch: &mut Items<E>,
    ) -> bool {
        let ToFetch { shard, whole } = to_fetch;
        self.shards[shard].read(subscriber, whole, batch)
    }

    /// The turn of a reader was lost, so the next change of any shard has to send one.
    pub(super) fn stall(&self, subscriber: &Arc<Subscriber<E>>) {
        for shard in &self.shards {
            shard.stall(subscriber);
        }
    }

    pub(super) fn stats(&self) -> TopicStats {
        self.sweep();
        let mut stats = TopicStats {
            name: self.name.clone(),
            subscriber_count: self.subscriber_count() as u64,
            refused_waits: self.refused_waits.load(Ordering::Relaxed),
            ..TopicStats::default()
        };
        for shard in &self.shards {
            let ShardStats {
                counts,
                published,
                refused,
                cached_count,
                retired_count,
                lagging_count,
            } = shard.stats();
            stats.cached_count += cached_count;
            stats.retired_count += retired_count;
            stats.published += published;
            stats.refused += refused;
            stats.delivered += counts.delivered;
            stats.lost += counts.lost;
            stats.conflated += counts.conflated;
            stats.lagging_count += lagging_count;
        }
        if let Some((queued_len, name)) = self.slowest() {
            stats.slowest_subscriber = name;
            stats.slowest_queued_len = queued_len;
        }
        stats
    }
}
