//! A peer as it stands in the configuration, and what may be wrong with it.

use crate::server::TlsTarget;
use busyhour_media::MediaWish;
use busyhour_proxy::dns::HopName;
use busyhour_registrar::{Domains, Subnet};
use busyhour_sip::{Flow, Host, Transport, Uri};
use std::{
    collections::HashMap,
    fmt::{self, Display, Formatter},
    net::{IpAddr, SocketAddr},
    str::FromStr,
    time::Duration,
};
use thiserror::Error;

/// Another server or gateway: where it is, what it may do, and which calls go to it.
///
/// ```
/// use busyhour_server::server::PeerConfig;
///
/// let gateway = PeerConfig {
///     name: "gateway".into(),
///     addresses: vec!["192.0.2.10".parse()?, "192.0.2.11".parse()?],
///     may_call: true,
///     prefixes: vec!["0".into()],
///     ..PeerConfig::default()
/// };
/// assert!(gateway.may_call && !gateway.may_publish);
/// # Ok::<(), busyhour_server::server::NotPeerAddress>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// Its name in the log, in routes and in lists.
    pub name: String,
    /// Where its requests come from. Calls go to those that are no networks, to the first
    /// one that is there.
    pub addresses: Vec<PeerAddress>,
    /// Its certificates. With one, only connections over TLS that show one of them are its, from
    /// wherever they come, and calls go to the last of those first.
    pub certificates: Vec<CertificateFingerprint>,
    /// The same for certificates that are for one of these domains or addresses, and that an
    /// authority vouches for.
    pub certificate_names: Vec<String>,
    /// It may call our users without a password, and its P-Asserted-Identity is believed.
    pub may_call: bool,
    /// Its calls to our users are not carried: it is told their contacts by a 302.
    pub redirects: bool,
    /// Whether its calls use a media relay; [`MediaWish::Auto`] leaves that to the configuration
    /// for all.
    pub media: MediaWish,
    /// It may publish the state of all our users without a password.
    pub may_publish: bool,
    /// Calls to users of our domains that are not known here go to it if the user begins
    /// with one of these; the longest prefix of all peers counts.
    pub prefixes: Vec<String>,
    /// Calls to these domains go to it.
    pub domains: Vec<String>,
    /// They go where DNS says of the domain that is called (RFC 3263). One of the domains may be
    /// `*`, for all that have public addresses and are of no other peer.
    pub looks_up: bool,
    /// Calls to unknown users of our domains go to it if no prefix of any peer fits.
    pub is_default: bool,
    /// The host in the Request-URI of these calls; without one, that which the caller wrote.
    pub host: Option<String>,
    /// How often each of its addresses is sent OPTIONS; zero is never.
    pub probe_interval: Duration,
    /// How long an address may leave an INVITE without any response before the next address
    /// is tried.
    pub silence_max: Duration,
    /// Its part of the calls and of their memory, and of the publications, in percent.
    pub share_percent: u64,
}

/// An address of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAddress {
    /// Any port of this address; calls go to port 5060.
    Host(IpAddr),
    /// Datagrams of this port alone; calls go there.
    Port(SocketAddr),
    /// Connections over this transport from any port of this address; calls go there over it.
    Stream(Transport, SocketAddr),
    /// Any port of these addresses; no calls go there.
    Network(Subnet),
    /// Any port of the servers that DNS names for it (RFC 3263); calls go to those.
    Named(HopName),
}

/// The SHA-256 of a certificate, in DER.
///
/// ```
/// use busyhour_server::server::CertificateFingerprint;
///
/// let shown = "aa:".repeat(31) + "AB";
/// let fingerprint: CertificateFingerprint = shown.parse()?;
/// assert_eq!(fingerprint.to_string(), "aa".repeat(31) + "ab");
/// # Ok::<(), busyhour_server::server::NotFingerprint>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateFingerprint(pub [u8; 32]);

/// Not the fingerprint of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "give 64 hexadecimal digits, as `openssl x509 -noout -fingerprint -sha256 -in FILE` prints them"
)]
pub struct NotFingerprint;

/// Not an address of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "give an IP address or a host name, alone or with a port, with udp/, tcp/ or tls/ before it or \
     not, or a network: 192.0.2.10, 192.0.2.10:5080, tls/sip.example.net, 192.0.2.0/24"
)]
pub struct NotPeerAddress;

