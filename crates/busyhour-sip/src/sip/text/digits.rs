//! Digits and addresses as text, written without the formatting machinery: a
//! response has a dozen of them, and that would cost more than all the rest.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The text of an IPv4 address.
#[derive(Clone, Copy, Debug)]
pub(in crate::sip) struct Ipv4Text {
    text: [u8; IPV4_LEN_MAX],
    length: u8,
}

impl Ipv4Text {
    pub fn new(address: Ipv4Addr) -> Self {
        let (mut text, mut length) = ([b'.'; IPV4_LEN_MAX], 0);
        for octet in address.octets() {
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(octet).as_bytes();
            // A point stands behind each number, and the last is not shown.
            text[length..length + digits.len()].copy_from_slice(digits);
            length += digits.len() + 1;
        }
        Self {
            text,
            length: length as u8 - 1,
        }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length as usize]).unwrap_or("")
    }
}

/// Writes two lower-case hexadecimal digits for each of `bytes` into `digits`,
/// for as many as there is room.
pub fn write_hex(digits: &mut [u8], bytes: &[u8]) {
    let (pairs, _) = digits.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = HEX[*byte as usize];
    }
}

/// Appends an address and its port as they stand in a URI.
///
/// ```
/// let mut uri = String::from("sip:");
/// busyhour_sip::push_socket_address(&mut uri, "192.0.2.1:5060".parse()?);
/// assert_eq!(uri, "sip:192.0.2.1:5060");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn push_socket_address(text: &mut String, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            text.push_str(Ipv4Text::new(*address.ip()).as_str());
            text.push(':');
            text.push_str(itoa::Buffer::new().format(address.port()));
        }
        SocketAddr::V6(address) => {
            // Writing to a String can't fail.
            let _ = write!(text, "{address}");
        }
    }
}

/// Appends an address as it stands in a URI.
///
/// ```
/// let mut uri = String::from("sip:alice@");
/// busyhour_sip::push_ip_address(&mut uri, "2001:db8::7".parse()?);
/// assert_eq!(uri, "sip:alice@[2001:db8::7]");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn push_ip_address(text: &mut String, address: IpAddr) {
    match address {
        IpAddr::V4(address) => text.push_str(Ipv4Text::new(address).as_str()),
        IpAddr::V6(address) => {
            // Writing to a String can't fail.
            let _ = write!(text, "[{address}]");
        }
    }
}

static HEX: [[u8; 2]; 256] = hex();

const fn hex() -> [[u8; 2]; 256] {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
}

/// One more than an address has, for the point behind the last number.
const IPV4_LEN_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_are_written_as_by_display(address in any::<u32>(), octet in any::<u8>()) {
            for address in [Ipv4Addr::from(address), Ipv4Addr::from([octet; 4])] {
                let text = Ipv4Text::new(address);
                prop_assert_eq!(text.as_str(), address.to_string());
            }
        }

        #[test]
        fn addresses_with_ports_are_written_as_by_display(
            address in any::<(std::net::IpAddr, u16)>().prop_map(SocketAddr::from),
        ) {
            let mut text = String::new();
            push_socket_address(&mut text, address);
            prop_assert_eq!(text, address.to_string());
            let mut text = String::new();
            push_ip_address(&mut text, address.ip());
            let without_port = SocketAddr::new(address.ip(), 0).to_string();
            prop_assert_eq!(Some(text.as_str()), without_port.strip_suffix(":0"));
        }

        #[test]
        fn hexadecimal_digits_are_written_as_by_display(number in any::<u64>()) {
            let mut digits = [0; 16];
            write_hex(&mut digits, &number.to_be_bytes());
            prop_assert_eq!(std::str::from_utf8(&digits), Ok(&*format!("{number:016x}")));
        }
    }
}
