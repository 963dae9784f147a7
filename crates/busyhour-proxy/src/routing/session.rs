//! Session timers that the proxy asks for (RFC 4028 §8).

use busyhour_sip::{
    HeaderName, Message, Method,
    session::{SessionExpires, min_se_s},
};

/// What the proxy asks for in a request that begins or refreshes a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionRequest {
    /// The interval in the request as it is forwarded.
    pub interval_s: u32,
    /// Min-SE, if that is written, too.
    pub min_se_s: Option<u32>,
    /// The sender knows session timers.
    pub is_supported: bool,
}

/// The interval is shorter than may be, and the sender can choose another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooShort;

impl SessionRequest {
    /// §8.1; `None` if no timer is asked for, or if the sender wants none that ends a session in
    /// time.
    pub fn of(request: &Message<'_>, wanted_s: u32) -> Result<Option<Self>, TooShort> {
        let begins = matches!(request.method(), Some(Method::Invite | Method::Update));
        if wanted_s == 0 || !begins {
            return Ok(None);
        }
        let is_supported = request.has_token(HeaderName::Supported, "timer");
        let asked = request.header(HeaderName::SessionExpires);
        let asked_s = match asked.map(SessionExpires::parse) {
            None => None,
            Some(Some(asked)) => Some(asked.interval_s),
            // Whoever reads it may say what is wrong with it.
            Some(None) => return Ok(None),
        };
        let is_short = asked_s.is_some_and(|asked_s| asked_s < SESSION_SHORTEST_S);
        if is_short && is_supported {
            return Err(TooShort);
        }
        let least_s = min_se_s(request).unwrap_or(0).max(SESSION_SHORTEST_S);
        if least_s > MIN_SE_MAX_S {
            return Ok(None);
        }
        let interval_s = asked_s.map_or(wanted_s, |asked_s| asked_s.min(wanted_s));
        Ok(Some(Self {
            interval_s: interval_s.max(least_s),
            min_se_s: is_short.then_some(least_s),
            is_supported,
        }))
    }

    /// §8.2: what the proxy answers in place of a callee that knows no session timers; 0 if
    /// the caller knows none either.
    pub fn interval_for_caller_s(self) -> u32 {
        match self.is_supported {
            true => self.interval_s,
            false => 0,
        }
    }
}

/// RFC 4028 §4.
pub(crate) const SESSION_SHORTEST_S: u32 = 90;
/// A day: a session that may last longer without a refresh ends too late.
const MIN_SE_MAX_S: u32 = 86_400;
