//! The limits of what HTTP clients may use, and counts of what was refused.

use super::{
    in_progress::{HTTP, InProgress},
    places::{NoPlace, Places},
};
use crate::server::{HttpStats, QueueView};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The limits, what is in use, and the counts.
pub(in crate::web) struct Load {
    pub(in crate::web) connections: Arc<Places>,
    /// Event streams; each holds a connection for as long as its client wants.
    pub(in crate::web) events: Arc<Places>,
    /// Bytes of bodies that are being read or processed.
    pub(in crate::web) bodies: Arc<Places>,
    pub(in crate::web) requests: InProgress,
    /// The time for a complete body, and for a client to read its answer.
    pub(in crate::web) patience: Duration,
    is_local: bool,
    refused: [AtomicU64; 6],
    told_at: [Mutex<Option<Instant>>; 6],
}

/// The limit that a client has reached.
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
            requests: InProgress::default(),
            patience,
            is_local: false,
            refused: Default::default(),
            told_at: Default::default(),
        }
    }

    /// The limits of the local socket, on which all connections are of one source.
    pub(in crate::web) fn of_local_socket(patience: Duration) -> Self {
        Self {
            is_local: true,
            ..Self::new(LOCAL_CONNECTIONS_MAX, LOCAL_CONNECTIONS_MAX, patience)
        }
    }

    /// Counts a refusal. Logs the first one at once, and later ones at most once a
    /// minute.
    pub(in crate::web) fn count(&self, excess: Overuse) {
        let index = excess.index();
        let refused = 1 + self.refused[index].fetch_add(1, Ordering::Relaxed);
        let told_at = &self.told_at[index];
        let mut told_at = told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.is_none_or(|told_at| told_at.elapsed() >= QUIET) {
            *told_at = Some(Instant::now());
            drop(told_at);
            let limit = match (self.is_local, excess) {
                (true, Overuse::Connections(_)) => LOCAL_CONNECTIONS,
                _ => excess.limit(),
            };
            tracing::warn!(limit, refused, "a limit was reached");
        }
    }

    /// Connections that were refused because there were too many.
    pub(in crate::web) fn refused_connections(&self) -> u64 {
        let full = Overuse::Connections(NoPlace::Full).index();
        self.refused[full].load(Ordering::Relaxed)
    }

    /// Connections, requests that are being answered, event streams, and the memory of
    /// bodies; of the address or of the local socket.
    pub(in crate::web) fn queues(&self) -> Vec<QueueView> {
        let refused = |excess: Overuse| self.refused[excess.index()].load(Ordering::Relaxed);
        let full = refused(Overuse::Connections(NoPlace::Full));
        let of_source = refused(Overuse::Connections(NoPlace::Source));
        let named = |what: &str| match self.is_local {
            true => format!("{what} of the local socket"),
            false => what.to_owned(),
        };
        let taken = |what: &str, places: &Places| {
            let (taken, most) = places.in_use();
            QueueView {
                kind: HTTP,
                name: named(what),
                queued_len: taken as u64,
                capacity: Some(most as u64),
                ..QueueView::default()
            }
        };
        let (bytes, bytes_max) = self.bodies.in_use();
        vec![
            QueueView {
                refused: Some(full + of_source),
                ..taken("connections", &self.connections)
            },
            self.requests.queue(&named("requests")),
            QueueView {
                refused: Some(refused(Overuse::Events)),
                ..taken("event streams", &self.events)
            },
            QueueView {
                kind: HTTP,
                name: named("bodies"),
                queued_bytes: Some(bytes as u64),
                capacity_bytes: Some(bytes_max as u64),
                refused: Some(refused(Overuse::Bodies)),
                ..QueueView::default()
            },
        ]
    }

    /// Adds these counts to those that were counted elsewhere.
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

const LOCAL_CONNECTIONS_MAX: usize = 64;
const LOCAL_CONNECTIONS: &str = "the connections to the local socket (64)";
/// Bytes of the bodies of all requests together; one source may use a tenth.
const BODIES_BYTES_MAX: usize = 16 << 20;
/// The time between two log lines about the same limit.
const QUIET: Duration = Duration::from_secs(60);
