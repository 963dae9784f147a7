use super::mailbox::Mailbox;
use crate::bus::Event;

/// How a consumer waits for more before it rests and has to be woken for it.
pub(in crate::bus) struct AdaptiveSpin {
    /// Before each look at the queue.
    pauses: u32,
    /// So many times more the consumer does not wait at all.
    turns_to_skip: u32,
    /// How often it will not after the next time in vain.
    backoff: u32,
}

impl AdaptiveSpin {
    /// About what it costs to be sent on its way again, in three looks.
    const PAUSES_MIN: u32 = 32;
    /// Some ten microseconds.
    const PAUSES_MAX: u32 = 512;
    /// What a visit to the queue should bring: so much that its price, some
    /// cache lines that go from core to core and back, no longer counts.
    const BATCH_WANTED: usize = 256;
    /// Rests without having waited for more, between two that have, at most.
    const BACKOFF_MAX: u32 = 63;

    pub(in crate::bus) fn new() -> Self {
        Self {
            pauses: Self::PAUSES_MIN,
            turns_to_skip: 0,
            backoff: 0,
        }
    }

    /// Waits a little, after a batch of so many. Where that was in vain it is
    /// tried ever more seldom.
    pub(super) fn await_more<E: Event>(&mut self, batch_len: usize, mailbox: &Mailbox<E>) {
        if self.turns_to_skip > 0 {
            self.turns_to_skip -= 1;
            return;
        }
        self.follow(batch_len, mailbox.capacity());
        if mailbox.spin_wait(self.pauses) {
            self.backoff = 0;
        } else {
            self.pauses = Self::PAUSES_MIN;
            self.backoff = (2 * self.backoff + 1).min(Self::BACKOFF_MAX);
            self.turns_to_skip = self.backoff;
        }
    }

    /// Waits longer while events come in quick succession and a visit brings
    /// few of them; never so long that a small queue fills up, nor where
    /// events are rare.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses after so many batches of the same length.
    fn pauses_after(batches: usize, batch_len: usize, capacity: usize) -> u32 {
        let mut pace = AdaptiveSpin::new();
        (0..batches).for_each(|_| pace.follow(batch_len, capacity));
        pace.pauses
    }

    #[test]
    fn a_stream_of_small_batches_is_waited_for_longer() {
        assert!(pauses_after(1, 20, 65_536) > AdaptiveSpin::PAUSES_MIN);
        assert_eq!(pauses_after(100, 200, 65_536), AdaptiveSpin::PAUSES_MAX);
    }

    #[test]
    fn neither_big_batches_nor_rare_events_nor_small_queues_are_waited_for_longer() {
        assert_eq!(pauses_after(100, 5_000, 65_536), AdaptiveSpin::PAUSES_MIN);
        assert_eq!(pauses_after(100, 1, 65_536), AdaptiveSpin::PAUSES_MIN);
        assert_eq!(pauses_after(100, 20, 64), AdaptiveSpin::PAUSES_MIN);
    }

    #[test]
    fn a_stream_that_becomes_thin_is_waited_for_less() {
        let mut pace = AdaptiveSpin::new();
        (0..9).for_each(|_| pace.follow(200, 65_536));
        (0..9).for_each(|_| pace.follow(1, 65_536));
        assert!(pace.pauses <= 2 * AdaptiveSpin::PAUSES_MIN);
    }
}
