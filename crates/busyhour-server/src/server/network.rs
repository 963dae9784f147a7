//! The seam to the network: the server hands datagrams over, and that is all it knows.

use crate::registrar::Flow;
use busyhour::buffer::Buffer;
use serde::Serialize;
use std::ops::AddAssign;
use thiserror::Error;

/// Sends datagrams; the machine's sockets, or a simulation's.
pub trait Network: Send + Sync {
    /// Hands a datagram over, to be sent from `flow.local` to `flow.remote`.
    /// Never blocks; it may be gathered with others before it leaves.
    ///
    /// # Errors
    ///
    /// When there is no room for it or no socket has the local address. The
    /// datagram is then lost, as any datagram may be.
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError>;

    /// What it has moved and lost; nothing for a network that does not count.
    fn stats(&self) -> NetworkStats {
        NetworkStats::default()
    }
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
}

/// What the sockets have moved, and what they lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NetworkStats {
    /// Datagrams received.
    pub received: u64,
    /// Bytes in them.
    pub received_bytes: u64,
    /// System calls that received at least one; `received / receive_calls` is the batch.
    pub receive_calls: u64,
    /// Datagrams that the kernel dropped because its receive buffer was full.
    pub kernel_dropped: u64,
    /// Datagrams dropped because the packet memory was used up.
    pub dropped_no_buffer: u64,
    /// Receive calls that failed.
    pub receive_errors: u64,
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
}

impl AddAssign for NetworkStats {
    /// Sums the sockets; a high water mark of several is their sum, never less than it was.
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.receive_calls += other.receive_calls;
        self.kernel_dropped += other.kernel_dropped;
        self.dropped_no_buffer += other.dropped_no_buffer;
        self.receive_errors += other.receive_errors;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.send_calls += other.send_calls;
        self.send_queued_len += other.send_queued_len;
        self.send_queued_high_water += other.send_queued_high_water;
        self.dropped_send_queue += other.dropped_send_queue;
        self.send_errors += other.send_errors;
    }
}
