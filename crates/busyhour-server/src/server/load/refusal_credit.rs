//! How many new calls may be told that there is too much to do.
//!
//! INVITE, 503 and ACK take a part of what a call takes, so if each call too many were refused,
//! there would be a rate at which nothing else was done any more. A refusal is paid for: each
//! new call that is let in pays for [`PER_CALL`], and each [`PERIOD`] for [`PER_PERIOD`], so
//! that callers hear something also while no call is let in. Beyond that an INVITE stays
//! unanswered, and its caller sends it again.
//!
//! With a refusal that takes the part r of a call, at most 2r / (1 + 2r) of the time of calls is
//! spent on refusals: for r = 0.22 less than a third. bench/README.md has what r is.

use busyhour::clock::Instant;
use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

/// What may be spent on refusals of new calls.
///
/// The fields are independent and publish no other data: threads that ask at the same time may
/// spend one refusal each too much.
#[derive(Debug)]
pub(super) struct RefusalCredit {
    credit: AtomicI64,
    paid_until_ns: AtomicU64,
}

impl RefusalCredit {
    pub(super) fn new() -> Self {
        Self {
            credit: AtomicI64::new(CREDIT_MAX),
            paid_until_ns: AtomicU64::new(0),
        }
    }

    /// A new call is let in.
    pub(super) fn earn(&self) {
        self.add(PER_CALL);
    }

    /// Whether one more call may be refused; then it is paid.
    pub(super) fn spend(&self, now: Instant) -> bool {
        self.pay_for_time(now);
        let affords = self.credit.load(Ordering::Relaxed) > 0;
        if affords {
            self.credit.fetch_sub(1, Ordering::Relaxed);
        }
        affords
    }

    /// Only the thread that ends a period pays for it.
    fn pay_for_time(&self, now: Instant) {
        let (now_ns, paid_until) = (now.as_nanos(), self.paid_until_ns.load(Ordering::Relaxed));
        let periods = now_ns.saturating_sub(paid_until) / PERIOD.as_nanos() as u64;
        if periods == 0 {
            return;
        }
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let swapped = self
            .paid_until_ns
            .compare_exchange(paid_until, now_ns, success, failure);
        if swapped.is_ok() {
            let periods = i64::try_from(periods).unwrap_or(i64::MAX);
            self.add(periods.saturating_mul(PER_PERIOD).min(CREDIT_MAX));
        }
    }

    fn add(&self, amount: i64) {
        let room = CREDIT_MAX - self.credit.load(Ordering::Relaxed);
        if room > 0 {
            self.credit.fetch_add(amount.min(room), Ordering::Relaxed);
        }
    }
}

const PER_CALL: i64 = 2;
const PERIOD: Duration = Duration::from_millis(10);
const PER_PERIOD: i64 = 1;
/// What a peak may take at once.
const CREDIT_MAX: i64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// How many of so many calls are refused at this moment.
    fn spent(credit: &RefusalCredit, ms: u64, asked: usize) -> usize {
        (0..asked).filter(|_| credit.spend(at(ms))).count()
    }

    #[test]
    fn a_peak_is_refused_whole_and_then_two_for_each_call_that_is_let_in() {
        let credit = RefusalCredit::new();
        assert_eq!(spent(&credit, 1, 5_000), 1_000);
        assert_eq!(spent(&credit, 1, 100), 0);
        (0..30).for_each(|_| credit.earn());
        assert_eq!(spent(&credit, 1, 100), 60);
    }

    #[test]
    fn while_no_call_is_let_in_a_hundred_in_a_second_are_refused() {
        let credit = RefusalCredit::new();
        spent(&credit, 1, 5_000);
        let refused: usize = (1..=1_000).map(|ms| spent(&credit, 1 + ms, 10)).sum();
        assert_eq!(refused, 100);
    }

    #[test]
    fn nothing_is_saved_beyond_a_peak() {
        let credit = RefusalCredit::new();
        (0..5_000).for_each(|_| credit.earn());
        assert_eq!(spent(&credit, 3_600_000, 5_000), 1_000);
        assert_eq!(spent(&credit, 7_200_000, 5_000), 1_000);
    }

    #[test]
    fn threads_that_ask_at_once_spend_at_most_one_each_too_much() {
        let credit = RefusalCredit::new();
        let ask = || spent(&credit, 1, 5_000);
        let all: usize = std::thread::scope(|scope| {
            let threads = [scope.spawn(ask), scope.spawn(ask)];
            threads.map(|it| it.join().expect("no panic")).iter().sum()
        });
        assert!((1_000..=1_001).contains(&all), "{all}");
    }
}
