use super::{Event, Message, consumer::Subscriber, mailbox::Offer};
use hashbrown::{HashTable, hash_table::Entry};
use std::{slice, sync::Arc};

/// Who listens to one shard, found by key where they asked for one.
pub(super) struct Listeners<E: Event> {
    everything: Vec<Listener<E>>,
    keyed: HashTable<Keyed<E>>,
    /// Listeners that make publishers wait for room.
    blocking_count: usize,
    /// Listeners that lag and so may have seen keys that are cleared meanwhile.
    laggard_count: usize,
    newest_lag: u64,
    /// What became of all deliveries of this shard.
    counts: Counts,
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

/// What became of an event's deliveries.
///
/// The two that a publisher is told are not neighbours, so that they are read
/// one by one: read as a pair right after one of them was written, they would
/// have to wait until that has reached the cache.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Counts {
    pub(super) delivered: u64,
    pub(super) conflated: u64,
    pub(super) lost: u64,
}

/// What a publish did.
pub(super) struct Tally<E: Event> {
    pub(super) counts: Counts,
    /// The version of the event in the cache.
    pub(super) version: u64,
    /// The topic has no room for another key.
    pub(super) refused: bool,
    /// What is to do when no lock is held; usually nothing.
    afterwards: Option<Box<Afterwards<E>>>,
}

struct Afterwards<E: Event> {
    wake: Vec<Arc<Subscriber<E>>>,
    drop: Vec<Message<E>>,
}

impl<E: Event> Listeners<E> {
    pub(super) fn new() -> Self {
        Self {
            everything: Vec::new(),
            keyed: HashTable::new(),
            blocking_count: 0,
            laggard_count: 0,
            newest_lag: 0,
            counts: Counts::default(),
        }
    }

    /// What became of all deliveries so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes note of deliveries that went past the mailbox.
    pub(super) fn count_delivered(&mut self, count: usize) {
        self.counts.delivered += count as u64;
    }

