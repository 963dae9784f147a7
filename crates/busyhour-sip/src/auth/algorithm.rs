//! The hash functions of digest authentication.

use crate::sip::write_hex;
use std::fmt;

use md5::Md5;
use sha2::{Digest, Sha256, Sha512_256};

/// A hash function by its name on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// RFC 3261; every phone knows it.
    Md5,
    /// RFC 8760.
    Sha256,
    /// RFC 8760.
    Sha512_256,
}

/// A hash in lower-case hexadecimal digits, as digest authentication nests it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HexDigest {
    digits: [u8; DIGITS_MAX],
    length: u8,
}

impl Algorithm {
    /// All of them, the strongest first.
    pub const ALL: [Self; 3] = [Self::Sha512_256, Self::Sha256, Self::Md5];

    /// The algorithm of this name in any case; the empty name is MD5, as in a
    /// message without the parameter.
    ///
    /// ```
    /// use busyhour_sip::auth::Algorithm;
    /// assert_eq!(Algorithm::from_name("sha-256"), Some(Algorithm::Sha256));
    /// assert_eq!(Algorithm::from_name(""), Some(Algorithm::Md5));
    /// assert_eq!(Algorithm::from_name("MD5-sess"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        if name.is_empty() {
            return Some(Self::Md5);
        }
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
            Self::Sha512_256 => "SHA-512-256",
        }
    }

    /// Hashes the parts with a colon between each.
    pub fn hash(self, parts: &[&[u8]]) -> HexDigest {
        match self {
            Self::Md5 => HexDigest::new(&joined::<Md5>(parts)),
            Self::Sha256 => HexDigest::new(&joined::<Sha256>(parts)),
            Self::Sha512_256 => HexDigest::new(&joined::<Sha512_256>(parts)),
        }
    }

    /// Hexadecimal digits of one hash.
    pub const fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha256 | Self::Sha512_256 => 64,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl HexDigest {
    /// Takes a hash that is already written in hexadecimal digits of any case,
    /// such as an HA1 from a file. `None` unless it has the algorithm's length.
    pub fn from_hex(algorithm: Algorithm, text: &str) -> Option<Self> {
        let sound =
            text.len() == algorithm.digits() && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let mut digits = [0; DIGITS_MAX];
        digits
            .get_mut(..text.len())
            .filter(|_| sound)?
            .copy_from_slice(text.as_bytes());
        digits.make_ascii_lowercase();
        Some(Self {
            digits,
            length: text.len() as u8,
        })
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.length as usize]
    }

    /// The digits as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    fn new(hash: &[u8]) -> Self {
        let mut digits = [0; DIGITS_MAX];
        write_hex(&mut digits, hash);
        Self {
            digits,
            length: (hash.len() * 2) as u8,
        }
    }
}

impl fmt::Display for HexDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for HexDigest {
    /// An HA1 is as good as a password, so logs never show one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HexDigest(…)")
    }
}

fn joined<H: Digest>(parts: &[&[u8]]) -> sha2::digest::Output<H> {
    let mut hash = H::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            hash.update(b":");
        }
        hash.update(part);
    }
    hash.finalize()
}

const DIGITS_MAX: usize = 64;
