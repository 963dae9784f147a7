//! Session timers (RFC 4028): what a proxy may ask for, and what the sides agreed on.

use std::time::Duration;

use busyhour_sip::{
    HeaderName, Message,
    session::{Refresher, SessionExpires, min_se},
};

/// What a proxy wants of session timers (RFC 4028 §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPolicy {
    /// The interval it asks for where nobody did, in seconds; 0 asks for none.
    pub interval_s: u32,
    /// The shortest it accepts, in seconds; at least 90 (RFC 4028 §5).
    pub interval_min_s: u32,
}

/// What a proxy does with the Session-Expires of an INVITE or UPDATE (RFC 4028 §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRequest {
    /// Forwards it as it is.
    Keep,
    /// Writes `Session-Expires` of this many seconds; the caller asked for none.
    Insert(u32),
    /// Raises both `Session-Expires` and `Min-SE` to this many seconds, since the caller
    /// could not be told to.
    Raise(u32),
    /// Refuses it with 422 and this `Min-SE`.
    TooSmall(u32),
}

impl Default for SessionPolicy {
    /// Asks for nothing, and accepts the shortest interval of the RFC.
    fn default() -> Self {
        Self {
            interval_s: 0,
            interval_min_s: SHORTEST_S,
        }
    }
}

impl SessionPolicy {
    /// What becomes of the Session-Expires of an INVITE or UPDATE.
    pub fn of_request(&self, request: &Message<'_>) -> SessionRequest {
        let interval_min_s = self.interval_min_s.max(SHORTEST_S);
        let asked = SessionExpires::of(request).map(|session| session.interval_s);
        match asked {
            Some(asked) if asked >= interval_min_s => SessionRequest::Keep,
            Some(_) if supports_timer(request) => SessionRequest::TooSmall(interval_min_s),
            Some(_) => SessionRequest::Raise(interval_min_s),
            None if self.interval_s == 0 => SessionRequest::Keep,
            None => {
                let allowed = min_se(request).unwrap_or(0).max(interval_min_s);
                SessionRequest::Insert(self.interval_s.max(allowed))
            }
        }
    }

    /// What the proxy adds to a 2xx without Session-Expires, when it inserted one into the
    /// request: the callee does not know session timers, so the caller refreshes if it
    /// knows them (RFC 4028 §8.2). A `Require: timer` goes with it.
    pub fn of_response(
        inserted_s: Option<u32>,
        caller_supports_timer: bool,
        response: &Message<'_>,
    ) -> Option<SessionExpires> {
        let is_theirs = response.header(HeaderName::SessionExpires).is_some();
        let interval_s = inserted_s.filter(|_| caller_supports_timer && !is_theirs)?;
        Some(SessionExpires {
            interval_s,
            refresher: Some(Refresher::Uac),
        })
    }
}

/// Whether who sent the request knows session timers.
pub fn supports_timer(request: &Message<'_>) -> bool {
    request.has_token(HeaderName::Supported, "timer")
        || request.has_token(HeaderName::Require, "timer")
}

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
