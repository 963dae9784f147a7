//! APPARENT ADDR (RFC 5456 §8.6.17): a socket address as the first
//! implementation's machine had it in memory, which is what all send: family
//! with the low octet first, port and address in network order.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use busyhour_sip::Output;

/// Reads the 16 octets of an IPv4 address or the 28 of an IPv6 address.
///
/// ```
/// use busyhour_iax2::frames::{apparent_address, put_apparent_address};
/// for text in ["192.0.2.7:4569", "[2001:db8::7]:4569"] {
///     let address = text.parse().unwrap();
///     let mut data = Vec::new();
///     put_apparent_address(&mut data, address);
///     assert_eq!(apparent_address(&data), Some(address));
/// }
/// ```
pub fn apparent_address(data: &[u8]) -> Option<SocketAddr> {
    let (&[family, 0, p0, p1], rest) = data.split_first_chunk::<4>()? else {
        return None;
    };
    let port = u16::from_be_bytes([p0, p1]);
    match (family, data.len()) {
        (FAMILY_V4, V4_BYTES) => {
            let octets = *rest.first_chunk::<4>()?;
            Some((Ipv4Addr::from(octets), port).into())
        }
        (FAMILY_V6, V6_BYTES) => {
            let octets = *rest.get(4..)?.first_chunk::<16>()?;
            Some(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, 0).into())
        }
        _ => None,
    }
}

/// Appends the octets of an address; an IPv4 address mapped into IPv6 as IPv4.
pub fn put_apparent_address(out: &mut impl Output, address: SocketAddr) {
    let port = address.port().to_be_bytes();
    match address.ip().to_canonical() {
        std::net::IpAddr::V4(ip) => {
            out.put(&[FAMILY_V4, 0, port[0], port[1]]);
            out.put(&ip.octets());
            out.put(&[0; 8]);
        }
        std::net::IpAddr::V6(ip) => {
            out.put(&[FAMILY_V6, 0, port[0], port[1], 0, 0, 0, 0]);
            out.put(&ip.octets());
            out.put(&[0; 4]);
        }
    }
}

/// `AF_INET` and `AF_INET6` of Linux.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
const V4_BYTES: usize = 16;
const V6_BYTES: usize = 28;
