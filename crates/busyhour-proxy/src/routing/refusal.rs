//! Why a request is not forwarded.

use busyhour_sip::{ParseError, Status};

/// Why the proxy refuses a request, and with which response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestRefusal {
    /// 400, or what the error says: the message is malformed (RFC 3261 §16.3, step 1).
    Malformed(ParseError),
    /// 416: the scheme of the Request-URI is neither `sip` nor `sips` (step 2).
    UnsupportedScheme,
    /// 483: Max-Forwards is 0 (step 3).
    TooManyHops,
    /// 482: the request was here before, and would take the same way (step 4).
    LoopDetected,
    /// 420: Proxy-Require names these options (step 5).
    BadExtension(Box<str>),
    /// 422: the session interval is shorter than 90 seconds (RFC 4028 §8.1).
    SessionTooShort,
    /// 440: no branch is left of Max-Breadth (RFC 5393 §5.3.3).
    BreadthExceeded,
    /// 503: the table holds as much as it may.
    Full,
}

impl RequestRefusal {
    /// The status of the response.
    pub fn status(&self) -> Status {
        match self {
            Self::Malformed(error) => error.status(),
            Self::UnsupportedScheme => Status::UNSUPPORTED_URI_SCHEME,
            Self::TooManyHops => Status::TOO_MANY_HOPS,
            Self::LoopDetected => Status::LOOP_DETECTED,
            Self::BadExtension(_) => Status::BAD_EXTENSION,
            Self::SessionTooShort => Status::SESSION_INTERVAL_TOO_SMALL,
            Self::BreadthExceeded => Status::MAX_BREADTH_EXCEEDED,
            Self::Full => Status::SERVICE_UNAVAILABLE,
        }
    }
}

impl std::fmt::Display for RequestRefusal {
    /// The reason phrase.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            other => f.write_str(other.status().reason()),
        }
    }
}

impl std::error::Error for RequestRefusal {}

impl From<ParseError> for RequestRefusal {
    fn from(error: ParseError) -> Self {
        Self::Malformed(error)
    }
}
