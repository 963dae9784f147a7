//! When a batch that was not taken is sent again. Pure.

use crate::server::{HttpAnswer, HttpFailure};
use busyhour::timer::Backoff;
use hyper::StatusCode;
use std::time::Duration;

/// What an attempt has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The receiver has it.
    Taken,
    /// Later it may be taken; not before this time, if the receiver says so.
    Again(Option<Duration>),
    /// The receiver works, and does not like this batch.
    Disliked,
    /// The receiver wants nothing more (410).
    Gone,
}

impl Verdict {
    pub(super) fn of(outcome: &Result<HttpAnswer, HttpFailure>) -> Self {
        let Ok(answer) = outcome else {
            return Self::Again(None);
        };
        match answer.status {
            StatusCode::GONE => Self::Gone,
            status if status.is_success() => Self::Taken,
            status if status.is_client_error() && !PASSING.contains(&status) => Self::Disliked,
            _ => Self::Again(retry_after(answer)),
        }
    }
}

fn retry_after(answer: &HttpAnswer) -> Option<Duration> {
    let seconds = answer.headers.get("retry-after")?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?).min(DELAY_MAX))
}

/// The attempts to deliver a batch: the delay is twice as long after each failure, up to five minutes, and between half of
/// that and all of it, so that receivers of many servers are not asked by all at once.
#[derive(Debug)]
pub(super) struct BatchAttempts {
    failures: u32,
    backoff: Backoff,
}

impl BatchAttempts {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            failures: 0,
            backoff: Backoff::new(DELAY_MIN).longest(DELAY_MAX).jitter(seed),
        }
    }

    /// The next batch begins anew.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// One attempt has failed: the time until the next one.
    pub(super) fn next(&mut self, at_least: Option<Duration>) -> Duration {
        // It has no end.
        let delay = self.backoff.delays().nth(self.failures as usize);
        self.failures = self.failures.saturating_add(1);
        delay.unwrap_or(DELAY_MAX).max(at_least.unwrap_or_default())
    }
}

/// Mistakes of clients that are none of the batch: they pass, or the operator mends them.
const PASSING: [StatusCode; 6] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
];
const DELAY_MIN: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::{HeaderMap, body::Bytes};

    #[test]
    fn delays_double_up_to_five_minutes_and_differ() {
        let mut attempts = BatchAttempts::new(7);
        let mut longest = Duration::from_secs(1);
        let mut delays = Vec::new();
        for _ in 0..20 {
            let delay = attempts.next(None);
            assert!(longest / 2 <= delay && delay <= longest, "{delay:?}");
            delays.push(delay.as_nanos() * 1000 / longest.as_nanos());
            longest = (2 * longest).min(DELAY_MAX);
        }
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 15, "{delays:?}");
        assert_eq!(attempts.next(Some(Duration::from_secs(400))).as_secs(), 400);
        attempts.reset();
        assert!(attempts.next(None) <= DELAY_MIN);
        let [mut one, mut same] = [BatchAttempts::new(9), BatchAttempts::new(9)];
        assert_eq!(one.next(None), same.next(None), "the seed decides");
    }

    #[test]
    fn what_a_receiver_answers_decides_whether_it_is_asked_again() {
        let answered = |status: u16, retry_after: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(after) = retry_after {
                headers.insert("retry-after", after.parse().unwrap());
            }
            Verdict::of(&Ok(HttpAnswer {
                status: StatusCode::from_u16(status).unwrap(),
                headers,
                body: Bytes::new(),
            }))
        };
        for (status, verdict) in [
            (200, Verdict::Taken),
            (204, Verdict::Taken),
            (302, Verdict::Again(None)),
            (400, Verdict::Disliked),
            (404, Verdict::Again(None)),
            (410, Verdict::Gone),
            (413, Verdict::Disliked),
            (500, Verdict::Again(None)),
        ] {
            assert_eq!(answered(status, None), verdict, "{status}");
        }
        let after = |seconds| Verdict::Again(Some(Duration::from_secs(seconds)));
        assert_eq!(answered(429, Some("7")), after(7));
        assert_eq!(answered(503, Some("100000")), after(300));
        assert_eq!(answered(503, Some("soon")), Verdict::Again(None));
        assert_eq!(Verdict::of(&Err(HttpFailure::Late)), Verdict::Again(None));
    }
}
