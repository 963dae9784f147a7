use super::Certificate;
use std::{net::SocketAddr, time::Duration};

/// How long a connection may take, and how many there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPolicy {
    /// Connections at a time.
    pub connections_max: usize,
    /// Connections at a time from one IPv4 address or IPv6 network of 64 bits.
    pub connections_per_source_max: usize,
    /// For how long a connection may bring nothing.
    pub idle: Duration,
    /// For how long a message may be incomplete, and the first one may be awaited.
    pub stalled: Duration,
    /// Bytes that may wait to be sent on one connection; each message counts
    /// with what it costs to keep it.
    pub outbox_bytes_max: usize,
    /// The same for all connections together.
    pub all_outboxes_bytes_max: usize,
}

/// Which addresses to serve, and how.
#[derive(Debug, Clone, Default)]
pub struct StreamOptions {
    /// Addresses for TCP; port 0 takes a free one.
    pub tcp: Vec<SocketAddr>,
    /// Addresses for TLS; port 0 takes a free one.
    pub tls: Vec<SocketAddr>,
    /// What proves to the peers of TLS who we are; without it none can connect.
    pub certificate: Option<Certificate>,
    /// Limits of all connections together.
    pub policy: StreamPolicy,
}

impl Default for StreamPolicy {
    /// As the configuration's defaults.
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_source_max: 1024,
            idle: Duration::from_secs(7500),
            stalled: Duration::from_secs(30),
            outbox_bytes_max: 256 << 10,
            all_outboxes_bytes_max: 64 << 20,
        }
    }
}
