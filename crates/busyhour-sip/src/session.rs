//! Headers of sessions: Session-Expires (RFC 4028), Replaces (RFC 3891).

use crate::sip::{HeaderName, Message, Params};

/// How long a session lives without a refresh (RFC 4028 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExpires {
    /// In seconds; beyond `u32` it stays at the largest.
    pub interval_s: u32,
    /// Who refreshes; `None` if that is not decided yet.
    pub refresher: Option<Refresher>,
}

/// Who refreshes a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresher {
    /// Who sent the request in which the interval was agreed.
    Uac,
    /// Who answered it.
    Uas,
}

/// The dialog that an INVITE is to replace (RFC 3891 §6.1), by the tags of the user agent
/// that receives the INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaces<'a> {
    /// Its Call-ID.
    pub call_id: &'a str,
    /// The tag of the receiver.
    pub to_tag: &'a str,
    /// The tag of the party whose place is taken.
    pub from_tag: &'a str,
    /// Only if the dialog has not been answered.
    pub early_only: bool,
}

impl SessionExpires {
    /// Reads one value; `None` if its grammar is broken.
    ///
    /// ```
    /// use busyhour_sip::session::{Refresher, SessionExpires};
    /// let agreed = SessionExpires::parse("1800;refresher=uas").unwrap();
    /// assert_eq!((agreed.interval_s, agreed.refresher), (1800, Some(Refresher::Uas)));
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (interval_s, params) = seconds_with_params(text)?;
        let refresher = params.value("refresher").and_then(Refresher::parse);
        Some(Self {
            interval_s,
            refresher,
        })
    }

    /// That of a message; `None` also if it is malformed.
    pub fn of(message: &Message<'_>) -> Option<Self> {
        Self::parse(message.header(HeaderName::SessionExpires)?)
    }
}

/// The shortest interval that all who have forwarded a request allow, in seconds (RFC 4028
/// §5): the value of Min-SE; `None` also if that is malformed.
pub fn min_se_s(message: &Message<'_>) -> Option<u32> {
    let (seconds, _) = seconds_with_params(message.header(HeaderName::MinSe)?)?;
    Some(seconds)
}

impl Refresher {
    fn parse(text: &str) -> Option<Self> {
        match text {
            _ if text.eq_ignore_ascii_case("uac") => Some(Self::Uac),
            _ if text.eq_ignore_ascii_case("uas") => Some(Self::Uas),
            _ => None,
        }
    }

    /// As it stands in the parameter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uac => "uac",
            Self::Uas => "uas",
        }
    }
}

impl<'a> Replaces<'a> {
    /// Reads one value; `None` if its grammar is broken, or a tag is missing or twice
    /// there.
    ///
    /// ```
    /// use busyhour_sip::session::Replaces;
    /// let old = Replaces::parse("a84b@pc33;to-tag=7;from-tag=9;early-only").unwrap();
    /// assert_eq!((old.call_id, old.to_tag, old.from_tag), ("a84b@pc33", "7", "9"));
    /// assert!(old.early_only);
    /// assert_eq!(Replaces::parse("a84b@pc33;to-tag=7"), None);
    /// ```
    pub fn parse(text: &'a str) -> Option<Self> {
        let (call_id, params) = split_params(text);
        let params = Params::parse(params)?;
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        Some(Self {
            call_id: Some(call_id).filter(|call_id| is_word(call_id))?,
            to_tag: only(&params, "to-tag")?,
            from_tag: only(&params, "from-tag")?,
            early_only: params.has("early-only"),
        })
    }

    /// That of a message; `None` also if it is malformed or there are several.
    pub fn of(message: &Message<'a>) -> Option<Self> {
        let mut lines = message.all_headers();
        let is_it = |name: &str| name.eq_ignore_ascii_case("Replaces");
        let (_, _, value) = lines.find(|(_, name, _)| is_it(name))?;
        let is_alone = lines.all(|(_, name, _)| !is_it(name));
        Self::parse(value).filter(|_| is_alone)
    }
}

fn only<'a>(params: &Params<'a>, name: &str) -> Option<&'a str> {
    let mut named = params
        .iter()
        .filter(|(param, _)| param.eq_ignore_ascii_case(name));
    let (_, value) = named.next()?;
    value.filter(|_| named.next().is_none())
}

fn seconds_with_params(text: &str) -> Option<(u32, Params<'_>)> {
    let (digits, params) = split_params(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = is_number.then(|| digits.parse().unwrap_or(u32::MAX))?;
    Some((seconds, Params::parse(params)?))
}

/// What stands before the first semicolon, trimmed, and the rest with it.
fn split_params(text: &str) -> (&str, &str) {
    let (value, params) = text.split_at(text.find(';').unwrap_or(text.len()));
    (value.trim(), params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_a_known_refresher_leaves_it_open() {
        for text in ["90", " 90 ", "90;refresher=none", "90;x=y"] {
            let read = SessionExpires::parse(text).expect("sound");
            assert_eq!((read.interval_s, read.refresher), (90, None), "{text}");
        }
        let read = SessionExpires::parse("99999999999 ; Refresher=UAC").expect("sound");
        assert_eq!(read.interval_s, u32::MAX);
        assert_eq!(read.refresher, Some(Refresher::Uac));
    }

    #[test]
    fn a_broken_interval_is_none() {
        for text in ["", ";refresher=uac", "-1", "1800 s", "0x10", "90;;"] {
            assert_eq!(SessionExpires::parse(text), None, "{text}");
        }
    }

    #[test]
    fn replaces_needs_each_tag_once() {
        for text in [
            "",
            ";to-tag=1;from-tag=2",
            "a b;to-tag=1;from-tag=2",
            "a;to-tag=1",
            "a;from-tag=1",
            "a;to-tag=1;from-tag=2;to-tag=3",
            "a;to-tag;from-tag=2",
        ] {
            assert_eq!(Replaces::parse(text), None, "{text}");
        }
    }

    #[test]
    fn two_replaces_are_none() {
        let line = "Replaces: a;to-tag=1;from-tag=2\r\n";
        let once = format!("INVITE sip:a SIP/2.0\r\n{line}\r\n");
        let twice = format!("INVITE sip:a SIP/2.0\r\n{line}{line}\r\n");
        let read =
            |text: &str| Replaces::of(&Message::parse(text.as_bytes()).expect("sound")).is_some();
        assert_eq!((read(&once), read(&twice)), (true, false));
    }
}
