//! When to order: pure, so that it can be tested without waiting.

use std::time::Duration;

/// When something is tried again.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    failures: u32,
}

/// Why an order has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderErrorKind {
    /// The authority cannot be reached, or has a fault of its own.
    Unreachable,
    /// It did not find what it looked for. Authorities count these: the usual bound is five in
    /// an hour for a name.
    Refused,
    /// There were too many orders.
    RateLimited,
}

impl Renewal {
    /// How long to wait until a certificate is renewed, `now` and its times in seconds since
    /// 1970; `chance` is below 1. The first half of the last third is for that.
    pub(super) fn due_in(not_before: i64, not_after: i64, now: i64, chance: f64) -> Duration {
        let life = (not_after - not_before).max(0) as f64;
        let due = not_before as f64 + life * (2.0 / 3.0 + chance / 6.0);
        Duration::from_secs_f64((due - now as f64).max(0.0))
    }

    /// How long to rest after a failure.
    pub(super) fn rest(&mut self, failure: OrderErrorKind, chance: f64) -> Duration {
        let first = match failure {
            OrderErrorKind::Unreachable => MINUTE,
            OrderErrorKind::Refused => 15 * MINUTE,
            OrderErrorKind::RateLimited => 180 * MINUTE,
        };
        let doubled = first * 2u32.pow(self.failures.min(DOUBLED_MAX));
        self.failures += 1;
        let rest = doubled.min(REST_MAX).max(first);
        rest.mul_f64(0.75 + chance / 2.0)
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(12 * 3600);
const DOUBLED_MAX: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    #[test]
    fn a_certificate_is_renewed_in_its_last_third_and_at_once_when_it_is_late() {
        let due = |now, chance| Renewal::due_in(0, 90 * DAY, now, chance).as_secs() as i64;
        assert_eq!(due(0, 0.0), 60 * DAY);
        assert_eq!(due(0, 0.999), 74 * DAY + 23 * 3600 + 38 * 60 + 24);
        assert_eq!(due(59 * DAY, 0.0), DAY);
        assert_eq!(due(80 * DAY, 0.5), 0);
        assert_eq!(due(100 * DAY, 0.5), 0);
    }

    #[test]
    fn rests_grow_and_are_longer_where_the_authority_counts() {
        let minutes = |failure, count: u32| {
            let mut renewal = Renewal::default();
            let rests = (0..count).map(|_| renewal.rest(failure, 0.5).as_secs() / 60);
            rests.collect::<Vec<_>>()
        };
        assert_eq!(minutes(OrderErrorKind::Unreachable, 5), [1, 2, 4, 8, 16]);
        assert_eq!(minutes(OrderErrorKind::Unreachable, 20)[19], 720);
        assert_eq!(minutes(OrderErrorKind::Refused, 3), [15, 30, 60]);
        assert_eq!(
            minutes(OrderErrorKind::RateLimited, 4),
            [180, 360, 720, 720]
        );
        let mut renewal = Renewal::default();
        renewal.rest(OrderErrorKind::Unreachable, 0.0);
        renewal.succeeded();
        assert_eq!(renewal.rest(OrderErrorKind::Unreachable, 0.0).as_secs(), 45);
    }
}
