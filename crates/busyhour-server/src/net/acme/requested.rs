//! How many orders may be asked for: pure, so that it can be tested without waiting.

use std::time::Duration;

/// When somebody asked for an order, the oldest first, in seconds since 1970.
///
/// Authorities give an account a few certificates for the same names a week (Let's Encrypt: five,
/// and five failed attempts an hour). Whoever may ask for orders must not be able to use these up,
/// so that none is left when the certificate has to be renewed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RequestedOrders(Vec<u64>);

impl RequestedOrders {
    /// Reads what [`text`](Self::text) has written; lines that are no number are left out.
    pub(super) fn of_text(text: &str) -> Self {
        let times = text.lines().filter_map(|line| line.parse().ok());
        let mut times: Vec<u64> = times.take(ORDERS_MAX).collect();
        times.sort_unstable();
        Self(times)
    }

    /// One number a line.
    pub(super) fn text(&self) -> String {
        self.0.iter().map(|time| format!("{time}\n")).collect()
    }

    /// Notes one more.
    ///
    /// # Errors
    ///
    /// How long until one more is allowed; nothing is noted.
    pub(super) fn take(&mut self, now: u64) -> Result<(), Duration> {
        // A clock that was set back must not lock out for longer than the window.
        self.0.retain(|time| time.abs_diff(now) < WINDOW.as_secs());
        if let (true, Some(first)) = (self.0.len() >= ORDERS_MAX, self.0.first()) {
            let again = first.saturating_add(WINDOW.as_secs());
            return Err(Duration::from_secs(again.saturating_sub(now)));
        }
        self.0.push(now);
        self.0.sort_unstable();
        Ok(())
    }
}

/// At most four a week, which leaves one of five for the renewal.
const ORDERS_MAX: usize = 2;
const WINDOW: Duration = Duration::from_secs(96 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_allowed_in_four_days_whoever_asks_how_often() {
        let mut requested = RequestedOrders::default();
        let mut week = 0;
        let hour = 3600;
        for now in 0..7 * 24 {
            week += usize::from(requested.take(1_000_000 + now * hour).is_ok());
        }
        assert_eq!(week, 4);
        let mut requested = RequestedOrders::default();
        assert_eq!(requested.take(100), Ok(()));
        assert_eq!(requested.take(200), Ok(()));
        let left = Duration::from_secs(96 * 3600 - 200);
        assert_eq!(requested.take(300), Err(left));
        let mut kept = RequestedOrders::of_text(&requested.text());
        assert_eq!(kept, requested, "a restart forgives nothing");
        assert_eq!(kept.take(100 + 96 * hour), Ok(()));
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out_for_long() {
        let mut requested = RequestedOrders::of_text("9000000\nx\n9000001\n");
        assert_eq!(requested.take(1_000), Ok(()));
        assert_eq!(requested.text(), "1000\n");
    }
}
