use super::{Authorities, Certificate, Origins};
use crate::server::TlsTarget;
use std::{net::SocketAddr, time::Duration};

/// How long a connection may take, and how many there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPolicy {
    /// Connections at a time.
    pub connections_max: usize,
    /// Connections at a time from one IPv4 address or IPv6 network of 64 bits.
    pub connections_per_source_max: usize,
    /// Addresses that this side connects to at a time, and at most 16 ports of one host, an
    /// eighth of them in one IPv6 network of 64 bits, and an eighth for one
    /// [holder](crate::server::HolderKey). [Reserved](StreamOptions::reserved) ones do not count.
    pub connects_max: usize,
    /// Handshakes of TLS at a time that are not finished; beyond them a new
    /// connection waits in the kernel until one is, or is old enough to give way.
    pub handshakes_max: usize,
    /// The same from one source; beyond them its connections are closed.
    pub handshakes_per_source_max: usize,
    /// For how long a handshake may last, and for how long this side waits until a connection
    /// that it makes stands.
    pub handshake: Duration,
    /// After how long a handshake gives way to a new connection when there are
    /// [`handshakes_max`](Self::handshakes_max) of them.
    pub handshake_grace: Duration,
    /// For how long a connection may bring nothing.
    pub idle: Duration,
    /// After how long without anything the kernel asks whether the peer is there.
    pub keepalive: Duration,
    /// For how long a peer may leave that, or what is sent, unanswered.
    pub unanswered: Duration,
    /// For how long a message may be incomplete, and the first one may be awaited.
    pub stalled: Duration,
    /// Bytes that may wait to be sent on one connection; each message counts
    /// with what it costs to keep it. Half of it is for what can wait, and a
    /// peer of which nothing was accepted yet has 256 KiB at most.
    pub outbox_bytes_max: usize,
    /// The same for all connections together.
    pub all_outboxes_bytes_max: usize,
    /// The same for all connections of one source together; never less than
    /// [`outbox_bytes_max`](Self::outbox_bytes_max).
    pub outboxes_per_source_bytes_max: usize,
    /// Bytes for what connections bring: messages that are not complete, and those
    /// that are being dealt with. Half of it is for connections over which
    /// something was accepted, and half for all others.
    pub memory_bytes_max: usize,
    /// Bytes of it that incomplete messages of one source may hold; half of that
    /// for those of its connections over which nothing was accepted.
    pub memory_per_source_bytes_max: usize,
    /// The pages that may open WebSockets.
    pub web_socket_origins: Origins,
    /// After how long a silence a WebSocket is pinged; `None` never. If nothing comes for
    /// [`unanswered`](Self::unanswered) after that, it is closed.
    pub web_socket_ping: Option<Duration>,
}

/// Which addresses to serve, and how.
#[derive(Debug, Clone, Default)]
pub struct StreamOptions {
    /// Addresses for TCP; port 0 takes a free one.
    pub tcp: Vec<SocketAddr>,
    /// Addresses for TLS; port 0 takes a free one.
    pub tls: Vec<SocketAddr>,
    /// Addresses for WebSockets over TCP; port 0 takes a free one.
    pub ws: Vec<SocketAddr>,
    /// Addresses for WebSockets over TLS; port 0 takes a free one.
    pub wss: Vec<SocketAddr>,
    /// The certificate for TLS; without it no peer can connect over TLS.
    pub certificate: Option<Certificate>,
    /// Who vouches for the certificates of others; nobody without them.
    pub authorities: Option<Authorities>,
    /// Whom it expects where it connects over TLS; to no other address it does.
    pub tls_targets: Vec<TlsTarget>,
    /// Addresses to which there is always room for a connection, such as those of peers.
    pub reserved: Vec<SocketAddr>,
    /// Limits of all connections together.
    pub policy: StreamPolicy,
}

impl Default for StreamPolicy {
    /// As the configuration's defaults.
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_source_max: 1024,
            connects_max: 1024,
            handshakes_max: 1024,
            handshakes_per_source_max: 100,
            handshake: Duration::from_secs(10),
            handshake_grace: Duration::from_secs(2),
            idle: Duration::from_secs(7500),
            keepalive: Duration::from_secs(120),
            unanswered: Duration::from_secs(30),
            stalled: Duration::from_secs(30),
            outbox_bytes_max: 8 << 20,
            all_outboxes_bytes_max: 80 << 20,
            outboxes_per_source_bytes_max: 8 << 20,
            memory_bytes_max: 128 << 20,
            memory_per_source_bytes_max: 12 << 20,
            web_socket_origins: Origins::default(),
            web_socket_ping: Some(Duration::from_secs(30)),
        }
    }
}
