//! IAX2's answer to a challenge (RFC 5456 §8.6).

use super::{Algorithm, HexDigest};

/// The MD5 RESULT that proves a password: MD5 over the challenge and, right
/// behind it, the password.
///
/// ```
/// use busyhour_sip::auth::challenge_response;
///
/// // printf 137919643secret | md5sum
/// let result = challenge_response("137919643", "secret");
/// assert_eq!(result.as_str(), "3896cc35e002f14cf6a9dd479926311f");
/// ```
pub fn challenge_response(challenge: &str, password: &str) -> HexDigest {
    Algorithm::Md5.hash(&[[challenge, password].concat().as_bytes()])
}