/// What is wrong with a peer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say what each one is")]
pub enum PeerMistake {
    #[error("name: give 1 to 64 letters, digits, `-`, `_` or `.`")]
    Name,
    #[error("name: another peer has the same name")]
    SameName,
    #[error("addresses: give at least one and at most {ADDRESSES_MAX}, or certificates")]
    AddressCount,
    #[error("certificates: {0} is also one of peer `{1}`")]
    SameCertificate(CertificateFingerprint, String),
    #[error("certificates, certificate_names: give at most {ADDRESSES_MAX}")]
    CertificateCount,
    #[error("certificate_names: `{0}`: give a host name or an IP address")]
    CertificateName(String),
    #[error("certificate_names: `{0}` is also one of peer `{1}`")]
    SameCertificateName(String, String),
    #[error("addresses: {0} is also an address of peer `{1}`; a request would be of the first one")]
    SameAddress(PeerAddress, String),
    #[error(
        "it has no effect: give may_call = true, may_publish = true, prefixes, domains or default = true"
    )]
    Useless,
    #[error("redirect: it may not call: give may_call = true")]
    NoCalls,
    #[error("calls go to it, but its addresses are only networks: give one address")]
    Nowhere,
    #[error("prefixes: `{0}`: give 1 to 32 letters, digits, `+`, `*`, `#` or `-`")]
    Prefix(String),
    #[error("prefixes: `{0}` is also a prefix of peer `{1}`: give one peer several addresses")]
    SamePrefix(String, String),
    #[error(
        "lookup: calls go where DNS says of the domain that is called: give domains, and neither \
         prefixes nor default"
    )]
    LookupOfUsers,
    #[error("domains: `*`, for all other domains, needs lookup = true, and sip.domains")]
    AllDomains,
    #[error("domains: `{0}`: give a host name or an IP address")]
    Domain(String),
    #[error("domains: `{0}` is also a domain of peer `{1}`")]
    SameDomain(String, String),
    #[error("domains: `{0}` is one of ours (sip.domains): give prefixes, or default = true")]
    OwnDomain(String),
    #[error("default: peer `{0}` is the default already")]
    SameDefault(String),
    #[error("host: `{0}`: give a host name or an IP address, with or without a port")]
    Host(String),
    #[error("probe_seconds: give 0, or 10 to 3600")]
    ProbeInterval,
    #[error("failover_seconds: give 1 to 32")]
    SilenceMax,
    #[error("share_percent: give 1 to 100")]
    Share,
    #[error(
        "calls go only from authenticated users to peers, and with sip.auth = \"open\" there are none: \
         remove prefixes, domains and default, or set sip.auth = \"digest\""
    )]
    Open,
    #[error("there are too many peers: at most {PEERS_MAX}")]
    TooMany,
}

impl PeerConfig {
    /// Whether any calls go to it.
    pub(in crate::server) fn takes_calls(&self) -> bool {
        self.is_default || !self.prefixes.is_empty() || !self.domains.is_empty()
    }

    /// Where calls go, in order, and over which transport, as far as no name has to be looked up.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (Transport, SocketAddr)> + '_ {
        self.addresses.iter().filter_map(PeerAddress::target)
    }

    /// The same, each with its place among the addresses.
    pub(super) fn placed_targets(
        &self,
    ) -> impl Iterator<Item = (usize, (Transport, SocketAddr))> + '_ {
        let places = self.addresses.iter().enumerate();
        places.filter_map(|(place, address)| Some((place, address.target()?)))
    }

    /// The names among its addresses, each with its place.
    pub(crate) fn names(&self) -> impl Iterator<Item = (usize, &HopName)> {
        let places = self.addresses.iter().enumerate();
        places.filter_map(|(place, address)| match address {
            PeerAddress::Named(name) => Some((place, name)),
            _ => None,
        })
    }

    /// Whose certificate is expected of its server at an address; `domain` is the name that led
    /// there (RFC 5922 §7).
    pub(in crate::server) fn certificate_at(&self, address: SocketAddr, domain: &str) -> TlsTarget {
        let host = self.host.as_deref().map(without_port);
        let names = match (self.shows_certificate(), host) {
            (true, _) => self.certificate_names.clone(),
            (false, Some(host)) => vec![host.to_owned()],
            (false, None) => vec![domain.to_owned()],
        };
        TlsTarget {
            address,
            fingerprints: self.certificates.iter().map(|it| it.0).collect(),
            names,
        }
    }

    /// Whether it is known by what it shows, and not by its address.
    pub(crate) fn shows_certificate(&self) -> bool {
        !self.certificates.is_empty() || !self.certificate_names.is_empty()
    }

    /// The addresses that it is called at over TLS, and whose certificate is expected there: one
    /// of its own, else one for `host`, or for the address.
    ///
    /// ```
    /// # use busyhour_server::server::PeerConfig;
    /// let trunk = PeerConfig {
    ///     addresses: vec!["tls/192.0.2.10".parse()?, "192.0.2.11".parse()?],
    ///     host: Some("sip.example.net".into()),
    ///     ..PeerConfig::default()
    /// };
    /// let targets: Vec<_> = trunk.tls_targets().collect();
    /// assert_eq!(targets.len(), 1);
    /// assert_eq!(targets[0].names, ["sip.example.net"]);
    /// # Ok::<(), busyhour_server::server::NotPeerAddress>(())
    /// ```
    pub fn tls_targets(&self) -> impl Iterator<Item = TlsTarget> + '_ {
        self.targets().filter_map(|(transport, address)| {
            let expected = || self.certificate_at(address, &address.ip().to_string());
            (transport == Transport::Tls).then(expected)
        })
    }
}

