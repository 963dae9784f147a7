//! Absorbing retransmissions: what was answered is answered again from here,
//! what is in work is not begun twice (RFC 3261 §17.2).
//!
//! An entry lives 64 × T1 = 32 s from the arrival of its request, which is as
//! long as its client retransmits. All entries live equally long, so that the
//! order of arrival is the order of expiry: one queue a shard, no timer an
//! entry. A shard that is full gives up its oldest entry, and counts it; the
//! registrar then recognises the duplicate by its CSeq.

use super::counters::Counter;
use crate::proto::sip::{HeaderName, Message};
use busyhour::{buffer::Buffer, clock::Instant};
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hash, Hasher},
    net::SocketAddr,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// The responses kept for retransmitted requests.
pub(super) struct Transactions {
    shards: Box<[Mutex<Shard>]>,
    shard_capacity: usize,
    hashers: [FixedState; 2],
    evicted: Counter,
}

/// The name of a transaction: a keyed hash of everything that tells one request
/// from another, long enough that two never share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u128);

/// What is known of a request.
#[derive(Debug)]
pub(super) enum Seen {
    /// Nothing: it is new.
    New,
    /// It is in work; the answer will come.
    InWork,
    /// This was the answer.
    Answered(Buffer),
}

#[derive(Default)]
struct Shard {
    entries: HashTable<Entry>,
    order: VecDeque<(Instant, Key)>,
}

struct Entry {
    key: Key,
    begun_at: Instant,
    answer: Option<Buffer>,
}

impl Transactions {
    /// Room for about `capacity` entries; `seeds` make the names unguessable.
    pub(super) fn new(capacity: usize, seeds: [u64; 2]) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_capacity: capacity.div_ceil(SHARDS).max(1),
            hashers: seeds.map(FixedState::with_seed),
            evicted: Counter::default(),
        }
    }

    /// The name of a request's transaction. Call-ID and CSeq are in it beside
    /// the branch, since old clients give none; so is the source, since an
    /// answer must not go to whoever guesses a branch.
    pub(super) fn key(&self, request: &Message<'_>, source: SocketAddr) -> Key {
        let [low, high] = self.hashers.each_ref().map(|hasher| {
            let mut state = hasher.build_hasher();
            source.hash(&mut state);
            for name in NAMING {
                state.write(request.header(name).unwrap_or("").as_bytes());
                state.write_u8(0xff);
            }
            state.finish()
        });
        Key(u128::from(high) << 64 | u128::from(low))
    }

    /// What is known of a request, without beginning it.
    pub(super) fn seen(&self, key: Key) -> Seen {
        self.shard(key).seen(key)
    }

    /// Begins a transaction; `false` when it was begun before.
    pub(super) fn begin(&self, key: Key, now: Instant) -> bool {
        let mut shard = self.shard(key);
        shard.expire(now, EXPIRED_AT_ONCE);
        if shard.find(key).is_some() {
            return false;
        }
        while shard.order.len() >= self.shard_capacity {
            self.evicted.add(shard.drop_oldest());
        }
        shard.insert(key, now);
        true
    }

    /// Keeps the answer of a transaction that was begun.
    pub(super) fn answer(&self, key: Key, answer: Buffer) {
        if let Some(entry) = self.shard(key).find_mut(key) {
            entry.answer = Some(answer);
        }
    }

    /// Ends a transaction whose answer is as easily made again.
    pub(super) fn forget(&self, key: Key) {
        self.shard(key).remove(key);
    }

    /// Drops what has lived long enough.
    pub(super) fn sweep(&self, now: Instant) {
        for shard in &self.shards {
            lock(shard).expire(now, usize::MAX);
        }
    }

    /// Drops everything.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            *lock(shard) = Shard::default();
        }
    }

    /// Entries now.
    pub(super) fn len(&self) -> u64 {
        let lens = self.shards.iter().map(|s| lock(s).entries.len() as u64);
        lens.sum()
    }

    /// Entries given up before their time.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.get()
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        lock(&self.shards[(key.0 >> 64) as usize % SHARDS])
    }
}

impl Shard {
    fn seen(&self, key: Key) -> Seen {
        match self.find(key).map(|entry| &entry.answer) {
            None => Seen::New,
            Some(None) => Seen::InWork,
            Some(Some(answer)) => Seen::Answered(answer.clone()),
        }
    }

