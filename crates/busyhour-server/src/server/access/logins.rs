//! Wrong passwords: a client that sends many has to wait, and costs little meanwhile.
//!
//! Failures are counted by source and user name together: one misconfigured phone
//! behind an address does not lock out the others there, and an attacker who knows a
//! user's name does not lock that user out at other addresses. An IPv6 network of 64
//! bits is one source. The table is bounded, and a source has its share of it. If a
//! source has used its share, its oldest entry is replaced; an entry that does not fit
//! is counted, and that user is not slowed down.

use crate::server::load::shares::{Excess, Holder, Shares};
use busyhour::clock::Instant;
use busyhour_sip::source_of;
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use std::{
    hash::BuildHasher,
    net::IpAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Who failed lately.
pub(in crate::server) struct Logins {
    shards: Box<[Mutex<LoginShard>]>,
    hasher: FixedState,
    shares: Shares,
    overflowed: AtomicU64,
}

#[derive(Default)]
struct LoginShard {
    table: HashTable<LoginFailures>,
    /// When the old ones were last looked for.
    swept_at: Option<Instant>,
}

/// The failures of one source with one user name, known by their hash.
struct LoginFailures {
    hash: u64,
    holder: Holder,
    count: u32,
    last_at: Instant,
}

impl Logins {
    /// `shares` are those of [`CAPACITY`] entries.
    pub(in crate::server) fn new(seed: u64, shares: Shares) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: FixedState::with_seed(seed),
            shares,
            overflowed: AtomicU64::new(0),
        }
    }

    /// How long this source and user have to wait before the next try.
    pub(in crate::server) fn pause_left(
        &self,
        source: IpAddr,
        username: &str,
        now: Instant,
    ) -> Option<Duration> {
        let hash = self.hash(source, username);
        let shard = self.shard(hash);
        let failures = shard.table.find(hash, |failures| failures.hash == hash);
        let until = failures?.last_at + pause(failures?.count);
        (now < until).then(|| until - now)
    }

    /// Notes a wrong password. `holder` is the source.
    pub(in crate::server) fn failed(
        &self,
        source: IpAddr,
        holder: Holder,
        username: &str,
        now: Instant,
    ) {
        let hash = self.hash(source, username);
        let mut shard = self.shard(hash);
        if let Some(failures) = shard.table.find_mut(hash, |failures| failures.hash == hash) {
            return failures.add(now);
        }
        if self.find_place(&mut shard, holder, now) {
            let failures = LoginFailures {
                hash,
                holder,
                count: 1,
                last_at: now,
            };
            (shard.table).insert_unique(hash, failures, |failures| failures.hash);
        }
    }

    /// Takes a place in a shard for `holder`. If it has used its share, the place of
    /// its oldest failure is taken; shards are bounded, so this search is short.
    fn find_place(&self, shard: &mut LoginShard, holder: Holder, now: Instant) -> bool {
        if shard.is_full() {
            shard.sweep(now, &self.shares);
        }
        let mut taken = match shard.is_full() {
            true => Err(Excess::Whole),
            false => self.shares.take(holder, 1),
        };
        if taken == Err(Excess::Share) && shard.sweep(now, &self.shares) {
            taken = self.shares.take(holder, 1);
        }
        if taken.is_err() {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        if taken == Err(Excess::Share) && shard.drop_oldest(holder) {
            self.shares.give_back(holder, 1);
            taken = self.shares.take(holder, 1);
        }
        taken.is_ok()
    }

    /// It gave the right one.
    pub(in crate::server) fn succeeded(&self, source: IpAddr, username: &str) {
        let hash = self.hash(source, username);
        let mut shard = self.shard(hash);
        if let Ok(entry) = shard
            .table
            .find_entry(hash, |failures| failures.hash == hash)
        {
            let (failures, _) = entry.remove();
            self.shares.give_back(failures.holder, 1);
        }
    }

    /// Sources and users in the table.
    pub(in crate::server) fn len(&self) -> u64 {
        let lengths = self
            .shards
            .iter()
            .map(|shard| lock(shard).table.len() as u64);
        lengths.sum()
    }

    /// Failures that found no room, or replaced an older one of their source.
    pub(in crate::server) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    fn hash(&self, source: IpAddr, username: &str) -> u64 {
        self.hasher.hash_one((source_of(source), username))
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, LoginShard> {
        // The hash table inside uses the highest and the lowest bits; the shard uses
        // others.
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

impl LoginShard {
    fn is_full(&self) -> bool {
        self.table.len() >= SHARD_LEN_MAX
    }

    /// Drops old entries; `false` if it is not yet time. If no entry is old, not every
    /// request should pay for a scan.
    fn sweep(&mut self, now: Instant, shares: &Shares) -> bool {
        let is_due = self.swept_at.is_none_or(|at| now >= at + SWEEP_PERIOD);
        if is_due {
            self.table
                .extract_if(|failures| failures.is_old(now))
                .for_each(|failures| shares.give_back(failures.holder, 1));
            self.swept_at = Some(now);
        }
        is_due
    }

    /// Drops the oldest failure of `holder`; `false` if it has none here.
    fn drop_oldest(&mut self, holder: Holder) -> bool {
        let own = self.table.iter().filter(|one| one.holder == holder);
        let oldest = own.min_by_key(|one| one.last_at).map(|one| one.hash);
        let entry = oldest.map(|hash| self.table.find_entry(hash, |one| one.hash == hash));
        let Some(Ok(entry)) = entry else {
            return false;
        };
        entry.remove();
        true
    }
}

impl LoginFailures {
    fn add(&mut self, now: Instant) {
        if self.is_old(now) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last_at = now;
    }

    fn is_old(&self, now: Instant) -> bool {
        now >= self.last_at + FORGOTTEN_AFTER
    }
}

fn lock(shard: &Mutex<LoginShard>) -> MutexGuard<'_, LoginShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No wait for a few mistakes, then one second, and twice as long each time.
fn pause(count: u32) -> Duration {
    match count.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(beyond) => Duration::from_secs(1 << beyond.min(6)).min(PAUSE_MAX),
    }
}

const FREE: u32 = 5;
const PAUSE_MAX: Duration = Duration::from_secs(60);
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);
/// The time between two scans for old failures in a full shard.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);
const SHARDS: usize = 16;
/// Entries in all.
pub(in crate::server) const CAPACITY: usize = 65_536;
const SHARD_LEN_MAX: usize = CAPACITY / SHARDS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::load::shares::{Holders, Parts};

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn logins(by_source: u64) -> Logins {
        let parts = Parts {
            by_source,
            by_account: 100,
            by_domain: 100,
            least: 1,
        };
        Logins::new(1, Shares::new(CAPACITY as u64, parts))
    }

    fn fail(logins: &Logins, source: IpAddr, username: &str, now: Instant) {
        logins.failed(source, Holders::new(1).of(source, None), username, now);
    }

    impl Logins {
        fn is_paused(&self, source: IpAddr, username: &str, now: Instant) -> bool {
            self.pause_left(source, username, now).is_some()
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn pauses_grow_and_end_and_are_reset() {
        let logins = logins(100);
        for _ in 0..4 {
            fail(&logins, SOURCE, "alice", at(1));
        }
        assert!(!logins.is_paused(SOURCE, "alice", at(1)), "a few slips");
        fail(&logins, SOURCE, "alice", at(1));
        assert!(logins.is_paused(SOURCE, "alice", at(1)));
        assert!(!logins.is_paused(SOURCE, "alice", at(2)));
        fail(&logins, SOURCE, "alice", at(2));
        assert!(logins.is_paused(SOURCE, "alice", at(3)));
        assert!(!logins.is_paused(SOURCE, "alice", at(4)));
        assert!(!logins.is_paused(SOURCE, "bob", at(3)), "another user");
        let other = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
        assert!(!logins.is_paused(other, "alice", at(3)), "another source");
        logins.succeeded(SOURCE, "alice");
        assert!(!logins.is_paused(SOURCE, "alice", at(3)));
        assert_eq!(logins.len(), 0);
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let logins = logins(100);
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        for number in 1..=5 {
            fail(&logins, of(&format!("2001:db8::{number}")), "alice", at(1));
        }
        assert!(logins.is_paused(of("2001:db8::77"), "alice", at(1)));
        assert!(!logins.is_paused(of("2001:db8:0:1::1"), "alice", at(1)));
    }

    #[test]
    fn no_pause_is_longer_than_a_minute_and_old_failures_are_forgotten() {
        let logins = logins(100);
        for _ in 0..1000 {
            fail(&logins, SOURCE, "alice", at(1));
        }
        assert!(logins.is_paused(SOURCE, "alice", at(60)));
        assert!(!logins.is_paused(SOURCE, "alice", at(61)));
        fail(&logins, SOURCE, "alice", at(400));
        assert!(!logins.is_paused(SOURCE, "alice", at(400)));
    }

    #[test]
    fn the_table_is_bounded_and_has_room_again_later() {
        let logins = logins(100);
        let users = |from: usize| (from..from + 200_000).map(|number| number.to_string());
        users(0).for_each(|user| fail(&logins, SOURCE, &user, at(1)));
        assert_eq!(logins.len(), (SHARDS * SHARD_LEN_MAX) as u64);
        assert_eq!(logins.overflowed() + logins.len(), 200_000);
        let before = logins.overflowed();
        fail(&logins, SOURCE, "late", at(302));
        assert_eq!(logins.overflowed(), before);
    }

    #[test]
    fn a_full_table_is_scanned_once_a_second_and_not_at_each_failure() {
        let logins = logins(100);
        let users = |from: usize| (from..from + 200_000).map(|number| number.to_string());
        users(0).for_each(|user| fail(&logins, SOURCE, &user, at(1)));
        let just_before = at(300) + Duration::from_millis(500);
        users(200_000).for_each(|user| fail(&logins, SOURCE, &user, just_before));
        let before = logins.overflowed();
        fail(&logins, SOURCE, "early", at(301));
        assert_eq!(
            logins.overflowed(),
            before + 1,
            "all are old, and nobody looked"
        );
        fail(&logins, SOURCE, "late", at(302));
        assert_eq!(logins.overflowed(), before + 1);
    }

    #[test]
    fn one_source_uses_no_more_than_its_share() {
        let logins = logins(10);
        for number in 0..20_000 {
            fail(&logins, SOURCE, &number.to_string(), at(1));
        }
        assert_eq!(logins.len(), CAPACITY as u64 / 10);
        let other = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
        (0..5).for_each(|_| fail(&logins, other, "alice", at(1)));
        assert!(logins.is_paused(other, "alice", at(1)));
    }

    #[test]
    fn one_source_that_has_its_share_is_still_slowed_down() {
        let logins = logins(10);
        for number in 0..20_000 {
            fail(&logins, SOURCE, &number.to_string(), at(1));
        }
        (0..5).for_each(|_| fail(&logins, SOURCE, "alice", at(2)));
        assert!(logins.is_paused(SOURCE, "alice", at(2)));
        assert_eq!(logins.len(), CAPACITY as u64 / 10);
        let before = logins.overflowed();
        fail(&logins, SOURCE, "late", at(303));
        assert_eq!(logins.overflowed(), before, "the old ones are forgotten");
        assert!(logins.len() < CAPACITY as u64 / 10);
    }
}