impl Default for PeerConfig {
    /// It has no name, no address, and may do nothing.
    fn default() -> Self {
        Self {
            name: String::new(),
            addresses: Vec::new(),
            certificates: Vec::new(),
            certificate_names: Vec::new(),
            may_call: false,
            redirects: false,
            media: MediaWish::Auto,
            may_publish: false,
            prefixes: Vec::new(),
            domains: Vec::new(),
            looks_up: false,
            is_default: false,
            host: None,
            probe_interval: Duration::from_secs(30),
            silence_max: Duration::from_secs(4),
            share_percent: 50,
        }
    }
}

impl PeerAddress {
    /// Whether what comes on this flow is of the peer. The port that a connection comes from
    /// says nothing.
    pub(in crate::server) fn includes(&self, flow: Flow) -> bool {
        let (source, transport) = (flow.remote, flow.transport);
        match *self {
            // Who is there is known when DNS has answered.
            Self::Named(_) => false,
            Self::Host(ip) => source.ip().to_canonical() == ip,
            Self::Port(own) => !transport.is_reliable() && own == canonical(source),
            Self::Stream(over, own) => transport == over && own.ip() == source.ip().to_canonical(),
            Self::Network(network) => network.contains(source.ip()),
        }
    }

    /// Whether the peer is at this IP address.
    pub(in crate::server) fn is_at(&self, ip: IpAddr) -> bool {
        match *self {
            Self::Named(_) => false,
            Self::Host(own) => own == ip.to_canonical(),
            Self::Port(own) | Self::Stream(_, own) => own.ip() == ip.to_canonical(),
            Self::Network(network) => network.contains(ip),
        }
    }

    fn target(&self) -> Option<(Transport, SocketAddr)> {
        match *self {
            Self::Host(ip) => Some((Transport::Udp, SocketAddr::new(ip, SIP_PORT))),
            Self::Port(address) => Some((Transport::Udp, address)),
            Self::Stream(transport, address) => Some((transport, address)),
            Self::Network(_) | Self::Named(_) => None,
        }
    }
}

impl FromStr for CertificateFingerprint {
    type Err = NotFingerprint;

    /// Colons between the digits are left out.
    fn from_str(text: &str) -> Result<Self, NotFingerprint> {
        let digits: String = text.chars().filter(|digit| *digit != ':').collect();
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NotFingerprint);
        }
        let mut fingerprint = [0; 32];
        for (place, byte) in fingerprint.iter_mut().enumerate() {
            let pair = &digits[2 * place..2 * place + 2];
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NotFingerprint)?;
        }
        Ok(Self(fingerprint))
    }
}

impl Display for CertificateFingerprint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PeerAddress {
    type Err = NotPeerAddress;

    fn from_str(text: &str) -> Result<Self, NotPeerAddress> {
        for transport in [Transport::Udp, Transport::Tcp, Transport::Tls] {
            let over = text.strip_prefix(transport.parameter());
            let Some(address) = over.and_then(|rest| rest.strip_prefix('/')) else {
                continue;
            };
            if let Some(name) = named(address) {
                let transport = Some(transport);
                return Ok(Self::Named(HopName { transport, ..name }));
            }
            return match transport {
                Transport::Udp => address.parse(),
                stream => stream_address(stream, address)?.checked(),
            };
        }
        if let Some(name) = named(text) {
            return Ok(Self::Named(name));
        }
        if let Some(ip) = ip_alone(text) {
            return Ok(Self::Host(ip)).and_then(Self::checked);
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self::Port(canonical(address))).and_then(Self::checked);
        }
        text.parse().map(Self::Network).map_err(|_| NotPeerAddress)
    }
}

