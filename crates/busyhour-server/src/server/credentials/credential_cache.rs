//! What the service has said of names, for as long as it counts. Pure.

use super::aged_map::AgedMap;
use busyhour::clock::Instant;
use busyhour_sip::auth::Secret;
use foldhash::quality::FixedState;
use std::time::Duration;

/// One shard of the cache.
#[derive(Debug)]
pub(super) struct CredentialCache {
    found: AgedMap<FoundAccount>,
    /// Until when there is no such account.
    missing: AgedMap<Instant>,
    /// Until when the service is not asked again.
    failed: AgedMap<Instant>,
    times: CacheTimes,
}

/// For how long what was said counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheTimes {
    pub(super) found: Duration,
    pub(super) missing: Duration,
    /// Besides, for an account when the service cannot be asked.
    pub(super) stale: Duration,
}

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CacheLook {
    Found(Secret),
    Missing,
    /// The service could not be asked; until then it is not asked again.
    Failed(Instant),
    Unknown,
}

#[derive(Debug)]
struct FoundAccount {
    secret: Secret,
    fresh_until: Instant,
    stale_until: Instant,
}

impl CredentialCache {
    /// With room for so many accounts, and for as many names without one.
    pub(super) fn new(
        (found_max, missing_max): (usize, usize),
        hasher: &FixedState,
        times: CacheTimes,
    ) -> Self {
        Self {
            found: AgedMap::new(found_max, hasher),
            missing: AgedMap::new(missing_max, hasher),
            failed: AgedMap::new(missing_max, hasher),
            times,
        }
    }

    pub(super) fn look(&mut self, name: &str, now: Instant) -> CacheLook {
        if let Some(account) = self.found.get(name)
            && now < account.fresh_until
        {
            return CacheLook::Found(account.secret.clone());
        }
        match (self.missing.get(name), self.failed.get(name)) {
            (Some(until), _) if now < *until => CacheLook::Missing,
            (_, Some(until)) if now < *until => CacheLook::Failed(*until),
            _ => CacheLook::Unknown,
        }
    }

    pub(super) fn keep_found(&mut self, name: &str, secret: Secret, now: Instant) {
        let fresh_until = now + self.times.found;
        let account = FoundAccount {
            secret,
            fresh_until,
            stale_until: fresh_until + self.times.stale,
        };
        self.found.put(name, account);
        self.missing.remove(name);
        self.failed.remove(name);
    }

    /// Whether it was an account before, as far as is remembered.
    pub(super) fn keep_missing(&mut self, name: &str, now: Instant) -> bool {
        let was_found = self.forget(name);
        self.missing.put(name, now + self.times.missing);
        was_found
    }

    /// From now on nothing is known of a name. Whether it was an account.
    pub(super) fn forget(&mut self, name: &str) -> bool {
        self.failed.remove(name);
        self.missing.remove(name);
        self.found.remove(name).is_some()
    }

    /// The service cannot be asked: what it said last counts for a little longer, if it said
    /// something not too long ago. Otherwise nothing is known.
    pub(super) fn use_stale(&mut self, name: &str, now: Instant) -> Option<Secret> {
        let account = self.found.get(name)?;
        if now >= account.stale_until {
            return None;
        }
        account.fresh_until = (now + STALE_STEP).min(account.stale_until);
        Some(account.secret.clone())
    }

    pub(super) fn keep_failed(&mut self, name: &str, until: Instant) {
        self.failed.put(name, until);
    }

    pub(super) fn found_count(&self) -> usize {
        self.found.len()
    }

    pub(super) fn missing_count(&self) -> usize {
        self.missing.len()
    }
}

/// After this time the service is tried again for an account that is used meanwhile.
const STALE_STEP: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn cache() -> CredentialCache {
        let times = CacheTimes {
            found: Duration::from_secs(100),
            missing: Duration::from_secs(10),
            stale: Duration::from_secs(1000),
        };
        CredentialCache::new((8, 8), &FixedState::with_seed(1), times)
    }

    #[test]
    fn what_was_said_counts_for_its_time() {
        let mut cache = cache();
        let secret = Secret::hashes_of("alice", "example.com", "one");
        assert_eq!(cache.look("alice", at(1)), CacheLook::Unknown);
        cache.keep_found("alice", secret.clone(), at(1));
        let found = || CacheLook::Found(secret.clone());
        assert_eq!(cache.look("alice", at(100)), found());
        assert_eq!(cache.look("alice", at(101)), CacheLook::Unknown);
        cache.keep_missing("alice", at(101));
        assert_eq!(cache.look("alice", at(110)), CacheLook::Missing);
        assert_eq!(cache.use_stale("alice", at(110)), None, "it is gone");
        assert_eq!(cache.look("alice", at(111)), CacheLook::Unknown);
        cache.keep_found("alice", secret.clone(), at(105));
        assert_eq!(cache.look("alice", at(106)), found(), "it is back");
    }

    #[test]
    fn whether_a_name_was_an_account_is_said_once() {
        let mut cache = cache();
        let secret = Secret::hashes_of("alice", "example.com", "one");
        assert!(!cache.keep_missing("alice", at(0)), "nobody knew it");
        cache.keep_found("alice", secret.clone(), at(0));
        assert!(cache.keep_missing("alice", at(500)), "it was aged");
        assert!(!cache.keep_missing("alice", at(500)));
        assert!(!cache.forget("alice"));
        assert_eq!(cache.look("alice", at(500)), CacheLook::Unknown);
        cache.keep_found("alice", secret, at(501));
        assert!(cache.forget("alice"));
        assert_eq!(cache.use_stale("alice", at(501)), None);
    }

    #[test]
    fn an_account_outlives_a_service_that_fails() {
        let mut cache = cache();
        let secret = Secret::hashes_of("alice", "example.com", "one");
        cache.keep_found("alice", secret.clone(), at(0));
        assert_eq!(cache.use_stale("alice", at(500)), Some(secret.clone()));
        assert_eq!(cache.look("alice", at(504)), CacheLook::Found(secret));
        assert_eq!(cache.look("alice", at(505)), CacheLook::Unknown);
        assert_eq!(cache.use_stale("alice", at(1100)), None);
        cache.keep_failed("bob", at(2));
        assert_eq!(cache.look("bob", at(1)), CacheLook::Failed(at(2)));
        assert_eq!(cache.look("bob", at(2)), CacheLook::Unknown);
    }

    #[test]
    fn unknown_names_displace_no_account() {
        let mut cache = cache();
        let secret = Secret::hashes_of("alice", "example.com", "one");
        cache.keep_found("alice", secret.clone(), at(0));
        for number in 0..1000 {
            cache.keep_missing(&format!("user{number}"), at(0));
            cache.keep_failed(&format!("user{number}"), at(1));
        }
        assert_eq!(cache.look("alice", at(1)), CacheLook::Found(secret));
        assert_eq!((cache.found_count(), cache.missing_count()), (1, 8));
    }
}
