//! Addresses of record, and whether they are ours.

use super::{Domains, Refusal};
use busyhour_sip::{Host, Scheme, SipUri, Transport, Uri};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The key of an address of record: `sip:user@host`, the user with needless
/// escapes undone and the host in lower case (RFC 3261 §10.3, step 5).
///
/// Port, password, parameters and headers do not belong to it; `sip` and
/// `sips` name the same one (RFC 5630 §3.3). Other names of the same person become the one
/// that the domain's rules and aliases say.
///
/// # Errors
///
/// [`Refusal::UnsupportedScheme`] for other schemes, [`Refusal::NotFound`]
/// without a user, [`Refusal::NotServed`] outside of `domains`.
///
/// ```
/// use busyhour_sip::Uri;
/// use busyhour_registrar::{address_of_record, Domains};
///
/// let uri = Uri::parse("sips:%61lice@EXAMPLE.com:5061;transport=tcp").unwrap();
/// let aor = address_of_record(&uri, &Domains::default()).unwrap();
/// assert_eq!(aor, "sip:alice@example.com");
/// ```
pub fn address_of_record(uri: &Uri<'_>, domains: &Domains) -> Result<String, Refusal> {
    let uri = uri.as_sip().ok_or(Refusal::UnsupportedScheme)?;
    if !domains.contain(&uri.host) {
        return Err(Refusal::not_served(&uri.host));
    }
    if uri.user.is_none() {
        return Err(Refusal::NotFound);
    }
    let mut key = *uri;
    key.scheme = Scheme::Sip;
    key.port = None;
    let mut aor = String::with_capacity(uri.text.len());
    key.canonical_aor(&mut aor);
    Ok(domains.settle(aor))
}

/// The user part of an address of record; empty without one.
///
/// ```
/// use busyhour_registrar::user_of;
///
/// assert_eq!(user_of("sip:alice@example.org"), "alice");
/// assert_eq!(user_of("sip:example.org"), "");
/// ```
pub fn user_of(aor: &str) -> &str {
    let (_, address) = aor.split_once(':').unwrap_or(("", aor));
    address.rsplit_once('@').map_or("", |(user, _)| user)
}

/// The address and port of a SIP URI that is reached by datagrams; `None` where it
/// has a name, which we do not look up, or wants another transport.
pub(crate) fn datagram_address(uri: &str) -> Option<(IpAddr, u16)> {
    datagram_address_in(Uri::parse(uri)?.as_sip()?)
}

fn datagram_address_in(uri: &SipUri<'_>) -> Option<(IpAddr, u16)> {
    let uri = Some(uri).filter(|uri| uri.scheme == Scheme::Sip)?;
    let transport = uri.param("transport").flatten();
    if transport.is_some_and(|transport| !transport.eq_ignore_ascii_case("udp")) {
        return None;
    }
    address_in(uri)
}

/// Where a request for this SIP URI goes, and over which transport (RFC 3263 §4.1, §4.2 for a
/// numeric address); `None` if the URI has a name, a transport that we do not speak, or that of a
/// WebSocket, which only the device itself can make.
///
/// ```
/// use busyhour_registrar::numeric_address;
/// use busyhour_sip::Transport;
///
/// let address = |text: &str| text.parse();
/// assert_eq!(numeric_address("sip:a@192.0.2.7"), Some((Transport::Udp, address("192.0.2.7:5060")?)));
/// let over_tls = Some((Transport::Tls, address("192.0.2.7:5061")?));
/// assert_eq!(numeric_address("sips:a@192.0.2.7"), over_tls);
/// assert_eq!(numeric_address("sip:a@192.0.2.7;transport=TLS"), over_tls);
/// assert_eq!(numeric_address("sip:a@192.0.2.7;transport=sctp"), None);
/// assert_eq!(numeric_address("sip:a@192.0.2.7;transport=ws"), None);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn numeric_address(uri: &str) -> Option<(Transport, SocketAddr)> {
    let uri = Uri::parse(uri)?;
    let uri = uri.as_sip()?;
    let named = uri.param("transport").flatten();
    let transport = match (uri.scheme, named) {
        (Scheme::Sips, None) => Transport::Tls,
        // What TLS runs over (RFC 3261 §26.2.2).
        (Scheme::Sips, Some(name)) if name.eq_ignore_ascii_case("tcp") => Transport::Tls,
        (Scheme::Sip, None) => Transport::Udp,
        (_, Some(name)) => name.parse().ok()?,
    };
    if transport.is_web_socket() {
        return None;
    }
    let is_sound = uri.scheme == Scheme::Sip || transport == Transport::Tls;
    let address = address_in(uri).filter(|_| is_sound)?;
    Some((transport, address.into()))
}

