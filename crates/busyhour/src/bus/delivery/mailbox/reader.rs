//! The mailbox of a subscriber that reads from the cache what has changed. It has notices and the
//! shards that are to be read, and no events.

use super::*;
use crate::sync::thread;

impl<E: Event> Mailbox<E> {
    /// The mailbox of a subscriber that reads all changes from the cache.
    pub(in crate::bus) fn of_reader(capacity: usize) -> Self {
        Self {
            reads_cache: true,
            ..Self::new(capacity, Overflow::Reject, false, true)
        }
    }

    /// Whether the subscriber reads all changes from the cache, and nothing is offered to it.
    #[inline(always)]
    pub(in crate::bus) fn reads_cache(&self) -> bool {
        self.reads_cache
    }

    /// There is something to read from the cache of `shard`, of which the subscriber has read
    /// everything until now.
    pub(in crate::bus) fn notify(&self, shard: usize) -> Offer<E> {
        let mut state = self.busy.state.lock();
        if self.is_closed() {
            return Offer::Closed;
        }
        if state.is_ended {
            self.count_lost();
            return Offer::Refused { wake: false };
        }
        state.owed.behind.add(shard);
        let wake = state.schedule();
        Offer::FellBehind { wake }
    }

    /// The turn reads on in this shard, after the others in which there is something to read.
    pub(in crate::bus) fn read_on(&self, shard: usize) {
        self.busy.state.lock().owed.behind.add(shard);
    }

    /// A reader has found so many changes in a shard. One that finds few in each shard comes to each
    /// too often, since what publishers do meanwhile keeps it from its end: it spends its time on
    /// looking, and keeps the publishers' processor. So it lets other threads run, if there are any
    /// that wait for a processor, and finds more afterwards.
    pub(in crate::bus) fn note_read(&self, change_count: usize) {
        let meagre = match change_count < FEW {
            true => self.meagre_reads.load(Ordering::Relaxed) + 1,
            false => 0,
        };
        let is_enough = meagre >= MEAGRE_MAX;
        let meagre = if is_enough { 0 } else { meagre };
        self.meagre_reads.store(meagre, Ordering::Relaxed);
        if is_enough {
            thread::yield_now();
        }
    }

    /// Marks a turn as on its way after one was lost; returns whether the caller has to send it.
    pub(in crate::bus) fn schedule_again(&self) -> bool {
        let mut state = self.busy.state.lock();
        !self.is_closed() && !state.is_ended && state.schedule()
    }

    /// How many items a stream claims at a time. For a reader of the cache, in whose room nobody
    /// is interested, several: the atomic operation waits until all that its task has written is
    /// in the cache.
    pub(in crate::bus) fn stride(&self) -> usize {
        if self.reads_cache { STRIDE } else { 1 }
    }
}

const STRIDE: usize = 16;
/// Fewer changes than this cost less than the look for them.
const FEW: usize = 16;
/// So many looks in a row that found few changes: half of a topic's shards.
const MEAGRE_MAX: usize = 32;
