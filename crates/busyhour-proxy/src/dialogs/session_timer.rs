//! Session timers (RFC 4028): what the sides agreed on.

use std::time::Duration;

use busyhour_sip::{Message, session::SessionExpires};

/// The interval that a 2xx agrees on. A very long one proves nothing, and counts as none;
/// a shorter one than may be counts as the shortest.
pub(super) fn agreed(response: &Message<'_>) -> Option<Duration> {
    let session = SessionExpires::of(response)?;
    let interval_s = Some(session.interval_s).filter(|interval_s| *interval_s <= LONGEST_S)?;
    Some(Duration::from_secs(interval_s.max(SHORTEST_S).into()))
}

/// RFC 4028 §4.
const SHORTEST_S: u32 = 90;
/// A day.
const LONGEST_S: u32 = 86_400;
