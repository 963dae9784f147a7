use super::{
    Event, Origin,
    consumer::Subscriber,
    epoch::{Pin, pinned},
    fold::Withdrawn,
    how::{How, Which},
    hub::Hub,
    item::Item,
    items::Items,
    listener::{Lag, Listeners, Place},
    nodes::Nodes,
    table::{Frozen, Put, Swept, Table, Writer},
    tally::{ShardStats, Tally},
};
use crate::sync::{CachePadded, SpinLock};
use std::{collections::BTreeMap, mem, sync::Arc};

/// A part of a topic: the keys whose hash falls to it, and who listens.
///
/// One lock covers the change of the cache and the offer to the subscribers.
/// That is what makes both see the events of a key in one order, and what
/// lets a subscriber change from catching up to following without a gap.
/// Lookups take no lock.
pub(super) struct Shard<E: Event> {
    state: CachePadded<SpinLock<State<E>>>,
    /// Read by lookups; none when the topic is not cached.
    table: Option<Table<E>>,
}

struct State<E: Event> {
    /// This shard's index in the topic.
    index: usize,
    writer: Option<Writer<E>>,
    listeners: Listeners<E>,
    /// Topics on which everything happens as well.
    forwards: Vec<Arc<Hub<E>>>,
    /// What other nodes say; none while they have said nothing.
    nodes: Option<Box<Nodes<E>>>,
    published: u64,
    refused: u64,
}

/// Nothing happened: this subscriber makes publishers wait for room.
pub(super) struct Wait<E: Event> {
    pub(super) full: Arc<Subscriber<E>>,
    pub(super) event: E,
}

impl<E: Event> Shard<E> {
    pub(super) fn new(index: usize, cached: bool) -> Self {
        let (table, writer) = cached.then(Table::new).unzip();
        let state = State {
            index,
            writer,
            listeners: Listeners::new(),
            forwards: Vec::new(),
            nodes: None,
            published: 0,
            refused: 0,
        };
        Self {
            state: CachePadded(SpinLock::new(state)),
            table,
        }
    }

