//! How much of a resource one source or one account may hold, and how much it holds.
//!
//! The amounts are counted in cells that a keyed hash chooses: two cells for a source
//! and two for an account; the lower one of the two counts. Other holders in the same
//! cells make an amount too high, never too low. That matters only if a large holder
//! shares both cells, which has a probability of one in 268 million because of the key.
//! In return there is no lock, no allocation for each holder, and nothing to clean up.
//!
//! An account of a domain with accounts of its own, `user@domain`, counts for its domain as
//! well, in two more cells. A domain may have a bound of its own.
//!
//! Of the last tenth of a resource, only a holder of less than a hundredth gets more:
//! so ten holders that take their full share leave room for everybody else.
//!
//! The check of a share and the taking are two steps, so concurrent threads may exceed
//! a share by the amount that each of them takes, but they never exceed the bound.

use crate::server::HolderKey;
use busyhour_sip::source_of;
use foldhash::quality::FixedState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    net::IpAddr,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Picks the cells of sources and accounts.
#[derive(Clone)]
pub(in crate::server) struct Holders {
    hasher: FixedState,
}

/// A holder of something, by its cells; a place that is `NOBODY` counts for
/// nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Holder {
    source: Cells,
    account: Cells,
    domain: Cells,
    /// Its own part of each resource in percent, instead of that of a source; 0 if it has
    /// none of its own.
    percent: u8,
}

/// One cell in each row.
pub(in crate::server) type Cells = [u16; ROWS];

/// One resource: its bound, and how much each holder has.
pub(in crate::server) struct Shares {
    rows: [BlockRow; ROWS],
    used: AtomicU64,
    bound: u64,
    by_source: u64,
    by_account: u64,
    by_domain: u64,
    /// Bounds of single domains, which few have.
    domain_bounds: RwLock<HashMap<Cells, u64>>,
}

/// One cell for each value of a part of a hash. They are made in blocks: one by one takes a
/// build without optimization a millisecond for each resource.
struct BlockRow(Box<[[AtomicU64; BLOCK]]>);

/// The parts of each resource that one may hold.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Parts {
    /// One source, in percent.
    pub(in crate::server) by_source: u64,
    /// One account, in percent.
    pub(in crate::server) by_account: u64,
    /// All accounts of one domain that has its own, in percent.
    pub(in crate::server) by_domain: u64,
    /// Each source and account may hold at least this much, whatever the percentage.
    pub(in crate::server) least: u64,
}

/// Why nothing is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Excess {
    /// The resource is used up, except for the part that is reserved for small holders.
    Whole,
    /// The source or the account has its share.
    Share,
}

impl Holders {
    pub(in crate::server) fn new(seed: u64) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
        }
    }

    /// A user of an account, or nobody's, at a source.
    pub(in crate::server) fn of(&self, source: IpAddr, account: Option<&str>) -> Holder {
        Holder {
            source: cells(self.hasher.hash_one((0u8, source_of(source)))),
            account: account.map_or(NONE, |account| self.account(account)),
            domain: account.map_or(NONE, |account| self.domain_of(account)),
            percent: 0,
        }
    }

    /// A peer, which is one source wherever it is, with a part of its own.
    pub(in crate::server) fn of_peer(&self, name: &str, percent: u8) -> Holder {
        Holder {
            source: cells(self.hasher.hash_one((2u8, name))),
            percent,
            ..Holder::NOBODY
        }
    }

    /// An account wherever it is.
    pub(in crate::server) fn of_account(&self, account: &str) -> Holder {
        Holder {
            account: self.account(account),
            domain: self.domain_of(account),
            ..Holder::NOBODY
        }
    }

    /// All accounts of a domain together.
    pub(in crate::server) fn of_domain(&self, domain: &str) -> Holder {
        Holder {
            domain: cells(self.hasher.hash_one((3u8, domain))),
            ..Holder::NOBODY
        }
    }

    fn domain_of(&self, account: &str) -> Cells {
        match account.rsplit_once('@') {
            Some((_, domain)) => self.of_domain(domain).domain,
            None => NONE,
        }
    }

    fn account(&self, account: &str) -> Cells {
        cells(self.hasher.hash_one((1u8, account)))
    }
}

