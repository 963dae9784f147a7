use self::{
    known::{Part, note_change},
    outbox::{ForwardedChange, Outbox},
};
use crate::{
    bus::{
        Event,
        cache::{
            CacheTable, CacheWriter, CachedChange, CopiedChanges, EventCopy, Expected, Given,
            Incoming, Judged, NextSlots, Pin, Put, SharedEvent, SlotPosition, Stale, Swept, Unread,
            UnreadChange, pinned,
        },
        delivery::{Answers, ChangeKind, Item, Items, Lag, Queued, ShardChange, Subscriber},
        index::{ReadChanges, ShardSubscribers, SubscriberLag, shard_subscribers},
        nodes::{Basis, Emptied, Folded, NodeId, Nodes, Parts, part},
        panics::{Held, Panics},
        publish_options::{PublishOptions, RemoveCondition},
        publish_result::{PublishResult, ShardStats},
        topic_inner::TopicInner,
    },
    sync::{CachePadded, SpinLock, thread},
};
use std::{collections::BTreeMap, mem, sync::Arc, vec};

mod catch_up;
mod reading;
mod folded;
mod forwarding;
mod lookup;
mod removal;
mod state;
mod fast_path;
mod outbox;
mod known;

pub(in crate::bus) use known::Known;

pub(super) use fast_path::{FastPath, LockedPublish};

/// A part of a topic: the keys whose hash belongs to it, and its subscribers.
///
/// One lock covers the change of the cache and the offer to the subscribers. So
/// both see the events of a key in one order, and a subscriber can change from
/// catching up to following without a gap. Lookups take no lock. No user code
/// runs under the lock: its answers are obtained before, see [`Known`].
pub(super) struct Shard<E: Event> {
    state: CachePadded<SpinLock<ShardState<E>>>,
    /// Read by lookups; `None` if the topic is not cached.
    table: Option<CacheTable<E>>,
    /// The memory of the last list of nodes' states that was replaced.
    emptied: SpinLock<Option<Emptied<E>>>,
}

/// What each publish uses stands together, behind the lock: a topic with few keys has all its
/// shards in the processor's first cache.
#[repr(C)]
struct ShardState<E: Event> {
    /// What is known of other nodes; `None` until another node has published.
    nodes: Option<Box<Nodes<E>>>,
    published: u64,
    /// This shard's index in the topic.
    index: usize,
    /// The topics to which this one is forwarded.
    forwards: Vec<Arc<TopicInner<E>>>,
    listeners: ShardSubscribers<E>,
    writer: Option<CacheWriter<E>>,
    outbox: Outbox<E>,
    refused: u64,
}

/// The result of one attempt under the lock.
enum Attempt<E: Event> {
    /// The change is made, or there was nothing to do.
    Done(Leavings<E>),
    Unchanged,
    /// The table has changed since the search.
    Stale,
    /// User code must answer a question first, with no lock held.
    Unknown,
    /// Nothing has been changed: publishers must wait for room at this
    /// subscriber.
    Full(Arc<Subscriber<E>>),
}

/// Work that a change leaves for after the lock.
struct Leavings<E: Event> {
    swept: Swept<E>,
    /// The event, if the topic is not cached.
    uncached: Held<SharedEvent<E>>,
    /// `None` if no other node has published.
    of_nodes: Option<Box<OfNodes<E>>>,
    is_forwarded: bool,
}

/// Replaced lists of nodes' states, to be dropped after the lock.
struct OfNodes<E: Event> {
    parts: Option<Parts<E>>,
    folded: Option<Folded<E>>,
    nodes: Option<Box<Nodes<E>>>,
}

impl<E: Event> Shard<E> {
    pub(super) fn new(index: usize, cached: bool) -> Self {
        let (table, writer) = cached.then(CacheTable::new).unzip();
        let state = ShardState {
            index,
            writer,
            listeners: ShardSubscribers::new(),
            forwards: Vec::new(),
            outbox: Outbox::new(),
            nodes: None,
            published: 0,
            refused: 0,
        };
        Self {
            state: CachePadded(SpinLock::new(state)),
            table,
            emptied: SpinLock::new(None),
        }
    }

