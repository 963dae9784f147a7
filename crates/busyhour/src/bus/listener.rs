use super::{Event, consumer::Subscriber, mailbox::Offer, queue::Item};
use hashbrown::{HashTable, hash_table::Entry};
use std::sync::Arc;

/// Who listens to one shard, found by key where they asked for one.
pub(super) struct Listeners<E: Event> {
    everything: Vec<Listener<E>>,
    keyed: HashTable<Keyed<E>>,
    /// Listeners that lag and so may have seen keys that are cleared meanwhile.
    laggard_count: usize,
    newest_lag: u64,
}

struct Keyed<E: Event> {
    hash: u64,
    key: E::Key,
    listeners: Vec<Listener<E>>,
}

/// A subscriber as one shard knows it.
pub(super) struct Listener<E: Event> {
    subscriber: Arc<Subscriber<E>>,
    lag: Option<Lag>,
}

/// The subscriber has heard every change up to `since`, and nothing after it.
#[derive(Clone, Copy)]
pub(super) struct Lag {
    pub(super) since: u64,
    pub(super) lost: u64,
}

impl Lag {
    /// Of a subscriber that has heard nothing yet.
    pub(super) const NEW: Self = Self { since: 0, lost: 0 };
}

/// What a publish did for its subscribers.
pub(super) struct Tally<E: Event> {
    pub(super) delivered: u64,
    pub(super) lost: u64,
    pub(super) conflated: u64,
    /// The one subscriber to wake, in the usual case.
    wake_first: Option<Arc<Subscriber<E>>>,
    wake_rest: Vec<Arc<Subscriber<E>>>,
}

impl<E: Event> Listeners<E> {
    pub(super) fn new() -> Self {
        Self {
            everything: Vec::new(),
            keyed: HashTable::new(),
            laggard_count: 0,
            newest_lag: 0,
        }
    }

    pub(super) fn add(&mut self, subscriber: Arc<Subscriber<E>>, lag: Option<Lag>) {
        let place = match subscriber.key() {
            None => &mut self.everything,
            Some((hash, key)) => {
                let same_key = |keyed: &Keyed<E>| keyed.hash == hash && keyed.key == *key;
                match self.keyed.entry(hash, same_key, |keyed| keyed.hash) {
                    Entry::Occupied(keyed) => &mut keyed.into_mut().listeners,
                    Entry::Vacant(vacancy) => {
                        let (key, listeners) = (key.clone(), Vec::new());
                        let keyed = Keyed {
                            hash,
                            key,
                            listeners,
                        };
                        &mut vacancy.insert(keyed).into_mut().listeners
                    }
                }
            }
        };
        place.push(Listener { subscriber, lag });
    }

    /// Takes the subscriber off; its lag, if it had one, no longer counts.
    pub(super) fn remove(&mut self, subscriber: &Arc<Subscriber<E>>) {
        let Some(list) = self.list_of(subscriber) else {
            return;
        };
        let Some(index) = list.iter().position(|listener| listener.is(subscriber)) else {
            return;
        };
        let listener = list.remove(index);
        let is_last = list.is_empty();
        self.forget_lag(listener.lag);
        if let (true, Some((hash, key))) = (is_last, subscriber.key()) {
            self.remove_key(hash, key);
        }
    }

    fn remove_key(&mut self, hash: u64, key: &E::Key) {
        let same_key = |keyed: &Keyed<E>| keyed.hash == hash && keyed.key == *key;
        if let Ok(keyed) = self.keyed.find_entry(hash, same_key) {
            keyed.remove();
        }
        if self.keyed.capacity() > 4 * self.keyed.len().max(16) {
            self.keyed.shrink_to_fit(|keyed| keyed.hash);
        }
    }

    fn list_of(&mut self, subscriber: &Subscriber<E>) -> Option<&mut Vec<Listener<E>>> {
        let Some((hash, key)) = subscriber.key() else {
            return Some(&mut self.everything);
        };
        let same_key = |keyed: &Keyed<E>| keyed.hash == hash && keyed.key == *key;
        let keyed = self.keyed.find_mut(hash, same_key)?;
        Some(&mut keyed.listeners)
    }

    /// Takes note that the subscriber follows again; how far it lagged.
    pub(super) fn follow(&mut self, subscriber: &Arc<Subscriber<E>>) -> Option<Lag> {
        let list = self.list_of(subscriber)?;
        let listener = list.iter_mut().find(|listener| listener.is(subscriber))?;
        let lag = listener.lag.take();
        self.forget_lag(lag);
        lag
    }

    fn forget_lag(&mut self, lag: Option<Lag>) {
        if lag.is_some_and(|lag| lag.since > 0) {
            self.laggard_count -= 1;
            if self.laggard_count == 0 {
                self.newest_lag = 0;
            }
        }
    }

    /// The newest version at which somebody began to lag; 0 when nobody lags.
    pub(super) fn newest_lag(&self) -> u64 {
        self.newest_lag
    }

