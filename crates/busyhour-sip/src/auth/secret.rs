//! What a server knows of an account's password.

use std::{fmt, sync::Arc};

use super::{Algorithm, HexDigest, digest};

/// A password, or only its hashes for one realm and user name.
///
/// A clone shares the content, so that a table of accounts can return clones.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Plaintext(Arc<str>),
    Hashed(Arc<Hashes>),
}

/// One for each algorithm.
#[derive(Clone, PartialEq, Eq, Default)]
struct Hashes {
    /// For credentials that name the user alone.
    of_user: Box<[(Algorithm, HexDigest)]>,
    /// For credentials whose user name is `user@domain`.
    of_address: Box<[(Algorithm, HexDigest)]>,
}

impl Secret {
    /// A password; it works with every algorithm and realm.
    pub fn plaintext(password: impl Into<Arc<str>>) -> Self {
        Self(Kind::Plaintext(password.into()))
    }

    /// Hashes of `user:realm:password` (HA1), one for each algorithm that may
    /// be used. The password itself need not be kept.
    ///
    /// ```
    /// use busyhour_sip::auth::{Algorithm, Secret};
    /// let ha1 = Algorithm::Md5.hash(&[b"alice", b"example.org", b"wonder"]);
    /// let secret = Secret::hashed([(Algorithm::Md5, ha1)]);
    /// assert!(secret.works_with(Algorithm::Md5));
    /// assert!(!secret.works_with(Algorithm::Sha256));
    /// ```
    pub fn hashed(hashes: impl IntoIterator<Item = (Algorithm, HexDigest)>) -> Self {
        Self(Kind::Hashed(Arc::new(Hashes {
            of_user: hashes.into_iter().collect(),
            of_address: Box::default(),
        })))
    }

    /// The same secret with hashes of `user@domain:realm:password` as well, for devices
    /// that log in with their whole address; a password needs none.
    ///
    /// ```
    /// use busyhour_sip::auth::{Algorithm, Secret};
    /// let hash = |user: &[u8]| Algorithm::Md5.hash(&[user, b"a.example", b"wonder"]);
    /// let secret = Secret::hashed([(Algorithm::Md5, hash(b"alice"))])
    ///     .with_address([(Algorithm::Md5, hash(b"alice@a.example"))]);
    /// assert_eq!(secret.address_hashes().len(), 1);
    /// ```
    #[must_use]
    pub fn with_address(self, hashes: impl IntoIterator<Item = (Algorithm, HexDigest)>) -> Self {
        match self.0 {
            Kind::Hashed(of) => Self(Kind::Hashed(Arc::new(Hashes {
                of_user: of.of_user.clone(),
                of_address: hashes.into_iter().collect(),
            }))),
            Kind::Plaintext(_) => self,
        }
    }

    /// The hashes of a password under every algorithm; the password is not kept.
    ///
    /// ```
    /// use busyhour_sip::auth::{Algorithm, Secret};
    /// let secret = Secret::hashes_of("alice", "example.org", "wonder");
    /// assert!(Algorithm::ALL.into_iter().all(|algorithm| secret.works_with(algorithm)));
    /// assert_eq!(secret.password(), None);
    /// ```
    pub fn hashes_of(username: &str, realm: &str, password: &str) -> Self {
        let hash = |algorithm| (algorithm, digest::ha1(algorithm, username, realm, password));
        Self::hashed(Algorithm::ALL.map(hash))
    }

    /// The password, where it was kept.
    pub fn password(&self) -> Option<&str> {
        match &self.0 {
            Kind::Plaintext(password) => Some(password),
            Kind::Hashed(_) => None,
        }
    }

    /// The hashes, if there is no password.
    pub fn hashes(&self) -> &[(Algorithm, HexDigest)] {
        match &self.0 {
            Kind::Plaintext(_) => &[],
            Kind::Hashed(hashes) => &hashes.of_user,
        }
    }

    /// The hashes for user names with a domain; usually none.
    pub fn address_hashes(&self) -> &[(Algorithm, HexDigest)] {
        match &self.0 {
            Kind::Plaintext(_) => &[],
            Kind::Hashed(hashes) => &hashes.of_address,
        }
    }

    /// Whether credentials of this algorithm can be checked.
    pub fn works_with(&self, algorithm: Algorithm) -> bool {
        match &self.0 {
            Kind::Plaintext(_) => true,
            Kind::Hashed(hashes) => {
                let mut all = hashes.of_user.iter().chain(&hashes.of_address);
                all.any(|(known, _)| *known == algorithm)
            }
        }
    }

    /// The answer to a challenge of IAX2 (see [`challenge_response`](super::challenge_response)).
    /// It is made from the password itself, so hashes alone give `None`.
    pub fn challenge_response(&self, challenge: &str) -> Option<HexDigest> {
        match &self.0 {
            Kind::Plaintext(password) => Some(super::challenge_response(challenge, password)),
            Kind::Hashed(_) => None,
        }
    }

    pub(super) fn ha1(
        &self,
        algorithm: Algorithm,
        username: &str,
        realm: &str,
    ) -> Option<HexDigest> {
        match &self.0 {
            Kind::Plaintext(password) => Some(digest::ha1(algorithm, username, realm, password)),
            Kind::Hashed(hashes) => {
                let is_address = !hashes.of_address.is_empty() && username.contains('@');
                let fitting = match is_address {
                    true => &hashes.of_address,
                    false => &hashes.of_user,
                };
                let found = fitting.iter().find(|(known, _)| *known == algorithm);
                found.map(|(_, ha1)| *ha1)
            }
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
