//! What clients may take of the HTTP side, and what was refused.

use super::places::{NoPlace, Places};
use crate::server::HttpStats;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How much there is of each, and what was counted.
pub(in crate::web) struct Load {
    pub(in crate::web) connections: Arc<Places>,
    /// Streams of events, which hold a connection for as long as they like.
    pub(in crate::web) events: Arc<Places>,
    /// Bytes of bodies that are being read or dealt with.
    pub(in crate::web) bodies: Arc<Places>,
    /// For a whole body, and for a client to read what is written.
    pub(in crate::web) patience: Duration,
    refused: [AtomicU64; 6],
    told_at: [Mutex<Option<Instant>>; 6],
}

/// What a client took too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::web) enum Overuse {
    Connections(NoPlace),
    Events,
    Bodies,
    LateBody,
    Unread,
}

impl Load {
    pub(in crate::web) fn new(
        connections_max: usize,
        per_source_max: usize,
        patience: Duration,
    ) -> Self {
        let half = |whole: usize| whole.div_ceil(2);
        Self {
            connections: Places::new(connections_max, per_source_max),
            events: Places::new(half(connections_max), half(per_source_max)),
            bodies: Places::new(BODIES_BYTES_MAX, BODIES_BYTES_MAX / 10),
            patience,
            refused: Default::default(),
            told_at: Default::default(),
        }
    }

    /// Counts it, and says it at once, and then once a minute.
    pub(in crate::web) fn count(&self, excess: Overuse) {
        let index = excess.index();
        let refused = 1 + self.refused[index].fetch_add(1, Ordering::Relaxed);
        let told_at = &self.told_at[index];
        let mut told_at = told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.is_none_or(|told_at| told_at.elapsed() >= QUIET) {
            *told_at = Some(Instant::now());
            drop(told_at);
            tracing::warn!(limit = excess.limit(), refused, "a limit was reached");
        }
    }

    /// These numbers beside those that were counted elsewhere.
    pub(in crate::web) fn stats(&self, others: HttpStats) -> HttpStats {
        let of = |excess: Overuse| self.refused[excess.index()].load(Ordering::Relaxed);
        HttpStats {
            refused_full: of(Overuse::Connections(NoPlace::Full)),
            refused_source: of(Overuse::Connections(NoPlace::Source)),
            refused_events: of(Overuse::Events),
            refused_bodies: of(Overuse::Bodies),
            late_bodies: of(Overuse::LateBody),
            closed_unread: of(Overuse::Unread),
            ..others
        }
    }
}

impl Overuse {
    fn index(self) -> usize {
        match self {
            Self::Connections(NoPlace::Full) => 0,
            Self::Connections(NoPlace::Source) => 1,
            Self::Events => 2,
            Self::Bodies => 3,
            Self::LateBody => 4,
            Self::Unread => 5,
        }
    }

    fn limit(self) -> &'static str {
        match self {
            Self::Connections(NoPlace::Full) => "http.max_connections",
            Self::Connections(NoPlace::Source) => "http.max_connections_per_source",
            Self::Events => "the event streams over HTTP",
            Self::Bodies => "the memory of bodies over HTTP",
            Self::LateBody => "the time for a body over HTTP",
            Self::Unread => "the time to read an answer over HTTP",
        }
    }
}

/// Bytes of bodies of all requests together; a source has a tenth.
const BODIES_BYTES_MAX: usize = 16 << 20;
/// Between two lines about the same limit.
const QUIET: Duration = Duration::from_secs(60);
