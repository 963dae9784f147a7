//! base64url without padding (RFC 4648 §5).

use std::borrow::Cow;

/// Three octets become four characters; no padding.
pub(super) fn put_base64(bytes: &[u8], out: &mut String) {
    for chunk in bytes.chunks(3) {
        let octet = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        for digit in 0..=chunk.len() {
            let value = bits >> (18 - 6 * digit) & 63;
            out.push(char::from(DIGITS[value as usize]));
        }
    }
}

/// The octets of a text that is written in the one way that [`put_base64`] knows, but for
/// escapes.
pub(super) fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let text = unescaped(text)?;
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.chunks(4) {
        let mut bits = 0;
        for (digit, byte) in chunk.iter().enumerate() {
            bits |= u32::from(value_of(*byte)?) << (18 - 6 * digit);
        }
        let octets = bits.to_be_bytes();
        let (kept, padding) = octets.get(1..)?.split_at(chunk.len() - 1);
        if chunk.len() == 1 || padding.iter().any(|octet| *octet != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

/// In a user part an escape is equal to the character that it stands for (RFC 3261 §19.1.4).
/// Telephones may write a route with escapes that it came without: Twinkle 1.10 escapes each
/// `Z`.
fn unescaped(text: &str) -> Option<Cow<'_, [u8]>> {
    let mut parts = text.split('%');
    let first = parts.next()?.as_bytes();
    if first.len() == text.len() {
        return Some(Cow::Borrowed(first));
    }
    let mut bytes = first.to_vec();
    for part in parts {
        let (digits, rest) = part.as_bytes().split_first_chunk::<2>()?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        bytes.push((high? << 4 | low?) as u8);
        bytes.extend_from_slice(rest);
    }
    Some(Cow::Owned(bytes))
}

fn value_of(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
