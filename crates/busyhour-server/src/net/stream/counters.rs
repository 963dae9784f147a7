use crate::{net::panics::Panics, server::StreamStats};
use std::sync::atomic::{AtomicU64, Ordering};

/// What happened to connections; the fields of [`StreamStats`].
#[derive(Debug, Default)]
pub(super) struct ConnectionCounters {
    pub(super) connection_count: AtomicU64,
    pub(super) connection_high_water: AtomicU64,
    pub(super) held_bytes: AtomicU64,
    pub(super) accepted: AtomicU64,
    pub(super) accept_errors: AtomicU64,
    pub(super) connects: AtomicU64,
    pub(super) connect_failures: AtomicU64,
    pub(super) connects_refused: AtomicU64,
    pub(super) connects_over_share: AtomicU64,
    pub(super) refused_full: AtomicU64,
    pub(super) refused_source: AtomicU64,
    pub(super) displaced_source: AtomicU64,
    pub(super) refused_no_certificate: AtomicU64,
    pub(super) refused_handshakes: AtomicU64,
    pub(super) handshake_waits: AtomicU64,
    pub(super) displaced_handshakes: AtomicU64,
    pub(super) displaced: AtomicU64,
    pub(super) closed_by_peer: AtomicU64,
    pub(super) closed_idle: AtomicU64,
    pub(super) closed_stalled: AtomicU64,
    pub(super) closed_handshake: AtomicU64,
    pub(super) closed_broken: AtomicU64,
    pub(super) closed_unread: AtomicU64,
    pub(super) closed_no_buffer: AtomicU64,
    pub(super) closed_source_memory: AtomicU64,
    pub(super) displaced_memory: AtomicU64,
    pub(super) receive_errors: AtomicU64,
    pub(super) send_errors: AtomicU64,
    pub(super) failed_flows: AtomicU64,
    pub(super) put_off: AtomicU64,
    pub(super) tls_handshakes: AtomicU64,
    pub(super) tls_failures: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) pings: AtomicU64,
    pub(super) web_sockets_opened: AtomicU64,
    pub(super) web_sockets_refused: AtomicU64,
    pub(super) web_socket_pings: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) panics: Panics,
}

impl ConnectionCounters {
    pub(super) fn read(&self) -> StreamStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StreamStats {
            // Before all others: see `count_connections`.
            connection_count: self.connection_count.load(Ordering::Acquire),
            connection_high_water: read(&self.connection_high_water),
            held_bytes: read(&self.held_bytes),
            accepted: read(&self.accepted),
            accept_errors: read(&self.accept_errors),
            connects: read(&self.connects),
            connect_failures: read(&self.connect_failures),
            connects_refused: read(&self.connects_refused),
            connects_over_share: read(&self.connects_over_share),
            refused_full: read(&self.refused_full),
            refused_source: read(&self.refused_source),
            displaced_source: read(&self.displaced_source),
            refused_no_certificate: read(&self.refused_no_certificate),
            refused_handshakes: read(&self.refused_handshakes),
            handshake_waits: read(&self.handshake_waits),
            displaced_handshakes: read(&self.displaced_handshakes),
            displaced: read(&self.displaced),
            closed_by_peer: read(&self.closed_by_peer),
            closed_idle: read(&self.closed_idle),
            closed_stalled: read(&self.closed_stalled),
            closed_handshake: read(&self.closed_handshake),
            closed_broken: read(&self.closed_broken),
            closed_unread: read(&self.closed_unread),
            closed_no_buffer: read(&self.closed_no_buffer),
            closed_source_memory: read(&self.closed_source_memory),
            displaced_memory: read(&self.displaced_memory),
            receive_errors: read(&self.receive_errors),
            send_errors: read(&self.send_errors),
            failed_flows: read(&self.failed_flows),
            put_off: read(&self.put_off),
            tls_handshakes: read(&self.tls_handshakes),
            tls_failures: read(&self.tls_failures),
            received: read(&self.received),
            received_bytes: read(&self.received_bytes),
            pings: read(&self.pings),
            web_sockets_opened: read(&self.web_sockets_opened),
            web_sockets_refused: read(&self.web_sockets_refused),
            web_socket_pings: read(&self.web_socket_pings),
            sent: read(&self.sent),
            sent_bytes: read(&self.sent_bytes),
        }
    }

    /// How many connections there are now. Whoever reads it also reads what was counted before.
    pub(super) fn count_connections(&self, count: usize) {
        let count = count as u64;
        self.connection_count.store(count, Ordering::Release);
        self.connection_high_water
            .fetch_max(count, Ordering::Relaxed);
    }
}
