//! How a subscriber reads from the cache what has changed, instead of being offered each change.

use super::{catch_up::Purged, *};

impl<E: Event> Shard<E> {
    /// Fills the batch with the next changes that a reader has not read, or with the last value of
    /// each key if it wants all of the shard; whether there may be more.
    ///
    /// The lock covers the choice of the changes and the note that they are read. Their events are
    /// read afterwards: the pin keeps them.
    pub(in crate::bus) fn read(
        &self,
        subscriber: &Arc<Subscriber<E>>,
        whole: bool,
        batch: &mut Items<E>,
    ) -> bool {
        if !whole && self.read_copies(subscriber, batch) {
            return false;
        }
        let mut panics = Panics::default();
        let left = pinned(|pin| {
            if !whole {
                self.next_slots(subscriber, pin)?.prefetch();
            }
            let reading = self.begin_reading(subscriber, whole, pin)?;
            let changes = &reading.unread.changes;
            for (index, change) in changes.iter().enumerate() {
                if let Some(ahead) = changes.get(index + AHEAD) {
                    ahead.event.prefetch();
                }
                let item = panics.catch(|| Queued::read(change));
                if let Some(item) = item {
                    batch.push(item, reading.origins.get(&change.version()).copied());
                }
            }
            Some((reading.has_more, reading.purged))
        });
        let Some((has_more, purged)) = left else {
            return false;
        };
        panics.drop(purged);
        has_more
    }

    /// Fills the batch with copies of all that a reader has not read, if there are copies of it.
    fn read_copies(&self, subscriber: &Arc<Subscriber<E>>, batch: &mut Items<E>) -> bool {
        let Some((copied, purged)) = self.take_copies(subscriber) else {
            return false;
        };
        let mut panics = Panics::default();
        for event in copied.last_ones() {
            let event = panics.catch(|| event.clone());
            if let Some(event) = event {
                batch.push(Queued::Copied(event), None);
            }
        }
        panics.drop(purged);
        true
    }

    fn take_copies(
        &self,
        subscriber: &Arc<Subscriber<E>>,
    ) -> Option<(CopiedChanges<E>, Purged<E>)> {
        let mut state = self.state.lock();
        // Copies have no origin.
        if state.nodes.is_some() {
            return None;
        }
        let since = state.listeners.read_until(subscriber)?;
        let copied = state.writer.as_mut()?.copied_since(since)?;
        let count = copied.last_count();
        let read = ReadChanges {
            until: copied.until,
            count,
            conflated: copied.until - since - count,
            is_all: true,
        };
        state.listeners.note_read(subscriber, read);
        let purged = self.purge(&mut state, since);
        Some((copied, purged))
    }

    fn next_slots<'a>(
        &'a self,
        subscriber: &Arc<Subscriber<E>>,
        pin: &'a Pin<'_>,
    ) -> Option<NextSlots<'a, E>> {
        let mut state = self.state.lock();
        let since = state.listeners.read_until(subscriber)?;
        let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
        Some(table.next_slots(writer, (since, VERSIONS_MAX), pin))
    }

    fn begin_reading<'a>(
        &'a self,
        subscriber: &Arc<Subscriber<E>>,
        whole: bool,
        pin: &'a Pin<'_>,
    ) -> Option<ReaderPortion<'a, E>> {
        let mut state = self.state.lock();
        let read_until = state.listeners.read_until(subscriber);
        let since = if whole { 0 } else { read_until? };
        let (table, writer) = self.table.as_ref().zip(state.writer.as_ref())?;
        // After the end there is no next time.
        let versions_max = match subscriber.is_ended() {
            true => u64::MAX,
            false => VERSIONS_MAX,
        };
        let mut unread = table.unread(writer, (since, versions_max), pin);
        if whole {
            // Whoever has received nothing yet need not learn of removals, and others learn of
            // each once.
            let told_until = read_until.filter(|it| *it > 0).unwrap_or(u64::MAX);
            (unread.changes).retain(|it| !it.is_removed() || it.version() > told_until);
        }
        let is_all = unread.until == writer.version();
        let count = unread.changes.len() as u64;
        let read = ReadChanges {
            until: unread.until,
            count,
            conflated: if whole {
                0
            } else {
                unread.until - since - count
            },
            is_all,
        };
        let versions = unread.changes.iter().map(UnreadChange::version);
        let origins = state.remote_origins_of(versions);
        state.listeners.note_read(subscriber, read);
        let purged = self.purge(&mut state, read_until.unwrap_or(0));
        let has_more = !is_all;
        Some(ReaderPortion {
            unread,
            origins,
            purged,
            has_more,
        })
    }

    /// The turn of a reader was lost.
    pub(in crate::bus) fn stall(&self, subscriber: &Arc<Subscriber<E>>) {
        self.state.lock().listeners.stall(subscriber);
    }
}

/// What a reader has just read of a shard.
struct ReaderPortion<'a, E: Event> {
    unread: Unread<'a, E>,
    /// The origins of those changes that other nodes made.
    origins: BTreeMap<u64, NodeId>,
    /// Dropped without the lock, after the changes are in the batch.
    purged: Purged<E>,
    has_more: bool,
}

/// The event of so many changes later is fetched while one is read.
pub(super) const AHEAD: usize = 16;
/// So many versions are looked at under the lock at a time.
const VERSIONS_MAX: u64 = 256;
