//! Digest authentication (RFC 7616, RFC 8760), without state and without a clock.
//!
//! A nonce is a time stamp that is signed for one source. So a server stores nothing
//! for a challenge that is never answered, a restart with the same key keeps every
//! nonce valid, and a client that forges an address has no nonce for it.
//!
//! ```
//! use busyhour::clock::UnixTime;
//! use busyhour_sip::auth::{Algorithm, Answer, AuthOutcome, Authenticator, Secret};
//! use busyhour_sip::{DigestChallenge, DigestCredentials};
//!
//! let server = Authenticator::new("example.org", [7; 32], &[Algorithm::Sha256, Algorithm::Md5])?;
//! let now = UnixTime::from_secs(1_000);
//! let source = "192.0.2.7".parse()?;
//!
//! // The 401 carries one challenge an algorithm, the strongest first.
//! let challenges = server.challenges(now, source, 1, false);
//! let values: Vec<String> = challenges.map(|challenge| challenge.to_string()).collect();
//! assert_eq!(values.len(), 2);
//!
//! // The client answers the first that it knows.
//! let challenge = DigestChallenge::parse(&values[0]).flatten().expect("a digest challenge");
//! let answer = Answer::new(&challenge, "alice", "wonder", "REGISTER", "sip:example.org")
//!     .expect("an algorithm we know")
//!     .counted(1, "c0ffee")
//!     .to_string();
//!
//! let credentials = DigestCredentials::parse(&answer).flatten().expect("digest credentials");
//! let secret = Secret::plaintext("wonder");
//! let verdict = server.verify(now, source, "REGISTER", &credentials, Some(&secret));
//! assert_eq!(verdict, AuthOutcome::Accepted { nonce_count: Some(1) });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithm;
mod digest;
mod secret;
mod nonce;
mod authenticator;
mod answer;
mod challenge;

pub use algorithm::{Algorithm, HexDigest};
pub use answer::Answer;
pub use authenticator::{AuthOutcome, Authenticator, Challenge, RealmError, Refusal};
pub use challenge::challenge_response;
pub use secret::Secret;
