//! Queries of a shard.

use super::{reading::AHEAD, *};

impl<E: Event> Shard<E> {
    /// The keys of which a node has a state: on a topic that folds in the order
    /// in which another node first published them, otherwise in the order of
    /// their last events.
    pub(in crate::bus) fn keys_of(&self, topic: &TopicInner<E>, origin: NodeId) -> Vec<E::Key> {
        if topic.folding().is_none() {
            return self.keys_published_by(topic, origin);
        }
        let state = self.state.lock();
        let nodes = state.nodes.as_ref();
        let parts = nodes.map(|nodes| nodes.parts.with_part_of(origin));
        drop(state);
        let parts = parts.unwrap_or_default();
        let own = parts.iter().filter_map(|parts| part(parts, origin));
        own.map(|event| event.key().clone()).collect()
    }

    fn keys_published_by(&self, topic: &TopicInner<E>, origin: NodeId) -> Vec<E::Key> {
        let mut state = self.state.lock();
        let Some((table, writer)) = self.cache(&mut state) else {
            return Vec::new();
        };
        let changes = table.changes_since(writer, 0);
        let versions = changes.iter().map(CachedChange::version);
        let origins = state.remote_origins_of(versions);
        drop(state);
        let changes = Changes::in_order(changes);
        let by_origin = changes.as_slice().iter().filter(|change| {
            let node = origins.get(&change.version()).copied();
            !change.is_removed() && node.unwrap_or(topic.local()) == origin
        });
        by_origin.map(|change| change.event.key().clone()).collect()
    }

    /// The keys whose last event satisfies `is_wanted`, in the order of those
    /// events.
    pub(in crate::bus) fn keys_where(&self, is_wanted: &dyn Fn(&E) -> bool) -> Vec<E::Key> {
        let changes = Changes::in_order(self.all_changes());
        let live = changes.as_slice().iter().filter(|it| !it.is_removed());
        let wanted = live.filter(|change| is_wanted(&change.event));
        wanted.map(|change| change.event.key().clone()).collect()
    }

    /// The first last event that satisfies `is_wanted`, oldest change first.
    pub(in crate::bus) fn find(&self, is_wanted: &dyn Fn(&E) -> bool) -> Option<E> {
        let changes = Changes::in_order(self.all_changes());
        let mut live = changes.as_slice().iter().filter(|it| !it.is_removed());
        let found = live.find(|change| is_wanted(&change.event))?;
        Some(E::clone(&found.event))
    }

    fn all_changes(&self) -> Vec<CachedChange<E>> {
        let mut state = self.state.lock();
        let cache = self.cache(&mut state);
        let changes = cache.map(|(table, writer)| table.changes_since(writer, 0));
        changes.unwrap_or_default()
    }

    /// The node that published last for the key, if it has a last value.
    pub(in crate::bus) fn origin_of(
        &self,
        topic: &TopicInner<E>,
        key: (u64, &E::Key),
    ) -> Option<NodeId> {
        self.with_place(key, |state, place| {
            let place = place.filter(SlotPosition::is_live)?;
            Some(
                state
                    .origin_of_version(place.version())
                    .unwrap_or(topic.local()),
            )
        })
    }

    /// One node's state of the key.
    pub(in crate::bus) fn get_from(
        &self,
        topic: &TopicInner<E>,
        key: (u64, &E::Key),
        origin: NodeId,
    ) -> Option<E> {
        let folds = topic.folding().is_some();
        let found = self.with_place(key, |state, place| {
            let place = place.filter(SlotPosition::is_live)?;
            if let Some(parts) = state.parts_of(place).filter(|_| folds) {
                return Some(StateAt::Parts(parts));
            }
            let node = state
                .origin_of_version(place.version())
                .unwrap_or(topic.local());
            let is_origin = if folds { topic.local() } else { node } == origin;
            let (table, writer) = self.cache(state)?;
            let event = table.event(writer, place).filter(|_| is_origin)?;
            Some(StateAt::Event(event))
        });
        match found? {
            StateAt::Parts(parts) => part(&parts, origin).cloned(),
            StateAt::Event(event) => Some(Held::lend(event, |event| E::clone(event))),
        }
    }

