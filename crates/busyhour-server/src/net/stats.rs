use super::panics::Panics;
use crate::server::NetworkStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one socket; each is written by one thread at a time, but for those of credentials.
#[derive(Debug, Default)]
pub(super) struct SocketCounters {
    pub(super) received: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) receive_calls: AtomicU64,
    pub(super) dropped_no_buffer: AtomicU64,
    pub(super) dropped_stale: AtomicU64,
    /// The share of REGISTERs that the kernel drops now, and how often that began.
    pub(super) early_drop_permille: AtomicU64,
    pub(super) early_drops_begun: AtomicU64,
    /// REGISTERs whose credentials answered a challenge, those that answered an old one, those that another node looks at, and
    /// those that it has accepted.
    pub(super) credentials_answering: AtomicU64,
    pub(super) credentials_of_old_nonces: AtomicU64,
    pub(super) credentials_elsewhere: AtomicU64,
    pub(super) credentials_accepted_elsewhere: AtomicU64,
    pub(super) receive_errors: AtomicU64,
    pub(super) panics: Panics,
    pub(super) sent: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) send_calls: AtomicU64,
    pub(super) dropped_send_queue: AtomicU64,
    pub(super) send_errors: AtomicU64,
}

impl SocketCounters {
    pub(super) fn read(&self) -> NetworkStats {
        NetworkStats {
            received: read(&self.received),
            received_bytes: read(&self.received_bytes),
            receive_calls: read(&self.receive_calls),
            dropped_no_buffer: read(&self.dropped_no_buffer),
            dropped_stale: read(&self.dropped_stale),
            early_drop_permille_max: read(&self.early_drop_permille),
            early_drops_begun: read(&self.early_drops_begun),
            receive_errors: read(&self.receive_errors),
            panicked: self.panics.count(),
            sent: read(&self.sent),
            sent_bytes: read(&self.sent_bytes),
            send_calls: read(&self.send_calls),
            dropped_send_queue: read(&self.dropped_send_queue),
            send_errors: read(&self.send_errors),
            ..NetworkStats::default()
        }
    }
}

pub(super) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

pub(super) fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}
