//! Addresses that anybody may name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the Internet: neither of this machine, nor of a private network,
/// nor of none. What stands in the DNS of strangers must not lead to the neighbours that trust
/// this server by its address.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    // RFC 6598, RFC 2544, and "this network".
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_benchmark = first == 198 && (18..20).contains(&second);
    let is_reserved = first == 0 || first >= 240;
    !(ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_multicast())
        && !(is_shared || is_benchmark || is_reserved)
}

/// Only of 2000::/3, and not those that lead to an IPv4 address (RFC 3056, RFC 4380).
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    let is_global = first & 0xe000 == 0x2000;
    let has_v4 = first == 0x2002 || first == 0x2001 && second == 0;
    is_global && !has_v4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let is_public = |text: &str| is_public(text.parse().expect("an address"));
        for public in ["8.8.8.8", "100.63.0.1", "172.32.0.1", "2a00:1450::1"] {
            assert!(is_public(public), "{public}");
        }
        for own in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "198.18.0.1",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "2001:0:a00:1::1",
        ] {
            assert!(!is_public(own), "{own}");
        }
    }
}
