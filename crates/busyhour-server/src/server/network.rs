//! The interface to the network: the server hands datagrams over, and that is all it knows.

use busyhour::buffer::Buffer;
use busyhour_sip::Flow;
use serde::Serialize;
use std::{ops::AddAssign, time::Duration};
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

    /// As [`send`](Self::send), for a message that is as well made anew later
    /// from what holds then. A connection without room for it is left as it
    /// is, and what must leave at once has more room than this.
    ///
    /// # Errors
    ///
    /// As for `send`; after [`SendError::Full`] on a connection the message
    /// has not left, and none of it ever will.
    fn try_send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        self.send(flow, datagram)
    }

    /// Something was accepted that came this way: the client at the other end
    /// is trusted, and keeps the connection where untrusted ones have to go.
    /// `false` when the connection is gone. After `true` its end is told to
    /// [`Server::flow_failed`](super::Server::flow_failed).
    fn mark_trusted(&self, _flow: Flow) -> bool {
        true
    }

    /// The client at the other end of a connection was told to send something at
    /// least as often as this: when nothing comes for longer, the connection ends.
    fn expect_keepalives(&self, _flow: Flow, _within: Duration) {}

    /// What it has moved and lost; nothing for a network that does not count.
    fn stats(&self) -> NetworkStats {
        NetworkStats::default()
    }
}

/// Which datagrams a server wants to be handed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// Whatever is there.
    All,
    /// What came a moment ago. The server can't keep up; what has waited long
    /// is sent again, and one of the two is work in vain.
    Fresh,
    /// Nothing now: as many requests wait for their device as may, and what is
    /// read would only wait behind them. Unread it costs nothing.
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
    /// Datagrams that the kernel dropped because its receive buffer was full.
    pub kernel_dropped: u64,
    /// Datagrams dropped because the packet memory was used up.
    pub dropped_no_buffer: u64,
    /// Datagrams dropped because they had waited so long, of a server that could
    /// not keep up, that their sender sends them again.
    pub dropped_stale: u64,
    /// Receive calls that failed.
    pub receive_errors: u64,
    /// Datagrams and messages of connections whose handling panicked, which ended
    /// them and nothing else: a fault of the program, to be reported.
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

/// What connections have moved, and why they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StreamStats {
    /// Connections now.
    pub connection_count: u64,
    /// The highest `connection_count` seen.
    pub connection_high_water: u64,
    /// Bytes that messages which are not complete hold now.
    pub held_bytes: u64,
    /// Connections taken.
    pub accepted: u64,
    /// Connections that the system could not give us, as without a file descriptor.
    pub accept_errors: u64,
    /// Connections closed at once because there were as many as there may be.
    pub refused_full: u64,
    /// Connections closed at once because their source had as many as it may, and
    /// something was accepted over each.
    pub refused_source: u64,
    /// Connections closed to make room for a new one of the same source: its
    /// oldest over which nothing was ever accepted.
    pub displaced_source: u64,
    /// Connections over TLS closed at once because there is no certificate.
    pub refused_no_certificate: u64,
    /// Connections over TLS closed at once because their source had as many
    /// unfinished handshakes as it may.
    pub refused_handshakes: u64,
    /// Times when connections over TLS had to wait to be taken, since as many
    /// handshakes were unfinished as may be.
    pub handshake_waits: u64,
    /// Handshakes closed to make room for a new connection: the oldest, which
    /// was not finished in the time that one needs (two seconds).
    pub displaced_handshakes: u64,
    /// Connections closed to make room for a new one: the oldest over which
    /// nothing was ever accepted.
    pub displaced: u64,
    /// Connections that the peer ended.
    pub closed_by_peer: u64,
    /// Connections closed because they brought nothing for too long.
    pub closed_idle: u64,
    /// Connections closed because a message was not complete in time.
    pub closed_stalled: u64,
    /// Connections closed because the handshake of TLS was not finished in time.
    pub closed_handshake: u64,
    /// Connections closed because what they brought cannot be a message.
    pub closed_broken: u64,
    /// Connections closed because their peer did not read.
    pub closed_unread: u64,
    /// Connections closed because the packet memory was used up.
    pub closed_no_buffer: u64,
    /// Connections closed because incomplete messages of their source held as much
    /// memory as they may.
    pub closed_source_memory: u64,
    /// Connections closed to make room for what others bring: the one whose
    /// message had been incomplete for longest.
    pub displaced_memory: u64,
    /// Connections that failed while something was read, their encryption included.
    pub receive_errors: u64,
    /// Connections that failed while something was sent.
    pub send_errors: u64,
    /// Messages not sent because their connection was gone.
    pub failed_flows: u64,
    /// NOTIFY requests that found no room on their connection, and are made
    /// anew later from what holds then.
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
    /// Messages taken to be sent, answers to keep-alives included.
    pub sent: u64,
    /// Bytes sent, before encryption.
    pub sent_bytes: u64,
}

/// Adds field by field; one that is forgotten does not compile.
macro_rules! sum_fields {
    ($stats:ident: $($field:ident),+ $(,)?) => {
        impl AddAssign for $stats {
            /// Sums the sockets; a high water mark of several is their sum, never less than it was.
            fn add_assign(&mut self, other: Self) {
                let Self { $($field),+ } = other;
                $(self.$field += $field;)+
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
    receive_errors,
    panicked,
    sent,
    sent_bytes,
    send_calls,
    send_queued_len,
    send_queued_high_water,
    dropped_send_queue,
    send_errors,
    streams,
}

sum_fields! { StreamStats:
    connection_count,
    connection_high_water,
    held_bytes,
    accepted,
    accept_errors,
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
    sent,
    sent_bytes,
}