    fn find(&self, key: Key) -> Option<&Entry> {
        self.entries.find(key.hash(), |entry| entry.key == key)
    }

    fn find_mut(&mut self, key: Key) -> Option<&mut Entry> {
        self.entries.find_mut(key.hash(), |entry| entry.key == key)
    }

    fn insert(&mut self, key: Key, begun_at: Instant) {
        let entry = Entry {
            key,
            begun_at,
            answer: None,
        };
        let hash = |entry: &Entry| entry.key.hash();
        self.entries.insert_unique(key.hash(), entry, hash);
        self.order.push_back((begun_at, key));
    }

    fn remove(&mut self, key: Key) {
        if let Ok(entry) = self.entries.find_entry(key.hash(), |e| e.key == key) {
            entry.remove();
        }
    }

    fn expire(&mut self, now: Instant, count_max: usize) {
        for _ in 0..count_max {
            match self.order.front() {
                Some((begun_at, _)) if *begun_at + LIFE <= now => self.drop_oldest(),
                _ => return,
            };
        }
    }

    /// Returns how many entries that took away: none when the oldest was
    /// forgotten before, or forgotten and begun again.
    fn drop_oldest(&mut self) -> u64 {
        let Some((begun_at, key)) = self.order.pop_front() else {
            return 0;
        };
        let is_it = |entry: &Entry| entry.key == key && entry.begun_at == begun_at;
        match self.entries.find_entry(key.hash(), is_it) {
            Ok(entry) => {
                entry.remove();
                1
            }
            Err(_) => 0,
        }
    }
}

impl Key {
    /// Half of it, which tells those of one table apart, and is our tag in To.
    pub(super) fn hash(self) -> u64 {
        self.0 as u64
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Headers that tell one request from another; CSeq holds the method too.
const NAMING: [HeaderName; 4] = [
    HeaderName::Via,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::From,
];
const SHARDS: usize = 64;
/// 64 × T1 (RFC 3261 §17.1.2.2).
const LIFE: Duration = Duration::from_secs(32);
/// Two for each one that comes, so that a shard in use shrinks by itself.
const EXPIRED_AT_ONCE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::buffer::BufferPool;

    fn key(number: u128) -> Key {
        Key(number << 64 | number)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_request_is_new_then_in_work_then_answered_then_new_again() {
        let buffers = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
        let transactions = Transactions::new(100, [1, 2]);
        assert!(matches!(transactions.seen(key(1)), Seen::New));
        assert!(transactions.begin(key(1), at(0)));
        assert!(!transactions.begin(key(1), at(0)));
        assert!(matches!(transactions.seen(key(1)), Seen::InWork));
        transactions.answer(key(1), buffers.copy_from(b"200").unwrap());
        assert!(matches!(transactions.seen(key(1)), Seen::Answered(a) if &*a == b"200"));
        transactions.sweep(at(31));
        assert_eq!(transactions.len(), 1);
        transactions.sweep(at(32));
        assert_eq!((transactions.len(), buffers.live_count()), (0, 0));
    }

    #[test]
    fn what_was_forgotten_and_begun_again_keeps_its_own_time() {
        let transactions = Transactions::new(100, [1, 2]);
        transactions.begin(key(1), at(0));
        transactions.forget(key(1));
        transactions.begin(key(1), at(10));
        transactions.sweep(at(32));
        assert!(matches!(transactions.seen(key(1)), Seen::InWork));
        transactions.sweep(at(42));
        assert!(matches!(transactions.seen(key(1)), Seen::New));
    }

    #[test]
    fn a_full_shard_gives_up_its_oldest_and_counts_it() {
        let transactions = Transactions::new(SHARDS, [1, 2]);
        let same_shard = |number: u128| Key(number << 70 | number);
        transactions.begin(same_shard(1), at(0));
        transactions.begin(same_shard(2), at(1));
        assert!(matches!(transactions.seen(same_shard(1)), Seen::New));
        assert!(matches!(transactions.seen(same_shard(2)), Seen::InWork));
        assert_eq!((transactions.len(), transactions.evicted()), (1, 1));
    }
}
