use serde::Serialize;

/// Requests that are followed through the server, and what became of what was learned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SpansStats {
    /// Requests that were followed.
    pub followed: u64,
    /// Those that the collector has taken.
    pub exported: u64,
    /// Those for which there was no room while others waited for the collector.
    pub dropped: u64,
    /// Those lost because the collector did not answer, or refused them.
    pub failed: u64,
    /// Spans that the collector says it has not kept.
    pub rejected_spans: u64,
    /// Requests to the collector that it did not take.
    pub export_failures: u64,
    /// Those that wait for the collector.
    pub waiting_count: u64,
    /// 1 while the collector is asked only once in a while, since it does not answer.
    pub breaker_open_count: u64,
}
