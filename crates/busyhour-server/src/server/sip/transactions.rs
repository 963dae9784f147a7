//! Absorbs retransmissions: an answered request gets the kept answer again, and a
//! request in progress is not begun twice (RFC 3261 §17.2).
//!
//! An entry lives 64 × T1 = 32 s from the arrival of its request, which is as long as
//! its client retransmits. All entries live equally long, so that the order of arrival
//! is the order of expiry: one queue a shard, no timer an entry. A full shard drops its
//! oldest entry, and counts it; then the registrar recognises a duplicate by its CSeq.
//!
//! Answers and requests in progress are pinned buffers, so both have a share by source
//! and account ([`TransactionMemory`]). A request that must not be processed twice reserves the
//! room for its answer when it begins, and is refused if there is none. For other
//! requests an answer beyond the share is not kept: a retransmission is processed
//! again. A long request beyond its share is refused; a usual one is charged to nobody,
//! since it costs as much as its entry here.

use crate::server::{
    load::{
        shard_count::shard_count,
        shares::{Excess, Holder, Shares},
    },
    stats::counters::Counter,
};
use busyhour::{buffer::Buffer, clock::Instant};
use busyhour_sip::{HeaderName, Message};
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
pub(in crate::server) struct Transactions {
    shards: Box<[Mutex<TransactionShard>]>,
    shard_capacity: usize,
    hashers: [FixedState; 2],
    memory: TransactionMemory,
    evicted: Counter,
    not_kept: Counter,
}

/// The bytes of pinned buffers that transactions hold.
pub(in crate::server) struct TransactionMemory {
    /// Answers.
    pub(in crate::server) answers: Shares,
    /// The least number of bytes that an answer counts for, so that a full table of
    /// answers uses up all of `answers`.
    pub(in crate::server) answer_min: u64,
    /// Long requests in work.
    pub(in crate::server) requests: Shares,
}

/// The name of a transaction: a keyed hash of everything that tells one request
/// from another, long enough that two never share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct TransactionKey(u128);

impl TransactionKey {
    /// For who tells transactions apart elsewhere.
    pub(in crate::server) fn number(self) -> u128 {
        self.0
    }
}

/// What is known of a request.
#[derive(Debug)]
pub(in crate::server) enum Seen {
    /// Nothing: it is new.
    New,
    /// It is in work; the answer will come.
    InWork,
    /// This was the answer.
    Answered(Buffer),
}

#[derive(Default)]
struct TransactionShard {
    entries: HashTable<TransactionEntry>,
    order: VecDeque<(Instant, TransactionKey)>,
}

struct TransactionEntry {
    key: TransactionKey,
    begun_at: Instant,
    holder: Holder,
    /// The charge for its request, until it is answered.
    request_bytes: u64,
    /// The charge for its answer; taken at the beginning if the answer must be kept.
    answer_bytes: u64,
    answer: Option<Buffer>,
}

/// What happens if a request is processed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Repeated {
    /// The same as before.
    Same,
    /// A second subscription or publication, or a refusal of what was accepted.
    Other,
}

/// The outcome of an attempt to begin a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(in crate::server) enum Begun {
    /// It is begun.
    New,
    /// It was begun before.
    Known,
    /// There is not enough memory for its request.
    Refused(Excess),
}

impl Transactions {
    /// Room for about `capacity` entries and so much memory; `seeds` make the
    /// names unguessable.
    pub(in crate::server) fn new(
        capacity: usize,
        memory: TransactionMemory,
        seeds: [u64; 2],
    ) -> Self {
        let count = shard_count(capacity);
        Self {
            shards: (0..count).map(|_| Mutex::default()).collect(),
            shard_capacity: capacity.div_ceil(count).max(1),
            hashers: seeds.map(FixedState::with_seed),
            memory,
            evicted: Counter::default(),
            not_kept: Counter::default(),
        }
    }

    /// The name of a request's transaction. Call-ID and CSeq are in it beside
    /// the branch, since old clients give none; so is the source, since an
    /// answer must not go to a client that guesses a branch.
    pub(in crate::server) fn key(
        &self,
        request: &Message<'_>,
        source: SocketAddr,
    ) -> TransactionKey {
        self.key_of(source, |name| request.header(name).unwrap_or(""))
    }

