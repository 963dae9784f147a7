use super::{Error, error::Limit};
use serde::Serialize;
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Requests to the Graphite interface, and its refusals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GraphiteStats {
    /// `/render` requests.
    pub renders: u64,
    /// Other requests: finding, expanding, listing.
    pub lookups: u64,
    /// Requests that were wrong in themselves.
    pub bad_requests: u64,
    /// Requests that a source failed.
    pub source_failures: u64,
    /// Refused: too many values.
    pub refused_points: u64,
    /// Refused: too many series.
    pub refused_series: u64,
    /// Refused: too long a time range.
    pub refused_range: u64,
    /// Refused: too much memory.
    pub refused_memory: u64,
    /// Refused: an expression too deep or too long.
    pub refused_depth: u64,
    /// Refused: took too long.
    pub refused_duration: u64,
    /// Refused: all places for renders taken, or the server shutting down.
    pub refused_busy: u64,
    /// Views that were answered.
    pub digest: DigestStats,
    /// The ring of the server's own values.
    pub telemetry: TelemetryStats,
    /// The ring of values of a `pmcd`.
    pub pmcd: TelemetryStats,
}

/// What views were made of, and how long that took: until the series were fetched,
/// functions applied and the answer written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DigestStats {
    /// Views.
    pub views: u64,
    /// Series that sources gave for them.
    pub metrics: u64,
    /// Values in these series, missing ones included.
    pub values: u64,
    /// Nanoseconds of all views together.
    pub duration_ns_total: u64,
    /// Nanoseconds of the longest.
    pub duration_ns_max: u64,
    /// Series of the last view.
    pub last_metric_count: u64,
    /// Nanoseconds of the last view.
    pub last_duration_ns: u64,
}

/// What the ring of the server's own values holds and has lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TelemetryStats {
    /// Samples held now.
    pub sample_count: u64,
    /// Series that any held sample has.
    pub series_count: u64,
    /// Memory that samples take.
    pub held_bytes: u64,
    /// Samples taken.
    pub sampled: u64,
    /// Samples dropped for newer ones, because the memory was full or the clock was set
    /// back.
    pub evicted: u64,
    /// Values left out because a sample had too many.
    pub dropped: u64,
}

/// The counters behind [`GraphiteStats`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) renders: AtomicU64,
    pub(super) lookups: AtomicU64,
    bad_requests: AtomicU64,
    source_failures: AtomicU64,
    refused: [AtomicU64; 6],
    busy: AtomicU64,
    digest: Mutex<DigestStats>,
}

/// What a view was made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digested {
    /// Series that sources gave, before any function.
    pub metrics: u64,
    /// Values in them, missing ones included.
    pub values: u64,
}

impl Counters {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn busy(&self) {
        Self::count(&self.busy);
    }

    pub(super) fn failed(&self, error: &Error) {
        Self::count(match error {
            Error::Request(_) => &self.bad_requests,
            Error::Source(_) => &self.source_failures,
            Error::TooLarge(limit, _) => &self.refused[*limit as usize],
        });
    }

    pub(super) fn digested(&self, digested: Digested, duration: Duration) {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut digest = self.digest();
        digest.views += 1;
        digest.metrics += digested.metrics;
        digest.values += digested.values;
        digest.duration_ns_total = digest.duration_ns_total.saturating_add(duration_ns);
        digest.duration_ns_max = digest.duration_ns_max.max(duration_ns);
        digest.last_metric_count = digested.metrics;
        digest.last_duration_ns = duration_ns;
    }

    fn digest(&self) -> MutexGuard<'_, DigestStats> {
        self.digest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self, telemetry: TelemetryStats) -> GraphiteStats {
        let refused = |limit: Limit| self.refused[limit as usize].load(Relaxed);
        GraphiteStats {
            renders: self.renders.load(Relaxed),
            lookups: self.lookups.load(Relaxed),
            bad_requests: self.bad_requests.load(Relaxed),
            source_failures: self.source_failures.load(Relaxed),
            refused_points: refused(Limit::Points),
            refused_series: refused(Limit::Series),
            refused_range: refused(Limit::Range),
            refused_memory: refused(Limit::Memory),
            refused_depth: refused(Limit::Depth),
            refused_duration: refused(Limit::Duration),
            refused_busy: self.busy.load(Relaxed),
            digest: self.digest().clone(),
            telemetry,
            pmcd: TelemetryStats::default(),
        }
    }
}
