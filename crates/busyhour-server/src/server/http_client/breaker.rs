//! Whether a URL is asked at all. Pure.

use busyhour::clock::Instant;
use std::{collections::HashMap, time::Duration};

/// The breakers of all URLs that have failed.
#[derive(Debug, Default)]
pub(in crate::server) struct Breakers(HashMap<String, Breaker>);

/// Opens after five failures one after the other, whoever had them; from then on one attempt in a
/// while goes through, until one succeeds.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Breaker {
    failures: u32,
    /// Before this time nobody asks.
    closed_at: Instant,
    /// The time between two attempts.
    rest: Duration,
}

impl Breaker {
    pub(in crate::server) fn new(rest: Duration) -> Self {
        Self {
            failures: 0,
            closed_at: Instant::ZERO,
            rest,
        }
    }

    /// Whether to ask now; otherwise when to try again. Who is let through an open breaker is
    /// alone until that time.
    pub(in crate::server) fn may_ask(&mut self, now: Instant) -> Result<(), Instant> {
        if !self.is_open() {
            return Ok(());
        }
        if now < self.closed_at {
            return Err(self.closed_at);
        }
        self.closed_at = now + self.rest;
        Ok(())
    }

    /// What came of asking.
    pub(in crate::server) fn report(&mut self, is_answered: bool, now: Instant) {
        if is_answered {
            self.failures = 0;
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.is_open() {
            self.closed_at = now + self.rest;
        }
    }

    pub(in crate::server) fn is_open(&self) -> bool {
        self.failures >= FAILURES_MAX
    }
}

impl Breakers {
    /// Whether to ask this URL now; see [`Breaker::may_ask`].
    pub(in crate::server) fn may_ask(&mut self, url: &str, now: Instant) -> Result<(), Instant> {
        match self.0.get_mut(url) {
            Some(breaker) => breaker.may_ask(now),
            None => Ok(()),
        }
    }

    pub(in crate::server) fn report(&mut self, url: &str, is_answered: bool, now: Instant) {
        if is_answered {
            self.0.remove(url);
            return;
        }
        let breaker = self.0.entry(url.to_owned());
        let breaker = breaker.or_insert_with(|| Breaker::new(REST));
        breaker.report(false, now);
    }

    /// Nobody asks this URL any more.
    pub(in crate::server) fn forget(&mut self, url: &str) {
        self.0.remove(url);
    }

    pub(in crate::server) fn open_count(&self) -> usize {
        self.0.values().filter(|breaker| breaker.is_open()).count()
    }
}

const FAILURES_MAX: u32 = 5;
const REST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_open_it_and_one_success_closes_it() {
        let (mut breakers, mut now) = (Breakers::default(), Instant::ZERO);
        for failures in 0..5 {
            assert_eq!(breakers.may_ask("a", now), Ok(()), "{failures}");
            breakers.report("a", false, now);
        }
        assert_eq!(breakers.may_ask("a", now), Err(now + REST));
        assert_eq!(
            breakers.may_ask("b", now),
            Ok(()),
            "others are not concerned"
        );
        assert_eq!(breakers.open_count(), 1);
        for _ in 0..3 {
            now = now + REST;
            assert_eq!(breakers.may_ask("a", now), Ok(()));
            assert_eq!(breakers.may_ask("a", now), Err(now + REST), "one at a time");
            breakers.report("a", false, now);
        }
        now = now + REST;
        breakers.report("a", true, now);
        assert_eq!(breakers.may_ask("a", now), Ok(()));
        assert_eq!(breakers.open_count(), 0);
    }
}
