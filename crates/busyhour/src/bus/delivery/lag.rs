use std::collections::VecDeque;

/// The subscriber has received every change up to `since`, and nothing after it.
#[derive(Clone, Copy)]
pub(in crate::bus) struct Lag {
    pub(in crate::bus) since: u64,
    pub(in crate::bus) lost: u64,
    /// It has received nothing yet: its replay will deliver everything.
    pub(in crate::bus) is_new: bool,
}

impl Lag {
    /// The lag of a subscriber that has received nothing yet.
    pub(in crate::bus) const NEW: Self = Self {
        since: 0,
        lost: 0,
        is_new: true,
    };
}

/// What a subscriber has to fetch from the cache of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bus) struct ToFetch {
    pub(in crate::bus) shard: usize,
    /// Every key with a last value, also those that it has received.
    pub(in crate::bus) whole: bool,
}

/// The shards whose changes a subscriber has to fetch from the cache, in order.
#[derive(Default)]
pub(in crate::bus) struct Behind(VecDeque<ToFetch>);

impl Behind {
    /// The subscriber lags in this shard, which it has not done before.
    pub(super) fn add(&mut self, shard: usize) {
        let whole = false;
        self.0.push_back(ToFetch { shard, whole });
    }

    /// The subscriber wants all of this shard, unless that is to be fetched
    /// already: so however often it asks, the list is not longer.
    pub(super) fn add_whole(&mut self, shard: usize) {
        let whole = ToFetch { shard, whole: true };
        if !self.0.contains(&whole) {
            self.0.push_back(whole);
        }
    }

    pub(super) fn take(&mut self) -> Option<ToFetch> {
        self.0.pop_front()
    }
}

/// What a subscriber must be told besides what is queued.
#[derive(Default)]
pub(super) struct Owed {
    /// Shards whose changes have to be fetched from the cache.
    pub(super) behind: Behind,
    /// Losses not yet announced.
    pub(super) lost: u64,
    /// The end of a replay.
    pub(super) replayed: bool,
}

impl Owed {
    pub(super) fn is_empty(&self) -> bool {
        self.behind.0.is_empty() && self.lost == 0 && !self.replayed
    }

    /// Whether the end of a replay is to be announced, and no shard is left to fetch whole.
    pub(super) fn is_replay_over(&self) -> bool {
        self.replayed && !self.behind.0.iter().any(|to_fetch| to_fetch.whole)
    }
}

/// What the consumer does next.
#[must_use]
pub(in crate::bus) enum NextAction {
    /// Deliver the batch.
    Deliver,
    /// Fetch this shard's changes from the cache.
    CatchUp(ToFetch),
    /// Nothing: the turn has ended.
    Rest,
}