    /// The same for one with these headers.
    pub(in crate::server) fn key_of<'t>(
        &self,
        source: SocketAddr,
        header: impl Fn(HeaderName) -> &'t str,
    ) -> TransactionKey {
        let cseq = header(HeaderName::CSeq);
        let space = cseq.bytes().rposition(|byte| matches!(byte, b' ' | b'\t'));
        let method_at = space.map_or(0, |space| space + 1);
        self.name(source, cseq.split_at(method_at), header)
    }

    /// The name of the transaction of the INVITE whose refusal an ACK with these headers
    /// acknowledges, which has the same Via and number (RFC 3261 §17.1.1.3).
    pub(in crate::server) fn acknowledged<'t>(
        &self,
        source: SocketAddr,
        header: impl Fn(HeaderName) -> &'t str,
    ) -> Option<TransactionKey> {
        let number = header(HeaderName::CSeq).strip_suffix("ACK")?;
        Some(self.name(source, (number, "INVITE"), header))
    }

    fn name<'t>(
        &self,
        source: SocketAddr,
        (number, method): (&str, &str),
        header: impl Fn(HeaderName) -> &'t str,
    ) -> TransactionKey {
        let [via, call_id, from] = NAMING;
        let texts = [header(via), header(call_id), header(from), number, method];
        let hash = |hasher: &FixedState| {
            let mut state = hasher.build_hasher();
            source.hash(&mut state);
            for text in texts {
                state.write(text.as_bytes());
                state.write_u8(0xff);
            }
            state.finish()
        };
        let [low, high] = &self.hashers;
        TransactionKey(u128::from(hash(high)) << 64 | u128::from(hash(low)))
    }

    /// The memory of answers that are kept, and of requests in work.
    pub(in crate::server) fn memory(&self) -> [&Shares; 2] {
        [&self.memory.answers, &self.memory.requests]
    }

    /// The state of a request's transaction, without beginning one.
    pub(in crate::server) fn seen(&self, key: TransactionKey) -> Seen {
        self.shard(key).seen(key)
    }

    /// Begins a transaction of `holder` with a request of `len` bytes.
    pub(in crate::server) fn begin(
        &self,
        key: TransactionKey,
        now: Instant,
        holder: Holder,
        len: usize,
        repeated: Repeated,
    ) -> Begun {
        let mut shard = self.shard(key);
        shard.expire(now, EXPIRED_AT_ONCE, &self.memory);
        if shard.find(key).is_some() {
            return Begun::Known;
        }
        let [request_bytes, answer_bytes] = match self.memory.take(holder, len, repeated) {
            Ok(bytes) => bytes,
            Err(excess) => return Begun::Refused(excess),
        };
        while shard.entries.len() >= self.shard_capacity {
            self.evicted.add(shard.drop_oldest(&self.memory));
        }
        // An entry that is gone must not push out another one.
        if shard.order.len() >= 2 * self.shard_capacity {
            shard.forget_order();
        }
        shard.insert(TransactionEntry {
            key,
            begun_at: now,
            holder,
            request_bytes,
            answer_bytes,
            answer: None,
        });
        Begun::New
    }

    /// Keeps the answer of a transaction that was begun, if room was reserved for it or
    /// the share allows it; otherwise a retransmission counts as a new request.
    pub(in crate::server) fn answer(&self, key: TransactionKey, answer: Buffer) {
        let mut shard = self.shard(key);
        let Some(entry) = shard.find_mut(key) else {
            return;
        };
        if entry.answer.is_some() {
            return;
        }
        let (cost, answers) = (self.memory.answer_cost(answer.len()), &self.memory.answers);
        if entry.answer_bytes > 0 {
            // It is about as long as its request, for which there was room.
            answers.give_back(entry.holder, entry.answer_bytes);
            answers.take_anyway(entry.holder, cost);
        } else if answers.take(entry.holder, cost).is_err() {
            self.not_kept.increment();
            return shard.remove(key, &self.memory);
        }
        entry.answer_bytes = cost;
        self.memory.give_back_request(entry);
        entry.answer = Some(answer);
    }

    /// Keeps the answer of a request that was refused at once, if the share allows it; otherwise
    /// a retransmission counts as a new request.
    pub(in crate::server) fn keep(
        &self,
        key: TransactionKey,
        now: Instant,
        holder: Holder,
        answer: Buffer,
    ) {
        match self.begin(key, now, holder, answer.len(), Repeated::Other) {
            Begun::New | Begun::Known => self.answer(key, answer),
            Begun::Refused(_) => self.not_kept.increment(),
        }
    }

    /// Ends a transaction whose answer can easily be written again.
    pub(in crate::server) fn forget(&self, key: TransactionKey) {
        self.shard(key).remove(key, &self.memory);
    }

    /// Drops what has lived long enough.
    pub(in crate::server) fn sweep(&self, now: Instant) {
        for shard in &self.shards {
            lock(shard).expire(now, usize::MAX, &self.memory);
        }
    }

    /// Drops everything.
    pub(in crate::server) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            while !shard.order.is_empty() {
                shard.drop_oldest(&self.memory);
            }
        }
    }

    /// Bytes of the answers that are kept.
    pub(in crate::server) fn answer_bytes(&self) -> u64 {
        self.memory.answers.used()
    }

    /// Answers not kept, since their source or account had its share.
    pub(in crate::server) fn not_kept(&self) -> u64 {
        self.not_kept.get()
    }

    /// Entries now.
    pub(in crate::server) fn len(&self) -> u64 {
        let lens = self.shards.iter().map(|s| lock(s).entries.len() as u64);
        lens.sum()
    }

    /// Entries given up before their time.
    pub(in crate::server) fn evicted(&self) -> u64 {
        self.evicted.get()
    }

    fn shard(&self, key: TransactionKey) -> MutexGuard<'_, TransactionShard> {
        lock(&self.shards[(key.0 >> 64) as usize & (self.shards.len() - 1)])
    }
}

