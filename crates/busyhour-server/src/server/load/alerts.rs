//! Log lines about limits that are reached: at once, and then at most at intervals.

use busyhour::clock::Instant;
use std::time::Duration;

/// Watches counters of refusals, by their place in a list.
#[derive(Debug, Default)]
pub(in crate::server) struct Alerts(Vec<Watched>);

#[derive(Debug, Default, Clone, Copy)]
struct Watched {
    /// What was last said.
    said: u64,
    said_at: Option<Instant>,
}

impl Alerts {
    /// The counters that grew and should be logged now, with their growth since they
    /// were last logged. The list must always be the same one.
    pub(in crate::server) fn look(
        &mut self,
        counters: &[(&'static str, u64)],
        now: Instant,
    ) -> Vec<(&'static str, u64)> {
        self.0.resize(counters.len(), Watched::default());
        let mut news = Vec::new();
        for (watched, &(name, count)) in self.0.iter_mut().zip(counters) {
            let is_due = watched.said_at.is_none_or(|said_at| now >= said_at + QUIET);
            if count > watched.said && is_due {
                news.push((name, count - watched.said));
                *watched = Watched {
                    said: count,
                    said_at: Some(now),
                };
            }
        }
        news
    }
}

/// Between two lines about the same limit.
const QUIET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_alert_is_logged_once_a_minute_with_its_count() {
        let mut alerts = Alerts::default();
        let mut look = |second: u64, a: u64, b: u64| {
            alerts.look(
                &[("a", a), ("b", b)],
                Instant::ZERO + Duration::from_secs(second),
            )
        };
        assert_eq!(look(1, 0, 0), []);
        assert_eq!(look(2, 3, 0), [("a", 3)]);
        assert_eq!(look(3, 9, 1), [("b", 1)]);
        assert_eq!(look(62, 10, 1), [("a", 7)]);
        assert_eq!(look(200, 10, 1), []);
    }
}
