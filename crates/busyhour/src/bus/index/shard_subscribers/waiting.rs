//! The keys for whose subscribers something may wait: of a hundred thousand subscriptions to one key
//! each, few have something to receive, and the statistics visit only those.
//!
//! **What is noted**: a key of which a subscriber lags or has something in its mailbox. Both begin in
//! three ways, all under the shard's lock, and each notes the key: a subscriber is added, a change is
//! offered to it, or it is brought up to date. Both end without the lock, so a noted key may have
//! nothing that waits any more; who visits the noted keys forgets those. So a visit costs what
//! has waited since the last one.
//!
//! Nobody may ever visit. Then a key is in the list once for each time that it got its first
//! subscriber, and the list is shortened when it is longer than all keys with a subscriber.

use super::*;

impl<E: Event> ShardSubscribers<E> {
    /// Something may wait for a subscriber of this key from now on.
    pub(super) fn note_key(&mut self, hash: u64, key: &Arc<E::Key>) {
        if let Some(keyed) = self.keyed.find_mut(hash, |keyed| keyed.is(hash, key)) {
            keyed.note(&mut self.noted);
        }
        if self.noted.len() > 2 * self.keyed.len().max(NOTED_MIN) {
            self.forget_removed();
        }
    }

    #[cold]
    fn forget_removed(&mut self) {
        self.noted.sort_unstable();
        self.noted.dedup();
        let Self { noted, keyed, .. } = self;
        noted.retain(|hash| noted_of(keyed, *hash).next().is_some());
    }

    /// Those for whom something waits.
    pub(in crate::bus) fn waiting_subscribers(&mut self, version: u64) -> Vec<SubscriberLag<E>> {
        let unindexed = self.everything.iter().chain(&self.readers);
        let attributed = self.attributes.iter().flat_map(Attributed::iter);
        let waiting = unindexed.chain(attributed).filter(|it| it.waits());
        let mut waiting: Vec<_> = waiting.map(|it| it.with_lag(version)).collect();
        let mut noted = mem::take(&mut self.noted);
        // A key that lost its last subscriber may have got another one.
        noted.sort_unstable();
        noted.dedup();
        noted.retain(|hash| {
            let mut is_waiting = false;
            for keyed in self.keyed.iter_hash_mut(*hash) {
                if keyed.hash != *hash || !keyed.is_noted {
                    continue;
                }
                let listeners = keyed.listeners.iter().filter(|it| it.waits());
                let before = waiting.len();
                waiting.extend(listeners.map(|it| it.with_lag(version)));
                keyed.is_noted = waiting.len() > before;
                is_waiting |= keyed.is_noted;
            }
            is_waiting
        });
        self.noted = noted;
        waiting
    }

    /// Until which versions the subscribers that lag have received changes, in order.
    pub(in crate::bus) fn lags(&self) -> Vec<u64> {
        let unindexed = self.everything.iter().chain(&self.readers);
        let attributed = self.attributes.iter().flat_map(Attributed::iter);
        let noted = self.noted.iter();
        let keyed = noted.flat_map(|hash| noted_of(&self.keyed, *hash));
        let keyed = keyed.flat_map(|keyed| &keyed.listeners);
        let lags = unindexed.chain(attributed).chain(keyed);
        let mut since: Vec<u64> = (lags.filter_map(|it| it.lag))
            .map(|lag| lag.since)
            .collect();
        since.sort_unstable();
        since
    }

    /// The changes that a reader has not read yet.
    pub(in crate::bus) fn unread_len(&self, subscriber: &Arc<Subscriber<E>>, version: u64) -> u64 {
        let reader = self.readers.iter().find(|it| it.is(subscriber));
        reader.map_or(0, |it| it.with_lag(version).unread)
    }
}

/// The noted keys with this hash.
fn noted_of<E: Event>(
    keyed: &HashTable<KeyListeners<E>>,
    hash: u64,
) -> impl Iterator<Item = &KeyListeners<E>> {
    let of_hash = keyed.iter_hash(hash);
    of_hash.filter(move |keyed| keyed.hash == hash && keyed.is_noted)
}

impl<E: Event> KeyListeners<E> {
    /// Something may wait for a subscriber of this key from now on.
    #[inline(always)]
    pub(super) fn note(&mut self, noted: &mut Vec<u64>) {
        if !self.is_noted {
            self.is_noted = true;
            noted.push(self.hash);
        }
    }
}

impl<E: Event> ShardSubscriber<E> {
    fn waits(&self) -> bool {
        self.lag.is_some() || self.subscriber.mailbox().len() > 0
    }

    pub(super) fn with_lag(&self, version: u64) -> SubscriberLag<E> {
        let reads_cache = self.subscriber.mailbox().reads_cache();
        let lag = self.lag.filter(|lag| !lag.is_new || !reads_cache);
        SubscriberLag {
            subscriber: Arc::clone(&self.subscriber),
            is_lagging: lag.is_some() && !reads_cache,
            unread: lag
                .filter(|_| reads_cache)
                .map_or(0, |lag| version - lag.since),
        }
    }
}

/// So many keys are always worth their room.
const NOTED_MIN: usize = 32;