impl TransactionMemory {
    /// Room for a request and, where it must be kept, for its answer.
    fn take(&self, holder: Holder, len: usize, repeated: Repeated) -> Result<[u64; 2], Excess> {
        let request_bytes = match len > REQUEST_LEN_USUAL {
            true => buffer_bytes(len),
            false => 0,
        };
        let answer_bytes = match repeated {
            Repeated::Same => 0,
            Repeated::Other => self.answer_cost(len),
        };
        if answer_bytes > 0 {
            self.answers.take(holder, answer_bytes)?;
        }
        if request_bytes > 0
            && let Err(excess) = self.requests.take(holder, request_bytes)
        {
            if answer_bytes > 0 {
                self.answers.give_back(holder, answer_bytes);
            }
            return Err(excess);
        }
        Ok([request_bytes, answer_bytes])
    }

    fn give_back_request(&self, entry: &mut TransactionEntry) {
        let bytes = std::mem::take(&mut entry.request_bytes);
        if bytes > 0 {
            self.requests.give_back(entry.holder, bytes);
        }
    }

    fn answer_cost(&self, len: usize) -> u64 {
        buffer_bytes(len).max(self.answer_min)
    }

    /// The entry is gone.
    fn give_back(&self, mut entry: TransactionEntry) {
        self.give_back_request(&mut entry);
        if entry.answer_bytes > 0 {
            self.answers.give_back(entry.holder, entry.answer_bytes);
        }
    }
}

/// The most that a buffer of `len` bytes takes, rounding included.
pub(in crate::server) fn buffer_bytes(len: usize) -> u64 {
    (len + len / 3 + 64) as u64
}

impl TransactionShard {
    fn seen(&self, key: TransactionKey) -> Seen {
        match self.find(key).map(|entry| &entry.answer) {
            None => Seen::New,
            Some(None) => Seen::InWork,
            Some(Some(answer)) => Seen::Answered(answer.clone()),
        }
    }

    fn find(&self, key: TransactionKey) -> Option<&TransactionEntry> {
        self.entries.find(key.hash(), |entry| entry.key == key)
    }

    fn find_mut(&mut self, key: TransactionKey) -> Option<&mut TransactionEntry> {
        self.entries.find_mut(key.hash(), |entry| entry.key == key)
    }

    fn insert(&mut self, entry: TransactionEntry) {
        self.order.push_back((entry.begun_at, entry.key));
        let hash = |entry: &TransactionEntry| entry.key.hash();
        self.entries.insert_unique(entry.key.hash(), entry, hash);
    }

    fn remove(&mut self, key: TransactionKey, memory: &TransactionMemory) {
        if let Ok(entry) = self.entries.find_entry(key.hash(), |e| e.key == key) {
            memory.give_back(entry.remove().0);
        }
    }

    fn expire(&mut self, now: Instant, count_max: usize, memory: &TransactionMemory) {
        for _ in 0..count_max {
            match self.order.front() {
                Some((begun_at, _)) if *begun_at + LIFE <= now => self.drop_oldest(memory),
                _ => return,
            };
        }
    }