    /// The first matching subscriber that publishers have to wait for.
    pub(super) fn find_full(&self, hash: u64, event: &E) -> Option<Arc<Subscriber<E>>> {
        self.matching(hash, event.key())
            .find(|listener| listener.is_full_for(event))
            .map(|listener| Arc::clone(&listener.subscriber))
    }

    fn matching(&self, hash: u64, key: &E::Key) -> impl Iterator<Item = &Listener<E>> {
        let same_key = |keyed: &Keyed<E>| keyed.hash == hash && keyed.key == *key;
        let keyed = self.keyed.find(hash, same_key);
        let keyed = keyed.into_iter().flat_map(|keyed| &keyed.listeners);
        self.everything.iter().chain(keyed)
    }

    /// Whether anybody might want an event of this key.
    pub(super) fn want(&self, hash: u64, key: &E::Key) -> bool {
        self.matching(hash, key).next().is_some()
    }

    /// Offers the event to everybody who wants it. `version` is that of the
    /// cache before this change.
    pub(super) fn offer_event(&mut self, place: Place, event: &E, tally: &mut Tally<E>) {
        self.each(place.hash, event.key(), |listener| {
            let wanted = listener.subscriber.wants(event);
            wanted && listener.offer(place, || Item::Event(event.clone()), tally)
        });
    }

    /// Tells everybody who may have seen the key that it is cleared.
    pub(super) fn offer_cleared(&mut self, place: Place, key: &E::Key, tally: &mut Tally<E>) {
        self.each(place.hash, key, |listener| {
            listener.offer(place, || Item::Cleared(key.clone()), tally)
        });
    }

    /// Calls `offer` for each listener of the key; it says whether the
    /// listener began to lag.
    fn each(&mut self, hash: u64, key: &E::Key, mut offer: impl FnMut(&mut Listener<E>) -> bool) {
        let (mut fell_behind, mut newest) = (0, self.newest_lag);
        let mut visit = |listener: &mut Listener<E>| {
            if offer(listener) {
                let since = listener.lag.map_or(0, |lag| lag.since);
                fell_behind += usize::from(since > 0);
                newest = newest.max(since);
            }
        };
        self.everything.iter_mut().for_each(&mut visit);
        if !self.keyed.is_empty() {
            let same_key = |keyed: &Keyed<E>| keyed.hash == hash && keyed.key == *key;
            if let Some(keyed) = self.keyed.find_mut(hash, same_key) {
                keyed.listeners.iter_mut().for_each(&mut visit);
            }
        }
        self.laggard_count += fell_behind;
        self.newest_lag = newest;
    }
}

/// Where in the topic a change happens.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) shard: usize,
    pub(super) hash: u64,
    /// The shard's version before the change.
    pub(super) version: u64,
}

impl<E: Event> Listener<E> {
    fn is(&self, subscriber: &Arc<Subscriber<E>>) -> bool {
        Arc::ptr_eq(&self.subscriber, subscriber)
    }

    fn is_full_for(&self, event: &E) -> bool {
        let mailbox = self.subscriber.mailbox();
        mailbox.blocks() && mailbox.is_full() && self.subscriber.wants(event)
    }

    /// Offers an item; `true` when the listener begins to lag by it.
    fn offer(
        &mut self,
        place: Place,
        item: impl FnOnce() -> Item<E>,
        tally: &mut Tally<E>,
    ) -> bool {
        if let Some(lag) = &mut self.lag {
            // A newcomer is told this change by its replay: nothing is lost.
            let missed = u64::from(lag.lost > 0);
            lag.lost += missed;
            tally.lost += missed;
            return false;
        }
        let mailbox = self.subscriber.mailbox();
        let (offer, wake) = mailbox.offer(place.shard, place.hash, item());
        if wake {
            tally.wake(&self.subscriber);
        }
        tally.count(&offer);
        if matches!(offer, Offer::FellBehind) {
            self.lag = Some(Lag {
                since: place.version,
                lost: 1,
            });
            return true;
        }
        false
    }
}

impl<E: Event> Tally<E> {
    pub(super) fn new() -> Self {
        Self {
            delivered: 0,
            lost: 0,
            conflated: 0,
            wake_first: None,
            wake_rest: Vec::new(),
        }
    }

    fn count(&mut self, offer: &Offer) {
        match offer {
            Offer::Closed => {}
            Offer::Queued => self.delivered += 1,
            Offer::Conflated => {
                self.delivered += 1;
                self.conflated += 1;
            }
            Offer::DroppedOldest => {
                self.delivered += 1;
                self.lost += 1;
            }
            Offer::Refused | Offer::FellBehind => self.lost += 1,
        }
    }

    fn wake(&mut self, subscriber: &Arc<Subscriber<E>>) {
        let subscriber = Arc::clone(subscriber);
        match self.wake_first {
            None => self.wake_first = Some(subscriber),
            Some(_) => self.wake_rest.push(subscriber),
        }
    }

    /// Wakes whom the publish gave something to do. No lock may be held.
    pub(super) fn wake_all(self) {
        let wake = |subscriber: Arc<Subscriber<E>>| subscriber.wake();
        self.wake_first.into_iter().for_each(wake);
        self.wake_rest.into_iter().for_each(wake);
    }
}
