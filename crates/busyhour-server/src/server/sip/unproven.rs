//! Limits datagrams to sources that have not proved that they receive them.
//!
//! The answer to a datagram with a forged address goes to that address, and is longer
//! than the datagram. So answers to datagrams without right credentials, and NOTIFYs to
//! watchers that have answered none, take a token of their source. A source gets a
//! fixed number of tokens per second, and can save those of ten seconds.
//!
//! Right credentials answer a nonce that was sent to their source, and only a client
//! that received a NOTIFY can answer it. Each such proof brings the source more tokens
//! than it has cost, so that thousands of phones behind one address register as fast as
//! they authenticate. A nonce that is too old or used, but was sent to the source
//! within a day, is answered with a new one without a token: its client receives at the
//! source. So an attacker who forges the address of an office can use up its tokens;
//! then the first contact of its phones has to wait, or their next one after a start of
//! the server, which makes a new key for nonces. Phones that refresh are still
//! challenged.
//!
//! A source has two cells, as in the counting of shares (`load/shares.rs`), and may
//! receive while one of them has a token: so there is no table that an attacker could
//! fill, and nothing to clean up. A cell is one word: the time of the last access, in
//! milliseconds, and its tokens.

use crate::server::load::shares::{CELLS, Cells, ROWS};
use busyhour::clock::Instant;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tokens of all sources.
pub(in crate::server) struct Unproven {
    rows: [Box<[AtomicU64]>; ROWS],
    /// Zero is no limit.
    per_second: u64,
}

/// One cell, unpacked.
#[derive(Clone, Copy)]
struct Cell {
    looked_at_ms: u32,
    /// In thousandths.
    tokens: u32,
}

impl Unproven {
    pub(in crate::server) fn new(per_second: u64) -> Self {
        let full = Cell {
            looked_at_ms: 0,
            tokens: burst(per_second),
        };
        let row = || (0..CELLS).map(|_| AtomicU64::new(full.pack())).collect();
        Self {
            rows: std::array::from_fn(|_| row()),
            per_second,
        }
    }

    /// Takes a token of a source; `false` when it has none.
    pub(in crate::server) fn take(&self, source: Cells, now: Instant) -> bool {
        if self.per_second == 0 {
            return true;
        }
        let mut is_taken = false;
        for cell in self.cells(source) {
            is_taken |= self.change(cell, now, |tokens| tokens.checked_sub(TOKEN));
        }
        is_taken
    }

    /// A source has proved that it receives.
    pub(in crate::server) fn prove(&self, source: Cells, now: Instant) {
        let most = burst(self.per_second).saturating_mul(PROVEN_BURSTS);
        for cell in self.cells(source) {
            // A source that proves itself all the time seldom writes its cells.
            let is_rich = Cell::unpack(cell.load(Ordering::Relaxed)).tokens > most / 2;
            if self.per_second > 0 && !is_rich {
                let earn = |tokens: u32| Some(tokens.saturating_add(PROOF * TOKEN).min(most));
                self.change(cell, now, earn);
            }
        }
    }

    /// Refills a cell, and changes its tokens; `false` when `change` has none.
    fn change(&self, cell: &AtomicU64, now: Instant, change: impl Fn(u32) -> Option<u32>) -> bool {
        let now_ms = (now.as_nanos() / 1_000_000) as u32;
        let next = |packed| {
            let refilled = self.refill(Cell::unpack(packed), now_ms);
            let tokens = change(refilled.tokens)?;
            Some(Cell { tokens, ..refilled }.pack())
        };
        let changed = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        changed.is_ok()
    }

    /// Tokens of proofs beyond the burst stay; time refills only up to the burst.
    fn refill(&self, cell: Cell, now_ms: u32) -> Cell {
        let burst = burst(self.per_second);
        let passed_ms = now_ms.wrapping_sub(cell.looked_at_ms);
        // Another thread may have a slightly later time than this one. A larger
        // difference means that the cell has not been used for a long time.
        if passed_ms > u32::MAX - LATER_MS_MAX {
            return cell;
        }
        if cell.tokens >= burst {
            return Cell {
                looked_at_ms: now_ms,
                ..cell
            };
        }
        let earned = u64::from(passed_ms) * self.per_second * u64::from(TOKEN) / 1000;
        let tokens = (u64::from(cell.tokens) + earned).min(u64::from(burst));
        Cell {
            looked_at_ms: now_ms,
            tokens: tokens as u32,
        }
    }

