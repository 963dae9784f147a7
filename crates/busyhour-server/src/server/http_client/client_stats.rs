use serde::Serialize;

/// The counters of the HTTP client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HttpClientStats {
    /// Requests that it has taken.
    pub requests: u64,
    /// Those that were answered, whatever the status.
    pub answered: u64,
    /// Those for which no connection could be made.
    pub connect_failures: u64,
    /// Those that were not answered in time.
    pub late: u64,
    /// Those whose connection broke, and those whose answer was too long.
    pub broken: u64,
    /// Those that it has not taken, since too many waited for the host.
    pub refused_full: u64,
    /// Those that wait for a connection or for their answer.
    pub waiting_count: u64,
}
