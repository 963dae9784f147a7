//! Whether a URL is asked at all. Pure.

use busyhour::clock::Instant;
use std::{collections::HashMap, time::Duration};

/// The breakers of all URLs that have failed.
#[derive(Debug, Default)]
pub(super) struct Breakers(HashMap<String, Breaker>);

/// Opens after five failures one after the other, whichever webhook had them; from then on one
/// attempt in 30 seconds goes through, until one succeeds.
#[derive(Debug, Clone, Copy)]
struct Breaker {
    failures: u32,
    /// Before this time nobody asks.
    closed_at: Instant,
}

impl Breakers {
    /// Whether to ask this URL now; otherwise when to try again. Who is let through an open
    /// breaker is alone until that time.
    pub(super) fn may_ask(&mut self, url: &str, now: Instant) -> Result<(), Instant> {
        let Some(breaker) = self.0.get_mut(url) else {
            return Ok(());
        };
        if breaker.failures < FAILURES_MAX {
            return Ok(());
        }
        if now < breaker.closed_at {
            return Err(breaker.closed_at);
        }
        breaker.closed_at = now + REST;
        Ok(())
    }

    pub(super) fn report(&mut self, url: &str, is_answered: bool, now: Instant) {
        if is_answered {
            self.0.remove(url);
            return;
        }
        let breaker = self.0.entry(url.to_owned()).or_insert(Breaker {
            failures: 0,
            closed_at: now,
        });
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.failures >= FAILURES_MAX {
            breaker.closed_at = now + REST;
        }
    }

    /// Nobody asks this URL any more.
    pub(super) fn forget(&mut self, url: &str) {
        self.0.remove(url);
    }

    pub(super) fn open_count(&self) -> usize {
        let breakers = self.0.values();
        breakers
            .filter(|breaker| breaker.failures >= FAILURES_MAX)
            .count()
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
