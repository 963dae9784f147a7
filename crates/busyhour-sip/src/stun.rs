//! The part of STUN (RFC 5389) that keeps a flow of datagrams alive (RFC 5626 §3.5.2):
//! the answer to a binding request on the SIP port contains the request's source
//! address. And the other side: who asks learns by which address others see him.
//!
//! It has no state and asks for no credentials. An answer is at most 24 bytes longer
//! than its request, so it is useless for an amplification attack.
//!
//! ```
//! use busyhour_sip::stun;
//!
//! let request = b"\x00\x01\x00\x00\x21\x12\xa4\x42twelve bytes";
//! assert!(stun::is_stun(request));
//! let mut answer = Vec::new();
//! assert!(stun::answer(request, "192.0.2.1:32853".parse()?, &mut answer));
//! assert_eq!(&answer[..2], b"\x01\x01", "a success");
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

use std::net::{IpAddr, SocketAddr};

/// Whether a datagram is STUN and not SIP: by its first two bits, which are never those
/// of SIP, the magic cookie, and a matching length (RFC 5389 §6, §8).
pub fn is_stun(datagram: &[u8]) -> bool {
    let Some((header, attributes)) = datagram.split_at_checked(HEADER_LEN) else {
        return false;
    };
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    header[0] < 0x40 && header[4..8] == COOKIE && length == attributes.len() && length % 4 == 0
}

/// Writes the answer to a datagram that [is STUN](is_stun) and came from `source`.
/// Returns `false` and writes nothing if the datagram needs no answer: it is an answer
/// itself, has another method, or is malformed.
pub fn answer(request: &[u8], source: SocketAddr, out: &mut Vec<u8>) -> bool {
    let Some((header, attributes)) = request.split_at_checked(HEADER_LEN) else {
        return false;
    };
    let Some(unknown) = unknown_attributes(attributes).filter(|_| header[..2] == REQUEST) else {
        return false;
    };
    let transaction = &header[4..];
    match unknown.is_empty() {
        true => write_mapped(transaction, source, out),
        false => write_refusal(transaction, &unknown, out),
    }
    true
}

/// Writes a binding request. Nobody must be able to guess its `transaction`.
///
/// ```
/// use busyhour_sip::stun;
///
/// let (mut request, mut answer) = (Vec::new(), Vec::new());
/// stun::write_request(*b"twelve bytes", &mut request);
/// stun::answer(&request, "192.0.2.1:32853".parse()?, &mut answer);
/// let seen_as = stun::mapped_address(&answer, *b"twelve bytes");
/// assert_eq!(seen_as, Some("192.0.2.1:32853".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn write_request(transaction: [u8; 12], out: &mut Vec<u8>) {
    write_header(REQUEST, 0, &named(transaction), out);
}

/// By which address the answerer has seen who sent the request of this transaction. `None` if it
/// is no answer to it, or one without an address. What is XOR-MAPPED counts before what is
/// MAPPED, which answerers of RFC 3489 write and some routers meddle with.
pub fn mapped_address(answer: &[u8], transaction: [u8; 12]) -> Option<SocketAddr> {
    let (header, attributes) = answer.split_at_checked(HEADER_LEN)?;
    let key = named(transaction);
    if !is_stun(answer) || header[..2] != SUCCESS || header[4..] != key {
        return None;
    }
    let plain = || address_in(attributes, MAPPED_ADDRESS, &[0; 16]);
    address_in(attributes, XOR_MAPPED_ADDRESS, &key).or_else(plain)
}