    pub(super) fn add(&mut self, subscriber: Arc<Subscriber<E>>, lag: Option<Lag>) {
        self.blocking_count += usize::from(subscriber.mailbox().blocks());
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
    pub(super) fn remove(&mut self, subscriber: &Arc<Subscriber<E>>) -> Option<Listener<E>> {
        let list = self.list_of(subscriber)?;
        let index = list.iter().position(|listener| listener.is(subscriber))?;
        let listener = list.remove(index);
        let is_last = list.is_empty();
        self.blocking_count -= usize::from(subscriber.mailbox().blocks());
        self.forget_lag(listener.lag);
        if let (true, Some((hash, key))) = (is_last, subscriber.key()) {
            self.remove_key(hash, key);
        }
        Some(listener)
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
    #[inline(always)]
    pub(super) fn find_full(&self, hash: u64, event: &E) -> Option<Arc<Subscriber<E>>> {
        if self.blocking_count == 0 {
            return None;
        }
        let full = |listener: &&Listener<E>| listener.is_full_for(event);
        let mut everything = self.everything.iter();
        let full = everything
            .find(full)
            .or_else(|| self.keyed(hash, event.key())?.iter().find(full))?;
        Some(Arc::clone(&full.subscriber))
    }

    #[inline(always)]
    fn keyed(&self, hash: u64, key: &E::Key) -> Option<&[Listener<E>]> {
        if self.keyed.is_empty() {
            return None;
        }
        let same_key = |keyed: &Keyed<E>| keyed.hash == hash && keyed.key == *key;
        Some(&self.keyed.find(hash, same_key)?.listeners)
    }

    /// The subscriber for whom most is waiting, if anything waits for anybody.
    pub(super) fn slowest(&self) -> Option<&Arc<Subscriber<E>>> {
        let keyed = self.keyed.iter().flat_map(|keyed| &keyed.listeners);
        let all = self.everything.iter().chain(keyed);
        let waiting = all.map(|listener| (listener.subscriber.mailbox().len(), listener));
        let (len, slowest) = waiting.max_by_key(|(len, _)| *len)?;
        (len > 0).then_some(&slowest.subscriber)
    }

    /// Listeners that wait to be brought up to date.
    pub(super) fn laggard_count(&self) -> usize {
        self.laggard_count
    }

    /// Whether anybody might want an event of this key.
    pub(super) fn want(&self, hash: u64, key: &E::Key) -> bool {
        !self.everything.is_empty() || self.keyed(hash, key).is_some()
    }

    /// Offers the event to everybody who wants it. `version` is that of the
    /// cache before this change.
    pub(super) fn offer_event(&mut self, place: Place, event: &E, tally: &mut Tally<E>) {
        self.each(place.hash, event.key(), |listener, counts| {
            let books = Books { counts, tally };
            let wanted = listener.subscriber.wants(event);
            wanted && listener.offer(place, || Message::Event(event.clone()), books)
        });
    }

    /// Tells everybody who may have seen the key that it is cleared.
    pub(super) fn offer_cleared(&mut self, place: Place, key: &E::Key, tally: &mut Tally<E>) {
        self.each(place.hash, key, |listener, counts| {
            let books = Books { counts, tally };
            listener.offer(place, || Message::Cleared(key.clone()), books)
        });
    }

    /// Calls `offer` for each listener of the key; it says whether the
    /// listener began to lag.
    #[inline(always)]
    fn each(
        &mut self,
        hash: u64,
        key: &E::Key,
        mut offer: impl FnMut(&mut Listener<E>, &mut Counts) -> bool,
    ) {
        for listener in &mut self.everything {
            if offer(listener, &mut self.counts) {
                listener.add_lag(&mut self.laggard_count, &mut self.newest_lag);
            }
        }
        if self.keyed.is_empty() {
            return;
        }
        let same_key = |keyed: &Keyed<E>| keyed.hash == hash && keyed.key == *key;
        for listener in self.keyed.find_mut(hash, same_key).into_iter().flatten() {
            if offer(listener, &mut self.counts) {
                listener.add_lag(&mut self.laggard_count, &mut self.newest_lag);
            }
        }
    }
}

impl<'a, E: Event> IntoIterator for &'a mut Keyed<E> {
    type Item = &'a mut Listener<E>;
    type IntoIter = slice::IterMut<'a, Listener<E>>;

    fn into_iter(self) -> Self::IntoIter {
        self.listeners.iter_mut()
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

    /// Counts a lag that has just begun, unless no key can have been heard of.
    #[cold]
    fn add_lag(&self, count: &mut usize, newest: &mut u64) {
        let since = self.lag.map_or(0, |lag| lag.since);
        *count += usize::from(since > 0);
        *newest = since.max(*newest);
    }

    fn is_full_for(&self, event: &E) -> bool {
        let mailbox = self.subscriber.mailbox();
        mailbox.blocks() && mailbox.is_full() && self.subscriber.wants(event)
    }

    /// Offers an item; `true` when the listener begins to lag by it.
    #[inline(always)]
    fn offer(
        &mut self,
        place: Place,
        item: impl FnOnce() -> Message<E>,
        mut books: Books<'_, E>,
    ) -> bool {
        if self.lag.is_some() {
            self.miss(books);
            return false;
        }
        let mailbox = self.subscriber.mailbox();
        match mailbox.offer(place.shard, place.hash, item) {
            Offer::Queued => {
                books.delivered();
                false
            }
            Offer::QueuedFirst => {
                books.delivered();
                books.tally.wake(&self.subscriber);
                false
            }
            other => self.take_note(other, place, books),
        }
    }

    #[cold]
    fn miss(&mut self, mut books: Books<'_, E>) {
        // A newcomer is told this change by its replay: nothing is lost.
        if let Some(lag) = self.lag.as_mut().filter(|lag| lag.lost > 0) {
            lag.lost += 1;
            self.subscriber.mailbox().count_lost();
            books.lost();
        }
    }

    #[cold]
    fn take_note(&mut self, offer: Offer<E>, place: Place, mut books: Books<'_, E>) -> bool {
        match offer {
            Offer::Closed | Offer::Queued | Offer::QueuedFirst => {}
            Offer::Conflated(old) => {
                books.delivered();
                books.conflated();
                books.tally.afterwards().drop.push(old);
            }
            Offer::DroppedOldest(old) => {
                books.delivered();
                books.lost();
                books.tally.afterwards().drop.extend(old);
            }
            Offer::Refused => books.lost(),
            Offer::FellBehind { wake } => {
                books.lost();
                if wake {
                    books.tally.wake(&self.subscriber);
                }
                let (since, lost) = (place.version, 1);
                self.lag = Some(Lag { since, lost });
                return true;
            }
        }
        false
    }
}

/// Where one offer is counted: for the shard, and for the publisher.
///
/// One by one rather than as a difference afterwards: the processor cannot
/// read two counters at once that were written a moment before, and waits.
struct Books<'a, E: Event> {
    counts: &'a mut Counts,
    tally: &'a mut Tally<E>,
}

impl<E: Event> Books<'_, E> {
    #[inline(always)]
    fn delivered(&mut self) {
        self.counts.delivered += 1;
        self.tally.counts.delivered += 1;
    }

    fn lost(&mut self) {
        self.counts.lost += 1;
        self.tally.counts.lost += 1;
    }

    fn conflated(&mut self) {
        self.counts.conflated += 1;
        self.tally.counts.conflated += 1;
    }
}

impl<E: Event> Tally<E> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            counts: Counts::default(),
            version: 0,
            refused: false,
            afterwards: None,
        }
    }

    fn afterwards(&mut self) -> &mut Afterwards<E> {
        self.afterwards.get_or_insert_with(|| {
            let (wake, drop) = (Vec::new(), Vec::new());
            Box::new(Afterwards { wake, drop })
        })
    }

    #[cold]
    fn wake(&mut self, subscriber: &Arc<Subscriber<E>>) {
        self.afterwards().wake.push(Arc::clone(subscriber));
    }

    /// Wakes whom the publish gave something to do. No lock may be held.
    #[inline(always)]
    pub(super) fn wake_all(self) {
        if let Some(afterwards) = self.afterwards {
            afterwards.wake.into_iter().for_each(Subscriber::wake);
        }
    }
}
