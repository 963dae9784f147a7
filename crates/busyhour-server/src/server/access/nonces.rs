//! The last use of each nonce, so that overheard credentials cannot be used a second
//! time (RFC 7616 §3.4, `nc`).
//!
//! Nonces are signed and not stored when they are issued; only used ones are noted
//! here, as long as they are valid. A full shard drops its oldest entry and remembers
//! when the latest dropped nonce was issued: a nonce that is not younger and not noted
//! may have been used before, so it counts as stale. So a lack of room never allows a
//! replay; the client is only challenged once more. An account that has used its share
//! of nonces is also challenged once more, and takes no room from others.

use crate::server::{
    load::{
        shard_count::shard_count,
        shares::{Excess, Holder, Shares},
    },
    stats::counters::Counter,
};
use foldhash::fast::FixedState;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The nonces that were used.
pub(in crate::server) struct Nonces {
    shards: Box<[Mutex<NonceShard>]>,
    shard_capacity: usize,
    life_s: u64,
    shares: Shares,
    evicted: Counter,
    over_share: Counter,
}

/// One use of a nonce that is known to be ours.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Use<'n> {
    /// The nonce, whose last digits are of its signature.
    pub(in crate::server) nonce: &'n str,
    /// When it was issued, in seconds since 1970.
    pub(in crate::server) issued_s: u64,
    /// Who used it.
    pub(in crate::server) holder: Holder,
    /// `nc`.
    pub(in crate::server) count: u32,
    /// Names the request by all of its bytes, so that its retransmission, which
    /// is the same ones (RFC 3261 §17.1.2), is no replay.
    pub(in crate::server) request: u64,
}

#[derive(Default)]
struct NonceShard {
    last: HashMap<u64, Last, FixedState>,
    /// In the order of their first use.
    order: VecDeque<(u64, u64, Holder)>,
    /// Nonces issued until then may have been dropped.
    given_up_s: u64,
}

struct Last {
    count: u32,
    /// When it came, in seconds since 1970.
    at_s: u32,
    request: u64,
}

impl Nonces {
    /// Room for about `capacity` nonces that are valid for `life_s` seconds.
    pub(in crate::server) fn new(capacity: usize, shares: Shares, life_s: u64) -> Self {
        let count = shard_count(capacity);
        Self {
            shards: (0..count).map(|_| Mutex::default()).collect(),
            shard_capacity: capacity.div_ceil(count).max(1),
            life_s,
            shares,
            evicted: Counter::default(),
            over_share: Counter::default(),
        }
    }

    /// Whether this use has a higher count than all earlier ones of its nonce, or is a
    /// retransmission of the last one; then it is noted. `now_s` is when the nonce was
    /// checked.
    pub(in crate::server) fn admit(&self, used: Use<'_>, now_s: u64) -> bool {
        let Some(key) = key(used.nonce) else {
            return false;
        };
        let mut shard = self.shard(key);
        shard.expire(now_s.saturating_sub(self.life_s + GRACE_S), &self.shares);
        if let Some(last) = shard.last.get_mut(&key) {
            return last.follow(&used, seconds(now_s));
        }
        // A clock that was set back must not make every nonce stale.
        if (used.issued_s..=now_s).contains(&shard.given_up_s) {
            return false;
        }
        match self.shares.take(used.holder, 1) {
            Ok(()) => {}
            // The oldest makes room.
            Err(Excess::Whole) => self.shares.take_anyway(used.holder, 1),
            Err(Excess::Share) => {
                self.over_share.increment();
                return false;
            }
        }
        while shard.order.len() >= self.shard_capacity {
            shard.give_up_oldest(&self.shares);
            self.evicted.increment();
        }
        shard.note(key, &used, seconds(now_s));
        true
    }

    /// Nonces noted now.
    pub(in crate::server) fn len(&self) -> u64 {
        let lens = self
            .shards
            .iter()
            .map(|shard| lock(shard).last.len() as u64);
        lens.sum()
    }

    /// Nonces given up before their time.
    pub(in crate::server) fn evicted(&self) -> u64 {
        self.evicted.get()
    }

    /// Uses refused because their account had its share.
    pub(in crate::server) fn over_share(&self) -> u64 {
        self.over_share.get()
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, NonceShard> {
        lock(&self.shards[(key >> 56) as usize & (self.shards.len() - 1)])
    }
}

impl NonceShard {
    fn note(&mut self, key: u64, used: &Use<'_>, at_s: u32) {
        self.last.insert(key, Last::of(used, at_s));
        self.order.push_back((used.issued_s, key, used.holder));
    }

    /// Some at a time, so that a shard in use shrinks by itself.
    fn expire(&mut self, good_since_s: u64, shares: &Shares) {
        for _ in 0..EXPIRED_AT_ONCE {
            match self.order.front() {
                Some((issued_s, key, holder)) if *issued_s < good_since_s => {
                    self.last.remove(key);
                    shares.give_back(*holder, 1);
                    self.order.pop_front();
                }
                _ => return,
            }
        }
    }

