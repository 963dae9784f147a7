//! When a batch that was not taken is sent again. Pure.

use crate::server::{HttpAnswer, HttpFailure};
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

/// The delays between attempts: twice as long after each failure, up to five minutes, and between
/// half of that and all of it, so that receivers of many servers are not asked by all at once.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    /// Of splitmix64.
    random: u64,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            failures: 0,
            random: seed,
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
        let doublings = self.failures.min(DOUBLINGS_MAX);
        self.failures = self.failures.saturating_add(1);
        let longest = (DELAY_MIN * (1 << doublings)).min(DELAY_MAX);
        let half = longest / 2;
        let part = (self.random() >> 32) as u32;
        let jittered = half + half.mul_f64(f64::from(part) / f64::from(u32::MAX));
        jittered.max(at_least.unwrap_or_default())
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
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
const DOUBLINGS_MAX: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::{HeaderMap, body::Bytes};

    #[test]
    fn delays_double_up_to_five_minutes_and_differ() {
        let mut backoff = Backoff::new(7);
        let mut longest = Duration::from_secs(1);
        let mut delays = Vec::new();
        for _ in 0..20 {
            let delay = backoff.next(None);
            assert!(longest / 2 <= delay && delay <= longest, "{delay:?}");
            delays.push(delay.as_nanos() * 1000 / longest.as_nanos());
            longest = (2 * longest).min(DELAY_MAX);
        }
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 15, "{delays:?}");
        assert_eq!(backoff.next(Some(Duration::from_secs(400))).as_secs(), 400);
        backoff.reset();
        assert!(backoff.next(None) <= DELAY_MIN);
        let [mut one, mut same] = [Backoff::new(9), Backoff::new(9)];
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
