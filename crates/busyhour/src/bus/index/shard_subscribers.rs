use super::attributed::Attributed;
use crate::bus::{
    Event,
    delivery::{Answers, ChangeKind, Lag, Offer, Probe, ShardChange, Subscriber},
    nodes::NodeId,
    publish_result::{Counts, DeliveryCounters, PublishResult},
};
use hashbrown::{HashTable, hash_table::Entry};
use std::{mem, sync::Arc};

mod readers;
mod waiting;

pub(in crate::bus) use readers::ReadChanges;

/// The subscribers of one shard, indexed by key or by the value of an attribute
/// if they asked for one. What each publish uses stands together.
#[repr(C)]
pub(in crate::bus) struct ShardSubscribers<E: Event> {
    /// The number of all subscribers.
    count: usize,
    /// Subscribers that make publishers wait for room.
    blocking_count: usize,
    /// Subscribers that need an answer of user code before a change is offered.
    asking_count: usize,
    newest_lag: u64,
    /// The results of all deliveries of this shard.
    counts: Counts,
    everything: Vec<ShardSubscriber<E>>,
    /// Those that read from the cache what has changed.
    readers: Vec<ShardSubscriber<E>>,
    keyed: HashTable<KeyListeners<E>>,
    /// In the order in which they were first used.
    attributes: Vec<Attributed<E>>,
    /// The hashes of keys for whose subscribers something may wait; see `waiting.rs`.
    noted: Vec<u64>,
    /// How many readers are to be notified of the next change.
    attentive_count: usize,
    /// Subscribers that lag and so may have received keys that are removed
    /// meanwhile.
    laggard_count: usize,
}

/// The subscribers of one key, which they share. Two lists may have equal keys.
struct KeyListeners<E: Event> {
    hash: u64,
    key: Arc<E::Key>,
    /// The tenure of the slot that was last found to hold the key; 0 for none.
    born: u64,
    /// Something may wait for one of them, and the hash is in the list of such.
    is_noted: bool,
    listeners: Vec<ShardSubscriber<E>>,
}

impl<E: Event> KeyListeners<E> {
    fn is(&self, hash: u64, key: &Arc<E::Key>) -> bool {
        self.hash == hash && Arc::ptr_eq(&self.key, key)
    }

    /// Whether this is the key of the change, as far as it is known.
    fn is_key_of(&self, place: ListPosition, answers: &Answers<E>) -> bool {
        self.is_born_at(place) || answers.has_key(&self.key)
    }

    fn is_born_at(&self, place: ListPosition) -> bool {
        place.born != 0 && place.born == self.born
    }
}

/// A subscriber, and its lag in one shard.
pub(in crate::bus) struct ShardSubscriber<E: Event> {
    subscriber: Arc<Subscriber<E>>,
    lag: Option<Lag>,
    /// A reader that lags, and that no turn will bring up to date: its last one was lost.
    is_stalled: bool,
}

/// What one shard knows of a subscriber.
pub(in crate::bus) struct SubscriberLag<E: Event> {
    pub(in crate::bus) subscriber: Arc<Subscriber<E>>,
    /// It will be brought up to date from the cache.
    pub(in crate::bus) is_lagging: bool,
    /// Changes that a reader has not read yet.
    pub(in crate::bus) unread: u64,
}

impl<E: Event> ShardSubscribers<E> {
    pub(in crate::bus) fn new() -> Self {
        Self {
            everything: Vec::new(),
            readers: Vec::new(),
            attentive_count: 0,
            keyed: HashTable::new(),
            noted: Vec::new(),
            attributes: Vec::new(),
            count: 0,
            blocking_count: 0,
            asking_count: 0,
            laggard_count: 0,
            newest_lag: 0,
            counts: Counts::default(),
        }
    }

    /// The results of all deliveries so far.
    pub(in crate::bus) fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts deliveries that bypassed the mailbox.
    pub(in crate::bus) fn count_delivered(&mut self, count: usize) {
        self.counts.delivered += count as u64;
    }

