//! Calls that are over: enough of each to recognise a late duplicate.
//!
//! A record lives as long as a call token, so a first frame that comes later has no
//! valid token any more. All records live equally long, so they end in the order of
//! their creation: one queue, no timer.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::time::Duration;

use busyhour::clock::Instant;
use foldhash::quality::FixedState;

use super::keys::TOKEN_LIFE;
use super::request::CallKey;

/// How long late duplicates of a call that is over are recognised.
pub const RECORD_LIFE: Duration = TOKEN_LIFE;

/// A bounded memory of calls, found by a hash of their key.
#[derive(Debug)]
pub(super) struct Records {
    by_key: HashMap<u64, Record>,
    order: VecDeque<(Instant, u64)>,
    hasher: FixedState,
    capacity: usize,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Which first frame began it.
    pub first: u64,
    pub our_call: u16,
    /// The number our next frame would have had.
    pub outbound: u8,
    /// The number its next frame would have had.
    pub inbound: u8,
    ended_at: Instant,
}

impl Record {
    pub fn new(first: u64, our_call: u16, outbound: u8, inbound: u8, ended_at: Instant) -> Self {
        Self {
            first,
            our_call,
            outbound,
            inbound,
            ended_at,
        }
    }

    /// The numbers that an acknowledgement bears.
    pub fn numbers(&self) -> (u16, u8, u8) {
        (self.our_call, self.outbound, self.inbound)
    }
}

impl Records {
    pub fn new(capacity: usize, seed: u64) -> Self {
        Self {
            by_key: HashMap::new(),
            order: VecDeque::new(),
            hasher: FixedState::with_seed(seed),
            capacity: capacity.max(1),
        }
    }

    /// Stores a record, and replaces an older one of the same key. Returns how many
    /// records were dropped early to make room.
    pub fn insert(&mut self, key: &CallKey, record: Record) -> u64 {
        self.expire(record.ended_at);
        let mut evicted = 0;
        while self.order.len() >= self.capacity {
            evicted += u64::from(self.drop_oldest());
        }
        let hash = self.hasher.hash_one(key);
        self.by_key.insert(hash, record);
        self.order.push_back((record.ended_at, hash));
        evicted
    }

    pub fn find(&self, now: Instant, key: &CallKey) -> Option<Record> {
        let record = self.by_key.get(&self.hasher.hash_one(key))?;
        (now < record.ended_at + RECORD_LIFE).then_some(*record)
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Forgets what has lived long enough.
    pub fn expire(&mut self, now: Instant) {
        let is_over = |entry: &(Instant, u64)| entry.0 + RECORD_LIFE <= now;
        while self.order.front().is_some_and(is_over) {
            self.drop_oldest();
        }
    }

    /// When the oldest will have lived long enough.
    pub fn next_expiry(&self) -> Option<Instant> {
        let (ended_at, _) = self.order.front()?;
        Some(*ended_at + RECORD_LIFE)
    }

    /// Whether that took a record away: a newer one of the same key stays.
    fn drop_oldest(&mut self) -> bool {
        let Some((ended_at, hash)) = self.order.pop_front() else {
            return false;
        };
        let is_it = |record: &Record| record.ended_at == ended_at;
        self.by_key.get(&hash).is_some_and(is_it) && self.by_key.remove(&hash).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::Flow;

    fn key(peer_call: u16) -> CallKey {
        let address = ([192, 0, 2, 1], 4569).into();
        let flow = Flow::udp(address, address);
        CallKey { flow, peer_call }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn record(our_call: u16, ended_at: Instant) -> Record {
        Record::new(0, our_call, 2, 2, ended_at)
    }

    #[test]
    fn a_record_is_kept_as_long_as_a_token_is_valid() {
        let mut records = Records::new(10, 1);
        records.insert(&key(1), record(5, at(0)));
        assert_eq!(records.find(at(9), &key(1)), Some(record(5, at(0))));
        assert_eq!(records.find(at(10), &key(1)), None);
        records.expire(at(10));
        assert_eq!((records.len(), records.next_expiry()), (0, None));
    }

    #[test]
    fn a_newer_record_of_the_same_call_has_its_own_time() {
        let mut records = Records::new(10, 1);
        records.insert(&key(1), record(5, at(0)));
        records.insert(&key(1), record(6, at(5)));
        records.expire(at(12));
        assert_eq!(records.find(at(12), &key(1)), Some(record(6, at(5))));
    }

    #[test]
    fn a_full_table_drops_the_oldest_record() {
        let mut records = Records::new(2, 1);
        let kept = (1..4).map(|n| records.insert(&key(n), record(n, at(u64::from(n)))));
        assert_eq!(kept.sum::<u64>(), 1);
        assert_eq!(records.find(at(3), &key(1)), None);
        assert!(records.find(at(3), &key(2)).is_some());
        assert_eq!(records.len(), 2);
    }
}
