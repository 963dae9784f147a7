//! The sources and accounts that are refused most often because they have used their
//! share, or that are not answered since they have proved nothing: for the operator, who has to distinguish an attacker from a proxy whose share
//! is too small.
//!
//! The few with the highest counts are kept, by the Space-Saving algorithm (Metwally,
//! Agrawal and El Abbadi, 2005): a new one takes the place of the lowest, and continues
//! its count. So one that is refused often is never missed, and a count may be too high
//! by that of the lowest.

use crate::server::stats::registration_log::shortened;
use busyhour::clock::Instant;
use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Sources and accounts that were refused for a share.
#[derive(Debug, Default)]
pub(in crate::server) struct HeavyHitters(Mutex<Vec<Hitter>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hitter {
    source: IpAddr,
    account: String,
    refused: u64,
    /// The count that was logged last, and when this place of the table was logged
    /// last.
    said: u64,
    said_at: Option<Instant>,
}

impl HeavyHitters {
    /// As [`note`](Self::note), unless another thread is here now: who floods is noted soon
    /// enough, and others must not wait for the lock.
    pub(in crate::server) fn try_note(&self, source: IpAddr) {
        if self.0.try_lock().is_ok() {
            self.note(source, "");
        }
    }

    /// One request more was refused.
    pub(in crate::server) fn note(&self, source: IpAddr, account: &str) {
        let account = shortened(account);
        let mut hitters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |one: &&mut Hitter| one.source == source && one.account == account;
        if let Some(known) = hitters.iter_mut().find(is_it) {
            known.refused += 1;
            return;
        }
        if hitters.len() < COUNT_MAX {
            return hitters.push(Hitter {
                source,
                account: account.to_owned(),
                refused: 1,
                said: 0,
                said_at: None,
            });
        }
        if let Some(least) = hitters.iter_mut().min_by_key(|one| one.refused) {
            // The place keeps its wait: otherwise a place that changes all the time
            // would be logged every second.
            least.said = least.refused;
            least.refused += 1;
            least.source = source;
            // Reuses the memory of the other, since all refused requests wait for this
            // lock.
            least.account.clear();
            least.account.push_str(account);
        }
    }

    /// Logs who was refused for a share: each at once and then once a minute; one that
    /// took the place of another waits for the rest of that minute.
    pub(in crate::server) fn log(&self, now: Instant) {
        for (source, account, refused) in self.news(now) {
            // The account comes last and escaped: the client chooses it.
            tracing::warn!(%source, refused, ?account, "a share was reached");
        }
    }

    /// The same for those that were not answered.
    pub(in crate::server) fn log_unproven(&self, now: Instant) {
        for (source, _, not_answered) in self.news(now) {
            tracing::warn!(%source, not_answered, "limits.unproven_per_second was reached: requests without right credentials are not answered");
        }
    }

    /// Those to log now, and how often they were refused since they were logged last.
    fn news(&self, now: Instant) -> Vec<(IpAddr, String, u64)> {
        let mut hitters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |one: &&mut Hitter| {
            one.refused > one.said && one.said_at.is_none_or(|said_at| now >= said_at + QUIET)
        };
        let due = hitters.iter_mut().filter(is_due);
        due.map(|one| {
            let refused = one.refused - one.said;
            (one.said, one.said_at) = (one.refused, Some(now));
            (one.source, one.account.clone(), refused)
        })
        .collect()
    }
}

/// As many as one looks through in a moment.
const COUNT_MAX: usize = 16;
/// The time between two lines about the same one, or about two that had the same place.
const QUIET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_refused_often_is_named_however_many_others_are() {
        let hitters = HeavyHitters::default();
        for number in 0..100 {
            hitters.note([192, 0, 2, number].into(), "");
            hitters.note([198, 51, 100, 1].into(), "alice");
        }
        let news = hitters.news(Instant::ZERO);
        assert_eq!(news.len(), COUNT_MAX);
        let worst = news.iter().max_by_key(|(_, _, refused)| refused);
        let (source, account, refused) = worst.expect("some");
        assert_eq!(
            (*source, account.as_str()),
            ([198, 51, 100, 1].into(), "alice")
        );
        assert!(*refused >= 100);
        assert_eq!(hitters.news(Instant::ZERO), [], "once a minute");
        hitters.note([198, 51, 100, 1].into(), "alice");
        assert_eq!(hitters.news(Instant::ZERO + QUIET).len(), 1);
    }

    #[test]
    fn changing_sources_cause_no_more_log_lines() {
        let hitters = HeavyHitters::default();
        let mut lines = 0;
        for second in 0..60 {
            for number in 0..100 {
                hitters.note([192, 0, second, number].into(), "");
            }
            lines += hitters
                .news(Instant::ZERO + Duration::from_secs(second.into()))
                .len();
        }
        assert_eq!(lines, COUNT_MAX);
        assert_eq!(hitters.news(Instant::ZERO + QUIET).len(), COUNT_MAX);
    }

    #[test]
    fn a_log_line_is_bounded_for_any_account_name() {
        let hitters = HeavyHitters::default();
        let long = "x".repeat(60_000);
        for number in 0..20 {
            hitters.note([192, 0, 2, number].into(), &long);
        }
        let news = hitters.news(Instant::ZERO);
        assert!(news.iter().all(|(_, account, _)| account.len() == 128));
    }
}