impl Holder {
    /// No holder: the amount counts only for the whole.
    pub(in crate::server) const NOBODY: Self = Self {
        source: NONE,
        account: NONE,
        domain: NONE,
        percent: 0,
    };

    /// A source with these cells.
    pub(in crate::server) fn of_source(source: Cells) -> Self {
        Self {
            source,
            ..Self::NOBODY
        }
    }

    /// Its account, or its source if it has none; `None` for nobody.
    pub(in crate::server) fn key(self) -> Option<HolderKey> {
        let number = |kind: u32, [first, second]: Cells| {
            HolderKey::new(kind << 31 | u32::from(first) << 16 | u32::from(second))
        };
        match (self.account, self.source) {
            (NONE, NONE) => None,
            (NONE, source) => Some(number(0, source)),
            (account, _) => Some(number(1, account)),
        }
    }

    /// Only the cells of its source, for resources that are counted by source alone.
    pub(in crate::server) fn source(self) -> Cells {
        self.source
    }
}

impl BlockRow {
    fn cells(&self) -> &[AtomicU64] {
        self.0.as_flattened()
    }
}

impl Default for BlockRow {
    fn default() -> Self {
        let block = || [const { AtomicU64::new(0) }; BLOCK];
        Self(std::iter::repeat_with(block).take(CELLS / BLOCK).collect())
    }
}

impl Shares {
    pub(in crate::server) fn new(bound: u64, parts: Parts) -> Self {
        let part = |percent| part(bound, percent).max(parts.least).min(bound);
        Self {
            rows: std::array::from_fn(|_| BlockRow::default()),
            used: AtomicU64::new(0),
            bound,
            by_source: part(parts.by_source),
            by_account: part(parts.by_account),
            by_domain: part(parts.by_domain),
            domain_bounds: RwLock::default(),
        }
    }

    /// Gives a domain, named by its holder, a bound of its own, or takes it back.
    pub(in crate::server) fn bound_domain(&self, domain: Holder, bound: Option<u64>) {
        let mut bounds = self
            .domain_bounds
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match bound {
            Some(bound) => bounds.insert(domain.domain, bound),
            None => bounds.remove(&domain.domain),
        };
    }

    /// What all accounts of a domain hold together.
    pub(in crate::server) fn held_by_domain(&self, domain: Holder) -> u64 {
        self.held(domain.domain).unwrap_or(0)
    }

    /// How much a domain may hold.
    fn domain_bound(&self, cells: Cells) -> u64 {
        let bounds = self
            .domain_bounds
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        bounds.get(&cells).copied().unwrap_or(self.by_domain)
    }

    /// What its domain holds; an error if the domain has its share.
    fn check_domain(&self, holder: Holder, amount: u64) -> Result<Option<u64>, Excess> {
        if holder.domain == NONE {
            return Ok(None);
        }
        let (held, bound) = (self.held(holder.domain), self.domain_bound(holder.domain));
        match bound < self.bound && held.is_some_and(|held| held + amount > bound) {
            true => Err(Excess::Share),
            false => Ok(held),
        }
    }

    /// Charges `amount` to `holder`, which gives it back later.
    ///
    /// # Errors
    ///
    /// If that is too much for the holder or for the whole; then nothing is charged.
    pub(in crate::server) fn take(&self, holder: Holder, amount: u64) -> Result<(), Excess> {
        let source = self.held(holder.source);
        let account = self.held(holder.account);
        let exceeds = |held: Option<u64>, share| held.is_some_and(|held| held + amount > share);
        let is_share = |share| share < self.bound;
        let by_source = match holder.percent {
            0 => self.by_source,
            percent => self.by_source.max(part(self.bound, percent.into())),
        };
        if is_share(by_source) && exceeds(source, by_source)
            || is_share(self.by_account) && exceeds(account, self.by_account)
        {
            return Err(Excess::Share);
        }
        let domain = self.check_domain(holder, amount)?;
        let used = self.used.fetch_add(amount, Ordering::Relaxed) + amount;
        let holds_much = source.max(account).max(domain) >= Some((self.bound / LITTLE_PART).max(1));
        if used > self.bound || used > self.open_to_all() && holds_much {
            self.used.fetch_sub(amount, Ordering::Relaxed);
            return Err(Excess::Whole);
        }
        self.each_cell(holder, |cell| cell.fetch_add(amount, Ordering::Relaxed));
        Ok(())
    }