    fn give_up_oldest(&mut self, shares: &Shares) {
        if let Some((issued_s, key, holder)) = self.order.pop_front() {
            self.last.remove(&key);
            shares.give_back(holder, 1);
            self.given_up_s = self.given_up_s.max(issued_s);
        }
    }
}

impl Last {
    fn of(used: &Use<'_>, at_s: u32) -> Self {
        Self {
            count: used.count,
            at_s,
            request: used.request,
        }
    }

    fn follow(&mut self, used: &Use<'_>, now_s: u32) -> bool {
        if used.count > self.count {
            *self = Self::of(used, now_s);
            return true;
        }
        let is_it = used.count == self.count && used.request == self.request;
        is_it && now_s.saturating_sub(self.at_s) <= RETRANSMITTED_S
    }
}

/// The last digits of the signature: as good as random, and no client can choose them.
fn key(nonce: &str) -> Option<u64> {
    let from = nonce.len().checked_sub(KEY_DIGITS)?;
    u64::from_str_radix(nonce.get(from..)?, 16).ok()
}

/// Holds until the year 2106, as nonces do.
fn seconds(now_s: u64) -> u32 {
    u32::try_from(now_s).unwrap_or(u32::MAX)
}

fn lock(shard: &Mutex<NonceShard>) -> MutexGuard<'_, NonceShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

const KEY_DIGITS: usize = 16;
const EXPIRED_AT_ONCE: usize = 2;
/// Threads read the clock one after the other: if a thread found a nonce valid in its
/// last second, the nonce must still be noted when that thread comes here.
const GRACE_S: u64 = 2;
/// 64 × T1 (RFC 3261 §17.1.2.2).
const RETRANSMITTED_S: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::load::shares::{Holders, Parts};

    fn nonces(capacity: usize) -> Nonces {
        let parts = Parts {
            by_source: 100,
            by_account: 10,
            by_domain: 100,
            least: 1,
        };
        Nonces::new(capacity, Shares::new(capacity as u64, parts), 300)
    }

    fn used(nonce: &str, issued_s: u64, count: u32, request: u64) -> Use<'_> {
        Use {
            nonce,
            issued_s,
            holder: Holder::NOBODY,
            count,
            request,
        }
    }

    #[test]
    fn a_nonce_count_is_valid_once_except_for_the_same_request() {
        let nonces = nonces(100);
        let nonce = "0000000a00000000aaaaaaaabbbbbbbbcccccccc";
        assert!(nonces.admit(used(nonce, 10, 1, 7), 10));
        assert!(nonces.admit(used(nonce, 10, 1, 7), 11), "a retransmission");
        assert!(!nonces.admit(used(nonce, 10, 1, 8), 11), "a replay");
        assert!(nonces.admit(used(nonce, 10, 3, 8), 12));
        assert!(!nonces.admit(used(nonce, 10, 2, 9), 12), "too late");
        assert!(nonces.admit(used(nonce, 10, 3, 8), 44), "to the last one");
        assert!(!nonces.admit(used(nonce, 10, 3, 8), 45), "nobody resends");
        assert_eq!(nonces.len(), 1);
    }

    #[test]
    fn a_nonce_used_in_its_last_second_is_remembered_when_threads_read_the_clock_late() {
        let nonces = nonces(100);
        assert!(nonces.admit(used("ff00000000000001", 10, 1, 1), 309));
        assert!(nonces.admit(used("ff00000000000002", 311, 1, 2), 311));
        assert!(!nonces.admit(used("ff00000000000001", 10, 1, 3), 310));
    }

    #[test]
    fn a_nonce_dropped_for_lack_of_room_is_not_valid_again() {
        let nonces = nonces(1);
        assert!(nonces.admit(used("ff00000000000001", 10, 1, 1), 10));
        assert!(nonces.admit(used("ff00000000000002", 11, 1, 2), 11));
        assert_eq!((nonces.len(), nonces.evicted()), (1, 1));
        assert!(!nonces.admit(used("ff00000000000001", 10, 1, 3), 11));
        assert!(nonces.admit(used("ff00000000000003", 12, 1, 4), 12));
        assert!(
            nonces.admit(used("ff00000000000004", 5, 1, 4), 5),
            "set back"
        );
    }

    #[test]
    fn expired_nonces_are_removed() {
        let nonces = nonces(100);
        assert!(nonces.admit(used("ff00000000000001", 10, 1, 1), 10));
        assert!(nonces.admit(used("ff00000000000002", 400, 1, 2), 400));
        assert_eq!((nonces.len(), nonces.evicted()), (1, 0));
        assert!(!nonces.admit(used("short", 400, 1, 2), 400));
    }

    #[test]
    fn an_account_that_has_its_share_causes_no_challenge_of_others() {
        let nonces = nonces(1000);
        let holders = Holders::new(1);
        let admit = |number: u64, account| {
            let nonce = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let used = Use {
                holder: holders.of_account(account),
                ..used(&nonce, 10, 1, 1)
            };
            nonces.admit(used, 10)
        };
        let admitted = (0..500).filter(|number| admit(*number, "alice")).count();
        assert_eq!(
            (admitted, nonces.over_share(), nonces.evicted()),
            (100, 400, 0)
        );
        assert!(admit(1000, "bob"));
    }
}
