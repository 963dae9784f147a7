//! The interface to the network: the server only hands datagrams over.

use super::stats::queues::QueueView;
use busyhour::buffer::Buffer;
use busyhour_sip::{Flow, Transport};
use serde::Serialize;
use std::{net::SocketAddr, ops::AddAssign, sync::Arc, time::Duration};
use thiserror::Error;

/// Sends datagrams; the machine's sockets, or a simulation's.
pub trait Network: Send + Sync {
    /// Hands a datagram over, to be sent from `flow.local` to `flow.remote`.
    /// Never blocks; it may be gathered with others before it leaves.
    ///
    /// # Errors
    ///
    /// When there is no room for it, no socket has the local address or the
    /// connection is gone. The message is then lost, as any datagram may be.
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError>;

    /// As [`send`](Self::send), for a message that can be written again later with the
    /// state of that time. A connection without room for it stays open; messages that
    /// must leave at once have more room.
    ///
    /// # Errors
    ///
    /// As for `send`; after [`SendError::Full`] on a connection the message
    /// has not left, and none of it ever will.
    fn try_send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        self.send(flow, datagram)
    }

    /// A request of this flow was accepted: the client is trusted, and keeps its
    /// connection when untrusted ones are closed. `false` if the connection is gone.
    /// After `true` its end is reported to
    /// [`Server::flow_failed`](super::Server::flow_failed).
    fn mark_trusted(&self, _flow: Flow) -> bool {
        true
    }

    /// As [`send`](Self::send), for an answer that acknowledges a registration of this address of record, which came over
    /// `from`: the client's keep-alives come over that, too.
    ///
    /// # Errors
    ///
    /// As for `send`.
    fn send_registered(
        &self,
        flow: Flow,
        answer: Buffer,
        (_from, _aor): (Flow, &str),
    ) -> Result<(), SendError> {
        self.send(flow, answer)
    }

    /// The credentials of a REGISTER of this flow were looked at. While more comes than can be read, a network may prefer those
    /// that show credentials, as long as nearly all of these answer a challenge.
    fn note_credentials(&self, _flow: Flow, _judgement: CredentialJudgement) {}

    /// The client of a connection was told to send something at least this often: the
    /// connection is closed after a longer silence.
    fn expect_keepalives(&self, _flow: Flow, _within: Duration) {}

    /// Whether the connection of a flow that another process has stored may stand; `false` if it has certainly ended. That of
    /// another node of a cluster may, and that node is asked.
    fn may_stand(&self, _flow: Flow) -> bool {
        false
    }

    /// Whether what is sent over this flow may be lost on its way while the flow stands.
    fn may_lose(&self, flow: Flow) -> bool {
        !flow.transport.is_reliable()
    }

    /// Sends a copy of a message to a capture server, from a socket for that alone. Never
    /// blocks.
    ///
    /// # Errors
    ///
    /// As for `send`.
    fn send_capture(&self, _server: SocketAddr, _packet: Buffer) -> Result<(), SendError> {
        Err(SendError::NoSocket)
    }

    /// Sends a command to a media relay, from a socket for that alone. Never blocks.
    ///
    /// # Errors
    ///
    /// As for `send`.
    fn send_media(&self, _relay: SocketAddr, _command: Buffer) -> Result<(), SendError> {
        Err(SendError::NoSocket)
    }

    /// The counters of the socket for captures, which [`stats`](Self::stats) does not have.
    fn capture_stats(&self) -> NetworkStats {
        NetworkStats::default()
    }

    /// The address that messages to `remote` are sent from, with the port on which SIP is
    /// spoken over this transport; `None` if there is none. It may ask the system.
    fn local_to(&self, _transport: Transport, _remote: SocketAddr) -> Option<SocketAddr> {
        None
    }

    /// Whether messages can be sent over this transport to a server that DNS names: there is
    /// a socket, and over TLS somebody vouches for certificates.
    fn speaks(&self, transport: Transport) -> bool {
        transport == Transport::Udp
    }

    /// From now on the certificate of this target is expected at its address. What the
    /// configuration says of the address stays.
    fn expect_certificate(&self, _target: TlsTarget) {}

    /// The flow over TLS to a server that DNS names for a domain: that of a connection which is
    /// there, or which [`connect`](Self::connect) makes. Only a server with a certificate for the
    /// domain is spoken to (RFC 5922 §7.3), also where other domains have the same address.
    /// `None` if there is no TLS.
    fn flow_to_domain(&self, _flow: Flow, _domain: &str) -> Option<Flow> {
        None
    }

    /// A connection to the remote address of `flow` over its transport: one that this side has
    /// made before, or a new one; only the number of the connection differs in its flow. What is
    /// sent before it stands waits. Its end, even before it stood, is reported to
    /// [`Server::flow_failed`](super::Server::flow_failed). Never blocks.
    ///
    /// One that is made for a `holder` counts against its share until it has ended, and no more
    /// attempts have to wait; without one it is for the server itself.
    ///
    /// # Errors
    ///
    /// When the last attempts failed a moment ago, when there is no room for one more, and for
    /// TLS when nobody has said whose certificate is expected there, or when the connection that
    /// a flow to a domain names has ended.
    fn connect(&self, _flow: Flow, _holder: Option<HolderKey>) -> Result<Flow, SendError> {
        Err(SendError::FlowFailed)
    }

    /// The certificate that the other side of a connection over TLS has shown.
    fn shown_certificate(&self, _flow: Flow) -> Option<Arc<ShownCertificate>> {
        None
    }

    /// For about how long what waits behind this message on its connection will wait before it
    /// is read. It asks the system.
    fn wait_on(&self, _flow: Flow) -> Duration {
        Duration::ZERO
    }

    /// What waits in the kernel to be read by the sockets for SIP in datagrams. It asks the
    /// system.
    fn unread(&self) -> Unread {
        Unread::default()
    }

    /// The certificates that peers are shown over TLS.
    fn certificates(&self) -> Vec<CertificateStats> {
        Vec::new()
    }

    /// The counters of the network; empty for a network that does not count.
    fn stats(&self) -> NetworkStats {
        NetworkStats::default()
    }

    /// What waits to be read from each socket and to be sent by it. It looks at every
    /// connection, so it is meant for operators.
    fn queues(&self) -> Vec<QueueView> {
        Vec::new()
    }
}

