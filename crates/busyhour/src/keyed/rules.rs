use std::{sync::Weak, time::Duration};

use super::{TooManyKeys, table::Table};
use crate::{
    stats::KeyedStats,
    sync::runtime::atomic::{AtomicU64, AtomicUsize, Ordering},
    timer::Timers,
};

pub(super) type Init<K, S> = Box<dyn Fn(&K) -> S + Send + Sync>;
pub(super) type OnEvict<K, S> = Box<dyn Fn(&K, S) + Send + Sync>;

/// What all keys share: what is done with a state, the limits, the counters.
/// The keys lead here, and not to the table, so that it can end before them.
pub(super) struct Rules<K, S> {
    pub(super) init: Init<K, S>,
    pub(super) on_evict: Option<OnEvict<K, S>>,
    pub(super) idle_after: Option<Duration>,
    pub(super) max_keys: usize,
    pub(super) timers: Timers,
    pub(super) table: Weak<Table<K, S>>,
    key_count: AtomicUsize,
    evicted: AtomicU64,
    refused: AtomicU64,
}

impl<K, S> Rules<K, S> {
    pub(super) fn new(
        options: (Init<K, S>, Option<OnEvict<K, S>>),
        limits: (Option<Duration>, usize),
        timers: Timers,
        table: Weak<Table<K, S>>,
    ) -> Self {
        Self {
            init: options.0,
            on_evict: options.1,
            idle_after: limits.0,
            max_keys: limits.1,
            timers,
            table,
            key_count: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    pub(super) fn key_count(&self) -> usize {
        self.key_count.load(Ordering::Relaxed)
    }

    /// Counts a new key; `false` if there are as many as may be.
    pub(super) fn count_key(&self) -> bool {
        let more = |count| (count < self.max_keys).then_some(count + 1);
        (self.key_count)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    pub(super) fn is_full(&self) -> bool {
        self.key_count() >= self.max_keys
    }

    pub(super) fn refuse(&self) -> TooManyKeys {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let max = self.max_keys;
        TooManyKeys { max }
    }

    /// Whether so many keys are there that idle ones are evicted before their
    /// time, so that new ones find room.
    pub(super) fn is_crowded(&self) -> bool {
        self.key_count() > self.max_keys - (self.max_keys / 8).max(1)
    }

    pub(super) fn count_evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
        self.key_count.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> KeyedStats {
        let (key_count, evicted) = (
            self.key_count() as u64,
            self.evicted.load(Ordering::Relaxed),
        );
        KeyedStats {
            key_count,
            created: key_count + evicted,
            evicted,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}