    /// As [`take`](Self::take), for something that exists already, whatever the limits.
    pub(in crate::server) fn take_anyway(&self, holder: Holder, amount: u64) {
        self.used.fetch_add(amount, Ordering::Relaxed);
        self.each_cell(holder, |cell| cell.fetch_add(amount, Ordering::Relaxed));
    }

    /// Takes back what was given to `holder`.
    pub(in crate::server) fn give_back(&self, holder: Holder, amount: u64) {
        let before = self.used.fetch_sub(amount, Ordering::Relaxed);
        debug_assert!(before >= amount, "given back more than was given");
        self.each_cell(holder, |cell| cell.fetch_sub(amount, Ordering::Relaxed));
    }

    /// Resets all amounts, for resources that are not given back one by one.
    pub(in crate::server) fn clear(&self) {
        if self.used.swap(0, Ordering::Relaxed) > 0 {
            // Row by row: a flattened iterator does not become one plain loop in every build.
            for row in &self.rows {
                for cell in row.cells() {
                    cell.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    /// What is held by all.
    pub(in crate::server) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What is held at most by one of these cells.
    /// `None` for nobody's.
    fn held(&self, cells: Cells) -> Option<u64> {
        if cells == NONE {
            return None;
        }
        let held = self.rows.iter().zip(cells);
        held.map(|(row, cell)| row.cells()[usize::from(cell)].load(Ordering::Relaxed))
            .min()
    }

    fn each_cell(&self, holder: Holder, change: impl Fn(&AtomicU64) -> u64) {
        for cells in [holder.source, holder.account, holder.domain] {
            if cells != NONE {
                let places = self.rows.iter().zip(cells);
                for (row, cell) in places {
                    change(&row.cells()[usize::from(cell)]);
                }
            }
        }
    }

    /// If one holder may have everything, nothing is reserved for others.
    fn open_to_all(&self) -> u64 {
        match self.by_source.min(self.by_account).min(self.by_domain) < self.bound {
            true => self.bound - self.bound / RESERVED_PART,
            false => self.bound,
        }
    }
}

fn part(bound: u64, percent: u64) -> u64 {
    bound / 100 * percent + bound % 100 * percent / 100
}

/// Two numbers out of one hash.
fn cells(hash: u64) -> Cells {
    let cell = |bits: u64| (bits % CELLS as u64) as u16;
    [cell(hash), cell(hash >> 32)]
}

pub(in crate::server) const ROWS: usize = 2;
pub(in crate::server) const CELLS: usize = 16_384;
const BLOCK: usize = 1024;
/// No cell has this number.
const NONE: Cells = [u16::MAX; ROWS];
const RESERVED_PART: u64 = 10;
const LITTLE_PART: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Parts = Parts {
        by_source: 10,
        by_account: 10,
        by_domain: 50,
        least: 1,
    };

    fn source(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from(number).into()
    }

    #[test]
    fn one_source_and_one_account_may_have_a_tenth_each() {
        let (holders, shares) = (Holders::new(1), Shares::new(1000, TENTH));
        let alice = |number| holders.of(source(number), Some("alice"));
        assert_eq!(shares.take(alice(1), 100), Ok(()));
        assert_eq!(shares.take(alice(1), 1), Err(Excess::Share));
        assert_eq!(shares.take(alice(2), 1), Err(Excess::Share), "by account");
        let bob = holders.of(source(1), Some("bob"));
        assert_eq!(shares.take(bob, 1), Err(Excess::Share), "by source");
        let carol = holders.of(source(3), Some("carol"));
        assert_eq!(shares.take(carol, 1), Ok(()));
        shares.give_back(alice(1), 100);
        assert_eq!(shares.take(bob, 1), Ok(()));
        assert_eq!(shares.used(), 2);
    }

    #[test]
    fn a_domain_has_a_share_however_many_accounts_and_sources_it_has() {
        let (holders, shares) = (Holders::new(1), Shares::new(1000, TENTH));
        let user = |number: u32, domain: &str| {
            holders.of(source(number), Some(&format!("user{number}@{domain}")))
        };
        let taken = (0..1000).filter(|number| shares.take(user(*number, "a"), 1).is_ok());
        assert_eq!(taken.count(), 500);
        assert_eq!(shares.held_by_domain(holders.of_domain("a")), 500);
        let taken = (0..1000).filter(|number| shares.take(user(*number, "b"), 1).is_ok());
        assert_eq!(taken.count(), 400, "it leaves the last tenth to the small");
        assert_eq!(shares.take(user(1, "c"), 5), Ok(()));
        shares.bound_domain(holders.of_domain("c"), Some(7));
        assert_eq!(shares.take(user(2, "c"), 3), Err(Excess::Share));
        assert_eq!(shares.take(user(2, "c"), 2), Ok(()));
        shares.give_back(user(1, "c"), 5);
        assert_eq!(shares.take(user(2, "c"), 5), Ok(()));
        shares.bound_domain(holders.of_domain("c"), None);
        assert_eq!(shares.take(user(3, "c"), 1), Ok(()));
    }

    #[test]
    fn the_last_tenth_is_for_small_holders() {
        let (holders, shares) = (Holders::new(1), Shares::new(1000, TENTH));
        let holder = |number| holders.of(source(number), None);
        (0..9).for_each(|number| assert_eq!(shares.take(holder(number), 100), Ok(())));
        assert_eq!(shares.take(holder(10), 10), Ok(()));
        assert_eq!(shares.take(holder(10), 1), Err(Excess::Whole));
        assert_eq!(shares.take(holder(11), 90), Ok(()));
        assert_eq!(shares.take(holder(12), 1), Err(Excess::Whole), "all of it");
    }

    #[test]
    fn a_share_of_a_small_resource_is_not_zero() {
        let parts = Parts { least: 16, ..TENTH };
        let (holders, shares) = (Holders::new(1), Shares::new(4, parts));
        let holder = holders.of(source(1), Some("alice"));
        (0..4).for_each(|_| assert_eq!(shares.take(holder, 1), Ok(())));
        assert_eq!(shares.take(holder, 1), Err(Excess::Whole));
        assert_eq!(Shares::new(0, parts).take(holder, 1), Err(Excess::Whole));
    }

    #[test]
    fn an_amount_without_holder_has_no_share_and_unchecked_amounts_count() {
        let (holders, shares) = (Holders::new(1), Shares::new(1000, TENTH));
        shares.take_anyway(holders.of_account("alice"), 150);
        assert_eq!(shares.take(Holder::NOBODY, 700), Ok(()));
        let alice = holders.of(source(1), Some("alice"));
        assert_eq!(shares.take(alice, 1), Err(Excess::Share));
        assert_eq!(shares.take(holders.of(source(1), None), 1), Ok(()));
        let account = holders.of_account("alice");
        assert_eq!(shares.take(account, 1), Err(Excess::Share));
    }

    #[test]
    fn a_peer_has_a_part_of_its_own_and_leaves_the_last_tenth() {
        let (holders, shares) = (Holders::new(1), Shares::new(1000, TENTH));
        let half = holders.of_peer("pbx", 50);
        assert_eq!(shares.take(half, 500), Ok(()));
        assert_eq!(shares.take(half, 1), Err(Excess::Share));
        shares.give_back(half, 500);
        let all = holders.of_peer("pbx", 100);
        assert_eq!(shares.take(all, 900), Ok(()));
        assert_eq!(shares.take(all, 1), Err(Excess::Whole));
        assert_eq!(shares.take(holders.of(source(1), None), 9), Ok(()));
        let little = holders.of_peer("gateway", 1);
        assert_eq!(shares.take(little, 10), Ok(()), "no less than a source");
    }

    #[test]
    fn many_small_holders_are_not_taken_for_one_large_holder() {
        let (holders, shares) = (Holders::new(1), Shares::new(1_000_000, TENTH));
        for number in 0..800_000 {
            let holder = holders.of(source(number), None);
            assert_eq!(shares.take(holder, 1), Ok(()), "{number}");
        }
    }
}