    /// The table and its writer.
    fn cache<'a>(
        &'a self,
        state: &'a mut ShardState<E>,
    ) -> Option<(&'a CacheTable<E>, &'a mut CacheWriter<E>)> {
        self.table.as_ref().zip(state.writer.as_mut())
    }

    /// Searches for the key, with no lock held.
    #[inline(always)]
    fn look(&self, hash: u64, key: &E::Key, known: &mut Known<E>) {
        if let Some(table) = &self.table {
            pinned(|pin| table.look(hash, key, pin, &mut known.seen));
        }
    }

    /// The key's slot in the table, if what was seen still holds.
    #[inline(always)]
    fn place(
        &self,
        state: &ShardState<E>,
        hash: u64,
        known: &Known<E>,
    ) -> Result<Option<SlotPosition>, Stale> {
        match self.table.as_ref().zip(state.writer.as_ref()) {
            Some((table, writer)) => table.place(writer, hash, &known.seen),
            None => Ok(None),
        }
    }

    /// Runs `look` under the lock, with the key's slot in the table.
    fn with_place<R>(
        &self,
        (hash, key): (u64, &E::Key),
        look: impl Fn(&mut ShardState<E>, Option<SlotPosition>) -> R,
    ) -> R {
        let mut known = Known::new();
        loop {
            self.look(hash, key, &mut known);
            let mut state = self.state.lock();
            if let Ok(place) = self.place(&state, hash, &known) {
                return look(&mut state, place);
            }
        }
    }

    /// Caches the event and offers it to its subscribers. If `options` allow
    /// waiting and a subscriber with `Overflow::Block` has no room, nothing
    /// is changed and that subscriber is returned.
    #[inline(never)]
    pub(super) fn publish(
        &self,
        topic: &TopicInner<E>,
        (hash, event): (u64, &mut Incoming<E>),
        options: PublishOptions,
        known: &mut Known<E>,
        result: &mut PublishResult<E>,
    ) -> Result<(), Arc<Subscriber<E>>> {
        self.prefetch(hash);
        if let Some(event) = event.given.get() {
            self.look(hash, event.event().key(), known);
        }
        self.share_early(&mut event.given);
        loop {
            match self.try_publish(topic, (hash, event), options, known, result) {
                Attempt::Done(leavings) => {
                    self.clean_up(topic, leavings, result);
                    return Ok(());
                }
                Attempt::Unchanged => return Ok(()),
                Attempt::Full(full) => return Err(full),
                failed => self.find_out(topic, (hash, event), options, known, failed),
            }
        }
    }

    /// Runs the user code whose answers the failed attempt needs.
    #[cold]
    #[inline(never)]
    fn find_out(
        &self,
        topic: &TopicInner<E>,
        (hash, event): (u64, &Incoming<E>),
        options: PublishOptions,
        known: &mut Known<E>,
        failed: Attempt<E>,
    ) {
        let Some(event) = event.given.get().map(Given::event) else {
            return;
        };
        let is_stale = matches!(failed, Attempt::Stale);
        known.ask(topic.id(), |known| {
            if is_stale {
                return self.look(hash, event.key(), known);
            }
            let origin = options.part().unwrap_or(topic.local());
            let part = Some(Part::Says(origin, event));
            let about = (event.key(), Some(event));
            known.find_out(topic.folding(), about, part, None);
        });
    }

    /// Prefetches the cache's slot for this hash.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(table) = &self.table {
            table.prefetch(hash);
        }
    }

    /// Prefetches the last event of the key with this hash, whose slot was prefetched before.
    #[inline(always)]
    pub(super) fn prefetch_last(&self, hash: u64, pin: &Pin<'_>) {
        if let Some(table) = &self.table {
            table.prefetch_event(hash, pin);
        }
    }

    fn try_publish(
        &self,
        topic: &TopicInner<E>,
        (hash, held): (u64, &mut Incoming<E>),
        options: PublishOptions,
        known: &mut Known<E>,
        result: &mut PublishResult<E>,
    ) -> Attempt<E> {
        let mut state = self.state.lock();
        let Ok(place) = self.place(&state, hash, known) else {
            return Attempt::Stale;
        };
        if options.expected.is_some_and(|it| !it.is(place)) {
            result.is_outdated = true;
            return Attempt::Unchanged;
        }
        if topic.has_all_keys() && self.table.is_some() && !place.is_some_and(|it| it.is_live()) {
            state.refused += 1;
            result.refused = true;
            return Attempt::Unchanged;
        }
        if options.origin.is_some() || state.nodes.is_some() {
            let place = (hash, held, place);
            return self.try_with_others(&mut state, topic, place, options, known, result);
        }
        if known.unfold() {
            return Attempt::Unknown;
        }
        let (where_, kind) = (state.place(hash, place), ChangeKind::Event);
        if let Some(obstacle) = state.obstacle(where_, kind, options, known) {
            return obstacle;
        }
        let Some(event) = self.share(&mut state, &mut held.given) else {
            return Attempt::Unchanged;
        };
        state.published += 1;
        let (change, answers) = ((hash, event, place, &mut held.copy), &known.answers);
        Attempt::Done(self.change(&mut state, topic, change, None, answers, result))
    }

    /// Makes the event shareable before the lock is taken in two cases: if the
    /// topic has no cache, because nothing is replaced and the allocator is
    /// needed; and if the event is large, so that it is not moved under the
    /// lock.
    #[inline(always)]
    fn share_early(&self, held: &mut Held<Given<E>>) {
        if self.table.is_none() || Given::<E>::IS_LARGE {
            let given = held.take().map(Given::into_shared);
            held.put(given);
        }
    }

    /// Makes the event shareable and takes it; leaves in its place a replaced
    /// event that is to be dropped.
    #[inline(always)]
    fn share(
        &self,
        state: &mut ShardState<E>,
        held: &mut Held<Given<E>>,
    ) -> Option<SharedEvent<E>> {
        let given = held.take()?;
        let (event, overdue) = match &mut state.writer {
            Some(writer) => writer.share(given),
            None => given.share(None),
        };
        held.put(overdue);
        Some(event)
    }

    /// Publishes a key that other nodes have published too.
    #[cold]
    #[inline(never)]
    fn try_with_others(
        &self,
        state: &mut ShardState<E>,
        topic: &TopicInner<E>,
        (hash, held, place): (u64, &mut Incoming<E>, Option<SlotPosition>),
        options: PublishOptions,
        known: &mut Known<E>,
        result: &mut PublishResult<E>,
    ) -> Attempt<E> {
        if let Some(basis) = self.basis(state, topic, place, options) {
            if known.folded(basis).is_none() {
                return Attempt::Unknown;
            }
        } else if known.unfold() {
            return Attempt::Unknown;
        }
        let (where_, kind) = (state.place(hash, place), ChangeKind::Event);
        if let Some(obstacle) = state.obstacle(where_, kind, options, known) {
            return obstacle;
        }
        let folded = known.take_folded();
        let whole = folded.as_ref().and_then(|folded| folded.event.clone());
        let Some(whole) = whole.or_else(|| self.share(state, &mut held.given)) else {
            return Attempt::Unchanged;
        };
        state.published += 1;
        let change = (hash, whole, place);
        Attempt::Done(self.change_by(
            state,
            topic,
            change,
            (options.origin, folded),
            known,
            result,
        ))
    }

    /// The states to fold, if another node has one.
    fn basis(
        &self,
        state: &ShardState<E>,
        topic: &TopicInner<E>,
        place: Option<SlotPosition>,
        options: PublishOptions,
    ) -> Option<Basis<E>> {
        let folding = topic.folding()?;
        let parts = place.and_then(|place| state.parts_of(place));
        if parts.is_none() && options.part().is_none_or(|origin| origin == folding.local) {
            return None;
        }
        let own = place.filter(|place| parts.is_none() && place.is_live());
        let cache = self.table.as_ref().zip(state.writer.as_ref());
        let local = own.zip(cache);
        let local = local.and_then(|(place, (table, writer))| table.event(writer, place));
        Some(Basis { parts, local })
    }

    /// Makes the event the last one of its key and offers it to the
    /// subscribers. `origin` is the publishing node if it is another one.
    #[inline(always)]
    fn change(
        &self,
        state: &mut ShardState<E>,
        topic: &TopicInner<E>,
        (hash, event, place, copy): (u64, SharedEvent<E>, Option<SlotPosition>, &mut EventCopy<E>),
        origin: Option<NodeId>,
        answers: &Answers<E>,
        result: &mut PublishResult<E>,
    ) -> Leavings<E> {
        let mut change = ShardChange::Event {
            event: &event,
            copy: &mut *copy,
        };
        let where_ = state.place(hash, place);
        (state.listeners).offer(where_, &mut change, origin, result, answers);
        let is_forwarded = state.forward(topic, &change, origin);
        let newest_lag = state.listeners.newest_lag();
        let mut uncached = Held::EMPTY;
        let swept = match self.cache(state) {
            None => {
                uncached.put(Some(event));
                Swept::NOTHING
            }
            Some((table, writer)) => {
                let event = (event, copy);
                let (put, born) = table.put(writer, (hash, place), event, newest_lag);
                if put == Put::NewKey {
                    topic.count_key();
                }
                (result.version, result.born) = (writer.version(), born);
                writer.sweep()
            }
        };
        Leavings {
            swept,
            uncached,
            of_nodes: None,
            is_forwarded,
        }
    }

    /// Makes the change when other nodes are known.
    #[cold]
    #[inline(never)]
    fn change_by(
        &self,
        state: &mut ShardState<E>,
        topic: &TopicInner<E>,
        (hash, event, place): (u64, SharedEvent<E>, Option<SlotPosition>),
        (origin, folded): (Option<NodeId>, Option<Folded<E>>),
        known: &Known<E>,
        result: &mut PublishResult<E>,
    ) -> Leavings<E> {
        let last = place.map(|place| place.version());
        let mut copy = EventCopy::NONE;
        let change = (hash, event, place, &mut copy);
        let mut leavings = self.change(state, topic, change, origin, &known.answers, result);
        state.forget_change(last);
        let parts = folded.as_ref().and_then(Folded::parts);
        let parts = parts.and_then(|parts| state.set_parts(result.born, parts, topic.local()));
        let version = state.writer.as_ref().map_or(0, CacheWriter::version);
        let nodes = self.note_change(state, version, origin);
        leavings.of_nodes = OfNodes::boxed(parts, folded, nodes);
        leavings
    }

    /// Records which node made a change that is kept, and drops the state of
    /// other nodes if it is empty.
    #[must_use]
    fn note_change(
        &self,
        state: &mut ShardState<E>,
        version: u64,
        origin: Option<NodeId>,
    ) -> Option<Box<Nodes<E>>> {
        if self.table.is_some() && (origin.is_some() || state.nodes.is_some()) {
            let nodes = state.nodes.get_or_insert_default();
            nodes.origins.note(version, origin);
        }
        state.nodes.take_if(|nodes| nodes.is_empty())
    }

    /// Drops what a change left over, and forwards. No lock is held.
    #[inline(always)]
    fn clean_up(
        &self,
        topic: &TopicInner<E>,
        leavings: Leavings<E>,
        result: &mut PublishResult<E>,
    ) {
        note_change(topic.id());
        if leavings.is_forwarded {
            self.serve_outbox(result);
        }
        match leavings.of_nodes {
            None => leavings.swept.drop_all(),
            Some(of_nodes) => of_nodes.drop_all(leavings.swept),
        }
        drop(leavings.uncached);
    }
}

