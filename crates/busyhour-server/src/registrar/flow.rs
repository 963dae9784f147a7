//! Which way datagrams go.

use std::net::SocketAddr;

/// A pair of addresses between which datagrams go (a flow in RFC 5626's words).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Our address.
    pub local: SocketAddr,
    /// The other side's address.
    pub remote: SocketAddr,
}
