use crate::net::BindError;
use busyhour_sip::Transport;
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{SocketAddr, TcpListener},
};

/// One address where connections are taken.
pub(super) struct Listener {
    pub(super) transport: Transport,
    pub(super) socket: TcpListener,
    pub(super) address: SocketAddr,
}

impl Listener {
    /// Binds `address` and listens.
    ///
    /// # Errors
    ///
    /// Why the address cannot be served, and which setting to change.
    pub(super) fn bind(transport: Transport, address: SocketAddr) -> Result<Self, BindError> {
        let opened = open(address).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = opened.map_err(|source| BindError {
            protocol: "SIP",
            transport,
            address,
            source,
        })?;
        Ok(Self {
            transport,
            socket,
            address,
        })
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // So that [::] and 0.0.0.0 can be listed beside each other.
        socket.set_only_v6(true)?;
    }
    // Closed connections of an earlier server (TIME_WAIT) need not delay the start.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Connections that may wait to be taken; the system may allow fewer.
const BACKLOG: i32 = 4096;
