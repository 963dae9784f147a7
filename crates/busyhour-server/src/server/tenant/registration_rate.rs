//! How many registrations a domain may make: so many in a second, and ten times as many at
//! once.

use busyhour::clock::Instant;
use std::sync::{Mutex, PoisonError};

/// A bucket of registrations. Its lock is taken by the registrations of one domain that has
/// such a bound, for a few instructions.
#[derive(Debug, Default)]
pub(in crate::server) struct RegistrationRate(Mutex<Bucket>);

#[derive(Debug, Default)]
struct Bucket {
    /// Thousandths of registrations that were made and not yet forgiven.
    filled_milli: u64,
    at: Option<Instant>,
}

impl RegistrationRate {
    /// Whether one more registration may be made now.
    pub(in crate::server) fn take(&self, per_second: u64, now: Instant) -> bool {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = bucket.at.map_or(0, |at| millis(now, at));
        if passed > 0 || bucket.at.is_none() {
            bucket.at = Some(now);
        }
        let forgiven = passed.saturating_mul(per_second);
        bucket.filled_milli = bucket.filled_milli.saturating_sub(forgiven);
        let has_room = bucket.filled_milli + ONE <= per_second.saturating_mul(BURST_S * ONE);
        if has_room {
            bucket.filled_milli += ONE;
        }
        has_room
    }
}

fn millis(now: Instant, at: Instant) -> u64 {
    match now > at {
        true => u64::try_from((now - at).as_millis()).unwrap_or(u64::MAX),
        false => 0,
    }
}

const ONE: u64 = 1000;
const BURST_S: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let rate = RegistrationRate::default();
        let begin = Instant::default();
        let taken = |at: Instant| (0..100).filter(|_| rate.take(2, at)).count();
        assert_eq!(taken(begin), 20);
        assert_eq!(taken(begin + Duration::from_millis(1500)), 3);
        assert_eq!(taken(begin + Duration::from_secs(3600)), 20);
        assert!(
            !rate.take(0, begin + Duration::from_secs(9999)),
            "none at all"
        );
    }
}
