use super::{
    Event, Origin,
    attribute::Probe,
    attributed::Attributed,
    consumer::Subscriber,
    item::Item,
    mailbox::Offer,
    tally::{Books, Counts, Tally},
};
use hashbrown::{HashTable, hash_table::Entry};
use std::{slice, sync::Arc};

/// Who listens to one shard, found by key or by the value of an attribute
/// where they asked for one.
pub(super) struct Listeners<E: Event> {
    everything: Vec<Listener<E>>,
    keyed: HashTable<Keyed<E>>,
    /// In the order they were first asked for.
    attributes: Vec<Attributed<E>>,
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

impl<E: Event> Listeners<E> {
    pub(super) fn new() -> Self {
        Self {
            everything: Vec::new(),
            keyed: HashTable::new(),
            attributes: Vec::new(),
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
        let place = if let Some(wanted) = subscriber.attribute() {
            let attribute = self.attribute_of(&wanted.probe);
            attribute.place_of(wanted.hash)
        } else if let Some((hash, key)) = subscriber.key() {
            self.place_of(hash, key)
        } else {
            &mut self.everything
        };
        place.push(Listener { subscriber, lag });
    }

    fn place_of(&mut self, hash: u64, key: &E::Key) -> &mut Vec<Listener<E>> {
        let same_key = |keyed: &Keyed<E>| keyed.hash == hash && keyed.key == *key;
        let keyed = match self.keyed.entry(hash, same_key, |keyed| keyed.hash) {
            Entry::Occupied(keyed) => keyed.into_mut(),
            Entry::Vacant(vacancy) => {
                let (key, listeners) = (key.clone(), Vec::new());
                let keyed = Keyed {
                    hash,
                    key,
                    listeners,
                };
                vacancy.insert(keyed).into_mut()
            }
        };
        &mut keyed.listeners
    }

    fn attribute_of(&mut self, probe: &Arc<dyn Probe<E>>) -> &mut Attributed<E> {
        let known = self.attributes.iter().position(|known| known.is_by(probe));
        let index = known.unwrap_or_else(|| {
            self.attributes.push(Attributed::new(probe));
            self.attributes.len() - 1
        });
        &mut self.attributes[index]
    }

    /// Takes the subscriber off; its lag, if it had one, no longer counts.
    pub(super) fn remove(&mut self, subscriber: &Arc<Subscriber<E>>) -> Option<Listener<E>> {
        let list = self.list_of(subscriber)?;
        let index = list.iter().position(|listener| listener.is(subscriber))?;
        let listener = list.remove(index);
        let is_last = list.is_empty();
        self.blocking_count -= usize::from(subscriber.mailbox().blocks());
        self.forget_lag(listener.lag);
        if is_last {
            self.remove_place(subscriber);
        }
        Some(listener)
    }

    /// Forgets of a key or a value that nobody wants any more.
    fn remove_place(&mut self, subscriber: &Subscriber<E>) {
        if let Some((hash, key)) = subscriber.key() {
            self.remove_key(hash, key);
        }
        if let Some(wanted) = subscriber.attribute() {
            self.attribute_of(&wanted.probe).remove_value(wanted.hash);
            self.attributes.retain(|attribute| !attribute.is_empty());
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
        if let Some(wanted) = subscriber.attribute() {
            let mut attributes = self.attributes.iter_mut();
            let attribute = attributes.find(|attribute| attribute.is_by(&wanted.probe))?;
            return attribute.listeners(wanted.hash);
        }
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

    /// Whether there may be one that makes publishers wait.
    #[inline(always)]
    pub(super) fn may_be_full(&self) -> bool {
        self.blocking_count > 0
    }

    /// The first matching subscriber that publishers have to wait for.
    #[inline(always)]
    pub(super) fn find_full(&self, hash: u64, event: &E) -> Option<Arc<Subscriber<E>>> {
        let full = |listener: &&Listener<E>| listener.is_full() && listener.wants(event);
        let mut everything = self.everything.iter();
        let full = everything
            .find(full)
            .or_else(|| self.keyed(hash, event.key())?.iter().find(full))
            .or_else(|| self.having(event).find(full))?;
        Some(Arc::clone(&full.subscriber))
    }

    /// The first subscriber that who clears this key has to wait for.
    pub(super) fn find_full_for_key(&self, hash: u64, key: &E::Key) -> Option<Arc<Subscriber<E>>> {
        if self.blocking_count == 0 {
            return None;
        }
        let keyed = self.keyed(hash, key).unwrap_or_default();
        let attributed = self.attributes.iter().flat_map(Attributed::iter);
        let mut all = self.everything.iter().chain(keyed).chain(attributed);
        let full = all.find(|listener| listener.is_full())?;
        Some(Arc::clone(&full.subscriber))
    }

    /// Those who want the event's value of some attribute.
    fn having<'a>(&'a self, event: &'a E) -> impl Iterator<Item = &'a Listener<E>> {
        let attributes = self.attributes.iter();
        attributes.flat_map(|attribute| attribute.having(event))
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
        let attributed = self.attributes.iter().flat_map(Attributed::iter);
        let all = self.everything.iter().chain(keyed).chain(attributed);
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
        !self.everything.is_empty()
            || !self.attributes.is_empty()
            || self.keyed(hash, key).is_some()
    }

    /// Offers the event to everybody who wants it.
    #[inline(always)]
    pub(super) fn offer_event(
        &mut self,
        place: Place,
        event: &E,
        speaker: Option<Origin>,
        tally: &mut Tally<E>,
    ) {
        self.each(place.hash, event.key(), |listener, counts| {
            let books = Books { counts, tally };
            listener.offer_if_wanted(place, event, speaker, books)
        });
        if !self.attributes.is_empty() {
            self.offer_by_attribute(place, event, speaker, tally);
        }
    }

    #[cold]
    fn offer_by_attribute(
        &mut self,
        place: Place,
        event: &E,
        speaker: Option<Origin>,
        tally: &mut Tally<E>,
    ) {
        for attribute in &mut self.attributes {
            let hash = attribute.probe.hash_of(event);
            for listener in attribute.listeners(hash).into_iter().flatten() {
                let counts = &mut self.counts;
                let books = Books { counts, tally };
                if listener.offer_if_wanted(place, event, speaker, books) {
                    listener.add_lag(&mut self.laggard_count, &mut self.newest_lag);
                }
            }
        }
    }

    /// Tells everybody who may have seen the key that it is cleared.
    pub(super) fn offer_cleared(
        &mut self,
        place: Place,
        key: &E::Key,
        speaker: Option<Origin>,
        tally: &mut Tally<E>,
    ) {
        self.each(place.hash, key, |listener, counts| {
            let books = Books { counts, tally };
            listener.offer(place, speaker, || Item::Cleared(key.clone()), books)
        });
        let attributed = self.attributes.iter_mut().flat_map(Attributed::iter_mut);
        for listener in attributed {
            let counts = &mut self.counts;
            let books = Books { counts, tally };
            if listener.offer(place, speaker, || Item::Cleared(key.clone()), books) {
                listener.add_lag(&mut self.laggard_count, &mut self.newest_lag);
            }
        }
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

    fn is_full(&self) -> bool {
        let mailbox = self.subscriber.mailbox();
        mailbox.blocks() && mailbox.is_full()
    }

    fn wants(&self, event: &E) -> bool {
        self.subscriber.wants(event)
    }

    /// Offers the event if the subscriber wants it; `true` when the listener
    /// begins to lag by it.
    #[inline(always)]
    fn offer_if_wanted(
        &mut self,
        place: Place,
        event: &E,
        speaker: Option<Origin>,
        books: Books<'_, E>,
    ) -> bool {
        let item = || Item::Event(event.clone());
        self.wants(event) && self.offer(place, speaker, item, books)
    }

    /// Offers an item; `true` when the listener begins to lag by it.
    #[inline(always)]
    fn offer(
        &mut self,
        place: Place,
        speaker: Option<Origin>,
        item: impl FnOnce() -> Item<E>,
        mut books: Books<'_, E>,
    ) -> bool {
        if self.lag.is_some() {
            self.miss(books);
            return false;
        }
        let mailbox = self.subscriber.mailbox();
        match mailbox.offer(place.shard, place.hash, speaker, item) {
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
                books.tally.drop_later([old]);
            }
            Offer::DroppedOldest(old) => {
                books.delivered();
                books.lost();
                books.tally.drop_later(old);
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
