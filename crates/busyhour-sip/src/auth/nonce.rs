//! Nonces that the server need not store: time, salt and a signature. Each is valid
//! only for the source that it was sent to.
//!
//! ```text
//! 8 digits          8 digits   24 digits
//! seconds since     salt       first 96 bits of HMAC-SHA-256(key,
//! 1970, unsigned               realm, seconds, salt, source)
//! ```

use crate::sip::write_hex;
use busyhour::clock::UnixTime;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// Makes and knows the nonces of one realm.
#[derive(Clone)]
pub(super) struct NonceKey {
    /// The hash state after key and realm, so that each nonce costs only two blocks.
    keyed: Hmac<Sha256>,
}

/// A nonce in its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonce([u8; NONCE_DIGITS]);

impl Nonce {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

/// What a nonce that came back is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Standing {
    /// Ours, and its age in seconds.
    Ours { age_s: u64 },
    /// Not signed by this key for this realm and this source.
    Foreign,
}

impl NonceKey {
    pub fn new(key: [u8; 32], realm: &str) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&key);
        let mut keyed = Hmac::<Sha256>::new(&block.into());
        keyed.update(&(realm.len() as u64).to_be_bytes());
        keyed.update(realm.as_bytes());
        Self { keyed }
    }

    pub fn issue(&self, now: UnixTime, source: IpAddr, salt: u32) -> Nonce {
        let mut digits = [0; NONCE_DIGITS];
        let (stamp, signature) = digits.split_at_mut(STAMP_DIGITS);
        let (second, salted) = stamp.split_at_mut(STAMP_DIGITS / 2);
        write_hex(second, &seconds(now).to_be_bytes());
        write_hex(salted, &salt.to_be_bytes());
        signature.copy_from_slice(&self.sign(stamp, source));
        Nonce(digits)
    }

    /// A nonce from the future counts as made now: the clock was set back.
    pub fn check(&self, now: UnixTime, source: IpAddr, nonce: &str) -> Standing {
        let Some((stamp, signature)) = nonce.as_bytes().split_at_checked(STAMP_DIGITS) else {
            return Standing::Foreign;
        };
        let signed: bool = self.sign(stamp, source).ct_eq(signature).into();
        let made = nonce
            .get(..8)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match made {
            Some(made) if signed => Standing::Ours {
                age_s: u64::from(seconds(now).saturating_sub(made)),
            },
            _ => Standing::Foreign,
        }
    }

    fn sign(&self, stamp: &[u8], source: IpAddr) -> [u8; SIGNATURE_DIGITS] {
        let mut mac = self.keyed.clone();
        mac.update(stamp);
        mac.update(&octets(source));
        let hash = mac.finalize().into_bytes();
        let mut digits = [0; SIGNATURE_DIGITS];
        write_hex(&mut digits, &hash);
        digits
    }
}

/// An IPv4 address and its IPv4-mapped IPv6 address count as the same.
fn octets(source: IpAddr) -> [u8; 16] {
    match source {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Holds until the year 2106.
fn seconds(now: UnixTime) -> u32 {
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

const STAMP_DIGITS: usize = 16;
const SIGNATURE_DIGITS: usize = 24;
const NONCE_DIGITS: usize = STAMP_DIGITS + SIGNATURE_DIGITS;

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: UnixTime = UnixTime::from_secs(1_800_000_000);
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn a_nonce_knows_its_age() {
        let key = NonceKey::new([1; 32], "a");
        let nonce = key.issue(NOON, HERE, 7);
        let text = nonce.as_str();
        let stamp = format!("{:08x}{:08x}", NOON.as_secs(), 7);
        assert!(
            text.len() == NONCE_DIGITS && text.starts_with(&stamp),
            "{text}"
        );
        let later = UnixTime::from_secs(1_800_000_090);
        assert_eq!(key.check(later, HERE, text), Standing::Ours { age_s: 90 });
        let earlier = UnixTime::from_secs(1_700_000_000);
        assert_eq!(key.check(earlier, HERE, text), Standing::Ours { age_s: 0 });
        assert_ne!(nonce, key.issue(NOON, HERE, 8));
    }

    #[test]
    fn other_keys_realms_sources_and_every_changed_digit_are_foreign() {
        let key = NonceKey::new([1; 32], "a");
        let nonce = key.issue(NOON, HERE, 7).as_str().to_owned();
        assert_eq!(
            NonceKey::new([2; 32], "a").check(NOON, HERE, &nonce),
            Standing::Foreign
        );
        assert_eq!(
            NonceKey::new([1; 32], "b").check(NOON, HERE, &nonce),
            Standing::Foreign
        );
        let there = "192.0.2.2".parse().expect("an address");
        assert_eq!(key.check(NOON, there, &nonce), Standing::Foreign);
        let mapped = "::ffff:192.0.2.1".parse().expect("an address");
        assert_eq!(key.check(NOON, mapped, &nonce), Standing::Ours { age_s: 0 });
        for at in 0..nonce.len() {
            let mut forged = nonce.clone().into_bytes();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            let forged = String::from_utf8(forged).expect("digits");
            assert_eq!(
                key.check(NOON, HERE, &forged),
                Standing::Foreign,
                "digit {at}"
            );
        }
        for odd in [
            "",
            "00",
            "é",
            &nonce[1..],
            &format!("{nonce}0"),
            &nonce.to_uppercase(),
        ] {
            assert_eq!(key.check(NOON, HERE, odd), Standing::Foreign, "{odd}");
        }
    }
}