    /// The table and the right to write it.
    fn cache<'a>(&'a self, state: &'a mut State<E>) -> Option<(&'a Table<E>, &'a mut Writer<E>)> {
        self.table.as_ref().zip(state.writer.as_mut())
    }

    /// Caches the event and offers it to its subscribers. When `how` allows
    /// to wait, it does nothing if one of them makes publishers wait and has
    /// no room.
    #[inline(always)]
    pub(super) fn publish(
        &self,
        topic: &Hub<E>,
        hash: u64,
        event: E,
        how: How,
        tally: &mut Tally<E>,
    ) -> Result<(), Wait<E>> {
        self.prefetch(hash);
        let mut state = self.state.lock();
        if how.may_wait
            && state.listeners.may_be_full()
            && let Some(full) = state.find_full(topic, (hash, how), &event)
        {
            return Err(Wait { full, event });
        }
        if topic.has_all_keys() && self.is_new(&mut state, hash, event.key()) {
            state.refused += 1;
            tally.refused = true;
            return Ok(());
        }
        state.published += 1;
        let swept = if how.origin.is_some() || state.nodes.is_some() {
            self.change_with_others(&mut state, topic, (hash, event), how, tally)
        } else {
            self.change(&mut state, topic, (hash, event), None, tally)
        };
        drop(state);
        drop(swept);
        Ok(())
    }

    /// The same for whoever is not in a hurry, in one place.
    #[cold]
    #[inline(never)]
    pub(super) fn publish_apart(
        &self,
        topic: &Hub<E>,
        hash: u64,
        event: E,
        how: How,
        tally: &mut Tally<E>,
    ) -> Result<(), Wait<E>> {
        self.publish(topic, hash, event, how, tally)
    }

    /// Sends for what the cache has at this hash.
    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        if let Some(table) = &self.table {
            table.prefetch(hash);
        }
    }

    /// Whether the cache would need room for another key.
    #[cold]
    fn is_new(&self, state: &mut State<E>, hash: u64, key: &E::Key) -> bool {
        let cache = self.cache(state);
        cache.is_some_and(|(table, writer)| table.version_of(writer, (hash, key)).is_none())
    }

    /// Makes the event the last one of its key and tells everybody. Who spoke
    /// is named if it was another node.
    #[inline(always)]
    fn change(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, event): (u64, E),
        speaker: Option<Origin>,
        tally: &mut Tally<E>,
    ) -> Swept<E> {
        let place = state.place(hash);
        state.listeners.offer_event(place, &event, speaker, tally);
        for to in &state.forwards {
            to.publish_forwarded(event.clone(), speaker.unwrap_or(topic.local()), tally);
        }
        let newest_lag = state.listeners.newest_lag();
        let (table, writer) = self.cache(state)?;
        if table.put(writer, hash, event, newest_lag) == Put::NewKey {
            topic.count_key();
        }
        tally.version = writer.version();
        writer.sweep()
    }

    /// The same where not only this node has spoken.
    #[cold]
    #[inline(never)]
    fn change_by(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, event): (u64, E),
        speaker: Option<Origin>,
        tally: &mut Tally<E>,
    ) -> Swept<E> {
        let cache = self.cache(state);
        let last = cache.and_then(|(table, writer)| table.last_change(writer, (hash, event.key())));
        // A predicate may panic in here: then nothing has changed.
        let swept = self.change(state, topic, (hash, event), speaker, tally);
        state.forget_change(last);
        let version = state.writer.as_ref().map_or(0, Writer::version);
        self.note_change(state, version, speaker);
        swept
    }

    #[cold]
    #[inline(never)]
    fn change_with_others(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, event): (u64, E),
        how: How,
        tally: &mut Tally<E>,
    ) -> Swept<E> {
        let event = self.fold(state, topic, (hash, how), event);
        self.change_by(state, topic, (hash, event), how.origin, tally)
    }

    /// The state of all nodes after one of them has spoken.
    fn fold(&self, state: &mut State<E>, topic: &Hub<E>, (hash, how): (u64, How), event: E) -> E {
        let Some(folding) = topic.folding() else {
            return event;
        };
        let nodes = state.nodes.get_or_insert_default();
        let speaker = (hash, how.part().unwrap_or(folding.local));
        let cached = |key: &E::Key| {
            let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
            table.get_locked(writer, (hash, key))
        };
        nodes.parts.set(folding, speaker, event, cached)
    }

    /// Takes note of who makes a change that is kept, and forgets of other
    /// nodes if nothing is left of them.
    fn note_change(&self, state: &mut State<E>, version: u64, speaker: Option<Origin>) {
        if self.table.is_some() && (speaker.is_some() || state.nodes.is_some()) {
            let nodes = state.nodes.get_or_insert_default();
            nodes.speakers.note(version, speaker);
        }
        state.nodes.take_if(|nodes| nodes.is_empty());
    }

    /// Takes away what a node says of the key and tells the subscribers;
    /// `false` when it has said nothing. When `how` allows to wait, it does
    /// nothing but to name a subscriber that makes publishers wait and has no
    /// room.
    pub(super) fn clear(
        &self,
        topic: &Hub<E>,
        (hash, key): (u64, &E::Key),
        which: &Which<'_, E>,
        how: How,
        tally: &mut Tally<E>,
    ) -> Result<bool, Arc<Subscriber<E>>> {
        let mut state = self.state.lock();
        if !self.is_meant(&mut state, (hash, key), which) {
            return Ok(false);
        }
        if how.may_wait
            && let Some(full) = state.listeners.find_full_for_key(hash, key)
        {
            return Err(full);
        }
        let swept = self.clear_locked(&mut state, topic, (hash, key), how, tally);
        drop(state);
        Ok(swept.is_some())
    }

    /// Whether the key has a last value, in the state in which it is to be
    /// cleared.
    fn is_meant(
        &self,
        state: &mut State<E>,
        (hash, key): (u64, &E::Key),
        which: &Which<'_, E>,
    ) -> bool {
        let Some((table, writer)) = self.cache(state) else {
            return false;
        };
        let Some(last_version) = table.version_of(writer, (hash, key)) else {
            return false;
        };
        match which {
            Which::Any => true,
            Which::Version(version) => last_version == *version,
            Which::SaidBy(origin) => state.speaker(last_version) == *origin,
            Which::Matching(is_wanted) => {
                let last = table.get_locked(writer, (hash, key));
                last.is_some_and(|event| is_wanted(&event))
            }
        }
    }

    /// None when there was nothing to take away.
    fn clear_locked(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, key): (u64, &E::Key),
        how: How,
        tally: &mut Tally<E>,
    ) -> Option<Swept<E>> {
        match state.withdraw(topic, (hash, key), how.part()) {
            Withdrawn::Unchanged => None,
            Withdrawn::Left(event) => {
                Some(self.change_by(state, topic, (hash, event), how.origin, tally))
            }
            Withdrawn::Unfolded | Withdrawn::Gone => {
                self.remove_key(state, topic, (hash, key), how.origin, tally)
            }
        }
    }

    /// None when the key has no last value.
    fn remove_key(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, key): (u64, &E::Key),
        speaker: Option<Origin>,
        tally: &mut Tally<E>,
    ) -> Option<Swept<E>> {
        let (table, writer) = self.cache(state)?;
        table.version_of(writer, (hash, key))?;
        let place = state.place(hash);
        state.listeners.offer_cleared(place, key, speaker, tally);
        for to in &state.forwards {
            to.clear_forwarded(key, speaker.unwrap_or(topic.local()), tally);
        }
        let newest_lag = state.listeners.newest_lag();
        let (table, writer) = self.cache(state)?;
        let last = table.last_change(writer, (hash, key));
        let has_grave = table.clear(writer, hash, key, newest_lag);
        let (version, swept) = (writer.version(), writer.sweep());
        topic.forget_key();
        state.forget_change(last);
        // Whoever is told of it later is told by whom.
        self.note_change(state, version, speaker.filter(|_| has_grave));
        Some(swept)
    }

    /// Forwards what is cached, and from now on every change.
    pub(super) fn add_forward(&self, topic: &Hub<E>, to: &Arc<Hub<E>>, tally: &mut Tally<E>) {
        pinned(|pin| {
            let mut state = self.state.lock();
            let cache = self.cache(&mut state);
            let cached = cache.map(|(table, writer)| table.changes_since(writer, 0, pin));
            for event in in_order(cached.unwrap_or_default()) {
                if !event.is_cleared() {
                    let speaker = state.speaker(event.version()).unwrap_or(topic.local());
                    to.publish_forwarded(E::clone(&event), speaker, tally);
                }
            }
            state.forwards.push(Arc::clone(to));
        });
    }

    pub(super) fn remove_forward(&self, to: &Arc<Hub<E>>) {
        let mut state = self.state.lock();
        let (gone, kept): (Vec<_>, _) = mem::take(&mut state.forwards)
            .into_iter()
            .partition(|topic| Arc::ptr_eq(topic, to));
        state.forwards = kept;
        drop(state);
        drop(gone);
    }

    /// The keys of which a node has a state, in the order it was first heard
    /// of or, where nothing is folded, of the last events.
    pub(super) fn keys_of(&self, topic: &Hub<E>, origin: Origin) -> Vec<E::Key> {
        if topic.folding().is_none() {
            return self.keys_said_by(topic, origin);
        }
        let state = self.state.lock();
        (state.nodes.as_ref()).map_or_else(Vec::new, |nodes| nodes.parts.keys_of(origin))
    }

    fn keys_said_by(&self, topic: &Hub<E>, origin: Origin) -> Vec<E::Key> {
        pinned(|pin| {
            let mut state = self.state.lock();
            let Some((table, writer)) = self.cache(&mut state) else {
                return Vec::new();
            };
            let changes = in_order(table.changes_since(writer, 0, pin));
            let said = changes.filter(|event| {
                let speaker = state.speaker(event.version());
                !event.is_cleared() && speaker.unwrap_or(topic.local()) == origin
            });
            said.map(|event| event.key().clone()).collect()
        })
    }

    /// The keys whose last event is wanted, in the order of those.
    pub(super) fn keys_where(&self, is_wanted: &dyn Fn(&E) -> bool) -> Vec<E::Key> {
        pinned(|pin| {
            let mut state = self.state.lock();
            let Some((table, writer)) = self.cache(&mut state) else {
                return Vec::new();
            };
            let changes = table.changes_since(writer, 0, pin);
            drop(state);
            let wanted = in_order(changes).filter(|event| !event.is_cleared() && is_wanted(event));
            wanted.map(|event| event.key().clone()).collect()
        })
    }

    /// Who spoke last of the key, if it has a last value.
    pub(super) fn origin_of(&self, topic: &Hub<E>, place: (u64, &E::Key)) -> Option<Origin> {
        let mut state = self.state.lock();
        let (table, writer) = self.cache(&mut state)?;
        let version = table.version_of(writer, place)?;
        Some(state.speaker(version).unwrap_or(topic.local()))
    }

    /// What one node says of the key.
    pub(super) fn get_from(
        &self,
        topic: &Hub<E>,
        place: (u64, &E::Key),
        origin: Origin,
    ) -> Option<E> {
        let mut state = self.state.lock();
        if topic.folding().is_some() {
            let nodes = state.nodes.as_ref();
            match nodes.and_then(|nodes| nodes.parts.find(place)) {
                Some(parts) => return parts.of(origin),
                None if origin != topic.local() => return None,
                None => {}
            }
        }
        let (table, writer) = self.cache(&mut state)?;
        let (version, event) = (
            table.version_of(writer, place)?,
            table.get_locked(writer, place)?,
        );
        let speaker = state.speaker(version).unwrap_or(topic.local());
        (topic.folding().is_some() || speaker == origin).then_some(event)
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, key: &E::Key) -> Option<E> {
        let table = self.table.as_ref()?;
        table.prefetch(hash);
        pinned(|pin| table.get(hash, key, pin))
    }

    /// Keys with a last value.
    pub(super) fn len(&self) -> usize {
        self.state.lock().writer.as_ref().map_or(0, Writer::len)
    }

    /// Appends the last events, oldest change first.
    pub(super) fn snapshot(&self, events: &mut Vec<E>) {
        pinned(|pin| {
            let mut state = self.state.lock();
            let Some((table, writer)) = self.cache(&mut state) else {
                return;
            };
            let changes = table.changes_since(writer, 0, pin);
            drop(state);
            let live = in_order(changes).filter(|event| !event.is_cleared());
            events.extend(live.map(|event| E::clone(&event)));
        });
    }

    pub(super) fn want(&self, hash: u64, key: &E::Key) -> bool {
        let state = self.state.lock();
        let forwards = &state.forwards;
        state.listeners.want(hash, key) || forwards.iter().any(|topic| topic.would_keep(key))
    }

    pub(super) fn add(&self, subscriber: Arc<Subscriber<E>>, lag: Option<Lag>) {
        self.state.lock().listeners.add(subscriber, lag);
    }

    pub(super) fn remove(&self, subscriber: &Arc<Subscriber<E>>) {
        let mut state = self.state.lock();
        let removed = state.listeners.remove(subscriber);
        let swept = self.bury(&mut state);
        drop(state);
        drop((removed, swept));
    }

    /// Fills the batch with everything of this shard that the subscriber has
    /// not heard, and makes it a follower.
    ///
    /// What was offered before it began to lag is in its mailbox, so that goes
    /// first; what changed since comes from the cache; what changes later will
    /// be offered again. The lock makes the three meet without a gap.
    pub(super) fn catch_up(&self, subscriber: &Arc<Subscriber<E>>, batch: &mut Items<E>) {
        pinned(|pin| {
            let mut state = self.state.lock();
            subscriber.mailbox().take_all(batch);
            let Some(lag) = state.listeners.follow(subscriber) else {
                return;
            };
            let changes = self.changes_for(&mut state, subscriber, lag.since, pin);
            state.listeners.count_delivered(changes.len());
            let speakers = state.speakers_of(&changes);
            let swept = self.bury(&mut state);
            drop(state);
            drop(swept);
            if lag.lost > 0 {
                batch.push(Item::Lost(lag.lost), None);
            }
            for event in in_order(changes) {
                if let Some(item) = subscriber.item_of(&event, lag) {
                    batch.push(item, speakers.get(&event.version()).copied());
                }
            }
        });
    }

    fn changes_for<'a>(
        &self,
        state: &mut State<E>,
        subscriber: &Subscriber<E>,
        since: u64,
        pin: &'a Pin<'a>,
    ) -> Vec<Frozen<'a, E>> {
        let Some((table, writer)) = self.cache(state) else {
            return Vec::new();
        };
        match subscriber.key() {
            Some(key) => Vec::from_iter(table.change_of(writer, key, since, pin)),
            None => table.changes_since(writer, since, pin),
        }
    }

    /// Removes what was kept for laggards, once there is none.
    fn bury(&self, state: &mut State<E>) -> Swept<E> {
        if state.listeners.newest_lag() > 0 {
            return None;
        }
        let mut nodes = state.nodes.take();
        let (table, writer) = self.cache(state)?;
        table.bury(writer, |version| {
            if let Some(nodes) = &mut nodes {
                nodes.speakers.forget(version);
            }
        });
        let swept = writer.sweep();
        state.nodes = nodes.filter(|nodes| !nodes.is_empty());
        swept
    }

    /// Names the subscriber for whom most is waiting, with how much that is.
    pub(super) fn slowest(&self) -> Option<(u64, String)> {
        let state = self.state.lock();
        let slowest = Arc::clone(state.listeners.slowest()?);
        drop(state);
        Some((slowest.mailbox().len() as u64, slowest.name().into()))
    }

    pub(super) fn stats(&self) -> ShardStats {
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

impl<E: Event> State<E> {
    #[inline(always)]
    fn place(&self, hash: u64) -> Place {
        Place {
            shard: self.index,
            hash,
            version: self.writer.as_ref().map_or(0, Writer::version),
        }
    }

    /// Who makes the publisher wait; of a part that is folded with others',
    /// perhaps one that wants the whole though not the part.
    fn find_full(
        &self,
        topic: &Hub<E>,
        (hash, how): (u64, How),
        event: &E,
    ) -> Option<Arc<Subscriber<E>>> {
        match topic.folding().is_some() && (how.origin.is_some() || self.nodes.is_some()) {
            true => self.listeners.find_full_for_key(hash, event.key()),
            false => self.listeners.find_full(hash, event),
        }
    }

    /// Forgets who made a change that another one follows.
    fn forget_change(&mut self, last: Option<u64>) {
        if let (Some(nodes), Some(version)) = (&mut self.nodes, last) {
            nodes.speakers.forget(version);
        }
    }

    /// The other node that made the change.
    fn speaker(&self, version: u64) -> Option<Origin> {
        self.nodes.as_ref()?.speakers.of(version)
    }

    /// Who made those of the changes that other nodes made, by version.
    fn speakers_of(&self, changes: &[Frozen<'_, E>]) -> BTreeMap<u64, Origin> {
        if self.nodes.is_none() {
            return BTreeMap::new();
        }
        let spoken = |version| Some((version, self.speaker(version)?));
        changes
            .iter()
            .map(Frozen::version)
            .filter_map(spoken)
            .collect()
    }

    /// Drops what a node says of the key.
    fn withdraw(
        &mut self,
        topic: &Hub<E>,
        (hash, key): (u64, &E::Key),
        origin: Option<Origin>,
    ) -> Withdrawn<E> {
        let Some(folding) = topic.folding() else {
            return Withdrawn::Unfolded;
        };
        let origin = origin.unwrap_or(folding.local);
        let withdrawn = match &mut self.nodes {
            Some(nodes) => nodes.parts.withdraw(folding, (hash, origin), key),
            None => Withdrawn::Unfolded,
        };
        match withdrawn {
            Withdrawn::Unfolded if origin != folding.local => Withdrawn::Unchanged,
            withdrawn => withdrawn,
        }
    }
}

fn in_order<E>(mut changes: Vec<Frozen<'_, E>>) -> impl Iterator<Item = Frozen<'_, E>> {
    changes.sort_unstable_by_key(Frozen::version);
    changes.into_iter()
}

#[cfg(all(test, not(loom)))]
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

    /// Nothing is kept of other nodes of whom nothing is left, so the next
    /// publish passes them by again.
    #[test]
    fn others_leave_nothing_behind() {
        let there = Origin(2);
        let plain = Topic::builder("plain").cached().build();
        let fold = |parts: &[(Origin, Tick)]| parts[0].1.clone();
        let folding = Topic::builder("folding").fold(Origin(1), fold).build();
        for topic in [plain, folding] {
            let _ = topic.publish(Tick(1));
            let _ = topic.publish_from(there, Tick(1));
            let _ = topic.publish_from(there, Tick(2));
            assert!(knows_others(&topic));
            let _ = topic.clear_from(there, &1);
            let _ = topic.publish(Tick(1));
            assert_eq!(topic.forget_origin(there).key_count, 1);
            let _ = topic.publish(Tick(1));
            assert!(!knows_others(&topic));
        }
    }

    /// The speaker of a key that is gone is kept only while somebody who lags
    /// is to be told.
    #[test]
    fn a_buried_key_takes_its_speaker_along() {
        let topic = Topic::builder("graves").cached().small().build();
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
            let _ = topic.publish_from(Origin(2), Tick(key));
        }
        while later.step() {}
        for key in 0..8 {
            let _ = topic.clear_from(Origin(2), &key);
        }
        assert!(knows_others(&topic), "a laggard is to be told who cleared");
        while later.step() {}
        assert!(!knows_others(&topic));
    }
}
