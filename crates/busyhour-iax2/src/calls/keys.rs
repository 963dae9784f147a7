//! Unguessable call tokens and challenges that the server need not store.
//!
//! ```text
//! call token: 8 digits        4 digits   20 digits
//!             milliseconds    salt       first 80 bits of HMAC-SHA-256(key,
//!             of our clock               purpose, both of these, address, port)
//! ```
//!
//! A token proves that its client receives at the address that the token was sent to.
//! It is valid for ten seconds, as in Asterisk; its milliseconds wrap after 49 days. A
//! restart invalidates all tokens; then a client gets a new one.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use busyhour::clock::Instant;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Signs the call tokens and makes the challenges of one process.
#[derive(Clone)]
pub struct Keys {
    /// The hash state after the key, which saves two blocks each time.
    keyed: Hmac<Sha256>,
}

/// A call token as it stands on the wire.
pub(super) type Token = [u8; TOKEN_LENGTH];

/// What makes a call hard to guess for an attacker who does not see its frames.
pub(super) struct Surprise {
    /// 16 hexadecimal digits.
    pub challenge: Box<str>,
    /// Our number of the call.
    pub our_call: u16,
}

impl Keys {
    /// Keys derived from `key`, which must stay secret.
    pub fn new(key: [u8; 32]) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&key);
        Self {
            keyed: Hmac::new(&block.into()),
        }
    }

    /// A token for the client that receives at `address`; `salt` makes those of one
    /// millisecond differ.
    pub(super) fn token(&self, now: Instant, address: SocketAddr, salt: u16) -> Token {
        let mut token = [0; TOKEN_LENGTH];
        let (stamp, signature) = token.split_at_mut(STAMP_DIGITS);
        let (time, salt_digits) = stamp.split_at_mut(TIME_DIGITS);
        put_hex(time, &millis(now).to_be_bytes());
        put_hex(salt_digits, &salt.to_be_bytes());
        put_hex(signature, &self.sign(stamp, address));
        token
    }

    /// Whether a token is ours, for this address, and not too old.
    pub(super) fn is_good(&self, now: Instant, address: SocketAddr, token: &[u8]) -> bool {
        let Some((stamp, signature)) = token.split_at_checked(STAMP_DIGITS) else {
            return false;
        };
        let mut expected = [0; TOKEN_LENGTH - STAMP_DIGITS];
        put_hex(&mut expected, &self.sign(stamp, address));
        let is_ours: bool = expected.ct_eq(signature).into();
        let time = stamp.get(..TIME_DIGITS);
        let time = time.and_then(|digits| std::str::from_utf8(digits).ok());
        let made = time.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let is_young = |made| millis(now).wrapping_sub(made) <= TOKEN_LIFE.as_millis() as u32;
        is_ours && made.is_some_and(is_young)
    }

    /// Challenge and call number of the call that is `serial` of the table `table`.
    pub(super) fn surprise(&self, table: u16, serial: u64) -> Surprise {
        let mut mac = self.keyed.clone();
        mac.update(b"call");
        mac.update(&table.to_be_bytes());
        mac.update(&serial.to_be_bytes());
        let hash = mac.finalize().into_bytes();
        let mut digits = [0; 16];
        put_hex(&mut digits, &hash[..8]);
        let number = u16::from_be_bytes([hash[8], hash[9]]);
        Surprise {
            challenge: std::str::from_utf8(&digits).unwrap_or("").into(),
            our_call: FIRST_CALL + number % (LAST_CALL - FIRST_CALL + 1),
        }
    }

    /// Seeds the hash functions of the table `table`.
    pub(super) fn seed(&self, table: u16) -> u64 {
        let mut mac = self.keyed.clone();
        mac.update(b"seed");
        mac.update(&table.to_be_bytes());
        let mut seed = [0; 8];
        seed.copy_from_slice(&mac.finalize().into_bytes()[..8]);
        u64::from_be_bytes(seed)
    }

    fn sign(&self, stamp: &[u8], address: SocketAddr) -> [u8; SIGNATURE_BYTES] {
        let mut mac = self.keyed.clone();
        mac.update(b"token");
        mac.update(stamp);
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => mac.update(&ip.octets()),
            IpAddr::V6(ip) => mac.update(&ip.octets()),
        }
        mac.update(&address.port().to_be_bytes());
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(&mac.finalize().into_bytes()[..SIGNATURE_BYTES]);
        signature
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(…)")
    }
}