impl PeerAddress {
    /// Nothing is sent to no address or no port.
    fn checked(self) -> Result<Self, NotPeerAddress> {
        let is_sound = |(_, target): (Transport, SocketAddr)| {
            !target.ip().is_unspecified() && target.port() != 0
        };
        match self.target().is_none_or(is_sound) {
            true => Ok(self),
            false => Err(NotPeerAddress),
        }
    }
}

impl Display for PeerAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(ip) => ip.fmt(f),
            Self::Port(address) => address.fmt(f),
            Self::Stream(transport, address) => write!(f, "{}/{address}", transport.parameter()),
            Self::Network(network) => network.fmt(f),
            Self::Named(name) => {
                if let Some(transport) = name.transport {
                    write!(f, "{}/", transport.parameter())?;
                }
                f.write_str(&name.host)?;
                name.port.map_or(Ok(()), |port| write!(f, ":{port}"))
            }
        }
    }
}

/// A host name, with or without a port.
fn named(text: &str) -> Option<HopName> {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port != 0)?)),
        None => (text, None),
    };
    Some(HopName {
        port,
        ..HopName::new(host)?
    })
}

/// With or without brackets.
fn ip_alone(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let ip = bare.unwrap_or(text).parse::<IpAddr>().ok()?;
    Some(ip.to_canonical())
}

/// Without a port, the default one of the transport (RFC 3261 §19.1.2).
fn stream_address(transport: Transport, text: &str) -> Result<PeerAddress, NotPeerAddress> {
    let port = match transport {
        Transport::Tls => SIPS_PORT,
        _ => SIP_PORT,
    };
    let address = match ip_alone(text) {
        Some(ip) => SocketAddr::new(ip, port),
        None => canonical(text.parse().map_err(|_| NotPeerAddress)?),
    };
    Ok(PeerAddress::Stream(transport, address))
}

/// The host of what stands in `host`, without brackets.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or(host),
    }
}

/// Everything that is wrong with these peers, each with the place of its peer; `is_open` if
/// nobody authenticates.
pub(crate) fn mistakes(
    peers: &[PeerConfig],
    domains: &Domains,
    is_open: bool,
) -> Vec<(usize, PeerMistake)> {
    let mut found = Vec::new();
    let mut known = Known::default();
    for (place, peer) in peers.iter().enumerate() {
        let own = alone(peer, domains, is_open).into_iter();
        found.extend(own.map(|mistake| (place, mistake)));
        let shared = known.add(peer).into_iter();
        found.extend(shared.map(|mistake| (place, mistake)));
    }
    if peers.len() > PEERS_MAX {
        found.push((PEERS_MAX, PeerMistake::TooMany));
    }
    found
}

