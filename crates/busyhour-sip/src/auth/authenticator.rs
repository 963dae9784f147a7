//! The server's side: writes challenges and checks the credentials that answer them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use busyhour::clock::UnixTime;
use subtle::ConstantTimeEq;

use super::digest::{self, Request};
use super::nonce::{Nonce, NonceKey, Standing};
use super::{Algorithm, Secret};
use crate::sip::{DigestCredentials, HeaderValue, Output};

/// Challenges and checks the users of one realm.
#[derive(Clone)]
pub struct Authenticator {
    realm: Box<str>,
    nonces: NonceKey,
    algorithms: Box<[Algorithm]>,
    nonce_life: Duration,
}

/// One value of WWW-Authenticate or Proxy-Authenticate; its text is the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    realm: &'a str,
    nonce: Nonce,
    algorithm: Algorithm,
    stale: bool,
}

/// What credentials are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AuthOutcome {
    /// The secret is right and the nonce is fresh. With `qop`, the nonce count
    /// is given, so that a caller who remembers the last one can refuse a replay.
    Accepted {
        /// `nc`, absent in the form without `qop`.
        nonce_count: Option<u32>,
    },
    /// The nonce is too old, or we did not give it to this source: challenge again with
    /// `stale=true`, so that the client need not ask its user (RFC 7616 §3.3). The
    /// secret was not checked.
    Stale {
        /// We gave the nonce to this source within [`Authenticator::HEARD_LIFE`]: the
        /// client receives what is sent to the source, so it does not forge the
        /// address.
        is_ours: bool,
    },
    /// Not these credentials.
    Refused(Refusal),
}

/// Why credentials are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// For another realm.
    Realm,
    /// An algorithm that was not offered.
    Algorithm,
    /// A quality of protection other than `auth`, or `auth` without its count.
    Qop,
    /// No such account, no hash for this algorithm, or the wrong secret.
    Secret,
}

/// A realm that can't stand between quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a realm may contain only visible characters and spaces, except quotes and backslashes")]
pub struct RealmError;

impl Authenticator {
    /// Authenticates users of `realm` by any of `algorithms`, which are offered
    /// in this order. `key` signs nonces: keep it across restarts, and secret.
    /// Nonces live for [`Authenticator::NONCE_LIFE`].
    ///
    /// # Errors
    /// When `realm` can't be written in a challenge.
    pub fn new(realm: &str, key: [u8; 32], algorithms: &[Algorithm]) -> Result<Self, RealmError> {
        check(realm)?;
        Ok(Self {
            realm: realm.into(),
            nonces: NonceKey::new(key, realm),
            algorithms: algorithms.into(),
            nonce_life: Self::NONCE_LIFE,
        })
    }

    /// The same for users of another realm. A nonce of one is good for the other: what proves
    /// a user is the secret, which is of its realm.
    ///
    /// # Errors
    /// When `realm` can't be written in a challenge.
    pub fn for_realm(&self, realm: &str) -> Result<Self, RealmError> {
        check(realm)?;
        Ok(Self {
            realm: realm.into(),
            ..self.clone()
        })
    }

    /// How long a nonce is good for, unless set.
    pub const NONCE_LIFE: Duration = Duration::from_secs(300);

    /// How long a nonce proves that its client receives at the source. It is longer
    /// than the time between two registrations; later the address may be another's.
    pub const HEARD_LIFE: Duration = Duration::from_secs(24 * 3600);

    /// Sets how long a nonce is good for, in whole seconds.
    #[must_use]
    pub fn nonce_life(mut self, life: Duration) -> Self {
        self.nonce_life = life;
        self
    }

