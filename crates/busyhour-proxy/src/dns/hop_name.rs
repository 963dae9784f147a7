//! A next hop that has a name.

use busyhour_sip::{Host, Scheme, SipUri, Transport};

/// The name of a next hop, and what its URI says of the way there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HopName {
    /// In lower case.
    pub host: Box<str>,
    /// Without one, DNS says it.
    pub port: Option<u16>,
    /// Without one, DNS says it.
    pub transport: Option<Transport>,
    /// Only over TLS: the URI is a SIPS URI (RFC 3261 §26.2.2).
    pub is_secure: bool,
}

impl HopName {
    /// Any way to a host; `None` if the text cannot be the name of one (RFC 1123 §2.1), or looks
    /// as if an address was meant.
    pub fn new(host: &str) -> Option<Self> {
        let host = host.strip_suffix('.').unwrap_or(host);
        is_host_name(host).then(|| Self {
            host: host.to_ascii_lowercase().into(),
            port: None,
            transport: None,
            is_secure: false,
        })
    }

    /// The next hop that a URI names, or its `maddr` (RFC 3263 §4); `None` if that is an address,
    /// or for a transport that is not known here.
    ///
    /// ```
    /// use busyhour_proxy::dns::HopName;
    /// use busyhour_sip::{Transport, Uri};
    ///
    /// let of = |text| HopName::of_uri(Uri::parse(text)?.as_sip()?);
    /// let hop = of("sip:bob@Example.net;transport=tcp").expect("a name");
    /// assert_eq!((&*hop.host, hop.transport), ("example.net", Some(Transport::Tcp)));
    /// assert!(of("sips:bob@example.net").expect("a name").is_secure);
    /// assert_eq!(of("sip:bob@192.0.2.7"), None);
    /// assert_eq!(of("sip:bob@example.net;transport=sctp"), None);
    /// ```
    pub fn of_uri(uri: &SipUri<'_>) -> Option<Self> {
        let named = uri.param("transport").flatten();
        let transport = match named {
            None => None,
            // What TLS runs over.
            Some(name) if uri.scheme == Scheme::Sips && name.eq_ignore_ascii_case("tcp") => None,
            Some(name) => Some(name.parse().ok()?),
        };
        let host = match (uri.param("maddr").flatten(), uri.host) {
            (Some(maddr), _) if maddr.parse::<std::net::IpAddr>().is_err() => maddr,
            (None, Host::Name(host)) => host,
            _ => return None,
        };
        Some(Self {
            port: uri.port,
            transport,
            is_secure: uri.scheme == Scheme::Sips,
            ..Self::new(host)?
        })
    }
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_fit) && !label.starts_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or("");
    text.len() <= 253
        && text.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}
