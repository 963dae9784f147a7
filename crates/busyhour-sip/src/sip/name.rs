//! Header names, long and compact.

use std::fmt;

/// A header this server knows by name, or [`HeaderName::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "each variant is the header of that name")]
pub enum HeaderName {
    Accept,
    AcceptEncoding,
    AcceptLanguage,
    Allow,
    AllowEvents,
    AuthenticationInfo,
    Authorization,
    CallId,
    Contact,
    ContentDisposition,
    ContentEncoding,
    ContentLength,
    ContentType,
    CSeq,
    Date,
    Event,
    Expires,
    From,
    MaxBreadth,
    MaxForwards,
    MinExpires,
    MinSe,
    PAssertedIdentity,
    Path,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyRequire,
    Reason,
    RecordRoute,
    ReferTo,
    Require,
    RetryAfter,
    Route,
    Server,
    ServiceRoute,
    SessionExpires,
    SipEtag,
    SipIfMatch,
    Subject,
    SubscriptionState,
    Supported,
    Timestamp,
    To,
    Unsupported,
    UserAgent,
    Via,
    Warning,
    WwwAuthenticate,
    /// A header without a name of its own here.
    Other,
}

impl HeaderName {
    /// How many names there are, [`HeaderName::Other`] included.
    pub const COUNT: usize = HeaderName::Other as usize + 1;

    /// The header of this name in long or compact form, in any case.
    ///
    /// ```
    /// use busyhour_sip::HeaderName;
    /// assert_eq!(HeaderName::new("call-id"), HeaderName::CallId);
    /// assert_eq!(HeaderName::new("I"), HeaderName::CallId);
    /// assert_eq!(HeaderName::new("X-Lamp"), HeaderName::Other);
    /// ```
    pub fn new(name: &str) -> Self {
        Self::of_bytes(name.as_bytes())
    }

    pub(super) fn of_bytes(name: &[u8]) -> Self {
        match name {
            [] => Self::Other,
            [letter] => Self::compact(letter.to_ascii_lowercase()),
            bytes => Self::long(bytes),
        }
    }