    /// The realm.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// What is offered, in order of preference.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// One challenge for each algorithm, in order of preference, all with one nonce.
    /// They are valid only for `source`, to which they have to be sent: a client that
    /// forges an address never receives a nonce for it. `salt` makes the nonces of one
    /// second differ; give a counter or a random number.
    pub fn challenges(
        &self,
        now: UnixTime,
        source: IpAddr,
        salt: u32,
        stale: bool,
    ) -> impl Iterator<Item = Challenge<'_>> {
        let nonce = self.nonces.issue(now, source, salt);
        self.algorithms.iter().map(move |&algorithm| Challenge {
            realm: &self.realm,
            nonce,
            algorithm,
            stale,
        })
    }

    /// When an accepted nonce was issued, in seconds since 1970; `None` if the text is
    /// not a nonce.
    pub fn issued_s(nonce: &str) -> Option<u64> {
        u64::from_str_radix(nonce.get(..8)?, 16).ok()
    }

    /// Checks the credentials of a request of `method` from `source`. `secret` is the
    /// secret of `credentials.username`, or `None` without an account, which takes as
    /// long as a wrong password.
    ///
    /// The nonce is checked first: an answer to a nonce that is not ours proves nothing
    /// about the owner of the source, since anybody can forge its address.
    ///
    /// The `uri` of the credentials is hashed as it came; the caller has to check that
    /// it matches the Request-URI (RFC 7616 §3.4.6).
    pub fn verify(
        &self,
        now: UnixTime,
        source: IpAddr,
        method: &str,
        credentials: &DigestCredentials<'_>,
        secret: Option<&Secret>,
    ) -> AuthOutcome {
        let algorithm = match self.readable(credentials) {
            Ok(algorithm) => algorithm,
            Err(refusal) => return AuthOutcome::Refused(refusal),
        };
        let age_s = match self.nonces.check(now, source, credentials.nonce) {
            Standing::Ours { age_s } => age_s,
            Standing::Foreign => return AuthOutcome::Stale { is_ours: false },
        };
        if age_s > self.nonce_life.as_secs() {
            let is_ours = age_s <= Self::HEARD_LIFE.as_secs();
            return AuthOutcome::Stale { is_ours };
        }
        if !self.response_is_right(algorithm, method, credentials, secret) {
            return AuthOutcome::Refused(Refusal::Secret);
        }
        AuthOutcome::Accepted {
            // Without `qop` anybody could have changed it.
            nonce_count: credentials
                .nonce_count()
                .filter(|_| !credentials.qop.is_empty()),
        }
    }

    fn readable(&self, credentials: &DigestCredentials<'_>) -> Result<Algorithm, Refusal> {
        if credentials.realm != &*self.realm {
            return Err(Refusal::Realm);
        }
        let algorithm = Algorithm::from_name(credentials.algorithm);
        let algorithm = algorithm.filter(|algorithm| self.algorithms.contains(algorithm));
        let algorithm = algorithm.ok_or(Refusal::Algorithm)?;
        let counted = credentials.nonce_count().is_some() && !credentials.cnonce.is_empty();
        match credentials.qop {
            "" => Ok(algorithm),
            qop if qop.eq_ignore_ascii_case("auth") && counted => Ok(algorithm),
            _ => Err(Refusal::Qop),
        }
    }

    fn response_is_right(
        &self,
        algorithm: Algorithm,
        method: &str,
        credentials: &DigestCredentials<'_>,
        secret: Option<&Secret>,
    ) -> bool {
        let known =
            secret.and_then(|secret| secret.ha1(algorithm, credentials.username, &self.realm));
        let ha1 =
            known.unwrap_or_else(|| digest::ha1(algorithm, credentials.username, &self.realm, ""));
        let counted = (!credentials.qop.is_empty()).then_some((credentials.nc, credentials.cnonce));
        let request = Request {
            method,
            uri: credentials.uri,
            nonce: credentials.nonce,
            counted,
        };
        let expected = digest::response(algorithm, &ha1, &request);
        let given = credentials.response.as_bytes();
        let same: bool = expected.as_bytes().ct_eq(given).into();
        same && known.is_some()
    }
}

fn check(realm: &str) -> Result<(), RealmError> {
    let broken = |character: char| character.is_control() || matches!(character, '"' | '\\');
    match realm.is_empty() || realm.contains(broken) {
        true => Err(RealmError),
        false => Ok(()),
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}

impl HeaderValue for Challenge<'_> {
    /// The realm was checked when the authenticator was created.
    fn write_to(&self, out: &mut impl Output) {
        out.put_all(&["Digest realm=\"", self.realm]);
        out.put_all(&["\", nonce=\"", self.nonce.as_str()]);
        out.put_all(&["\", algorithm=", self.algorithm.name()]);
        out.put(b", qop=\"auth\"");
        if self.stale {
            out.put(b", stale=true");
        }
    }
}

impl fmt::Display for Challenge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
