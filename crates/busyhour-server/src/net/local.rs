//! The local address of a received or sent datagram, if the socket is bound to all
//! addresses (`IP_PKTINFO`, `IPV6_RECVPKTINFO`), and that of one that is to be sent.

use nix::{
    cmsg_space, libc,
    sys::socket::{ControlMessage, ControlMessageOwned, setsockopt, sockopt},
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsFd,
};

/// Makes the kernel report the local address of each received datagram.
///
/// # Errors
///
/// When the kernel does not know how.
pub(super) fn ask_for_local(socket: &impl AsFd, bound: SocketAddr) -> io::Result<()> {
    match bound {
        SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
    }
    Ok(())
}

/// The address that the system would send datagrams to `remote` from.
///
/// # Errors
///
/// When there is no way there.
pub(super) fn source_to(remote: SocketAddr) -> io::Result<IpAddr> {
    let any = match remote {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // Nothing is sent.
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

/// The local address in the kernel's control message; `None` for another message, or an
/// address that nothing can be sent from.
pub(super) fn local_of(message: &ControlMessageOwned) -> Option<IpAddr> {
    let address = match message {
        // The address to answer from, which for a broadcast is not the destination
        // address.
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            IpAddr::from(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)))
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            IpAddr::from(Ipv6Addr::from(info.ipi6_addr.s6_addr))
        }
        _ => return None,
    };
    (!address.is_multicast() && !address.is_unspecified()).then_some(address)
}

/// The control message that tells the kernel from which address to send.
pub(super) enum SentFrom {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

impl SentFrom {
    pub(super) fn new(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from(address).to_be(),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            }),
            IpAddr::V6(address) => Self::V6(libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: address.octets(),
                },
                ipi6_ifindex: 0,
            }),
        }
    }

    pub(super) fn message(&self) -> ControlMessage<'_> {
        match self {
            Self::V4(info) => ControlMessage::Ipv4PacketInfo(info),
            Self::V6(info) => ControlMessage::Ipv6PacketInfo(info),
        }
    }

    /// Room for exactly that message.
    pub(super) fn space(&self) -> Vec<u8> {
        match self {
            Self::V4(_) => cmsg_space!(libc::in_pktinfo),
            Self::V6(_) => cmsg_space!(libc::in6_pktinfo),
        }
    }
}
