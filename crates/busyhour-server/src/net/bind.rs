use super::{UdpOptions, local::ask_for_local};
use busyhour_sip::Transport;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

/// Why an address cannot be served.
#[derive(Debug, thiserror::Error)]
#[error(
    "{protocol} address {address} ({transport}) cannot be served: {}",
    address_problem(source, &self.setting())
)]
pub struct BindError {
    /// What should have been spoken there.
    pub protocol: &'static str,
    /// Over which transport.
    pub transport: Transport,
    /// The address as configured.
    pub address: SocketAddr,
    /// What the operating system said.
    pub source: io::Error,
}

impl BindError {
    /// The setting that names the address.
    fn setting(&self) -> String {
        let name = match self.transport {
            Transport::Udp => "listen",
            stream => stream.parameter(),
        };
        format!("{}.{name}", self.protocol.to_lowercase())
    }
}

/// A bound socket with the options of `options`.
pub(super) fn bind(address: SocketAddr, options: &UdpOptions) -> Result<UdpSocket, BindError> {
    let wrap = |source| BindError {
        protocol: options.protocol,
        transport: Transport::Udp,
        address,
        source,
    };
    let socket = open(address).map_err(wrap)?;
    grow_send_buffer(&socket);
    grow_receive_buffer(&socket, options.receive_buffer_bytes);
    Ok(socket.into())
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // So that [::] and 0.0.0.0 can be listed beside each other.
        socket.set_only_v6(true)?;
    }
    socket.set_write_timeout(Some(SEND_PATIENCE))?;
    socket.bind(&address.into())?;
    if address.ip().is_unspecified() {
        ask_for_local(&socket, address)?;
    }
    Ok(socket)
}

/// Large enough that a burst of answers hardly ever waits for the network card.
fn grow_send_buffer(socket: &Socket) {
    let forced = setsockopt(socket, sockopt::SndBufForce, &SEND_BUFFER_BYTES);
    if forced.is_err() {
        // Less only means that bursts wait in our own queue instead.
        let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    }
}

/// A burst waits here until the receive thread gets its turn; privileged
/// servers may exceed the system's limit, others get up to it.
fn grow_receive_buffer(socket: &Socket, bytes: usize) {
    let forced = setsockopt(socket, sockopt::RcvBufForce, &bytes);
    let set = forced.is_ok() || socket.set_recv_buffer_size(bytes).is_ok();
    let got = socket.recv_buffer_size().unwrap_or(0);
    // The kernel doubles what is asked for, to account for its own overhead.
    if !set || got < bytes {
        tracing::info!(
            wanted_bytes = bytes,
            got_bytes = got,
            "the receive buffer is smaller than configured, so a burst may be lost; raise the sysctl net.core.rmem_max"
        );
    }
}

/// Why an address cannot be bound, in words for an operator who would change `setting`.
pub fn address_problem(error: &io::Error, setting: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "the port is in use; stop the other program or choose another port with {setting}"
            )
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no interface with that address".into(),
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE".into()
        }
        _ => error.to_string(),
    }
}

const SEND_BUFFER_BYTES: usize = 4 << 20;
/// How long a full kernel buffer may hold up the sending thread before a datagram is dropped.
const SEND_PATIENCE: Duration = Duration::from_millis(50);
