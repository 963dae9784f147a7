//! base64url without padding (RFC 4648 §5).

use std::borrow::Cow;

/// Three octets become four characters; no padding.
pub(super) fn put_base64(bytes: &[u8], out: &mut String) {
    for block in bytes.chunks(BLOCK_LEN) {
        let (mut text, mut len) = ([0; BLOCK_LEN / 3 * 4], 0);
        for (chunk, digits) in block.chunks(3).zip(text.as_chunks_mut::<4>().0) {
            let octet = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
            let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
            *digits = [18, 12, 6, 0].map(|shift| DIGITS[(bits >> shift & 63) as usize]);
            len += chunk.len() + 1;
        }
        // Many at a time: to append one character costs as much.
        out.push_str(std::str::from_utf8(&text[..len]).unwrap_or(""));
    }
}

/// The octets of a text that is written in the one way that [`put_base64`] knows, but for
/// escapes.
pub(super) fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let text = unescaped(text)?;
    let mut bytes = vec![0; text.len() * 3 / 4];
    for (chunk, octets) in text.chunks(4).zip(bytes.chunks_mut(3)) {
        let (mut bits, mut wrong) = (0, 0);
        for (digit, byte) in chunk.iter().enumerate() {
            let value = VALUES[usize::from(*byte)];
            wrong |= value & NO_DIGIT;
            bits |= u32::from(value) << (18 - 6 * digit);
        }
        let [_, all @ ..] = bits.to_be_bytes();
        let (kept, padding) = all.split_at_checked(octets.len())?;
        octets.copy_from_slice(kept);
        if wrong > 0 || padding.iter().any(|octet| *octet != 0) {
            return None;
        }
    }
    // One digit alone is no octet.
    (text.len() % 4 != 1).then_some(bytes)
}

/// In a user part an escape is equal to the character that it stands for (RFC 3261 §19.1.4).
/// Telephones may write a route with escapes that it came without: Twinkle 1.10 escapes each
/// `Z`.
fn unescaped(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.as_bytes().contains(&b'%') {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut parts = text.split('%');
    let first = parts.next()?.as_bytes();
    let mut bytes = first.to_vec();
    for part in parts {
        let (digits, rest) = part.as_bytes().split_first_chunk::<2>()?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        bytes.push((high? << 4 | low?) as u8);
        bytes.extend_from_slice(rest);
    }
    Some(Cow::Owned(bytes))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// A multiple of three.
const BLOCK_LEN: usize = 48;
/// No value of six bits has it.
const NO_DIGIT: u8 = 64;
static VALUES: [u8; 256] = values();

const fn values() -> [u8; 256] {
    let mut table = [NO_DIGIT; 256];
    let mut value = 0;
    while value < DIGITS.len() {
        table[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    table
}
