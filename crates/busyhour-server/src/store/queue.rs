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

/// What a writer finds when it looks.
pub(super) enum Taken {
    /// Everything that has arrived.
    Group(Vec<Batch>),
    /// Nothing arrived in time.
    Nothing,
    /// Nothing is left, and nothing will come.
    Closed,
}

struct State {
    waiting: Vec<Batch>,
    closed: bool,
    /// Set with `closed`: from then on nobody waits for what is not done.
    give_up_at: Option<Instant>,
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
                give_up_at: None,
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

    /// Waits for work, but no longer than `patience`.
    pub(super) fn take(&self, patience: Duration) -> Taken {
        let state = self.lock();
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let waited = self.arrived.wait_timeout_while(state, patience, idle);
        let (mut state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        let group = std::mem::take(&mut state.waiting);
        match (group.is_empty(), state.closed) {
            (false, _) => Taken::Group(group),
            (true, false) => Taken::Nothing,
            (true, true) => Taken::Closed,
        }
    }

    /// Fails what waits and was not yet taken.
    pub(super) fn fail_waiting(&self, error: &CommitError) {
        let group = std::mem::take(&mut self.lock().waiting);
        if group.is_empty() {
            return;
        }
        let changes = group.iter().map(|batch| batch.changes.len() as u64).sum();
        let outcome = Err(error.clone());
        self.finish(changes, Duration::ZERO, &outcome);
        for batch in group {
            (batch.done)(outcome.clone());
        }
    }

    /// Rests before another try; `false` once nobody waits for its outcome.
    pub(super) fn pause(&self, rest: Duration) -> bool {
        let wake_at = Instant::now() + rest;
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            if state.give_up_at.is_some_and(|give_up_at| give_up_at <= now) {
                return false;
            }
            if wake_at <= now {
                return true;
            }
            let until = state.give_up_at.map_or(wake_at, |at| at.min(wake_at));
            state = self
                .arrived
                .wait_timeout(state, until - now)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
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
        let earlier = state.give_up_at.unwrap_or(give_up_at);
        state.give_up_at = Some(earlier.min(give_up_at));
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

/// How often a writer looks for accounts that another program changed.
pub(super) const LOOK_PERIOD: Duration = Duration::from_secs(1);