    /// The long name, spelled as RFC 3261 spells it; empty for `Other`.
    pub fn as_str(self) -> &'static str {
        LONG[self as usize].1
    }

    /// RFC 3261 §7.3.3 and the compact forms of later documents.
    fn compact(letter: u8) -> Self {
        match letter {
            b'c' => Self::ContentType,
            b'e' => Self::ContentEncoding,
            b'f' => Self::From,
            b'i' => Self::CallId,
            b'k' => Self::Supported,
            b'l' => Self::ContentLength,
            b'm' => Self::Contact,
            b'o' => Self::Event,
            b'r' => Self::ReferTo,
            b's' => Self::Subject,
            b't' => Self::To,
            b'u' => Self::AllowEvents,
            b'v' => Self::Via,
            b'x' => Self::SessionExpires,
            _ => Self::Other,
        }
    }

    /// Only the name in the place of this one is compared; most are spelled as
    /// the RFC spells them.
    fn long(name: &[u8]) -> Self {
        let header = PLACES[place(name)];
        let long = header.as_str().as_bytes();
        match long == name || long.eq_ignore_ascii_case(name) {
            true => header,
            false => Self::Other,
        }
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// In the order of the variants, which is alphabetical.
const LONG: [(HeaderName, &str); HeaderName::COUNT] = [
    (HeaderName::Accept, "Accept"),
    (HeaderName::AcceptEncoding, "Accept-Encoding"),
    (HeaderName::AcceptLanguage, "Accept-Language"),
    (HeaderName::Allow, "Allow"),
    (HeaderName::AllowEvents, "Allow-Events"),
    (HeaderName::AuthenticationInfo, "Authentication-Info"),
    (HeaderName::Authorization, "Authorization"),
    (HeaderName::CallId, "Call-ID"),
    (HeaderName::Contact, "Contact"),
    (HeaderName::ContentDisposition, "Content-Disposition"),
    (HeaderName::ContentEncoding, "Content-Encoding"),
    (HeaderName::ContentLength, "Content-Length"),
    (HeaderName::ContentType, "Content-Type"),
    (HeaderName::CSeq, "CSeq"),
    (HeaderName::Date, "Date"),
    (HeaderName::Event, "Event"),
    (HeaderName::Expires, "Expires"),
    (HeaderName::From, "From"),
    (HeaderName::MaxBreadth, "Max-Breadth"),
    (HeaderName::MaxForwards, "Max-Forwards"),
    (HeaderName::MinExpires, "Min-Expires"),
    (HeaderName::MinSe, "Min-SE"),
    (HeaderName::PAssertedIdentity, "P-Asserted-Identity"),
    (HeaderName::Path, "Path"),
    (HeaderName::ProxyAuthenticate, "Proxy-Authenticate"),
    (HeaderName::ProxyAuthorization, "Proxy-Authorization"),
    (HeaderName::ProxyRequire, "Proxy-Require"),
    (HeaderName::Reason, "Reason"),
    (HeaderName::RecordRoute, "Record-Route"),
    (HeaderName::ReferTo, "Refer-To"),
    (HeaderName::Require, "Require"),
    (HeaderName::RetryAfter, "Retry-After"),
    (HeaderName::Route, "Route"),
    (HeaderName::Server, "Server"),
    (HeaderName::ServiceRoute, "Service-Route"),
    (HeaderName::SessionExpires, "Session-Expires"),
    (HeaderName::SipEtag, "SIP-ETag"),
    (HeaderName::SipIfMatch, "SIP-If-Match"),
    (HeaderName::Subject, "Subject"),
    (HeaderName::SubscriptionState, "Subscription-State"),
    (HeaderName::Supported, "Supported"),
    (HeaderName::Timestamp, "Timestamp"),
    (HeaderName::To, "To"),
    (HeaderName::Unsupported, "Unsupported"),
    (HeaderName::UserAgent, "User-Agent"),
    (HeaderName::Via, "Via"),
    (HeaderName::Warning, "Warning"),
    (HeaderName::WwwAuthenticate, "WWW-Authenticate"),
    (HeaderName::Other, ""),
];

/// Each long name has a place of its own here.
static PLACES: [HeaderName; PLACES_LEN] = places();

const fn places() -> [HeaderName; PLACES_LEN] {
    let mut places = [HeaderName::Other; PLACES_LEN];
    let mut at = 0;
    while at < HeaderName::Other as usize {
        let place = place(LONG[at].1.as_bytes());
        assert!(
            matches!(places[place], HeaderName::Other),
            "two names in one place: choose other factors"
        );
        places[place] = LONG[at].0;
        at += 1;
    }
    places
}

/// First and last letter in any case and the length tell all names apart, with
/// factors found by trying.
const fn place(name: &[u8]) -> usize {
    let [first, .., last] = name else {
        return 0;
    };
    let first = first.to_ascii_lowercase() as usize;
    let last = last.to_ascii_lowercase() as usize;
    (9 * first + 22 * last + 4 * name.len()) % PLACES_LEN
}

const PLACES_LEN: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_long_name_is_found_in_any_case() {
        for (at, (header, name)) in LONG.iter().enumerate() {
            assert_eq!(*header as usize, at);
            assert_eq!(HeaderName::new(&name.to_ascii_uppercase()), *header);
            assert_eq!(HeaderName::new(&name.to_ascii_lowercase()), *header);
        }
    }

    #[test]
    fn unknown_names_are_other() {
        for name in ["", "x", "q", "Vi", "Viaa", "{", "é", "X-Y", "@Via"] {
            let expected = if name == "x" {
                HeaderName::SessionExpires
            } else {
                HeaderName::Other
            };
            assert_eq!(HeaderName::new(name), expected, "{name}");
        }
    }
}
