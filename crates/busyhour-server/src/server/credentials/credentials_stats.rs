use serde::Serialize;

/// What was asked of the service for credentials, and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CredentialsStats {
    /// Requests to the service.
    pub asked: u64,
    /// Those answered with an account.
    pub found: u64,
    /// Those answered that there is no such account.
    pub missing: u64,
    /// Accounts whose contacts, publications and subscriptions have ended, since it knew them no
    /// more or they were deleted over HTTP.
    pub revoked: u64,
    /// Those whose answer could not be used.
    pub unusable: u64,
    /// Those without an answer in time, or answered 429, 502, 503 or 504.
    pub unanswered: u64,
    /// Requests of SIP that the cache was enough for.
    pub cache_hits: u64,
    /// How often an account was used longer than it counts, since the service did not answer.
    pub stale_hits: u64,
    /// Requests of SIP that have waited for the service.
    pub waited: u64,
    /// Repetitions of requests that waited.
    pub absorbed: u64,
    /// Requests of SIP refused because too many wait, or too many of their source.
    pub refused_full: u64,
    /// Requests of SIP refused because the service does not answer.
    pub refused_failed: u64,
    /// Requests of SIP that wait now.
    pub waiting_count: u64,
    /// Accounts in the cache.
    pub found_count: u64,
    /// Names without an account in the cache.
    pub missing_count: u64,
    /// 1 while the breaker is open.
    pub breaker_open_count: u64,
}
