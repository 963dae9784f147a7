//! When two SIP URIs are the same (RFC 3261 §19.1.4), and the canonical
//! address of record (§10.3).

use std::fmt::Write;

use crate::sip::text::digits::Ipv4Text;
use crate::sip::{Host, SipUri};

impl SipUri<'_> {
    /// Whether both URIs are equivalent by RFC 3261 §19.1.4: user and password
    /// by case, everything else without, `%HH` as the character it stands for
    /// unless that is reserved, parameters in any order. `user`, `ttl`,
    /// `method`, `maddr` and `transport` must stand in both or in none; other
    /// parameters count only where both have them. Headers always count.
    ///
    /// ```
    /// use busyhour_sip::Uri;
    /// let same = |a, b| Uri::parse(a).unwrap().matches(&Uri::parse(b).unwrap());
    /// assert!(same("sip:%61lice@Example.org;transport=TCP", "sip:alice@example.ORG;Transport=tcp"));
    /// assert!(!same("sip:Alice@example.org", "sip:alice@example.org"));
    /// assert!(!same("sip:bob@example.org", "sip:bob@example.org:5060"));
    /// ```
    pub fn matches(&self, that: &SipUri<'_>) -> bool {
        self.scheme == that.scheme
            && self.host.matches(&that.host)
            && self.port == that.port
            && same_option(self.user, that.user, same_with_case)
            && same_option(self.password, that.password, same_with_case)
            && params_agree(self, that)
            && params_agree(that, self)
            && headers_agree(self, that)
    }

    /// Writes the canonical address of record into `out`, which is cleared
    /// first: scheme, user with needless escapes undone, host in lower case,
    /// port as written; no password, parameters or headers.
    ///
    /// Two URIs of one user give one string, so it serves as key and as URI.
    ///
    /// ```
    /// use busyhour_sip::Uri;
    /// let uri = Uri::parse("SIP:%61lice:secret@EXAMPLE.org;user=phone?Subject=x").unwrap();
    /// let mut aor = String::new();
    /// uri.as_sip().unwrap().canonical_aor(&mut aor);
    /// assert_eq!(aor, "sip:alice@example.org");
    /// ```
    pub fn canonical_aor(&self, out: &mut String) {
        out.clear();
        out.push_str(self.scheme.as_str());
        out.push(':');
        if let Some(user) = self.user {
            push_user(out, user);
            out.push('@');
        }
        push_host(out, &self.host);
        if let Some(port) = self.port {
            out.push(':');
            out.push_str(itoa::Buffer::new().format(port));
        }
    }
}

fn push_user(out: &mut String, user: &str) {
    match user.bytes().any(|byte| byte == b'%') {
        true => out.extend(Decoded::new(user).flat_map(Unit::for_user)),
        false => out.push_str(user),
    }
}

fn push_host(out: &mut String, host: &Host<'_>) {
    match host {
        Host::Name(name) => {
            let begin = out.len();
            out.push_str(name);
            out[begin..].make_ascii_lowercase();
        }
        Host::V4(address) => out.push_str(Ipv4Text::new(*address).as_str()),
        Host::V6(address) => {
            // Writing to a String can't fail.
            let _ = write!(out, "[{address}]");
        }
    }
}

/// Every parameter of `this` has its like in `that`, where it must.
fn params_agree(this: &SipUri<'_>, that: &SipUri<'_>) -> bool {
    this.params().all(|(name, value)| match that.param(name) {
        Some(other) => same_option(value, other, same_without_case),
        None => !MUST_BE_IN_BOTH
            .iter()
            .any(|strict| strict.eq_ignore_ascii_case(name)),
    })
}

fn headers_agree(this: &SipUri<'_>, that: &SipUri<'_>) -> bool {
    let holds = |uri: &SipUri<'_>, (name, value): (&str, &str)| {
        uri.headers()
            .any(|(n, v)| n.eq_ignore_ascii_case(name) && same_with_case(v, value))
    };
    this.headers().count() == that.headers().count()
        && this.headers().all(|header| holds(that, header))
        && that.headers().all(|header| holds(this, header))
}

fn same_option(this: Option<&str>, that: Option<&str>, same: fn(&str, &str) -> bool) -> bool {
    match (this, that) {
        (Some(this), Some(that)) => same(this, that),
        (None, None) => true,
        _ => false,
    }
}

fn same_with_case(this: &str, that: &str) -> bool {
    this == that || Decoded::new(this).eq(Decoded::new(that))
}

fn same_without_case(this: &str, that: &str) -> bool {
    let lower = |text| Decoded::new(text).map(Unit::lowercase);
    this.eq_ignore_ascii_case(that) || lower(this).eq(lower(that))
}

/// One character of a URI part, with escapes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Stands for itself, escaped or not.
    Plain(u8),
    /// An escape that means something else than the character alone would.
    Escaped(u8),
}

impl Unit {
    fn lowercase(self) -> Self {
        match self {
            Self::Plain(byte) => Self::Plain(byte.to_ascii_lowercase()),
            escaped => escaped,
        }
    }

    /// The shortest spelling that is still legal in the user part.
    fn for_user(self) -> UserText {
        match self {
            Self::Plain(byte) => UserText {
                bytes: [byte, 0, 0],
                length: 1,
                at: 0,
            },
            Self::Escaped(byte) => {
                let hex = |nibble: u8| b"0123456789ABCDEF"[(nibble & 15) as usize];
                UserText {
                    bytes: [b'%', hex(byte >> 4), hex(byte)],
                    length: 3,
                    at: 0,
                }
            }
        }
    }
}

/// One [`Unit`] as it stands in a canonical user part.
struct UserText {
    bytes: [u8; 3],
    length: u8,
    at: u8,
}

impl Iterator for UserText {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let byte = (self.at < self.length).then(|| self.bytes[self.at as usize])?;
        self.at += 1;
        Some(char::from(byte))
    }
}

/// Reads `%HH` on the way; everything else passes.
struct Decoded<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Decoded<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes().iter(),
        }
    }
}

impl Iterator for Decoded<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        let byte = *self.bytes.next()?;
        if byte != b'%' {
            return Some(Unit::Plain(byte));
        }
        let [high, low, ..] = self.bytes.as_slice() else {
            return Some(Unit::Plain(byte));
        };
        let (Some(high), Some(low)) = (nibble(*high), nibble(*low)) else {
            return Some(Unit::Plain(byte));
        };
        self.bytes.nth(1);
        let decoded = high << 4 | low;
        Some(if is_unreserved(decoded) {
            Unit::Plain(decoded)
        } else {
            Unit::Escaped(decoded)
        })
    }
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// RFC 3261 §25.1 `unreserved`: the same escaped and not.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte)
}

/// Parameters that never match their absence. RFC 3261 §19.1.4 lists the
/// first four in its rules and the last in its examples.
const MUST_BE_IN_BOTH: [&str; 5] = ["user", "ttl", "method", "maddr", "transport"];
