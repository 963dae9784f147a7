//! A replay: shards that are to be fetched whole, and the announcement of its end.

use super::*;

impl<E: Event> Mailbox<E> {
    /// Makes the consumer fetch these shards and then announce the end of the
    /// replay; `true` if the caller must wake it.
    pub(in crate::bus) fn order_replay(&self, shards: impl Iterator<Item = usize>) -> bool {
        let mut state = self.busy.state.lock();
        shards.for_each(|shard| state.owed.behind.add_whole(shard));
        state.owed.replayed = true;
        state.schedule()
    }

    /// A shard has been fetched; if none is left to fetch, the end of the
    /// replay is announced.
    pub(in crate::bus) fn caught_up(&self) {
        self.busy.state.lock().owed.replayed = true;
    }
}