/// What a server knows of the credentials of a REGISTER. All that show credentials and are not reported prove nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialJudgement {
    /// They answer a challenge that was sent to their source.
    Answer,
    /// They answer a nonce of ours that is no longer valid or was used before, and were not checked. So begins a device after a
    /// while, and answers the next challenge then.
    OldAnswer,
    /// Another node of the cluster looks at them.
    Elsewhere,
    /// That node has accepted them.
    AcceptedElsewhere,
}

/// An account, or a source that has none, as a number that tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderKey(u32);

impl HolderKey {
    /// The one with this number.
    pub fn new(number: u32) -> Self {
        Self(number)
    }
}

/// Whose certificate is expected at an address that the server connects to over TLS. It has to
/// be one of [`fingerprints`](Self::fingerprints); or an authority vouches for it, and it is for
/// one of [`names`](Self::names).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsTarget {
    /// Where. Other ports of the same address are the same target, unless they have their own.
    pub address: SocketAddr,
    /// The SHA-256 of certificates.
    pub fingerprints: Vec<[u8; 32]>,
    /// Domains and addresses; no wildcards (RFC 5922 §7.2).
    pub names: Vec<String>,
}

/// A certificate that somebody has shown, who has its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The SHA-256 of its DER.
    pub fingerprint: [u8; 32],
    /// Whom it is for (RFC 5922 §7.1): domains and addresses. None if no authority of ours
    /// vouches for it.
    pub names: Vec<String>,
}

/// Datagrams of SIP that the kernel has and nobody has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// How many wait in all sockets, estimated from the memory that they take.
    pub waiting: u64,
    /// How many were read since the sockets were made.
    pub read: u64,
    /// How full the fullest socket's buffer is, in thousandths of its room.
    pub filled_permille: u16,
}

impl Unread {
    /// Whether a socket's buffer is half full.
    pub fn is_half_full(self) -> bool {
        self.filled_permille >= 500
    }
}

/// Which datagrams a server wants to be handed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// Whatever is there.
    All,
    /// Only datagrams that came just now. The server can't keep up; datagrams that have
    /// waited long are retransmitted, so processing them would be wasted.
    Fresh,
    /// Nothing now: the maximum of requests waits for devices, and further ones would
    /// only wait behind them. An unread datagram costs nothing.
    Nothing,
}