    #[inline]
    pub(in crate::bus) fn get(&self, hash: u64, key: &E::Key) -> Option<E> {
        let table = self.table.as_ref()?;
        table.prefetch_entry(hash);
        pinned(|pin| table.get(hash, key, pin))
    }

    /// The number of keys with a last value.
    pub(in crate::bus) fn len(&self) -> usize {
        self.state
            .lock()
            .writer
            .as_ref()
            .map_or(0, CacheWriter::len)
    }

    /// Appends the last events, oldest change first. They are cloned while the pin keeps them, so no
    /// count of theirs is written.
    pub(in crate::bus) fn snapshot(&self, events: &mut Vec<E>) {
        let Some(table) = &self.table else { return };
        pinned(|pin| {
            let state = self.state.lock();
            let Some(writer) = &state.writer else { return };
            let mut changes = table.pinned_changes(writer, pin);
            drop(state);
            changes.retain(|change| !change.is_removed());
            changes.sort_unstable_by_key(UnreadChange::version);
            for (index, change) in changes.iter().enumerate() {
                if let Some(ahead) = changes.get(index + AHEAD) {
                    ahead.event.prefetch();
                }
                events.push(change.event.event().clone());
            }
        });
    }

    /// Whether any subscriber may want an event of this key.
    pub(in crate::bus) fn may_want(&self, hash: u64, key: &E::Key) -> bool {
        let state = self.state.lock();
        if state.listeners.want_any_key() {
            return true;
        }
        let keys = state.listeners.keys_of(hash);
        let forwards = state.forwards.clone();
        drop(state);
        keys.iter().any(|other| **other == *key)
            || forwards.iter().any(|topic| topic.would_keep(key))
    }

    /// The key that subscriptions to it share, if there is one already.
    pub(in crate::bus) fn shared_key(&self, hash: u64, key: E::Key) -> Arc<E::Key> {
        let keys = self.state.lock().listeners.keys_of(hash);
        let shared = keys.into_iter().find(|other| **other == key);
        shared.unwrap_or_else(|| Arc::new(key))
    }

    /// Drops replaced events that no reader can use any more.
    pub(in crate::bus) fn sweep(&self) {
        let swept = self
            .state
            .lock()
            .writer
            .as_mut()
            .map(CacheWriter::sweep_all);
        drop(swept);
    }

    pub(in crate::bus) fn subscribers(&self) -> Vec<Arc<Subscriber<E>>> {
        self.state.lock().listeners.subscribers()
    }

    /// The subscribers, and how far each lags here.
    pub(in crate::bus) fn subscribers_with_lag(&self) -> Vec<SubscriberLag<E>> {
        let state = self.state.lock();
        let version = state.writer.as_ref().map_or(0, CacheWriter::version);
        state.listeners.subscribers_with_lag(version)
    }

    /// Those for whom something waits.
    pub(in crate::bus) fn waiting_subscribers(&self) -> Vec<SubscriberLag<E>> {
        let mut state = self.state.lock();
        let version = state.writer.as_ref().map_or(0, CacheWriter::version);
        state.listeners.waiting_subscribers(version)
    }

    /// The changes of this shard that a reader has not read yet.
    pub(in crate::bus) fn unread_len(&self, subscriber: &Arc<Subscriber<E>>) -> u64 {
        let state = self.state.lock();
        let version = state.writer.as_ref().map_or(0, CacheWriter::version);
        state.listeners.unread_len(subscriber, version)
    }

    pub(in crate::bus) fn stats(&self) -> ShardStats {
        let state = self.state.lock();
        let writer = state.writer.as_ref();
        ShardStats {
            counts: state.listeners.counts(),
            published: state.published,
            refused: state.refused,
            cached_count: writer.map_or(0, |writer| writer.len() as u64),
            lagging_count: state.listeners.laggard_count() as u64,
            retired_count: writer.map_or(0, |writer| writer.retired_len() as u64),
        }
    }
}

/// The state of a key at one node, or the folded one.
enum StateAt<E> {
    Parts(Parts<E>),
    Event(SharedEvent<E>),
}
