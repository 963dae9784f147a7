//! The bounded queue in front of a store's writer, and its accounting.
//!
//! Producers push under a short lock; the writer takes everything that has
//! arrived in one go, which is the whole of group commit: while one
//! transaction reaches the disk, the next group gathers here.

use super::{Change, CommitError, Completion, Refused, StoreStats};
use std::{
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// Changes that become durable together, and whom to tell.
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    pub(super) done: Completion,
}

/// Batches that wait for the writer.
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    emptied: Condvar,
}

struct State {
    waiting: Vec<Batch>,
    closed: bool,
    stats: StoreStats,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        let stats = StoreStats {
            queue_capacity: capacity as u64,
            ..StoreStats::default()
        };
        Self {
            state: Mutex::new(State {
                waiting: Vec::new(),
                closed: false,
                stats,
            }),
            arrived: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    pub(super) fn push(&self, batch: Batch) -> Result<(), Refused> {
        let mut state = self.lock();
        state.admit(batch.changes.len() as u64)?;
        let was_empty = state.waiting.is_empty();
        state.waiting.push(batch);
        drop(state);
        if was_empty {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Waits for work; `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Vec<Batch>> {
        let mut state = self.lock();
        while state.waiting.is_empty() && !state.closed {
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let group = std::mem::take(&mut state.waiting);
        (!group.is_empty()).then_some(group)
    }

    /// Accounts for a group whose fate is known. Completions run after this.
    pub(super) fn finish(&self, changes: u64, took: Duration, outcome: &Result<(), CommitError>) {
        let mut state = self.lock();
        state.stats.record(changes, took, outcome);
        if state.stats.queued_len == 0 {
            self.emptied.notify_all();
        }
    }

    /// Refuses whatever comes later and waits until all that came earlier is done.
    pub(super) fn close(&self, deadline: Duration) -> bool {
        let give_up_at = Instant::now() + deadline;
        let mut state = self.lock();
        state.closed = true;
        self.arrived.notify_all();
        while state.stats.queued_len > 0 {
            let left = give_up_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .emptied
                .wait_timeout(state, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        true
    }

    pub(super) fn stats(&self) -> StoreStats {
        self.lock().stats.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn admit(&mut self, changes: u64) -> Result<(), Refused> {
        let stats = &mut self.stats;
        let queued_len = stats.queued_len + changes;
        let refusal = match queued_len > stats.queue_capacity {
            _ if self.closed => Some(Refused::Closed),
            true => Some(Refused::Full),
            false => None,
        };
        if let Some(refusal) = refusal {
            stats.refused += 1;
            return Err(refusal);
        }
        stats.queued_len = queued_len;
        stats.queued_high_water = stats.queued_high_water.max(queued_len);
        Ok(())
    }
}

impl StoreStats {
    /// Takes a group out of the queue's account and into the totals.
    pub(super) fn record(
        &mut self,
        changes: u64,
        took: Duration,
        outcome: &Result<(), CommitError>,
    ) {
        self.queued_len = self.queued_len.saturating_sub(changes);
        match outcome {
            Ok(()) => self.record_success(changes, took),
            Err(error) => {
                self.failed += changes;
                self.last_error = error.to_string();
            }
        }
    }

    fn record_success(&mut self, changes: u64, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.committed += changes;
        self.transactions += 1;
        self.transaction_len_max = self.transaction_len_max.max(changes);
        self.transaction_ns_total = self.transaction_ns_total.saturating_add(took_ns);
        self.transaction_ns_max = self.transaction_ns_max.max(took_ns);
    }
}
