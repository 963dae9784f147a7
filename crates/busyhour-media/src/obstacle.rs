use crate::Description;
use busyhour_sip::{Flow, Host, Message, Uri};
use std::{
    fmt::{self, Display, Formatter},
    net::{IpAddr, Ipv4Addr},
};

/// Why the media of a call does not flow from end to end without a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// A browser offers DTLS-SRTP with ICE to somebody who has only RTP.
    WebToPlain,
    /// The other way round.
    PlainToWeb,
    /// The sender's address is public, and that of its media is private: it is behind NAT.
    SenderBehindNat {
        /// Where its messages come from.
        source: IpAddr,
        /// What its description says.
        media: IpAddr,
    },
    /// The recipient has registered a private address from a public one: it is behind NAT.
    RecipientBehindNat {
        /// Where its messages come from.
        source: IpAddr,
        /// What its contact says.
        contact: IpAddr,
    },
    /// One is in a private network, and the other is not in one.
    NoCommonNetwork {
        /// Of the sender's media.
        media: IpAddr,
        /// Of the recipient.
        recipient: IpAddr,
    },
    /// One has IPv4 and the other IPv6.
    OtherFamily {
        /// Of the sender's media.
        media: IpAddr,
        /// Of the recipient.
        recipient: IpAddr,
    },
}

impl Obstacle {
    /// What stands in the way of the media of a request with an offer that leaves on `to`.
    pub fn of_offer(request: &Message<'_>, to: Flow) -> Vec<Self> {
        let Some(offer) = Description::of(request).filter(|offer| offer.has_media) else {
            return Vec::new();
        };
        let is_web_recipient = to.transport.is_web_socket();
        match (offer.is_web, is_web_recipient) {
            (true, false) => return vec![Self::WebToPlain],
            (false, true) => return vec![Self::PlainToWeb],
            // ICE finds a way through NAT, or needs a TURN server, which no proxy is.
            (true, true) => return Vec::new(),
            (false, false) => {}
        }
        let (source, recipient) = (source_of(request), to.remote.ip().to_canonical());
        let media = offer.address.map(|ip| ip.to_canonical());
        let mut obstacles = Vec::new();
        if let Some((source, media)) = source.zip(media)
            && is_private(media)
            && is_public(source)
        {
            obstacles.push(Self::SenderBehindNat { source, media });
        }
        if let Some(contact) = host_of_target(request)
            && is_private(contact)
            && is_public(recipient)
        {
            obstacles.push(Self::RecipientBehindNat {
                source: recipient,
                contact,
            });
        }
        if let (Some(media), true) = (media, obstacles.is_empty()) {
            if media.is_ipv4() != recipient.is_ipv4() {
                obstacles.push(Self::OtherFamily { media, recipient });
            } else if is_private(media) && is_public(recipient) {
                obstacles.push(Self::NoCommonNetwork { media, recipient });
            }
        }
        obstacles
    }
}

impl Display for Obstacle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::WebToPlain => f.write_str("a browser offers DTLS-SRTP with ICE to plain RTP"),
            Self::PlainToWeb => {
                f.write_str("plain RTP is offered to a browser, which wants DTLS-SRTP with ICE")
            }
            Self::SenderBehindNat { source, media } => write!(
                f,
                "the sender at {source} names the private address {media} for its media"
            ),
            Self::RecipientBehindNat { source, contact } => write!(
                f,
                "the recipient at {source} is at the private address {contact} behind NAT"
            ),
            Self::NoCommonNetwork { media, recipient } => write!(
                f,
                "the private address {media} of the media is not reached from {recipient}"
            ),
            Self::OtherFamily { media, recipient } => write!(
                f,
                "the media is at {media} and the recipient at {recipient}: one has IPv4, one IPv6"
            ),
        }
    }
}

/// Where a forwarded request came from: `received` of the Via below ours, or its host.
fn source_of(request: &Message<'_>) -> Option<IpAddr> {
    let via = request.vias().nth(1)?.ok()?;
    let received = via.params.value("received");
    let ip = match (received, via.host) {
        (Some(received), _) => received.trim_matches(['[', ']']).parse().ok()?,
        (None, Host::V4(ip)) => ip.into(),
        (None, Host::V6(ip)) => ip.into(),
        (None, Host::Name(_)) => return None,
    };
    Some(IpAddr::to_canonical(&ip))
}

/// The address in the Request-URI, which is that of the contact.
fn host_of_target(request: &Message<'_>) -> Option<IpAddr> {
    let Uri::Sip(uri) = request.request_uri().ok()? else {
        return None;
    };
    match uri.host {
        Host::V4(ip) => Some(ip.into()),
        Host::V6(ip) => Some(IpAddr::from(ip).to_canonical()),
        Host::Name(_) => None,
    }
}

/// Of a network of its own, which others do not reach.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local() || is_shared(ip),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// Neither private nor of this machine.
fn is_public(ip: IpAddr) -> bool {
    !is_private(ip) && !ip.is_loopback()
}

/// The addresses behind a carrier's translation (RFC 6598).
fn is_shared(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 100 && second & 0xc0 == 64
}
