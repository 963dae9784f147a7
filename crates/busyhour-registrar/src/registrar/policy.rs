//! What the operator allows.

use std::time::Duration;

/// Lifetimes and counts of bindings (RFC 3261 §10.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationPolicy {
    /// Granted to a contact that asks for nothing.
    pub expires_default: Duration,
    /// Shorter requests, other than zero, are refused with 423. Requests for an hour or
    /// more are never refused (RFC 3261 §10.3, step 7), whatever this value is.
    pub expires_min: Duration,
    /// Longer wishes are cut to this.
    pub expires_max: Duration,
    /// Most contacts of one address of record.
    pub contacts_max: usize,
    /// Most bytes of a contact with all that is kept for it. More is refused with
    /// [`Refusal::TooLongToKeep`](super::Refusal::TooLongToKeep).
    pub contact_bytes_max: usize,
}

impl RegistrationPolicy {
    /// The lifetime in seconds that a request gets, `None` if the requested time is too
    /// short.
    pub(super) fn grant(&self, wish_s: Option<u32>) -> Option<u32> {
        granted_seconds(
            wish_s,
            self.expires_default,
            self.expires_min,
            self.expires_max,
        )
    }
}

impl Default for RegistrationPolicy {
    fn default() -> Self {
        Self {
            expires_default: Duration::from_secs(3600),
            expires_min: Duration::from_secs(60),
            expires_max: Duration::from_secs(7200),
            contacts_max: 10,
            contact_bytes_max: 4096,
        }
    }
}

/// The lifetime in seconds that a request gets; zero ends the lease, and `None` means
/// that the requested time is too short. Bindings and subscriptions share this rule.
pub fn granted_seconds(
    wish_s: Option<u32>,
    default: Duration,
    min: Duration,
    max: Duration,
) -> Option<u32> {
    let wish_s = wish_s.unwrap_or(seconds(default));
    let too_brief = wish_s < seconds(min).min(AN_HOUR_S);
    match (wish_s, too_brief) {
        (0, _) => Some(0),
        (_, true) => None,
        (_, false) => Some(wish_s.min(seconds(max).max(1))),
    }
}

/// Whole seconds, rounded up, at most what `Expires` can carry.
pub fn seconds(duration: Duration) -> u32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(u32::MAX)
}

const AN_HOUR_S: u32 = 3600;