/// The address and port of a SIP URI, unless it has a name.
fn address_in(uri: &SipUri<'_>) -> Option<(IpAddr, u16)> {
    let ip = match uri.host {
        Host::V4(ip) => ip.into(),
        Host::V6(ip) => IpAddr::from(ip).to_canonical(),
        Host::Name(_) => return None,
    };
    let is_tls = uri.scheme == Scheme::Sips
        || (uri.param("transport").flatten()).is_some_and(|name| name.eq_ignore_ascii_case("tls"));
    Some((ip, uri.port.unwrap_or(if is_tls { 5061 } else { 5060 })))
}

/// Whether the device with this contact URI probably listens at `source`, where its
/// registration came from. It does if the URI has that address, asks to keep the flow
/// (RFC 5626 §4.3), or has a private address that NAT has translated. A device whose
/// URI has another port need not listen on its source port, and a URI with another host
/// belongs to another device.
pub(super) fn listens_at(uri: &str, source: SocketAddr) -> bool {
    let parsed = Uri::parse(uri);
    let sip = match parsed.as_ref().map(Uri::as_sip) {
        Some(Some(sip)) => sip,
        // IAX2 has one port for both ways.
        _ => return true,
    };
    let source_ip = source.ip().to_canonical();
    sip.param("ob").is_some()
        || datagram_address_in(sip).is_some_and(|(ip, port)| match ip == source_ip {
            true => port == source.port(),
            false => is_private(ip) && !is_private(source_ip),
        })
}

/// Whether the device with this contact URI listens on another port of the IP address
/// from which its connection comes, so that others can connect to it, and does not ask
/// to keep the flow.
pub(super) fn listens_apart(uri: &str, source: SocketAddr) -> bool {
    let parsed = Uri::parse(uri);
    let Some(sip) = parsed.as_ref().and_then(Uri::as_sip) else {
        return false;
    };
    let is_apart = |(ip, port)| ip == source.ip().to_canonical() && port != source.port();
    sip.param("ob").is_none() && address_in(sip).is_some_and(is_apart)
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local() || is_shared(ip),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// The addresses behind a carrier's translation (RFC 6598).
fn is_shared(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 100 && second & 0xc0 == 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_listens_at_its_source_if_its_contact_is_that_or_translated() {
        let listens = |uri: &str, source: &str| listens_at(uri, source.parse().unwrap());
        let source = "192.0.2.7:40000";
        for uri in [
            "sip:a@192.0.2.7:40000",
            "sip:a@192.0.2.7:5060;ob",
            "sip:a@192.168.1.5:5060",
            "sip:a@100.64.0.5",
            "iax:a@192.0.2.7:4569",
        ] {
            assert!(listens(uri, source), "{uri}");
        }
        for uri in [
            "sip:a@192.0.2.7:5060",
            "sip:a@192.0.2.7",
            "sip:a@192.0.2.8:40000",
            "sip:a@phone.example.com:40000",
            "sip:a@192.0.2.7:40000;transport=tcp",
            "sips:a@192.0.2.7:40000",
        ] {
            assert!(!listens(uri, source), "{uri}");
        }
        assert!(listens("sip:a@[2001:db8::7]", "[2001:db8::7]:5060"));
        assert!(listens("sip:a@[fd00::7]", "[2001:db8::7]:5060"));
        assert!(listens("sip:a@192.0.2.7", "[::ffff:192.0.2.7]:5060"));
        assert!(!listens("sip:a@10.0.0.6", "10.0.0.5:5060"), "another phone");
    }
}
