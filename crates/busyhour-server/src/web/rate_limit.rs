//! How many requests a token, or a source without one, may send in a second.

use axum::http::{HeaderName, header};
use busyhour_sip::source_of;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Requester {
    /// A token, by its name.
    Token(String),
    /// A source without a known token.
    Source(IpAddr),
}

/// A token bucket for each requester: as many requests at once as in a second.
pub(super) struct RateLimit {
    per_second: AtomicU32,
    buckets: Mutex<Buckets>,
}

#[derive(Default)]
struct Buckets {
    /// As many as there are tokens.
    tokens: HashMap<String, RateBucket, RandomState>,
    /// Clients choose their addresses, so there is a bound.
    sources: HashMap<IpAddr, RateBucket, RandomState>,
    /// Of the sources that found no place.
    others: Option<RateBucket>,
}

#[derive(Debug, Clone, Copy)]
struct RateBucket {
    left: f64,
    at: Instant,
}

impl RateLimit {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second: AtomicU32::new(per_second),
            buckets: Mutex::default(),
        }
    }

    /// From now on a requester has so many requests in a second.
    pub(super) fn set(&self, per_second: u32) {
        self.per_second.store(per_second, Ordering::Relaxed);
    }

    /// Takes one request.
    ///
    /// # Errors
    ///
    /// Until when the requester has to wait.
    pub(super) fn take(&self, requester: Requester, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let per_second = self.per_second.load(Ordering::Relaxed).into();
        let full = RateBucket {
            left: per_second,
            at: now,
        };
        let bucket = match requester {
            Requester::Token(name) => buckets.tokens.entry(name).or_insert(full),
            Requester::Source(address) => buckets.of_source(source_of(address), full),
        };
        bucket.take(per_second, now)
    }
}

/// The header for who has to wait: whole seconds, no fewer than that, and at least one (RFC 9110 §10.2.3).
pub(super) fn retry_after(wait: Duration) -> (HeaderName, String) {
    let seconds = wait.as_nanos().div_ceil(NANOS).max(1);
    (header::RETRY_AFTER, seconds.to_string())
}

impl Buckets {
    fn of_source(&mut self, source: IpAddr, full: RateBucket) -> &mut RateBucket {
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(&source) {
            // After a second without a request a bucket is full again.
            self.sources
                .retain(|_, bucket| full.at - bucket.at < REFILL);
            if self.sources.len() >= SOURCES_MAX {
                return self.others.get_or_insert(full);
            }
        }
        self.sources.entry(source).or_insert(full)
    }
}

impl RateBucket {
    fn take(&mut self, per_second: f64, now: Instant) -> Result<(), Duration> {
        let gone = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + gone * per_second).min(per_second);
        self.at = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / per_second));
        }
        self.left -= 1.0;
        Ok(())
    }
}

const SOURCES_MAX: usize = 8192;
const REFILL: Duration = Duration::from_secs(1);
const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_requester_has_its_own_rate() {
        let limit = RateLimit::new(2);
        let begun = Instant::now();
        let token = || Requester::Token("shop".into());
        let source = |last| Requester::Source([192, 0, 2, last].into());
        for _ in 0..2 {
            assert_eq!(limit.take(token(), begun), Ok(()));
            assert_eq!(limit.take(source(1), begun), Ok(()));
        }
        assert_eq!(limit.take(token(), begun), Err(Duration::from_millis(500)));
        assert!(limit.take(source(1), begun).is_err());
        assert_eq!(limit.take(source(2), begun), Ok(()));
        let later = begun + Duration::from_millis(500);
        assert_eq!(limit.take(token(), later), Ok(()));
        assert!(limit.take(token(), later).is_err());
    }

    #[test]
    fn nobody_is_told_to_come_too_early_or_a_second_late() {
        let told = |ms| retry_after(Duration::from_millis(ms)).1;
        assert_eq!(
            [told(0), told(1), told(1000), told(1001)],
            ["1", "1", "1", "2"]
        );
    }

    #[test]
    fn a_network_is_one_source_and_there_are_so_many_at_most() {
        let limit = RateLimit::new(1);
        let now = Instant::now();
        let of = |number: u128| Requester::Source(std::net::Ipv6Addr::from(number).into());
        assert_eq!(limit.take(of(1), now), Ok(()));
        assert!(
            limit.take(of(2), now).is_err(),
            "the same network of 64 bits"
        );
        for number in 1..SOURCES_MAX as u128 {
            assert_eq!(limit.take(of(number << 64), now), Ok(()));
        }
        assert_eq!(limit.take(of(1 << 100), now), Ok(()));
        assert!(
            limit.take(of(1 << 101), now).is_err(),
            "the others share a bucket"
        );
        let later = now + REFILL;
        assert_eq!(limit.take(of(1 << 101), later), Ok(()));
    }
}