/// What a removal removes.
enum Withdrawal<E> {
    /// Nothing: the node has no state of the key.
    Unchanged,
    /// The whole key: no other node has a state of it.
    OfKey,
    /// One node's part of the fold.
    OfPart(Basis<E>),
}

impl<E: Event> OfNodes<E> {
    fn boxed(
        parts: Option<Parts<E>>,
        folded: Option<Folded<E>>,
        nodes: Option<Box<Nodes<E>>>,
    ) -> Option<Box<Self>> {
        let is_any = parts.is_some() || folded.is_some() || nodes.is_some();
        is_any.then(|| {
            Box::new(Self {
                parts,
                folded,
                nodes,
            })
        })
    }

    #[cold]
    fn drop_all(self, swept: Swept<E>) {
        let mut panics = Panics::default();
        panics.drop(self.folded);
        panics.drop(self.parts);
        panics.drop(self.nodes);
        panics.drop(swept);
    }
}

/// Changes in the order in which they were made. Drops them one by one, so that
/// a panic of one does not leak the others.
struct Changes<E>(vec::IntoIter<CachedChange<E>>);

impl<E> Changes<E> {
    fn in_order(mut changes: Vec<CachedChange<E>>) -> Self {
        changes.sort_unstable_by_key(CachedChange::version);
        Self(changes.into_iter())
    }

