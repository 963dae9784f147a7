//! The seam to the network: the server hands datagrams over, and that is all it knows.

use crate::registrar::Flow;
use busyhour::buffer::Buffer;
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