    pub(in crate::bus) fn add(&mut self, subscriber: Arc<Subscriber<E>>, lag: Option<Lag>) {
        self.count += 1;
        self.blocking_count += usize::from(subscriber.mailbox().blocks());
        self.asking_count += usize::from(subscriber.asks());
        let place = if let Some(wanted) = subscriber.attribute() {
            let attribute = self.attribute_of(&wanted.probe);
            attribute.place_of(wanted.hash)
        } else if let Some((hash, key)) = subscriber.key() {
            self.place_of(hash, key)
        } else if subscriber.mailbox().reads_cache() {
            &mut self.readers
        } else {
            &mut self.everything
        };
        place.push(ShardSubscriber {
            subscriber: Arc::clone(&subscriber),
            lag,
            is_stalled: false,
        });
        self.note(&subscriber);
    }

    /// Something may wait for the subscriber from now on.
    fn note(&mut self, subscriber: &Subscriber<E>) {
        if let Some((hash, key)) = subscriber.key() {
            self.note_key(hash, key);
        }
    }

    /// The keys with this hash that have subscribers.
    pub(in crate::bus) fn keys_of(&self, hash: u64) -> Vec<Arc<E::Key>> {
        let of_hash = self.keyed.iter_hash(hash).filter(|it| it.hash == hash);
        of_hash.map(|keyed| Arc::clone(&keyed.key)).collect()
    }