/// Why a datagram was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// Too many wait already.
    #[error("the send queue is full")]
    Full,
    /// No socket has this local address, or it is closed.
    #[error("no socket has the local address")]
    NoSocket,
    /// The connection is gone (RFC 5626 §5.3); nothing reaches that peer until
    /// it connects again.
    #[error("the connection is gone")]
    FlowFailed,
}

/// What the sockets have moved, and what they lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NetworkStats {
    /// Datagrams received, those included that found no buffer.
    pub received: u64,
    /// Bytes in them.
    pub received_bytes: u64,
    /// System calls that received at least one; `received / receive_calls` is the batch.
    pub receive_calls: u64,
    /// Datagrams that the kernel dropped because its receive buffer was full, and REGISTERs that it dropped for us under
    /// overload, by a filter: it counts both as one. `nstat -az UdpRcvbufErrors Udp6RcvbufErrors` has only those for which there
    /// was no room, of all programs of the machine.
    pub kernel_dropped: u64,
    /// The share of the REGISTERs that it drops by a filter now, in thousandths, or of those that show no credentials, where
    /// those that do are spared; of several sockets the largest.
    pub early_drop_permille_max: u64,
    /// How often such a filter began.
    pub early_drops_begun: u64,
    /// Datagrams dropped because the packet memory was used up.
    pub dropped_no_buffer: u64,
    /// Datagrams dropped under overload because they had waited so long that their
    /// sender retransmits them.
    pub dropped_stale: u64,
    /// Receive calls that failed.
    pub receive_errors: u64,
    /// Datagrams and messages whose handling panicked; only they were dropped. That is
    /// a bug: please report it.
    pub panicked: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Bytes in them.
    pub sent_bytes: u64,
    /// System calls that sent at least one; `sent / send_calls` is the batch.
    pub send_calls: u64,
    /// Datagrams waiting to be sent.
    pub send_queued_len: u64,
    /// The highest `send_queued_len` seen.
    pub send_queued_high_water: u64,
    /// Datagrams dropped because the send queue was full.
    pub dropped_send_queue: u64,
    /// Datagrams dropped because the kernel refused them or had no room in time.
    pub send_errors: u64,
    /// Connections.
    pub streams: StreamStats,
}

/// A certificate that peers are shown over TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CertificateStats {
    /// The first of its names.
    pub name: String,
    /// Peers who ask for one of these are shown it.
    pub names: Vec<String>,
    /// Peers who ask for none of the known names are shown it.
    pub is_default: bool,
    /// Where it was read from.
    pub file: String,
    /// Who has issued it.
    pub issuer: String,
    /// The SHA-256 of the certificate, in hexadecimal.
    pub sha256: String,
    /// It is valid from then on, in UTC.
    pub not_before: String,
    /// It is valid until then, in UTC.
    pub not_after: String,
    /// Until then; negative once it has expired.
    pub left_seconds: i64,
}

impl CertificateStats {
    /// Whether somebody should look: it has expired, or will within 21 days. What renews
    /// certificates of 90 days does so after 60.
    pub fn expires_soon(&self) -> bool {
        self.left_seconds < SOON_SECONDS
    }
}

const SOON_SECONDS: i64 = 21 * 24 * 3600;