    fn as_slice(&self) -> &[CachedChange<E>] {
        self.0.as_slice()
    }
}

impl<E> Iterator for Changes<E> {
    type Item = CachedChange<E>;

    fn next(&mut self) -> Option<CachedChange<E>> {
        self.0.next()
    }
}

impl<E> Drop for Changes<E> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        for change in self.0.by_ref() {
            panics.drop(change);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::bus::Topic;

    #[derive(Clone)]
    struct Tick(u32);

    impl Event for Tick {
        type Key = u32;

        fn key(&self) -> &u32 {
            &self.0
        }
    }

    fn knows_others(topic: &Topic<Tick>) -> bool {
        let mut shards = topic.0.shards().iter();
        shards.any(|shard| shard.state.lock().nodes.is_some())
    }

    /// When nothing is left of other nodes, nothing is kept of them, so the
    /// next publish takes the fast path again.
    #[test]
    fn other_nodes_leave_nothing_behind() {
        let there = NodeId(2);
        let plain = Topic::builder("plain").cached().build();
        let fold = |parts: &[(NodeId, Tick)]| parts[0].1.clone();
        let folding = Topic::builder("folding").fold(NodeId(1), fold).build();
        for topic in [plain, folding] {
            let _ = topic.publish(Tick(1));
            let _ = topic.publish_from(there, Tick(1));
            let _ = topic.publish_from(there, Tick(2));
            assert!(knows_others(&topic));
            let _ = topic.remove_from(there, &1);
            let _ = topic.publish(Tick(1));
            assert_eq!(topic.remove_node(there).key_count, 1);
            let _ = topic.publish(Tick(1));
            assert!(!knows_others(&topic));
        }
    }

    /// The origin of a removed key is kept only while a laggard has to be told.
    #[test]
    fn a_purged_key_drops_its_origin() {
        let topic = Topic::builder("tombstones").cached().small().build();
        let later =
            crate::pool::TaskPool::simulated(1, crate::clock::Clock::simulated(Default::default()));
        let _watch = topic
            .subscribe()
            .replay()
            .capacity(1)
            .on(&later)
            .start(|_| ());
        while later.step() {}
        for key in 0..8 {
            let _ = topic.publish_from(NodeId(2), Tick(key));
        }
        while later.step() {}
        for key in 0..8 {
            let _ = topic.remove_from(NodeId(2), &key);
        }
        assert!(knows_others(&topic), "a laggard is to be told who removed");
        while later.step() {}
        assert!(!knows_others(&topic));
    }
}
