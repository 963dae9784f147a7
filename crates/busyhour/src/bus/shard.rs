use super::{
    Event,
    cache::{Cache, Change},
    consumer::Subscriber,
    listener::{Lag, Listeners, Place, Tally},
    queue::Item,
};
use crate::sync::{Mutex, lock};
use std::{collections::VecDeque, sync::Arc};

/// A part of a topic: the keys whose hash falls to it, and who listens.
///
/// One lock covers the change of the cache and the offer to the subscribers.
/// That is what makes both see the events of a key in one order, and what
/// lets a subscriber change from catching up to following without a gap.
pub(super) struct Shard<E: Event>(Mutex<State<E>>);

struct State<E: Event> {
    /// This shard's index in the topic.
    index: usize,
    cache: Option<Cache<E>>,
    listeners: Listeners<E>,
    counters: Counters,
}

/// What one shard has done.
#[derive(Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) published: u64,
    pub(super) lost: u64,
    pub(super) conflated: u64,
}

/// The outcome of trying to publish.
pub(super) enum Attempt<E: Event> {
    Done(Tally<E>),
    /// Nothing happened: this subscriber makes publishers wait for room.
    Wait(Arc<Subscriber<E>>, E),
}

impl<E: Event> Shard<E> {
    pub(super) fn new(index: usize, cached: bool) -> Self {
        Self(Mutex::new(State {
            index,
            cache: cached.then(Cache::new),
            listeners: Listeners::new(),
            counters: Counters::default(),
        }))
    }

    /// Caches the event and offers it to its subscribers. With `may_wait` it
    /// does nothing when one of them makes publishers wait and has no room.
    pub(super) fn publish(&self, hash: u64, event: E, may_wait: bool) -> Attempt<E> {
        let mut state = lock(&self.0);
        let full = may_wait.then(|| state.listeners.find_full(hash, &event));
        if let Some(full) = full.flatten() {
            return Attempt::Wait(full, event);
        }
        Attempt::Done(state.publish(hash, event))
    }

    /// Takes the key's last value away and tells its subscribers; none when
    /// there is no last value.
    pub(super) fn clear(&self, hash: u64, key: &E::Key) -> Option<Tally<E>> {
        lock(&self.0).clear(hash, key)
    }

    pub(super) fn get(&self, hash: u64, key: &E::Key) -> Option<E> {
        lock(&self.0).cache.as_ref()?.get(hash, key).cloned()
    }

    /// Keys with a last value.
    pub(super) fn len(&self) -> usize {
        lock(&self.0).cache.as_ref().map_or(0, Cache::len)
    }

    /// Appends the last events, oldest change first.
    pub(super) fn snapshot(&self, events: &mut Vec<E>) {
        let state = lock(&self.0);
        let changes = state.cache.as_ref().map(|cache| cache.changes_since(0));
        drop(state);
        let event = |change| match change {
            Change::Event(event) => Some(event),
            Change::Cleared(_) => None,
        };
        events.extend(changes.into_iter().flatten().filter_map(event));
    }

    pub(super) fn want(&self, hash: u64, key: &E::Key) -> bool {
        lock(&self.0).listeners.want(hash, key)
    }

    pub(super) fn add(&self, subscriber: Arc<Subscriber<E>>, lag: Option<Lag>) {
        lock(&self.0).listeners.add(subscriber, lag);
    }

    pub(super) fn remove(&self, subscriber: &Arc<Subscriber<E>>) {
        let mut state = lock(&self.0);
        state.listeners.remove(subscriber);
        state.bury();
    }

    /// Fills the batch with everything of this shard that the subscriber has
    /// not heard, and makes it a follower.
    ///
    /// What was offered before it began to lag is in its mailbox, so that goes
    /// first; what changed since comes from the cache; what changes later will
    /// be offered again. The lock makes the three meet without a gap.
    pub(super) fn catch_up(&self, subscriber: &Arc<Subscriber<E>>, batch: &mut VecDeque<Item<E>>) {
        let mut state = lock(&self.0);
        subscriber.mailbox().take_all(batch);
        let Some(lag) = state.listeners.follow(subscriber) else {
            return;
        };
        let changes = state.changes_for(subscriber, lag.since);
        state.bury();
        drop(state);
        if lag.lost > 0 {
            batch.push_back(Item::Lost(lag.lost));
        }
        let wanted = |change| wanted_item(subscriber, lag, change);
        batch.extend(changes.into_iter().filter_map(wanted));
    }

    pub(super) fn counters(&self) -> Counters {
        lock(&self.0).counters
    }
}

fn wanted_item<E: Event>(
    subscriber: &Subscriber<E>,
    lag: Lag,
    change: Change<E>,
) -> Option<Item<E>> {
    match change {
        Change::Event(event) => subscriber.wants(&event).then_some(Item::Event(event)),
        // Who has heard nothing yet does not need to hear that a key went.
        Change::Cleared(key) => (lag.since > 0).then_some(Item::Cleared(key)),
    }
}

impl<E: Event> State<E> {
    fn publish(&mut self, hash: u64, event: E) -> Tally<E> {
        let mut tally = Tally::new();
        let place = self.place(hash);
        self.listeners.offer_event(place, &event, &mut tally);
        if let Some(cache) = &mut self.cache {
            cache.put(hash, event, self.listeners.newest_lag());
        }
        self.count(&tally);
        self.counters.published += 1;
        tally
    }

    fn clear(&mut self, hash: u64, key: &E::Key) -> Option<Tally<E>> {
        self.cache.as_ref()?.get(hash, key)?;
        let mut tally = Tally::new();
        let place = self.place(hash);
        self.listeners.offer_cleared(place, key, &mut tally);
        let newest_lag = self.listeners.newest_lag();
        self.cache.as_mut()?.clear(hash, key, newest_lag);
        self.count(&tally);
        Some(tally)
    }

    fn place(&self, hash: u64) -> Place {
        Place {
            shard: self.index,
            hash,
            version: self.cache.as_ref().map_or(0, Cache::version),
        }
    }

    fn count(&mut self, tally: &Tally<E>) {
        self.counters.lost += tally.lost;
        self.counters.conflated += tally.conflated;
    }

    fn changes_for(&self, subscriber: &Subscriber<E>, since: u64) -> Vec<Change<E>> {
        let Some(cache) = &self.cache else {
            return Vec::new();
        };
        match subscriber.key() {
            Some((hash, key)) => cache.change_of(hash, key, since).into_iter().collect(),
            None => cache.changes_since(since),
        }
    }

    /// Removes what was kept for laggards, once there is none.
    fn bury(&mut self) {
        if let (0, Some(cache)) = (self.listeners.newest_lag(), &mut self.cache) {
            cache.bury();
        }
    }
}