/// The address in the first attribute of this type, hidden by `key`.
fn address_in(mut attributes: &[u8], wanted: u16, key: &[u8; 16]) -> Option<SocketAddr> {
    loop {
        let (head, rest) = attributes.split_at_checked(4)?;
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let value = rest.get(..length)?;
        if u16::from_be_bytes([head[0], head[1]]) == wanted {
            return address_of(value, key);
        }
        attributes = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn address_of(value: &[u8], key: &[u8; 16]) -> Option<SocketAddr> {
    let (head, hidden) = value.split_at_checked(4)?;
    let port = u16::from_be_bytes([head[2] ^ key[0], head[3] ^ key[1]]);
    let bytes: Vec<u8> = hidden
        .iter()
        .zip(key)
        .map(|(byte, key)| byte ^ key)
        .collect();
    match (head[1], hidden.len()) {
        (1, 4) => Some((<[u8; 4]>::try_from(bytes).ok()?, port).into()),
        (2, 16) => Some((<[u8; 16]>::try_from(bytes).ok()?, port).into()),
        _ => None,
    }
}

/// The cookie and the transaction, as messages have them.
fn named(transaction: [u8; 12]) -> [u8; 16] {
    let mut named = [0; 16];
    named[..4].copy_from_slice(&COOKIE);
    named[4..].copy_from_slice(&transaction);
    named
}

/// The types of attributes that must be understood and are not; `None` when the
/// attributes are broken.
fn unknown_attributes(mut attributes: &[u8]) -> Option<Vec<u16>> {
    let mut unknown = Vec::new();
    while !attributes.is_empty() {
        let (head, rest) = attributes.split_at_checked(4)?;
        let kind = u16::from_be_bytes([head[0], head[1]]);
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        attributes = rest.get(length.next_multiple_of(4)..)?;
        let is_unknown = kind < OPTIONAL && !KNOWN.contains(&kind);
        if is_unknown && unknown.len() < UNKNOWN_MAX {
            unknown.push(kind);
        }
    }
    Some(unknown)
}

fn write_mapped(transaction: &[u8], source: SocketAddr, out: &mut Vec<u8>) {
    let port = source.port() ^ u16::from_be_bytes([COOKIE[0], COOKIE[1]]);
    let (family, address) = match source.ip().to_canonical() {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    let value_len = 4 + address.len();
    write_header(SUCCESS, 4 + value_len, transaction, out);
    out.extend(XOR_MAPPED_ADDRESS.to_be_bytes());
    out.extend((value_len as u16).to_be_bytes());
    out.extend([0, family]);
    out.extend(port.to_be_bytes());
    // The cookie and the transaction id hide the address from meddling routers.
    out.extend(
        address
            .iter()
            .zip(transaction)
            .map(|(byte, key)| byte ^ key),
    );
}

/// 420, with the types that are not understood.
fn write_refusal(transaction: &[u8], unknown: &[u16], out: &mut Vec<u8>) {
    let types: Vec<u8> = unknown.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    let padded = types.len().next_multiple_of(4);
    write_header(FAILURE, 4 + REASON.len() + 4 + padded, transaction, out);
    out.extend(ERROR_CODE.to_be_bytes());
    out.extend((REASON.len() as u16).to_be_bytes());
    out.extend(REASON);
    out.extend(UNKNOWN_ATTRIBUTES.to_be_bytes());
    out.extend((types.len() as u16).to_be_bytes());
    out.extend(&types);
    out.resize(out.len() + padded - types.len(), 0);
}

fn write_header(kind: [u8; 2], length: usize, transaction: &[u8], out: &mut Vec<u8>) {
    out.extend(kind);
    out.extend((length as u16).to_be_bytes());
    out.extend(transaction);
}

const HEADER_LEN: usize = 20;
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
/// The types of binding messages (RFC 5389 §6).
const REQUEST: [u8; 2] = [0x00, 0x01];
const SUCCESS: [u8; 2] = [0x01, 0x01];
const FAILURE: [u8; 2] = [0x01, 0x11];
const ERROR_CODE: u16 = 0x0009;
const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
const MAPPED_ADDRESS: u16 = 0x0001;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
/// Attributes from here on may be passed over.
const OPTIONAL: u16 = 0x8000;
/// The attributes that RFC 5389 §18.2 defines; none of them changes our answer.
const KNOWN: [u16; 8] = [
    MAPPED_ADDRESS,
    0x0006,
    0x0008,
    ERROR_CODE,
    UNKNOWN_ATTRIBUTES,
    0x0014,
    0x0015,
    XOR_MAPPED_ADDRESS,
];
const UNKNOWN_MAX: usize = 8;
/// Code 420 and no words.
const REASON: &[u8] = &[0, 0, 4, 20];

#[cfg(test)]
mod tests {
    use super::*;

    fn request(attributes: &[u8]) -> Vec<u8> {
        let mut request = vec![0, 1, 0, attributes.len() as u8];
        request.extend(COOKIE);
        request.extend(b"\xb7\xe7\xa7\x01\xbc\x34\xd6\x86\xfa\x87\xdf\xae");
        request.extend(attributes);
        request
    }

    fn answered(request: &[u8], source: &str) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(is_stun(request));
        assert!(answer(request, source.parse().unwrap(), &mut out));
        assert!(is_stun(&out));
        out
    }

    /// The addresses and their hidden forms of RFC 5769 §2.2 and §2.3.
    #[test]
    fn the_source_is_encoded_as_in_the_test_vectors() {
        let v4 = answered(&request(&[]), "192.0.2.1:32853");
        assert_eq!(
            v4[20..],
            *b"\x00\x20\x00\x08\x00\x01\xa1\x47\xe1\x12\xa6\x43"
        );
        let v6 = answered(
            &request(&[]),
            "[2001:db8:1234:5678:11:2233:4455:6677]:32853",
        );
        let hidden =
            b"\x00\x02\xa1\x47\x01\x13\xa9\xfa\xa5\xd3\xf1\x79\xbc\x25\xf4\xb5\xbe\xd2\xb9\xd9";
        assert_eq!(v6[24..], *hidden);
    }

    #[test]
    fn unknown_required_attributes_are_refused_and_listed() {
        let priority = [0x00, 0x24, 0, 4, 0, 0, 0, 1];
        let software = [0x80, 0x22, 0, 1, b'x', 0, 0, 0];
        assert_eq!(answered(&request(&software), "192.0.2.1:1")[..2], SUCCESS);
        let refused = answered(&request(&priority), "192.0.2.1:1");
        assert_eq!(refused[..2], FAILURE);
        assert_eq!(
            refused[20..],
            [0, 9, 0, 4, 0, 0, 4, 20, 0, 10, 0, 2, 0, 0x24, 0, 0]
        );
        let many: Vec<u8> = (0..20).flat_map(|kind| [0x10, kind, 0, 0]).collect();
        assert!(answered(&request(&many), "192.0.2.1:1").len() <= request(&many).len() + 24);
    }

    /// Attributes before it are passed over, the plain address counts only without the hidden
    /// one, and an answer to something else says nothing.
    #[test]
    fn an_answer_tells_the_address_and_only_to_who_has_asked() {
        let (transaction, source) = (*b"abcdefghijkl", "192.0.2.1:32853");
        let mut request = Vec::new();
        write_request(transaction, &mut request);
        let answer = answered(&request, source);
        let with = |first: &[u8]| {
            let mut with = [&answer[..20], first, &answer[20..]].concat();
            with[3] += first.len() as u8;
            with
        };
        let software = with(&[0x80, 0x22, 0, 1, b'x', 0, 0, 0]);
        let plain = [0, 1, 0, 8, 0, 1, 0, 9, 10, 0, 0, 1];
        for told in [&answer, &software, &with(&plain)] {
            assert_eq!(
                mapped_address(told, transaction),
                Some(source.parse().unwrap())
            );
        }
        assert_eq!(mapped_address(&answer, *b"others' own."), None);
        assert_eq!(mapped_address(&request, transaction), None);
        let mut old = [&answer[..20], &plain].concat();
        old[3] = plain.len() as u8;
        let expected = Some("10.0.0.1:9".parse().unwrap());
        assert_eq!(mapped_address(&old, transaction), expected);
        old[21] = 0x20;
        old[25] = 3;
        assert_eq!(mapped_address(&old, transaction), None, "another family");
    }

    #[test]
    fn broken_messages_and_responses_are_not_answered() {
        let mut out = Vec::new();
        let source = "192.0.2.1:1".parse().unwrap();
        let cut = request(&[0x80, 0x22, 0, 9, 0, 0, 0, 0]);
        let mut indication = request(&[]);
        indication[1] = 0x11;
        let success = answered(&request(&[]), "192.0.2.1:1");
        for unanswered in [cut, indication, success] {
            assert!(is_stun(&unanswered));
            assert!(!answer(&unanswered, source, &mut out));
        }
        assert!(out.is_empty());
        for sip in [
            &b"OPTIONS sip:a SIP/2.0\r\n\r\n"[..],
            b"\r\n\r\n",
            b"\x00\x01\x00\x04",
        ] {
            assert!(!is_stun(sip));
        }
        assert!(!is_stun(&request(&[])[..19]));
    }
}
