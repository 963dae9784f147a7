use super::{
    Event, Message,
    consumer::Subscriber,
    epoch::{Pin, pinned},
    listener::{Lag, Listeners, Place, Tally},
    lock::Lock,
    table::{Frozen, Table, Writer},
};
use crate::sync::CachePadded;
use std::{collections::VecDeque, sync::Arc};

/// A part of a topic: the keys whose hash falls to it, and who listens.
///
/// One lock covers the change of the cache and the offer to the subscribers.
/// That is what makes both see the events of a key in one order, and what
/// lets a subscriber change from catching up to following without a gap.
/// Lookups take no lock.
pub(super) struct Shard<E: Event> {
    state: CachePadded<Lock<State<E>>>,
    /// Read by lookups; none when the topic is not cached.
    table: Option<Table<E>>,
}

struct State<E: Event> {
    /// This shard's index in the topic.
    index: usize,
    writer: Option<Writer<E>>,
    listeners: Listeners<E>,
    counters: Counters,
}

/// What one shard holds and has done.
#[derive(Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) published: u64,
    pub(super) delivered: u64,
    pub(super) lost: u64,
    pub(super) conflated: u64,
    pub(super) cached_count: u64,
    pub(super) retired_count: u64,
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
            counters: Counters::default(),
        };
        Self {
            state: CachePadded(Lock::new(state)),
            table,
        }
    }

    /// The table and the right to write it.
    fn cache<'a>(&'a self, state: &'a mut State<E>) -> Option<(&'a Table<E>, &'a mut Writer<E>)> {
        self.table.as_ref().zip(state.writer.as_mut())
    }

    /// Caches the event and offers it to its subscribers. With `may_wait` it
    /// does nothing when one of them makes publishers wait and has no room.
    #[inline]
    pub(super) fn publish(
        &self,
        hash: u64,
        event: E,
        may_wait: bool,
        tally: &mut Tally<E>,
    ) -> Result<(), Wait<E>> {
        let mut state = self.state.lock();
        if may_wait && let Some(full) = state.listeners.find_full(hash, &event) {
            return Err(Wait { full, event });
        }
        let place = state.place(hash);
        state.listeners.offer_event(place, &event, tally);
        let newest_lag = state.listeners.newest_lag();
        let over = self.cache(&mut state).map(|(table, writer)| {
            table.put(writer, hash, event, newest_lag);
            writer.sweep()
        });
        state.count(tally);
        state.counters.published += 1;
        drop(state);
        drop(over);
        Ok(())
    }

    /// Takes the key's last value away and tells its subscribers; none when
    /// there is no last value.
    pub(super) fn clear(&self, hash: u64, key: &E::Key) -> Option<Tally<E>> {
        let mut state = self.state.lock();
        let (table, writer) = self.cache(&mut state)?;
        if !table.contains(writer, hash, key) {
            return None;
        }
        let mut tally = Tally::new();
        let place = state.place(hash);
        state.listeners.offer_cleared(place, key, &mut tally);
        let newest_lag = state.listeners.newest_lag();
        let over = self.cache(&mut state).map(|(table, writer)| {
            table.clear(writer, hash, key, newest_lag);
            writer.sweep()
        });
        state.count(&tally);
        drop(state);
        drop(over);
        Some(tally)
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, key: &E::Key) -> Option<E> {
        let table = self.table.as_ref()?;
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
        self.state.lock().listeners.want(hash, key)
    }

    pub(super) fn add(&self, subscriber: Arc<Subscriber<E>>, lag: Option<Lag>) {
        self.state.lock().listeners.add(subscriber, lag);
    }

    pub(super) fn remove(&self, subscriber: &Arc<Subscriber<E>>) {
        let mut state = self.state.lock();
        let removed = state.listeners.remove(subscriber);
        let over = self.bury(&mut state);
        drop(state);
        drop((removed, over));
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
            state.counters.delivered += changes.len() as u64;
            let over = self.bury(&mut state);
            drop(state);
            drop(over);
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
    fn bury(&self, state: &mut State<E>) -> impl Sized + use<E> {
        if state.listeners.newest_lag() > 0 {
            return None;
        }
        self.cache(state).map(|(table, writer)| {
            table.bury(writer);
            writer.sweep()
        })
    }

    pub(super) fn counters(&self) -> Counters {
        let state = self.state.lock();
        let writer = state.writer.as_ref();
        Counters {
            cached_count: writer.map_or(0, |writer| writer.len() as u64),
            retired_count: writer.map_or(0, |writer| writer.retired_len() as u64),
            ..state.counters
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

    #[inline(always)]
    fn count(&mut self, tally: &Tally<E>) {
        self.counters.delivered += tally.delivered;
        self.counters.lost += tally.lost;
        self.counters.conflated += tally.conflated;
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
