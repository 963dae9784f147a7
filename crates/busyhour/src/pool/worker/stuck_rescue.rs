//! Rescue of tasks behind stuck workers. See README.md, "Rescue of stuck
//! workers".

use super::worker_thread::Worker;
use crate::clock::Instant;

/// What a busy worker remembers of the other workers between two rescues.
#[derive(Debug)]
pub(in crate::pool) struct StuckRescue {
    /// How many turns each slot had begun at the last rescue.
    turns_seen: Box<[u64]>,
    last_at: Instant,
    last_turn: u64,
}

impl StuckRescue {
    pub(in crate::pool) fn new(places: usize, now: Instant) -> Self {
        Self {
            turns_seen: vec![0; places].into_boxed_slice(),
            last_at: now,
            last_turn: 0,
        }
    }

    /// Whether a rescue is due at the time `now`, in the worker's own turn
    /// number `turn`.
    #[inline(always)]
    pub(in crate::pool) fn is_due(&self, now: Instant, turn: u64) -> bool {
        now.nanos_since(self.last_at) >= INTERVAL_NS
            || turn.wrapping_sub(self.last_turn) >= TURNS_MAX
    }

    pub(in crate::pool) fn begin(&mut self, now: Instant, turn: u64) {
        self.last_at = now;
        self.last_turn = turn;
    }

    /// Whether a worker has waiting work and is still in the turn in which the
    /// last rescue found it.
    pub(super) fn finds_stuck(&mut self, worker: &Worker) -> bool {
        let Some(seen) = self.turns_seen.get_mut(worker.number) else {
            return false;
        };
        let turns = worker.gauges.turns();
        let is_same = *seen == turns;
        *seen = turns;
        is_same && worker.waiting_len() > 0
    }
}

/// A turn of short tasks takes tens of microseconds.
const INTERVAL_NS: u64 = 1_000_000;
/// For clocks that do not advance by themselves.
const TURNS_MAX: u64 = 1024;
