//! The statistics of lookups in DNS.

use serde::Serialize;

/// What was looked up in DNS to find next hops that have names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DnsStats {
    /// Lookups that wait now.
    pub waiting_count: u64,
    /// Answers that are kept, those included whose time is over.
    pub answer_count: u64,
    /// Lookups: each is everything that one next hop needs to know.
    pub lookups: u64,
    /// Those that kept answers were enough for.
    pub from_cache: u64,
    /// Questions asked.
    pub questions: u64,
    /// Those that nobody answered.
    pub questions_failed: u64,
    /// Lookups that led to no server.
    pub not_located: u64,
    /// Lookups refused because too many waited.
    pub refused: u64,
}