/// What earlier peers have.
#[derive(Default)]
struct Known<'c> {
    names: Vec<&'c str>,
    addresses: Vec<(PeerAddress, &'c str)>,
    certificates: Vec<(CertificateFingerprint, &'c str)>,
    certificate_names: HashMap<String, &'c str>,
    prefixes: HashMap<&'c str, &'c str>,
    domains: HashMap<String, &'c str>,
    default: Option<&'c str>,
}

impl<'c> Known<'c> {
    fn add(&mut self, peer: &'c PeerConfig) -> Vec<PeerMistake> {
        let name = peer.name.as_str();
        let mut found = Vec::new();
        if self.names.contains(&name) {
            found.push(PeerMistake::SameName);
        }
        self.names.push(name);
        for address in &peer.addresses {
            let same = self.addresses.iter().find(|(known, _)| known == address);
            found.extend(
                same.map(|(_, other)| PeerMistake::SameAddress(address.clone(), (*other).into())),
            );
            self.addresses.push((address.clone(), name));
        }
        for shown in &peer.certificates {
            let same = self.certificates.iter().find(|(known, _)| known == shown);
            let same = same.map(|(_, other)| (*other).to_owned());
            found.extend(same.map(|other| PeerMistake::SameCertificate(*shown, other)));
            self.certificates.push((*shown, name));
        }
        for shown in &peer.certificate_names {
            let key = shown.to_ascii_lowercase();
            let other = self.certificate_names.insert(key, name);
            found
                .extend(other.map(|it| PeerMistake::SameCertificateName(shown.clone(), it.into())));
        }
        for prefix in &peer.prefixes {
            let other = self.prefixes.insert(prefix, name);
            found.extend(other.map(|it| PeerMistake::SamePrefix(prefix.clone(), it.into())));
        }
        for domain in &peer.domains {
            let other = self.domains.insert(domain.to_ascii_lowercase(), name);
            found.extend(other.map(|it| PeerMistake::SameDomain(domain.clone(), it.into())));
        }
        if peer.is_default {
            let other = self.default.replace(name);
            found.extend(other.map(|it| PeerMistake::SameDefault(it.into())));
        }
        found
    }
}

fn alone(peer: &PeerConfig, domains: &Domains, is_open: bool) -> Vec<PeerMistake> {
    let takes_calls = peer.takes_calls();
    let interval = peer.probe_interval.as_secs();
    let checks = [
        (!is_name(&peer.name), PeerMistake::Name),
        (
            peer.addresses.is_empty() && !peer.shows_certificate() && !peer.looks_up
                || peer.addresses.len() > ADDRESSES_MAX,
            PeerMistake::AddressCount,
        ),
        (
            peer.certificates.len().max(peer.certificate_names.len()) > ADDRESSES_MAX,
            PeerMistake::CertificateCount,
        ),
        (
            !takes_calls && !peer.may_call && !peer.may_publish,
            PeerMistake::Useless,
        ),
        (peer.redirects && !peer.may_call, PeerMistake::NoCalls),
        (
            takes_calls
                && !peer.shows_certificate()
                && !peer.addresses.is_empty()
                && !peer.looks_up
                && peer.targets().next().is_none()
                && peer.names().next().is_none(),
            PeerMistake::Nowhere,
        ),
        (
            peer.looks_up
                && (peer.domains.is_empty() || !peer.prefixes.is_empty() || peer.is_default),
            PeerMistake::LookupOfUsers,
        ),
        (
            (!peer.looks_up || domains.are_all())
                && peer.domains.iter().any(|domain| domain == ALL_DOMAINS),
            PeerMistake::AllDomains,
        ),
        (
            interval != 0 && !(10..=3600).contains(&interval),
            PeerMistake::ProbeInterval,
        ),
        (
            !(1..=32).contains(&peer.silence_max.as_secs()),
            PeerMistake::SilenceMax,
        ),
        (!(1..=100).contains(&peer.share_percent), PeerMistake::Share),
        (takes_calls && is_open, PeerMistake::Open),
    ];
    let mut found: Vec<_> = checks
        .into_iter()
        .filter_map(|(is_wrong, mistake)| is_wrong.then_some(mistake))
        .collect();
    let is_host = |name: &str| with_host(name, |_, port| port.is_none()) == Some(true);
    let names = peer.certificate_names.iter().filter(|name| !is_host(name));
    found.extend(names.map(|name| PeerMistake::CertificateName(name.clone())));
    let prefixes = peer.prefixes.iter().filter(|prefix| !is_prefix(prefix));
    found.extend(prefixes.map(|prefix| PeerMistake::Prefix(prefix.clone())));
    let domains_named = peer.domains.iter().filter(|domain| *domain != ALL_DOMAINS);
    found.extend(domains_named.filter_map(|domain| {
        let is_ours = |host: &Host<'_>| !domains.are_all() && domains.contain(host);
        match with_host(domain, |host, port| port.is_none().then(|| is_ours(host))).flatten() {
            None => Some(PeerMistake::Domain(domain.clone())),
            Some(true) => Some(PeerMistake::OwnDomain(domain.clone())),
            Some(false) => None,
        }
    }));
    let hosts = peer.host.iter();
    let wrong = hosts.filter(|host| with_host(host, |_, _| ()).is_none());
    found.extend(wrong.map(|host| PeerMistake::Host(host.clone())));
    found
}

/// What `read` makes of the host and port that a text is; `None` if it is something else.
pub(super) fn with_host<R>(
    text: &str,
    read: impl FnOnce(&Host<'_>, Option<u16>) -> R,
) -> Option<R> {
    let uri = format!("sip:{text}");
    let parsed = Uri::parse(&uri)?;
    let sip = parsed.as_sip()?;
    let is_plain = !text.contains(['@', ';', '?']);
    is_plain.then(|| read(&sip.host, sip.port))
}

fn is_name(name: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_fit)
}

fn is_prefix(prefix: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"+*#-".contains(&byte);
    (1..=32).contains(&prefix.len()) && prefix.bytes().all(is_fit)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

const SIP_PORT: u16 = 5060;
const SIPS_PORT: u16 = 5061;
const ADDRESSES_MAX: usize = 64;
/// Among `domains`.
pub(super) const ALL_DOMAINS: &str = "*";
const PEERS_MAX: usize = 256;