    /// Removes dropped entries from the queue of arrivals.
    fn forget_order(&mut self) {
        let entries = &self.entries;
        self.order.retain(|&(begun_at, key)| {
            let is_it = |entry: &TransactionEntry| entry.key == key && entry.begun_at == begun_at;
            entries.find(key.hash(), is_it).is_some()
        });
    }

    /// Returns how many entries that removed: none if the oldest was dropped before, or
    /// dropped and begun again.
    fn drop_oldest(&mut self, memory: &TransactionMemory) -> u64 {
        let Some((begun_at, key)) = self.order.pop_front() else {
            return 0;
        };
        let is_it = |entry: &TransactionEntry| entry.key == key && entry.begun_at == begun_at;
        match self.entries.find_entry(key.hash(), is_it) {
            Ok(entry) => {
                memory.give_back(entry.remove().0);
                1
            }
            Err(_) => 0,
        }
    }
}

impl TransactionKey {
    /// Half of it, which tells those of one table apart, and is our tag in To.
    pub(in crate::server) fn hash(self) -> u64 {
        self.0 as u64
    }
}

fn lock(shard: &Mutex<TransactionShard>) -> MutexGuard<'_, TransactionShard> {
    shard
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Headers that tell one request from another, beside CSeq with its method.
const NAMING: [HeaderName; 3] = [HeaderName::Via, HeaderName::CallId, HeaderName::From];
/// 64 × T1 (RFC 3261 §17.1.2.2).
const LIFE: Duration = Duration::from_secs(32);
/// The bytes of a datagram that fit without a second buffer.
const REQUEST_LEN_USUAL: usize = 2048;
/// Two are removed for each one that is added, so that a shard in use shrinks by
/// itself.
const EXPIRED_AT_ONCE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::load::shares::{Holders, Parts};
    use busyhour::buffer::BufferPool;

    fn key(number: u128) -> TransactionKey {
        TransactionKey(number << 64 | number)
    }

    fn memory(bytes: u64) -> TransactionMemory {
        let parts = Parts {
            by_source: 10,
            by_account: 10,
            by_domain: 100,
            least: 1,
        };
        TransactionMemory {
            answers: Shares::new(bytes, parts),
            answer_min: 100,
            requests: Shares::new(bytes, parts),
        }
    }

    fn transactions(capacity: usize) -> Transactions {
        Transactions::new(capacity, memory(1 << 30), [1, 2])
    }

    fn begin(transactions: &Transactions, key: TransactionKey, now: Instant) -> bool {
        transactions.begin(key, now, Holder::NOBODY, 500, Repeated::Same) == Begun::New
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn an_ack_names_the_invite_that_it_acknowledges() {
        let text = |method: &str, number: u32, branch: u32| {
            format!(
                "{method} sip:b@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK{branch}\r\n\
                 From: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>\r\nCall-ID: 1\r\n\
                 CSeq: {number} {method}\r\n\r\n"
            )
        };
        let (transactions, source) = (transactions(1), "192.0.2.7:5060".parse().unwrap());
        let invite = text("INVITE", 7, 1);
        let invite = transactions.key(&Message::parse(invite.as_bytes()).unwrap(), source);
        let acknowledged = |text: &str| {
            let ack = Message::parse(text.as_bytes()).unwrap();
            transactions.acknowledged(source, |name| ack.header(name).unwrap_or(""))
        };
        assert_eq!(acknowledged(&text("ACK", 7, 1)), Some(invite));
        for other in [text("ACK", 8, 1), text("ACK", 7, 2), text("BYE", 7, 1)] {
            assert_ne!(acknowledged(&other), Some(invite), "{other}");
        }
    }

    #[test]
    fn a_request_is_new_then_in_progress_then_answered_then_new_again() {
        let buffers = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
        let transactions = transactions(100);
        assert!(matches!(transactions.seen(key(1)), Seen::New));
        assert!(begin(&transactions, key(1), at(0)));
        assert!(!begin(&transactions, key(1), at(0)));
        assert!(matches!(transactions.seen(key(1)), Seen::InWork));
        transactions.answer(key(1), buffers.copy_from(b"200").unwrap());
        assert!(matches!(transactions.seen(key(1)), Seen::Answered(a) if &*a == b"200"));
        transactions.sweep(at(31));
        assert_eq!(transactions.len(), 1);
        transactions.sweep(at(32));
        assert_eq!((transactions.len(), buffers.live_count()), (0, 0));
    }

    #[test]
    fn a_transaction_begun_again_has_its_own_time() {
        let transactions = transactions(100);
        assert!(begin(&transactions, key(1), at(0)));
        transactions.forget(key(1));
        assert!(begin(&transactions, key(1), at(10)));
        transactions.sweep(at(32));
        assert!(matches!(transactions.seen(key(1)), Seen::InWork));
        transactions.sweep(at(42));
        assert!(matches!(transactions.seen(key(1)), Seen::New));
    }

    #[test]
    fn a_full_shard_drops_its_oldest_answer_and_counts_it() {
        let transactions = transactions(1);
        let same_shard = |number: u128| TransactionKey(number << 70 | number);
        assert!(begin(&transactions, same_shard(1), at(0)));
        assert!(begin(&transactions, same_shard(2), at(1)));
        assert!(matches!(transactions.seen(same_shard(1)), Seen::New));
        assert!(matches!(transactions.seen(same_shard(2)), Seen::InWork));
        assert_eq!((transactions.len(), transactions.evicted()), (1, 1));
    }

    #[test]
    fn a_removed_transaction_frees_only_its_own_place() {
        let transactions = transactions(4);
        let same_shard = |number: u128| TransactionKey(number << 70 | number);
        assert!(begin(&transactions, same_shard(1), at(0)));
        for number in 2..100 {
            assert!(begin(&transactions, same_shard(number), at(1)));
            transactions.forget(same_shard(number));
        }
        assert!(matches!(transactions.seen(same_shard(1)), Seen::InWork));
        assert_eq!((transactions.len(), transactions.evicted()), (1, 0));
        assert!(lock(&transactions.shards[0]).order.len() <= 8);
    }

    #[test]
    fn a_request_that_must_not_repeat_begins_only_with_room_for_its_answer() {
        let buffers = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
        let transactions = Transactions::new(1000, memory(10_000), [1, 2]);
        let holder = Holders::new(1).of([192, 0, 2, 1].into(), None);
        let begin = |number| transactions.begin(key(number), at(0), holder, 10, Repeated::Other);
        let begun = (0..30).filter(|&number| begin(number) == Begun::New);
        assert_eq!(begun.count(), 10);
        assert_eq!(begin(99), Begun::Refused(Excess::Share));
        assert_eq!(transactions.answer_bytes(), 1000);
        // An answer that is longer than expected is still kept.
        transactions.answer(key(0), buffers.copy_from(&[b'2'; 300]).unwrap());
        assert!(matches!(transactions.seen(key(0)), Seen::Answered(_)));
        assert_eq!(transactions.answer_bytes(), 900 + buffer_bytes(300));
        transactions.forget(key(1));
        transactions.sweep(at(32));
        assert_eq!(
            (transactions.answer_bytes(), transactions.not_kept()),
            (0, 0)
        );
    }

    #[test]
    fn one_holder_keeps_no_more_answers_than_its_share() {
        let buffers = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
        let transactions = Transactions::new(1000, memory(10_000), [1, 2]);
        let holders = Holders::new(1);
        let [greedy, other] = [1, 2].map(|host| holders.of([192, 0, 2, host].into(), None));
        let keep = |number, holder| {
            let begun = transactions.begin(key(number), at(0), holder, 500, Repeated::Same);
            assert_eq!(begun, Begun::New);
            transactions.answer(key(number), buffers.copy_from(b"200").unwrap());
        };
        (0..30).for_each(|number| keep(number, greedy));
        assert_eq!((transactions.len(), transactions.not_kept()), (10, 20));
        keep(40, other);
        assert!(matches!(transactions.seen(key(40)), Seen::Answered(_)));
        transactions.clear();
        assert_eq!((transactions.len(), transactions.answer_bytes()), (0, 0));
    }

    #[test]
    fn long_requests_in_progress_have_a_share_until_they_are_answered_or_removed() {
        let buffers = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
        let transactions = Transactions::new(1000, memory(100_000), [1, 2]);
        let greedy = Holders::new(1).of([192, 0, 2, 1].into(), Some("alice"));
        let begin = |number| transactions.begin(key(number), at(0), greedy, 3000, Repeated::Same);
        assert_eq!([begin(1), begin(2)], [Begun::New, Begun::New]);
        assert_eq!(begin(3), Begun::Refused(Excess::Share));
        transactions.forget(key(1));
        assert_eq!(begin(3), Begun::New);
        transactions.answer(key(2), buffers.copy_from(b"200").unwrap());
        assert_eq!(begin(4), Begun::New);
        let small = transactions.begin(key(5), at(0), greedy, 2048, Repeated::Same);
        assert_eq!(small, Begun::New);
    }
}
