//! Webhooks as the command line, HTTP and the statistics see them.

use serde::Serialize;

/// A webhook, and how it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookView {
    /// Its name.
    pub name: String,
    /// Where it posts to.
    pub url: String,
    /// `idle`; `delivering` while a request is under way; `waiting` for its next attempt;
    /// `resting` while its URL is not asked, since it failed five times; `gone` since the receiver
    /// wants nothing more (410).
    pub state: &'static str,
    /// Until the next attempt, in nanoseconds.
    pub next_attempt_in_ns: Option<u64>,
    /// Changes of all kinds since the last one that it has given to its receiver or left out.
    pub behind: u64,
    /// Events that the receiver has taken.
    pub delivered: u64,
    /// Requests that were answered with a status of 2xx.
    pub batches: u64,
    /// Requests that failed.
    pub failed_attempts: u64,
    /// Events that the receiver has not got and never will: those that were not kept long enough,
    /// and those of batches that were given up.
    pub lost: u64,
    /// The status of the last answer.
    pub last_status: Option<u16>,
    /// Why the last attempt failed; nothing if it did not.
    pub last_error: Option<String>,
    /// From the request to its answer, of the last batch that was taken.
    pub last_round_trip_ns: Option<u64>,
    /// When that was.
    pub last_delivered_at_ns: Option<u64>,
    /// Whether requests are signed.
    pub is_signed: bool,
    /// Whether it stands in the configuration file, and not in the database.
    pub is_configured: bool,
    /// What it wants: its kinds, `user=` and `having=`.
    pub wants: String,
}

/// What all webhooks did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WebhookStats {
    /// Webhooks.
    pub webhook_count: u64,
    /// Those whose last attempt failed.
    pub failing_count: u64,
    /// URLs that are not asked now.
    pub breaker_open_count: u64,
    /// Events that receivers have taken.
    pub delivered: u64,
    /// Requests that were taken.
    pub batches: u64,
    /// Requests that failed.
    pub failed_attempts: u64,
    /// Events that receivers will never get.
    pub lost: u64,
}

/// What became of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookTestResult {
    /// Whether the receiver answered with a status of 2xx.
    pub is_taken: bool,
    /// The status of its answer.
    pub status: Option<u16>,
    /// Why there is none.
    pub error: Option<String>,
    /// From the request to its answer.
    pub round_trip_ns: u64,
}