fn put_hex(digits: &mut [u8], bytes: &[u8]) {
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Wraps; the difference of two is right within 49 days.
fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// 0 means no number, and 1 is [`STATELESS_CALL`].
const FIRST_CALL: u16 = 2;
const LAST_CALL: u16 = 0x7fff;
/// Our call number in answers that belong to no call.
pub(super) const STATELESS_CALL: u16 = 1;
/// How long a token is good for.
pub(super) const TOKEN_LIFE: Duration = Duration::from_secs(10);
const TIME_DIGITS: usize = 8;
const STAMP_DIGITS: usize = 12;
const SIGNATURE_BYTES: usize = 10;
const TOKEN_LENGTH: usize = STAMP_DIGITS + 2 * SIGNATURE_BYTES;
const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn at_ms(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_token_is_valid_for_its_address_and_ten_seconds() {
        let (keys, here) = (Keys::new([1; 32]), address("192.0.2.1:4569"));
        let token = keys.token(at_ms(500), here, 7);
        assert!(keys.is_good(at_ms(500), here, &token));
        assert!(keys.is_good(at_ms(10_500), here, &token));
        assert!(!keys.is_good(at_ms(10_501), here, &token));
        for other in ["192.0.2.1:4570", "192.0.2.2:4569", "[::1]:4569"] {
            assert!(!keys.is_good(at_ms(500), address(other), &token), "{other}");
        }
        assert!(!Keys::new([2; 32]).is_good(at_ms(500), here, &token));
    }

    #[test]
    fn a_mapped_address_is_the_same_address() {
        let keys = Keys::new([1; 32]);
        let token = keys.token(at_ms(0), address("192.0.2.1:1"), 0);
        assert!(keys.is_good(at_ms(0), address("[::ffff:192.0.2.1]:1"), &token));
    }

    #[test]
    fn no_changed_or_truncated_token_is_valid() {
        let (keys, here) = (Keys::new([1; 32]), address("192.0.2.1:4569"));
        let token = keys.token(at_ms(0), here, 7);
        for place in 0..token.len() {
            let mut forged = token;
            forged[place] = if forged[place] == b'0' { b'1' } else { b'0' };
            assert!(!keys.is_good(at_ms(0), here, &forged), "digit {place}");
            assert!(
                !keys.is_good(at_ms(0), here, &token[..place]),
                "cut {place}"
            );
        }
    }

    #[test]
    fn the_clock_of_the_tokens_may_wrap() {
        let (keys, here) = (Keys::new([1; 32]), address("192.0.2.1:4569"));
        let before = at_ms(u64::from(u32::MAX) - 10);
        let token = keys.token(before, here, 0);
        assert!(keys.is_good(before + Duration::from_secs(9), here, &token));
        assert!(!keys.is_good(before + Duration::from_secs(11), here, &token));
    }

    #[test]
    fn call_numbers_fit_and_spare_the_first_two() {
        let keys = Keys::new([3; 32]);
        for serial in 0..2_000 {
            let call = keys.surprise(1, serial).our_call;
            assert!((FIRST_CALL..=LAST_CALL).contains(&call), "{call}");
        }
        assert_ne!(keys.surprise(1, 1).challenge, keys.surprise(2, 1).challenge);
    }

    #[test]
    fn seeds_differ_by_key_and_by_table() {
        let seed = |key, table| Keys::new([key; 32]).seed(table);
        assert_ne!(seed(1, 0), seed(2, 0));
        assert_ne!(seed(1, 0), seed(1, 1));
        assert_eq!(seed(1, 0), seed(1, 0));
    }

    #[test]
    fn a_token_has_32_digits() {
        let token = Keys::new([1; 32]).token(at_ms(1), address("192.0.2.1:4569"), 7);
        assert_eq!(
            (token.len(), &token[..12]),
            (32, b"000000010007".as_slice())
        );
    }
}
