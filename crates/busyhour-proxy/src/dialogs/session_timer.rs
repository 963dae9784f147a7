//! Session timers (RFC 4028): what the sides agreed on.

use std::time::Duration;

use busyhour_sip::{Message, session::SessionExpires};

/// The interval that a 2xx agrees on, [`bounded`].
pub(super) fn agreed(response: &Message<'_>) -> Option<Duration> {
    let session = SessionExpires::of(response)?;
    bounded(Duration::from_secs(session.interval_s.into()))
}

/// A very long interval proves nothing, and counts as none; a shorter one than may be counts as
/// the shortest.
pub(super) fn bounded(interval: Duration) -> Option<Duration> {
    (interval <= LONGEST).then(|| interval.max(SHORTEST))
}

/// RFC 4028 §4.
const SHORTEST: Duration = Duration::from_secs(90);
/// A day.
const LONGEST: Duration = Duration::from_secs(86_400);