    fn place_of(&mut self, hash: u64, key: &Arc<E::Key>) -> &mut Vec<ShardSubscriber<E>> {
        let same_key = |keyed: &KeyListeners<E>| keyed.is(hash, key);
        let keyed = match self.keyed.entry(hash, same_key, |keyed| keyed.hash) {
            Entry::Occupied(keyed) => keyed.into_mut(),
            Entry::Vacant(vacancy) => {
                let (key, listeners) = (Arc::clone(key), Vec::new());
                let keyed = KeyListeners {
                    hash,
                    key,
                    born: 0,
                    is_noted: false,
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

    /// Removes the subscriber; its lag, if it had one, no longer counts.
    pub(in crate::bus) fn remove(
        &mut self,
        subscriber: &Arc<Subscriber<E>>,
    ) -> Option<ShardSubscriber<E>> {
        let list = self.list_of(subscriber)?;
        let index = list.iter().position(|listener| listener.is(subscriber))?;
        let listener = list.remove(index);
        let is_last = list.is_empty();
        self.attentive_count -= usize::from(listener.is_attentive());
        self.count -= 1;
        self.blocking_count -= usize::from(subscriber.mailbox().blocks());
        self.asking_count -= usize::from(subscriber.asks());
        self.forget_lag(listener.lag);
        if is_last {
            self.remove_place(subscriber);
        }
        Some(listener)
    }

    /// Removes the list of a key or a value that no subscriber wants any more.
    fn remove_place(&mut self, subscriber: &Subscriber<E>) {
        if let Some((hash, key)) = subscriber.key() {
            self.remove_key(hash, key);
        }
        if let Some(wanted) = subscriber.attribute() {
            self.attribute_of(&wanted.probe).remove_value(wanted.hash);
            self.attributes.retain(|attribute| !attribute.is_empty());
        }
    }

    fn remove_key(&mut self, hash: u64, key: &Arc<E::Key>) {
        let same_key = |keyed: &KeyListeners<E>| keyed.is(hash, key);
        if let Ok(keyed) = self.keyed.find_entry(hash, same_key) {
            keyed.remove();
        }
        if self.keyed.capacity() > 4 * self.keyed.len().max(16) {
            self.keyed.shrink_to_fit(|keyed| keyed.hash);
        }
    }

    fn list_of(&mut self, subscriber: &Subscriber<E>) -> Option<&mut Vec<ShardSubscriber<E>>> {
        if let Some(wanted) = subscriber.attribute() {
            let mut attributes = self.attributes.iter_mut();
            let attribute = attributes.find(|attribute| attribute.is_by(&wanted.probe))?;
            return attribute.listeners(wanted.hash);
        }
        if subscriber.mailbox().reads_cache() {
            return Some(&mut self.readers);
        }
        let Some((hash, key)) = subscriber.key() else {
            return Some(&mut self.everything);
        };
        let same_key = |keyed: &KeyListeners<E>| keyed.is(hash, key);
        let keyed = self.keyed.find_mut(hash, same_key)?;
        Some(&mut keyed.listeners)
    }

    /// Marks the subscriber as following again; returns the lag it had.
    pub(in crate::bus) fn follow(&mut self, subscriber: &Arc<Subscriber<E>>) -> Option<Lag> {
        let list = self.list_of(subscriber)?;
        let listener = list.iter_mut().find(|listener| listener.is(subscriber))?;
        let was_attentive = listener.is_attentive();
        let lag = listener.lag.take();
        listener.is_stalled = false;
        let is_attentive = listener.is_attentive();
        self.attentive_count += usize::from(is_attentive && !was_attentive);
        self.forget_lag(lag);
        // What it is brought up to date with waits for it.
        self.note(subscriber);
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

    /// The newest version at which some subscriber began to lag; 0 if none
    /// lags.
    pub(in crate::bus) fn newest_lag(&self) -> u64 {
        self.newest_lag
    }

    /// Whether there is no subscriber.
    #[inline(always)]
    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether some subscriber may make publishers wait.
    pub(in crate::bus) fn may_be_full(&self) -> bool {
        self.blocking_count > 0
    }

    /// Whether user code may have to answer something before a change is
    /// offered.
    #[inline(always)]
    pub(in crate::bus) fn may_ask(&self) -> bool {
        self.asking_count > 0 || !self.keyed.is_empty()
    }

    /// Whether the subscribers of an event of this key are known without asking
    /// user code, and have room. A subscriber to an attribute's value always
    /// needs to be asked.
    #[inline(always)]
    pub(in crate::bus) fn are_ready(&self, place: ListPosition) -> bool {
        let have_room = |listeners: &[ShardSubscriber<E>]| {
            self.blocking_count == 0 || !listeners.iter().any(ShardSubscriber::is_full)
        };
        let is_ready =
            |keyed: &KeyListeners<E>| keyed.is_born_at(place) && have_room(&keyed.listeners);
        let mut of_hash = self.keyed.iter_hash(place.hash);
        self.asking_count == 0
            && have_room(&self.everything)
            && (self.keyed.is_empty()
                || of_hash.all(|keyed| keyed.hash != place.hash || is_ready(keyed)))
    }

    /// Asks what must be known before a change is offered; `false` if something
    /// has no answer yet.
    #[inline(never)]
    pub(in crate::bus) fn ask(
        &self,
        place: ListPosition,
        kind: ChangeKind,
        answers: &mut Answers<E>,
    ) -> bool {
        let hash = place.hash;
        for keyed in self.keyed.iter_hash(hash).filter(|it| it.hash == hash) {
            let is_key = keyed.is_born_at(place) || answers.is_key(&keyed.key) == Some(true);
            if is_key && self.asking_count > 0 {
                self.ask_each(keyed.listeners.iter(), hash, kind, answers);
            }
        }
        if self.asking_count > 0 {
            self.ask_others(hash, kind, answers);
        }
        !answers.has_open_questions()
    }

    #[cold]
    fn ask_others(&self, hash: u64, kind: ChangeKind, answers: &mut Answers<E>) {
        self.ask_each(self.everything.iter(), hash, kind, answers);
        for attribute in &self.attributes {
            if kind == ChangeKind::Removed {
                self.ask_each(attribute.iter(), hash, kind, answers);
            } else if let Some(value) = answers.value_of(&attribute.probe) {
                self.ask_each(attribute.of_hash(value).iter(), hash, kind, answers);
            }
        }
    }

    fn ask_each<'a>(
        &'a self,
        listeners: impl Iterator<Item = &'a ShardSubscriber<E>>,
        hash: u64,
        kind: ChangeKind,
        answers: &mut Answers<E>,
    ) {
        for listener in listeners {
            listener.ask(hash, kind, answers);
        }
    }

    /// The first subscriber that wants the change and for whose room publishers
    /// must wait.
    pub(in crate::bus) fn find_full(
        &self,
        place: ListPosition,
        kind: ChangeKind,
        answers: &Answers<E>,
    ) -> Option<Arc<Subscriber<E>>> {
        let full =
            |listener: &&ShardSubscriber<E>| listener.is_full() && listener.wants(kind, answers);
        let mut everything = self.everything.iter();
        let full = everything.find(full).or_else(|| {
            let attributes = self.attributes.iter();
            let attributed = attributes.flat_map(|it| it.concerned(kind, answers));
            self.keyed(place, answers).chain(attributed).find(full)
        })?;
        Some(Arc::clone(&full.subscriber))
    }

    /// The subscribers of the change's key.
    fn keyed<'a>(
        &'a self,
        place: ListPosition,
        answers: &'a Answers<E>,
    ) -> impl Iterator<Item = &'a ShardSubscriber<E>> {
        let of_hash = self.keyed.iter_hash(place.hash);
        let of_hash = of_hash.filter(move |keyed| keyed.hash == place.hash);
        let of_key = of_hash.filter(move |keyed| keyed.is_key_of(place, answers));
        of_key.flat_map(|keyed| &keyed.listeners)
    }

    fn all(&self) -> impl Iterator<Item = &ShardSubscriber<E>> {
        let keyed = self.keyed.iter().flat_map(|keyed| &keyed.listeners);
        let attributed = self.attributes.iter().flat_map(Attributed::iter);
        let unindexed = self.everything.iter().chain(&self.readers);
        unindexed.chain(keyed).chain(attributed)
    }

    pub(in crate::bus) fn subscribers(&self) -> Vec<Arc<Subscriber<E>>> {
        let all = self.all().map(|listener| Arc::clone(&listener.subscriber));
        all.collect()
    }

    /// Every subscriber with its lag, but that of a reader is what it has not read yet.
    pub(in crate::bus) fn subscribers_with_lag(&self, version: u64) -> Vec<SubscriberLag<E>> {
        self.all().map(|it| it.with_lag(version)).collect()
    }

    /// Subscribers that wait to be brought up to date.
    pub(in crate::bus) fn laggard_count(&self) -> usize {
        self.laggard_count - self.late_reader_count()
    }

    /// Whether some subscriber may want an event of a key without subscribers
    /// of its own.
    pub(in crate::bus) fn want_any_key(&self) -> bool {
        !self.everything.is_empty() || !self.readers.is_empty() || !self.attributes.is_empty()
    }

    /// Offers the change to every subscriber that wants it.
    #[inline(always)]
    pub(in crate::bus) fn offer(
        &mut self,
        place: ListPosition,
        change: &mut ShardChange<'_, E>,
        origin: Option<NodeId>,
        result: &mut PublishResult<E>,
        answers: &Answers<E>,
    ) {
        if !self.readers.is_empty() {
            self.offer_to_readers(place, result);
        }
        for listener in &mut self.everything {
            let counts = &mut self.counts;
            let counters = DeliveryCounters { counts, result };
            if listener.offer_if_wanted(place, change, origin, counters, answers) {
                listener.add_lag(&mut self.laggard_count, &mut self.newest_lag);
            }
        }
        if !self.keyed.is_empty() {
            self.offer_by_key(place, change, origin, result, answers);
        }
        if !self.attributes.is_empty() {
            self.offer_by_attribute(place, change, origin, result, answers);
        }
    }

    fn offer_by_key(
        &mut self,
        place: ListPosition,
        change: &mut ShardChange<'_, E>,
        origin: Option<NodeId>,
        result: &mut PublishResult<E>,
        answers: &Answers<E>,
    ) {
        for keyed in self.keyed.iter_hash_mut(place.hash) {
            if keyed.hash != place.hash || !keyed.is_key_of(place, answers) {
                continue;
            }
            // The keys need not be compared again while the key keeps its slot.
            keyed.born = place.born;
            keyed.note(&mut self.noted);
            for listener in &mut keyed.listeners {
                let counts = &mut self.counts;
                let counters = DeliveryCounters { counts, result };
                if listener.offer_if_wanted(place, change, origin, counters, answers) {
                    listener.add_lag(&mut self.laggard_count, &mut self.newest_lag);
                }
            }
        }
    }

    #[inline(never)]
    fn offer_by_attribute(
        &mut self,
        place: ListPosition,
        change: &mut ShardChange<'_, E>,
        origin: Option<NodeId>,
        result: &mut PublishResult<E>,
        answers: &Answers<E>,
    ) {
        let attributes = self.attributes.iter_mut();
        let kind = change.kind();
        let concerned = attributes.flat_map(|it| it.concerned_mut(kind, answers));
        for listener in concerned {
            let counts = &mut self.counts;
            let counters = DeliveryCounters { counts, result };
            if listener.offer_if_wanted(place, change, origin, counters, answers) {
                listener.add_lag(&mut self.laggard_count, &mut self.newest_lag);
            }
        }
    }
}

/// The place of a change in the topic.
#[derive(Clone, Copy)]
pub(in crate::bus) struct ListPosition {
    pub(in crate::bus) shard: usize,
    pub(in crate::bus) hash: u64,
    /// The tenure of the key's slot, also of a slot that the change fills; 0
    /// without a cache.
    pub(in crate::bus) born: u64,
    /// The shard's version before the change.
    pub(in crate::bus) version: u64,
}

impl<E: Event> ShardSubscriber<E> {
    fn is(&self, subscriber: &Arc<Subscriber<E>>) -> bool {
        Arc::ptr_eq(&self.subscriber, subscriber)
    }

    /// Counts a lag that has just begun, unless the subscriber cannot have
    /// received any key.
    #[cold]
    fn add_lag(&self, count: &mut usize, newest: &mut u64) {
        let since = self.lag.map_or(0, |lag| lag.since);
        *count += usize::from(since > 0);
        *newest = since.max(*newest);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        let mailbox = self.subscriber.mailbox();
        mailbox.blocks() && mailbox.is_full()
    }

    /// Asks whether it wants the change, and which waiting item it replaces.
    fn ask(&self, hash: u64, kind: ChangeKind, answers: &mut Answers<E>) {
        let is_in_question = kind == ChangeKind::Event && self.subscriber.chooses();
        if is_in_question && answers.is_wanted(&self.subscriber) != Some(true) {
            return;
        }
        let mailbox = self.subscriber.mailbox();
        if mailbox.conflates() && self.lag.is_none() {
            mailbox.ask_waiting(&self.subscriber, hash, answers);
        }
    }

    /// Whether it wants the change, once the index has found its key or value.
    #[inline(always)]
    fn wants(&self, kind: ChangeKind, answers: &Answers<E>) -> bool {
        let is_in_question = self.subscriber.chooses() && kind == ChangeKind::Event;
        !is_in_question || answers.has_wanted(&self.subscriber)
    }

    /// Offers the change if the subscriber wants it; `true` if the subscriber
    /// begins to lag with it.
    #[inline(always)]
    fn offer_if_wanted(
        &mut self,
        place: ListPosition,
        change: &mut ShardChange<'_, E>,
        origin: Option<NodeId>,
        mut counters: DeliveryCounters<'_, E>,
        answers: &Answers<E>,
    ) -> bool {
        if !self.wants(change.kind(), answers) {
            return false;
        }
        if self.lag.is_some() {
            self.miss(counters);
            return false;
        }
        let subscriber = &self.subscriber;
        let has_same_key = |number| answers.has_waiting(subscriber, number);
        let offer =
            (subscriber.mailbox()).offer(place.shard, place.hash, origin, change, has_same_key);
        match offer {
            Offer::Queued => {
                counters.delivered();
                false
            }
            Offer::QueuedFirst => {
                counters.delivered();
                counters.result.wake(&self.subscriber);
                false
            }
            other => self.take_note(other, place, counters),
        }
    }

    #[cold]
    fn miss(&mut self, mut counters: DeliveryCounters<'_, E>) {
        // A new subscriber gets this change in its replay: nothing is lost.
        let Some(lag) = self.lag.as_mut().filter(|lag| !lag.is_new) else {
            return;
        };
        if self.subscriber.mailbox().conflates() {
            counters.conflated();
            return;
        }
        lag.lost += 1;
        self.subscriber.mailbox().count_lost();
        counters.lost();
    }

    #[cold]
    fn take_note(
        &mut self,
        offer: Offer<E>,
        place: ListPosition,
        mut counters: DeliveryCounters<'_, E>,
    ) -> bool {
        let mut begins_to_lag = false;
        let wake = match offer {
            Offer::Closed | Offer::Queued | Offer::QueuedFirst => false,
            Offer::Conflated { older, wake } => {
                counters.delivered();
                counters.conflated();
                counters.result.drop_later([older]);
                wake
            }
            Offer::DroppedOldest { oldest, wake } => {
                counters.delivered();
                counters.lost();
                counters.result.drop_later(oldest);
                wake
            }
            Offer::Refused { wake } => {
                counters.lost();
                wake
            }
            Offer::FellBehind { wake } => {
                self.fall_behind(place, &mut counters);
                begins_to_lag = true;
                wake
            }
        };
        if wake {
            counters.result.wake(&self.subscriber);
        }
        begins_to_lag
    }

    fn fall_behind(&mut self, place: ListPosition, counters: &mut DeliveryCounters<'_, E>) {
        let lost = u64::from(!self.subscriber.mailbox().conflates());
        match lost {
            0 => counters.conflated(),
            _ => counters.lost(),
        }
        self.lag = Some(Lag {
            since: place.version,
            lost,
            is_new: false,
        });
    }
}
