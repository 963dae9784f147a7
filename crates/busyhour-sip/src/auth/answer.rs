//! The client's side: credentials that answer a challenge.

use std::fmt;

use super::digest::{self, Request};
use super::{Algorithm, HexDigest, Secret};
use crate::sip::DigestChallenge;

/// The value of an Authorization header; its text is the value.
///
/// Quote and backslash in a user name must be escaped by the caller.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    challenge: DigestChallenge<'a>,
    algorithm: Algorithm,
    ha1: HexDigest,
    username: &'a str,
    method: &'a str,
    uri: &'a str,
    counted: Option<(u32, &'a str)>,
}

impl<'a> Answer<'a> {
    /// Answers `challenge`; `None` when its algorithm is not known here.
    ///
    /// Without [`Answer::counted`] it takes the form without `qop`.
    pub fn new(
        challenge: &DigestChallenge<'a>,
        username: &'a str,
        password: &str,
        method: &'a str,
        uri: &'a str,
    ) -> Option<Self> {
        let algorithm = Algorithm::from_name(challenge.algorithm)?;
        let ha1 = digest::ha1(algorithm, username, challenge.realm, password);
        Some(Self {
            challenge: *challenge,
            algorithm,
            ha1,
            username,
            method,
            uri,
            counted: None,
        })
    }

    /// As [`new`](Self::new), from what a server keeps of the password. Hashes are good for the
    /// realm that they were made for, and give `None` for a challenge of another one.
    pub fn of_secret(
        challenge: &DigestChallenge<'a>,
        username: &'a str,
        (secret, hashed_for): (&Secret, &str),
        method: &'a str,
        uri: &'a str,
    ) -> Option<Self> {
        let algorithm = Algorithm::from_name(challenge.algorithm)?;
        let is_good = secret.password().is_some() || challenge.realm == hashed_for;
        let ha1 = secret.ha1(algorithm, username, challenge.realm);
        Some(Self {
            challenge: *challenge,
            algorithm,
            ha1: ha1.filter(|_| is_good)?,
            username,
            method,
            uri,
            counted: None,
        })
    }

    /// Uses `qop=auth` if the challenge offers it: the `count`-th use of the
    /// nonce, with the client's own nonce.
    #[must_use]
    pub fn counted(mut self, count: u32, cnonce: &'a str) -> Self {
        self.counted = Some((count, cnonce)).filter(|_| self.challenge.offers_auth());
        self
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            challenge:
                DigestChallenge {
                    realm,
                    nonce,
                    opaque,
                    ..
                },
            username,
            uri,
            algorithm,
            ..
        } = self;
        let count = self
            .counted
            .map_or(String::new(), |(count, _)| format!("{count:08x}"));
        let counted = self.counted.map(|(_, cnonce)| (count.as_str(), cnonce));
        let request = Request {
            method: self.method,
            uri,
            nonce,
            counted,
        };
        let response = digest::response(*algorithm, &self.ha1, &request);
        write!(
            f,
            "Digest username=\"{username}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\""
        )?;
        write!(f, ", response=\"{response}\", algorithm={algorithm}")?;
        if let Some((count, cnonce)) = counted {
            write!(f, ", qop=auth, nc={count}, cnonce=\"{cnonce}\"")?;
        }
        if opaque.is_empty() {
            Ok(())
        } else {
            write!(f, ", opaque=\"{opaque}\"")
        }
    }
}