/// Counters of connections, and why they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StreamStats {
    /// Connections now.
    pub connection_count: u64,
    /// The highest `connection_count` seen.
    pub connection_high_water: u64,
    /// Bytes that incomplete messages hold now.
    pub held_bytes: u64,
    /// Connections taken.
    pub accepted: u64,
    /// Connections that the system could not accept, for example for lack of file
    /// descriptors.
    pub accept_errors: u64,
    /// Connections that the server began to make.
    pub connects: u64,
    /// Those of them that could not be made.
    pub connect_failures: u64,
    /// Connections that were not begun, because the server had made the maximum.
    pub connects_refused: u64,
    /// Those of them whose address, or whose holder, had its share.
    pub connects_over_share: u64,
    /// Connections closed at once because the maximum was reached.
    pub refused_full: u64,
    /// Connections closed at once because their source had its maximum, all with an
    /// accepted request.
    pub refused_source: u64,
    /// Connections closed to make room for a new one of the same source: its oldest
    /// without an accepted request.
    pub displaced_source: u64,
    /// Connections over TLS closed at once because there is no certificate.
    pub refused_no_certificate: u64,
    /// Connections over TLS closed at once because their source had its maximum of
    /// unfinished handshakes.
    pub refused_handshakes: u64,
    /// Times when connections over TLS had to wait, because the maximum of handshakes
    /// was unfinished.
    pub handshake_waits: u64,
    /// Handshakes closed to make room for a new connection: the oldest, after at least
    /// two seconds.
    pub displaced_handshakes: u64,
    /// Connections closed to make room for a new one: the oldest without an accepted
    /// request.
    pub displaced: u64,
    /// Connections that the peer ended.
    pub closed_by_peer: u64,
    /// Connections closed because they were silent for too long.
    pub closed_idle: u64,
    /// Connections closed because a message was not complete in time.
    pub closed_stalled: u64,
    /// Connections closed because the handshake of TLS was not finished in time.
    pub closed_handshake: u64,
    /// Connections closed because their bytes are not a message.
    pub closed_broken: u64,
    /// Connections closed because their peer did not read.
    pub closed_unread: u64,
    /// Connections closed because the packet memory was used up.
    pub closed_no_buffer: u64,
    /// Connections closed because incomplete messages of their source held the maximum
    /// of memory.
    pub closed_source_memory: u64,
    /// Connections closed to make room for the messages of others: the one whose
    /// message was incomplete for the longest time.
    pub displaced_memory: u64,
    /// Connections that failed while something was read, their encryption included.
    pub receive_errors: u64,
    /// Connections that failed while something was sent.
    pub send_errors: u64,
    /// Messages not sent because their connection was gone.
    pub failed_flows: u64,
    /// NOTIFY requests that found no room on their connection, and are sent later with
    /// the state of that time.
    pub put_off: u64,
    /// Handshakes of TLS that were completed.
    pub tls_handshakes: u64,
    /// Connections whose encryption failed.
    pub tls_failures: u64,
    /// Messages received.
    pub received: u64,
    /// Bytes received, keep-alives included.
    pub received_bytes: u64,
    /// Keep-alives answered.
    pub pings: u64,
    /// WebSockets opened.
    pub web_sockets_opened: u64,
    /// Requests for a WebSocket that were refused: not for SIP, or from a page of another origin.
    pub web_sockets_refused: u64,
    /// Pings sent on silent WebSockets.
    pub web_socket_pings: u64,
    /// Messages taken to be sent, answers to keep-alives included.
    pub sent: u64,
    /// Bytes sent, before encryption.
    pub sent_bytes: u64,
}

/// Adds field by field, so that the code does not compile if one is forgotten. Of those behind the semicolon it takes the largest.
macro_rules! sum_fields {
    ($stats:ident: $($field:ident),+ $(,)? $(; $($largest:ident),+ $(,)?)?) => {
        impl AddAssign for $stats {
            /// Sums the sockets; a high water mark of several is their sum, never less than it was.
            fn add_assign(&mut self, other: Self) {
                let Self { $($field,)+ $($($largest),+)? } = other;
                $(self.$field += $field;)+
                $($(self.$largest = self.$largest.max($largest);)+)?
            }
        }
    };
}

sum_fields! { NetworkStats:
    received,
    received_bytes,
    receive_calls,
    kernel_dropped,
    dropped_no_buffer,
    dropped_stale,
    early_drops_begun,
    receive_errors,
    panicked,
    sent,
    sent_bytes,
    send_calls,
    send_queued_len,
    send_queued_high_water,
    dropped_send_queue,
    send_errors,
    streams;
    early_drop_permille_max,
}

sum_fields! { StreamStats:
    connection_count,
    connection_high_water,
    held_bytes,
    accepted,
    accept_errors,
    connects,
    connect_failures,
    connects_refused,
    connects_over_share,
    refused_full,
    refused_source,
    displaced_source,
    refused_no_certificate,
    refused_handshakes,
    handshake_waits,
    displaced_handshakes,
    displaced,
    closed_by_peer,
    closed_idle,
    closed_stalled,
    closed_handshake,
    closed_broken,
    closed_unread,
    closed_no_buffer,
    closed_source_memory,
    displaced_memory,
    receive_errors,
    send_errors,
    failed_flows,
    put_off,
    tls_handshakes,
    tls_failures,
    received,
    received_bytes,
    pings,
    web_sockets_opened,
    web_sockets_refused,
    web_socket_pings,
    sent,
    sent_bytes,
}
