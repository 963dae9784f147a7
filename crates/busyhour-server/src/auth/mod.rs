//! Digest authentication (RFC 7616, RFC 8760), without state and without a clock.
//!
//! A nonce is a signed time stamp, so a server keeps nothing for a challenge
//! that is never answered, and a restart with the same key keeps every nonce
//! valid.
//!
//! ```
//! use busyhour::clock::UnixTime;
//! use busyhour_server::auth::{Algorithm, Answer, Authenticator, Secret, Verdict};
//! use busyhour_server::proto::sip::{DigestChallenge, DigestCredentials};
//!
//! let server = Authenticator::new("example.org", [7; 32], &[Algorithm::Sha256, Algorithm::Md5])?;
//! let now = UnixTime::from_secs(1_000);
//!
//! // The 401 carries one challenge an algorithm, the strongest first.
//! let values: Vec<String> = server.challenges(now, 1, false).map(|c| c.to_string()).collect();
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
//! let verdict = server.verify(now, "REGISTER", &credentials, Some(&secret));
//! assert_eq!(verdict, Verdict::Accepted { nonce_count: Some(1) });
//! # Ok::<(), busyhour_server::auth::RealmError>(())
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
pub use authenticator::{Authenticator, Challenge, RealmError, Refusal, Verdict};
pub use challenge::challenge_response;
pub use secret::Secret;
