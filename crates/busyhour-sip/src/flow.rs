//! The transport and addresses of messages.

use crate::sip::{Via, push_socket_address};
use std::{
    fmt::{self, Display, Formatter},
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// A pair of addresses between which messages go (a flow in RFC 5626's words).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// What carries them.
    pub transport: Transport,
    /// Our address.
    pub local: SocketAddr,
    /// The other side's address.
    pub remote: SocketAddr,
    /// The number of the connection: two addresses may have several connections one
    /// after the other, and each has its own number. 0 for datagrams, and for a
    /// connection that has certainly ended.
    pub connection: u32,
    /// The node of a cluster whose address `local` is; 0 for a server alone.
    pub node: u16,
}

/// What carries messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// A datagram each.
    Udp,
    /// A connection that the other side made.
    Tcp,
    /// Such a connection, encrypted.
    Tls,
    /// A WebSocket over TCP, a message in each of its messages (RFC 7118).
    Ws,
    /// A WebSocket over TLS.
    Wss,
}

impl Flow {
    /// Datagrams between our address and another.
    pub fn udp(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            transport: Transport::Udp,
            local,
            remote,
            connection: 0,
            node: 0,
        }
    }

    /// The flow of the response to a request that came on this flow with this topmost
    /// Via (RFC 3261 §18.2.2, RFC 3581 §4). A connection's response goes back on the
    /// connection.
    pub fn answered_by(self, via: &Via<'_>) -> Self {
        match self.transport.is_reliable() {
            true => self,
            false => Self {
                remote: via.reply_to(self.remote),
                ..self
            },
        }
    }

    /// The local transport and address as one text, for a store: `127.0.0.1:5060`,
    /// `tcp/127.0.0.1:5060`, and `2@tcp/127.0.0.1:5060` where it is node 2's.
    ///
    /// ```
    /// use busyhour_sip::{Flow, Transport};
    ///
    /// let (local, remote) = ("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
    /// let flow = Flow { transport: Transport::Tcp, ..Flow::udp(local, remote) };
    /// assert_eq!(flow.local_text(), "tcp/192.0.2.1:5060");
    /// assert_eq!(Flow::from_texts("tcp/192.0.2.1:5060", "192.0.2.7:40000"), Some(flow));
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn local_text(&self) -> String {
        let mut text = String::with_capacity(TEXT_LEN);
        if self.node != 0 {
            text.push_str(itoa::Buffer::new().format(self.node));
            text.push('@');
        }
        if self.transport != Transport::Udp {
            text.push_str(self.transport.parameter());
            text.push('/');
        }
        push_socket_address(&mut text, self.local);
        text
    }

    /// The remote address as a text, for a store.
    ///
    /// ```
    /// use busyhour_sip::Flow;
    ///
    /// let flow = Flow::udp("192.0.2.1:5060".parse()?, "[2001:db8::7]:40000".parse()?);
    /// assert_eq!(flow.remote_text(), "[2001:db8::7]:40000");
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn remote_text(&self) -> String {
        let mut text = String::with_capacity(TEXT_LEN);
        push_socket_address(&mut text, self.remote);
        text
    }

    /// Reads the texts of [`local_text`](Self::local_text) and of
    /// [`remote_text`](Self::remote_text); `None` if they are malformed. The connection of such a flow does not exist any
    /// more: connections end with their process.
    pub fn from_texts(local: &str, remote: &str) -> Option<Self> {
        let (node, local) = local.split_once('@').unwrap_or(("0", local));
        let (transport, local) = local.split_once('/').unwrap_or(("udp", local));
        Some(Self {
            transport: transport.parse().ok()?,
            local: local.parse().ok()?,
            remote: remote.parse().ok()?,
            connection: 0,
            node: node.parse().ok()?,
        })
    }
}

impl Transport {
    /// Whether the transport is reliable (it delivers, or the flow fails visibly), so
    /// that nothing is retransmitted (RFC 3261 §17).
    pub fn is_reliable(self) -> bool {
        self != Self::Udp
    }

    /// Whether it is encrypted, as SIPS wants it on each hop (RFC 3261 §26.2.2, RFC 7118 §5.4).
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// Whether messages come in those of a WebSocket. Nobody can connect to such a peer: a
    /// browser has no address of its own (RFC 7118 §5.2.1).
    pub fn is_web_socket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    /// What a WebSocket runs over; any other transport is its own.
    ///
    /// ```
    /// use busyhour_sip::Transport;
    ///
    /// assert_eq!(Transport::Wss.beneath(), Transport::Tls);
    /// assert_eq!(Transport::Tls.beneath().with_web_socket(), Transport::Wss);
    /// ```
    pub fn beneath(self) -> Self {
        match self {
            Self::Ws => Self::Tcp,
            Self::Wss => Self::Tls,
            other => other,
        }
    }

    /// The WebSocket over this transport; itself where there is none.
    #[must_use]
    pub fn with_web_socket(self) -> Self {
        match self {
            Self::Tcp => Self::Ws,
            Self::Tls => Self::Wss,
            other => other,
        }
    }

    /// As it stands in Via.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }

    /// Its name in lower case, as in a `transport` parameter (RFC 3261 §19.1.1). There `ws`
    /// stands for both kinds of WebSocket: see [`uri_suffix`](Self::uri_suffix).
    pub fn parameter(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The text after the address of our SIP URIs: empty for UDP, the default transport
    /// of a URI (RFC 3263 §4.1).
    pub fn uri_suffix(self) -> &'static str {
        match self {
            Self::Udp => "",
            Self::Tcp => ";transport=tcp",
            Self::Tls => ";transport=tls",
            // The scheme tells the two apart (RFC 7118 §5.2.3).
            Self::Ws | Self::Wss => ";transport=ws",
        }
    }
}

impl Display for Transport {
    /// As it stands in Via.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(text: &str) -> Result<Self, UnknownTransport> {
        let all = [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss];
        let named = all
            .into_iter()
            .find(|transport| text.eq_ignore_ascii_case(transport.parameter()));
        named.ok_or(UnknownTransport)
    }
}

/// The text names no transport that we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give udp, tcp, tls, ws or wss")]
pub struct UnknownTransport;

/// An IPv4 address has 21 bytes with its port; what is longer grows.
const TEXT_LEN: usize = 32;

/// The source of an address, for limits by source: an IPv4 address, or an IPv6 network
/// of 64 bits, since one host usually has such a network.
///
/// ```
/// use busyhour_sip::source_of;
///
/// let of = |text: &str| source_of(text.parse().expect("an address"));
/// assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
/// assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
/// assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
/// assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
/// ```
pub fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let host_bits = u128::from(u64::MAX);
            IpAddr::V6((u128::from(address) & !host_bits).into())
        }
        address => address,
    }
}
