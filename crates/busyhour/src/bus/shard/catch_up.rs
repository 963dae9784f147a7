//! How subscribers are added, removed, and brought up to date.

use super::*;

impl<E: Event> Shard<E> {
    pub(in crate::bus) fn add(&self, subscriber: Arc<Subscriber<E>>, lag: Option<Lag>) {
        self.state.lock().listeners.add(subscriber, lag);
    }

    pub(in crate::bus) fn remove_subscriber(&self, subscriber: &Arc<Subscriber<E>>) {
        let mut state = self.state.lock();
        let removed = state.listeners.remove(subscriber);
        let swept = self.purge(&mut state, 0);
        drop(state);
        drop((removed, swept));
    }

    /// Fills the batch with every change of this shard that the subscriber has
    /// missed, or with the last value of every key if it wants all of the
    /// shard, and makes it follow. Returns how many changes it has lost.
    ///
    /// What was offered before it began to lag is in its mailbox, so that comes
    /// first; what changed since comes from the cache; what changes later is
    /// offered again. The lock makes the three meet without a gap.
    pub(in crate::bus) fn catch_up(
        &self,
        subscriber: &Arc<Subscriber<E>>,
        whole: bool,
        batch: &mut Items<E>,
    ) -> u64 {
        let Some(missed) = self.follow(subscriber, whole, batch) else {
            return 0;
        };
        let Missed {
            lag,
            changes,
            origins,
            purged,
        } = missed;
        if lag.lost > 0 {
            batch.push(Queued::Shared(Item::Lost(lag.lost)), None);
        }
        let mut panics = Panics::default();
        let mut wanted_count = 0;
        for change in Changes::in_order(changes) {
            let origin = origins.get(&change.version()).copied();
            let item = panics.catch(|| subscriber.item_of(change, lag));
            if let Some(item) = item.flatten() {
                batch.push(Queued::Shared(item), origin);
                wanted_count += 1;
            }
        }
        // Only now is it known what the subscriber's predicate accepts.
        (self.state.lock().listeners).count_delivered(wanted_count);
        panics.drop(purged);
        // Before a panic goes on, since the subscriber already follows.
        subscriber.mailbox().caught_up();
        lag.lost
    }

    fn follow(
        &self,
        subscriber: &Arc<Subscriber<E>>,
        whole: bool,
        batch: &mut Items<E>,
    ) -> Option<Missed<E>> {
        let mut known = Known::new();
        loop {
            if let Some((hash, key)) = subscriber.key() {
                self.look(hash, key, &mut known);
            }
            let mut state = self.state.lock();
            let place = match subscriber.key() {
                Some((hash, _)) => self.place(&state, hash, &known),
                None => Ok(None),
            };
            let Ok(place) = place else { continue };
            subscriber.mailbox().take_all(batch);
            let lag = state.listeners.follow(subscriber);
            // A subscriber that does not lag has received the removals.
            let lag = lag.or_else(|| whole.then_some(Lag::NEW))?;
            let since = if whole { 0 } else { lag.since };
            let changes = self.changes_for(&mut state, subscriber, place, since);
            let versions = changes.iter().map(CachedChange::version);
            let origins = state.remote_origins_of(versions);
            let purged = self.purge(&mut state, lag.since);
            return Some(Missed {
                lag,
                changes,
                origins,
                purged,
            });
        }
    }

    fn changes_for(
        &self,
        state: &mut ShardState<E>,
        subscriber: &Subscriber<E>,
        place: Option<SlotPosition>,
        since: u64,
    ) -> Vec<CachedChange<E>> {
        let Some((table, writer)) = self.cache(state) else {
            return Vec::new();
        };
        if subscriber.key().is_none() {
            return table.changes_since(writer, since);
        }
        let change = place.and_then(|place| table.change_at(writer, place, since));
        Vec::from_iter(change)
    }

    /// Removes the tombstones of keys that were removed after `since`, if no laggard is left to
    /// be told: somebody has just been told of what was removed since then.
    pub(super) fn purge(&self, state: &mut ShardState<E>, since: u64) -> Purged<E> {
        let has_tombstones = state
            .writer
            .as_ref()
            .is_some_and(CacheWriter::has_tombstones);
        if !has_tombstones {
            return (Swept::NOTHING, None);
        }
        let lags = state.listeners.lags();
        let mut nodes = state.nodes.take();
        let mut swept = Swept::NOTHING;
        if let Some((table, writer)) = self.cache(state) {
            table.purge(writer, since, &lags, |version| {
                if let Some(nodes) = &mut nodes {
                    nodes.origins.forget(version);
                }
            });
            swept = writer.sweep();
        }
        let empty = nodes.take_if(|nodes| nodes.is_empty());
        state.nodes = nodes;
        (swept, empty)
    }
}

/// What a lagging subscriber has missed.
struct Missed<E: Event> {
    /// Since when it lagged.
    lag: Lag,
    /// The changes since then.
    changes: Vec<CachedChange<E>>,
    /// The origins of those changes that other nodes made.
    origins: BTreeMap<u64, NodeId>,
    /// Dropped after the changes are in the batch, so that a panic of an
    /// event's own `Drop` cannot lose them.
    purged: Purged<E>,
}

/// What was kept for laggards and no longer is.
pub(super) type Purged<E> = (Swept<E>, Option<Box<Nodes<E>>>);