    fn cells(&self, source: Cells) -> impl Iterator<Item = &AtomicU64> {
        let places = self.rows.iter().zip(source);
        places.map(|(row, cell)| &row[usize::from(cell)])
    }
}

impl Cell {
    fn pack(self) -> u64 {
        u64::from(self.looked_at_ms) << 32 | u64::from(self.tokens)
    }

    fn unpack(packed: u64) -> Self {
        Self {
            looked_at_ms: (packed >> 32) as u32,
            tokens: packed as u32,
        }
    }
}

/// The tokens of ten seconds, in thousandths.
fn burst(per_second: u64) -> u32 {
    u32::try_from(per_second * 10 * u64::from(TOKEN)).unwrap_or(u32::MAX)
}

/// Threads read the clock at different moments, but none waits this long before it uses
/// the time.
const LATER_MS_MAX: u32 = 60_000;
/// A token in the unit of cells.
const TOKEN: u32 = 1000;
/// Tokens that one proof brings.
const PROOF: u32 = 16;
/// What proofs may bring together, in bursts.
const PROVEN_BURSTS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SOURCE: Cells = [1, 2];

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn taken(unproven: &Unproven, now: Instant) -> usize {
        (0..1_000_000)
            .take_while(|_| unproven.take(SOURCE, now))
            .count()
    }

    #[test]
    fn a_source_has_a_burst_and_then_its_rate() {
        let unproven = Unproven::new(100);
        assert_eq!(taken(&unproven, at(5)), 1000);
        assert_eq!(taken(&unproven, at(5)), 0);
        assert_eq!(taken(&unproven, at(15)), 1);
        assert_eq!(taken(&unproven, at(1_015)), 100);
        assert_eq!(
            taken(&unproven, at(3_600_000)),
            1000,
            "no more than a burst"
        );
        assert!(unproven.take([3, 4], at(3_600_000)));
    }

    #[test]
    fn frequent_refills_lose_no_tokens() {
        let unproven = Unproven::new(100);
        taken(&unproven, at(0));
        let later = (1..=1000).map(at);
        assert_eq!(later.filter(|&now| unproven.take(SOURCE, now)).count(), 100);
    }

    #[test]
    fn a_source_that_was_quiet_for_a_month_has_one_burst() {
        const DAY_MS: u64 = 24 * 3600 * 1000;
        for days in [1, 24, 26, 30, 49, 50, 80] {
            let unproven = Unproven::new(100);
            taken(&unproven, at(5));
            let found = taken(&unproven, at(5 + days * DAY_MS));
            assert_eq!(found, 1000, "{days} days");
        }
    }

    #[test]
    fn a_refill_with_an_earlier_time_adds_no_tokens() {
        let unproven = Unproven::new(100);
        assert_eq!(taken(&unproven, at(5_000)), 1000);
        assert_eq!(taken(&unproven, at(4_000)), 0);
    }

    #[test]
    fn each_proof_adds_more_tokens_than_it_costs_up_to_a_bound() {
        let unproven = Unproven::new(100);
        taken(&unproven, at(5));
        unproven.prove(SOURCE, at(5));
        assert_eq!(taken(&unproven, at(5)), 16);
        (0..100_000).for_each(|_| unproven.prove(SOURCE, at(5)));
        let most = taken(&unproven, at(5));
        assert!((32_000..=64_000).contains(&most), "{most}");
    }

    #[test]
    fn without_a_limit_nothing_is_delayed() {
        let unproven = Unproven::new(0);
        assert_eq!(taken(&unproven, at(5)), 1_000_000);
        unproven.prove(SOURCE, at(5));
    }
}
