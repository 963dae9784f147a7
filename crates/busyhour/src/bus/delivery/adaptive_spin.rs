use super::mailbox::Mailbox;
use crate::{
    bus::Event,
    sync::{spin_loop, thread},
};

/// How a consumer waits for more events before it rests and must be woken
/// again.
pub(in crate::bus) struct AdaptiveSpin {
    /// The number of pauses before each look at the queue.
    pauses: u32,
    /// How many more times the consumer rests without waiting.
    turns_to_skip: u32,
    /// How many times it will rest without waiting after the next wait in vain.
    backoff: u32,
}

impl AdaptiveSpin {
    /// About the cost of being scheduled again, divided over three looks.
    const PAUSES_MIN: u32 = 32;
    /// Some ten microseconds.
    const PAUSES_MAX: u32 = 512;
    /// How many items a batch should have, so that its cost (some cache lines
    /// that move between two cores) no longer matters.
    const BATCH_WANTED: usize = 256;
    /// The maximum number of rests without waiting between two waits.
    const BACKOFF_MAX: u32 = 63;
    /// It looks after pauses first, then after yields.
    const SPIN_LOOKS: u32 = 3;
    const SPIN_YIELDS: u32 = 4;

    /// The first batch says nothing about how soon the next one comes: a consumer that is told once, as
    /// each of thousands that begin at the same time, does not wait for more.
    pub(in crate::bus) fn new() -> Self {
        Self {
            pauses: Self::PAUSES_MIN,
            turns_to_skip: 1,
            backoff: 0,
        }
    }

    /// Waits a little for more, after a batch of this length. After waits in
    /// vain it waits less and less often.
    pub(super) fn await_more<E: Event>(&mut self, batch_len: usize, mailbox: &Mailbox<E>) {
        if self.turns_to_skip > 0 {
            self.turns_to_skip -= 1;
            return;
        }
        self.follow(batch_len, mailbox.capacity());
        if Self::spin_wait(self.pauses, mailbox) {
            self.backoff = 0;
        } else {
            self.pauses = Self::PAUSES_MIN;
            self.backoff = (2 * self.backoff + 1).min(Self::BACKOFF_MAX);
            self.turns_to_skip = self.backoff;
        }
    }

    /// Waits for more items, with this many pauses before each look; returns
    /// whether there are any.
    ///
    /// The looks are far apart, and the first one is not immediate: each look
    /// takes the queue's cache lines from the publishers, and everything that
    /// arrives meanwhile is taken together. A publisher may be waiting for this
    /// very processor, so this yields it as well.
    fn spin_wait<E: Event>(pauses: u32, mailbox: &Mailbox<E>) -> bool {
        for _ in 0..Self::SPIN_LOOKS {
            (0..pauses).for_each(|_| spin_loop());
            if mailbox.queued_len() > 0 {
                return true;
            }
        }
        for _ in 0..Self::SPIN_YIELDS {
            thread::yield_now();
            if mailbox.queued_len() > 0 {
                return true;
            }
        }
        false
    }

    /// Waits longer while events arrive in quick succession and batches are
    /// small; never so long that a small queue fills up, and not when events
    /// are rare.
    fn follow(&mut self, batch_len: usize, capacity: usize) {
        let wanted = Self::BATCH_WANTED.min(capacity / 8);
        let pauses = self.pauses as usize;
        if batch_len > 4 * wanted || 64 * batch_len < pauses {
            self.pauses = (self.pauses / 2).max(Self::PAUSES_MIN);
        } else if batch_len < wanted && 16 * batch_len >= pauses {
            self.pauses = (self.pauses * 2).min(Self::PAUSES_MAX);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The pauses after this many batches of the same length.
    fn pauses_after(batches: usize, batch_len: usize, capacity: usize) -> u32 {
        let mut pace = AdaptiveSpin::new();
        (0..batches).for_each(|_| pace.follow(batch_len, capacity));
        pace.pauses
    }

    #[test]
    fn frequent_small_batches_prolong_the_spin() {
        assert!(pauses_after(1, 20, 65_536) > AdaptiveSpin::PAUSES_MIN);
        assert_eq!(pauses_after(100, 200, 65_536), AdaptiveSpin::PAUSES_MAX);
    }

    #[test]
    fn big_batches_rare_events_and_small_queues_do_not_prolong_the_spin() {
        assert_eq!(pauses_after(100, 5_000, 65_536), AdaptiveSpin::PAUSES_MIN);
        assert_eq!(pauses_after(100, 1, 65_536), AdaptiveSpin::PAUSES_MIN);
        assert_eq!(pauses_after(100, 20, 64), AdaptiveSpin::PAUSES_MIN);
    }

    #[test]
    fn rarer_batches_shorten_the_spin() {
        let mut pace = AdaptiveSpin::new();
        (0..9).for_each(|_| pace.follow(200, 65_536));
        (0..9).for_each(|_| pace.follow(1, 65_536));
        assert!(pace.pauses <= 2 * AdaptiveSpin::PAUSES_MIN);
    }
}
