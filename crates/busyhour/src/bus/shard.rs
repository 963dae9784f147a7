use super::{
    Event, Message, Origin,
    consumer::Subscriber,
    epoch::{Pin, pinned},
    expiry::Limited,
    fold::{Parts, Withdrawn},
    hub::Hub,
    listener::{Lag, Listeners, Place, Tally},
    table::{Frozen, Put, Swept, Table, Writer},
};
use crate::sync::{CachePadded, SpinLock};
use std::{collections::VecDeque, mem, sync::Arc};

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
    parts: Option<Parts<E>>,
    published: u64,
    refused: u64,
}

/// How to publish.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) may_wait: bool,
    /// The node that speaks; none means this one.
    pub(super) origin: Option<Origin>,
}

/// What one shard holds and has done.
#[derive(Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) published: u64,
    pub(super) refused: u64,
    pub(super) delivered: u64,
    pub(super) lost: u64,
    pub(super) conflated: u64,
    pub(super) cached_count: u64,
    pub(super) retired_count: u64,
    pub(super) lagging_count: u64,
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
            parts: None,
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
    #[inline]
    pub(super) fn publish(
        &self,
        topic: &Hub<E>,
        hash: u64,
        mut event: E,
        how: How,
        tally: &mut Tally<E>,
    ) -> Result<(), Wait<E>> {
        self.prefetch(hash);
        let mut state = self.state.lock();
        if how.may_wait
            && let Some(full) = state.listeners.find_full(hash, &event)
        {
            return Err(Wait { full, event });
        }
        if topic.has_all_keys() && self.is_new(&mut state, hash, event.key()) {
            state.refused += 1;
            tally.refused = true;
            return Ok(());
        }
        if how.origin.is_some() || state.parts.is_some() {
            event = self.fold(&mut state, topic, (hash, how.origin), event);
        }
        state.published += 1;
        let swept = self.change(&mut state, topic, (hash, event), tally);
        drop(state);
        drop(swept);
        Ok(())
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

    /// Makes the event the last one of its key and tells everybody.
    #[inline(always)]
    fn change(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, event): (u64, E),
        tally: &mut Tally<E>,
    ) -> Swept<E> {
        let place = state.place(hash);
        state.listeners.offer_event(place, &event, tally);
        for to in &state.forwards {
            to.publish_forwarded(event.clone(), tally);
        }
        let newest_lag = state.listeners.newest_lag();
        let (table, writer) = self.cache(state)?;
        if table.put(writer, hash, event, newest_lag) == Put::NewKey {
            topic.count_key();
        }
        tally.version = writer.version();
        writer.sweep()
    }

    /// The state of all nodes after one of them has spoken.
    #[cold]
    fn fold(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, origin): (u64, Option<Origin>),
        event: E,
    ) -> E {
        let Some(folding) = topic.folding() else {
            return event;
        };
        let mut parts = state.parts.take().unwrap_or_else(Parts::new);
        let speaker = (hash, origin.unwrap_or(folding.local));
        let cached = |key: &E::Key| {
            let (table, writer) = self.cache(state)?;
            table.get_locked(writer, (hash, key))
        };
        let event = parts.set(folding, speaker, event, cached);
        state.parts = Some(parts).filter(|parts| !parts.is_empty());
        event
    }

    /// Takes away what a node says of the key and tells the subscribers;
    /// `false` when it has said nothing.
    pub(super) fn clear(
        &self,
        topic: &Hub<E>,
        (hash, key): (u64, &E::Key),
        origin: Option<Origin>,
        tally: &mut Tally<E>,
    ) -> bool {
        let mut state = self.state.lock();
        let swept = self.clear_locked(&mut state, topic, (hash, key), origin, tally);
        drop(state);
        swept.is_some()
    }

    /// Clears the key if the event whose time is over is its last one.
    pub(super) fn expire(&self, topic: &Hub<E>, limited: &Limited<E>, tally: &mut Tally<E>) {
        let place = (limited.hash, &limited.key);
        let mut state = self.state.lock();
        let last = self
            .cache(&mut state)
            .and_then(|(table, writer)| table.version_of(writer, place));
        let is_last = last == Some(limited.version);
        let swept = is_last.then(|| self.clear_locked(&mut state, topic, place, None, tally));
        drop(state);
        drop(swept);
    }

    /// None when there was nothing to take away.
    fn clear_locked(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, key): (u64, &E::Key),
        origin: Option<Origin>,
        tally: &mut Tally<E>,
    ) -> Option<Swept<E>> {
        match state.withdraw(topic, (hash, key), origin) {
            Withdrawn::Unchanged => None,
            Withdrawn::Left(event) => Some(self.change(state, topic, (hash, event), tally)),
            Withdrawn::Unfolded | Withdrawn::Gone => {
                self.remove_key(state, topic, (hash, key), tally)
            }
        }
    }

    /// None when the key has no last value.
    fn remove_key(
        &self,
        state: &mut State<E>,
        topic: &Hub<E>,
        (hash, key): (u64, &E::Key),
        tally: &mut Tally<E>,
    ) -> Option<Swept<E>> {
        let (table, writer) = self.cache(state)?;
        table.version_of(writer, (hash, key))?;
        let place = state.place(hash);
        state.listeners.offer_cleared(place, key, tally);
        for to in &state.forwards {
            to.clear(key, None, tally);
        }
        let newest_lag = state.listeners.newest_lag();
        let (table, writer) = self.cache(state)?;
        table.clear(writer, hash, key, newest_lag);
        topic.forget_key();
        Some(writer.sweep())
    }

    /// Forwards what is cached, and from now on every change.
    pub(super) fn add_forward(&self, to: &Arc<Hub<E>>, tally: &mut Tally<E>) {
        pinned(|pin| {
            let mut state = self.state.lock();
            let cache = self.cache(&mut state);
            let cached = cache.map(|(table, writer)| table.changes_since(writer, 0, pin));
            for event in in_order(cached.unwrap_or_default()) {
                if !event.is_cleared() {
                    to.publish_forwarded(E::clone(&event), tally);
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

    /// The keys of which a node has a state.
    pub(super) fn keys_of(&self, origin: Origin) -> Vec<E::Key> {
        let state = self.state.lock();
        let keys = state.parts.as_ref().map(|parts| parts.keys_of(origin));
        keys.unwrap_or_default()
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
    pub(super) fn catch_up(
        &self,
        subscriber: &Arc<Subscriber<E>>,
        batch: &mut VecDeque<Message<E>>,
    ) {
        pinned(|pin| {
            let mut state = self.state.lock();
            subscriber.mailbox().take_all(batch);
            let Some(lag) = state.listeners.follow(subscriber) else {
                return;
            };
            let changes = self.changes_for(&mut state, subscriber, lag.since, pin);
            state.listeners.count_delivered(changes.len());
            let swept = self.bury(&mut state);
            drop(state);
            drop(swept);
            if lag.lost > 0 {
                batch.push_back(Message::Lost(lag.lost));
            }
            let wanted = in_order(changes).filter_map(|event| wanted_item(subscriber, lag, &event));
            batch.extend(wanted);
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
        let (table, writer) = self.cache(state)?;
        table.bury(writer);
        writer.sweep()
    }

    /// Names the subscriber for whom most is waiting, with how much that is.
    pub(super) fn slowest(&self) -> Option<(u64, String)> {
        let state = self.state.lock();
        let slowest = Arc::clone(state.listeners.slowest()?);
        drop(state);
        Some((slowest.mailbox().len() as u64, slowest.name().into()))
    }

    pub(super) fn counters(&self) -> Counters {
        let state = self.state.lock();
        let writer = state.writer.as_ref();
        let counts = state.listeners.counts();
        Counters {
            published: state.published,
            refused: state.refused,
            delivered: counts.delivered,
            lost: counts.lost,
            conflated: counts.conflated,
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
        let withdrawn = match &mut self.parts {
            Some(parts) => parts.withdraw(folding, (hash, origin), key),
            None => Withdrawn::Unfolded,
        };
        self.parts.take_if(|parts| parts.is_empty());
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

fn wanted_item<E: Event>(
    subscriber: &Subscriber<E>,
    lag: Lag,
    event: &Frozen<'_, E>,
) -> Option<Message<E>> {
    if event.is_cleared() {
        // Who has heard nothing yet does not need to hear that a key went.
        return (lag.since > 0).then(|| Message::Cleared(event.key().clone()));
    }
    subscriber
        .wants(event)
        .then(|| Message::Event(E::clone(event)))
}
