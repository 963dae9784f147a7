//! SIP and SIPS URIs (RFC 3261 §19.1), other URIs by scheme alone.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::sip::text::lex::{self, ALPHANUM, Cursor, DIGIT, HOST, URI_PARAM, USER};

/// Any URI that may stand in a SIP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uri<'a> {
    /// `sip:` or `sips:`.
    Sip(SipUri<'a>),
    /// Another scheme, its remainder as written.
    Other {
        /// The scheme as written.
        scheme: &'a str,
        /// What follows the colon.
        rest: &'a str,
    },
}

/// A `sip:` or `sips:` URI, its parts as written (escapes included).
///
/// `==` compares the text; [`SipUri::matches`] compares by RFC 3261 §19.1.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SipUri<'a> {
    /// The whole URI as written.
    pub text: &'a str,
    /// `sip` or `sips`.
    pub scheme: Scheme,
    /// The user part; it may hold `;`, `/` and `?`.
    pub user: Option<&'a str>,
    /// The deprecated password.
    pub password: Option<&'a str>,
    /// Whom to ask.
    pub host: Host<'a>,
    /// The port, where one is written.
    pub port: Option<u16>,
    params: &'a str,
    headers: &'a str,
}

/// The scheme of a [`SipUri`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `sip:`.
    Sip,
    /// `sips:`.
    Sips,
}

/// A host name or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// A name as written; compare without case.
    Name(&'a str),
    /// Four decimal numbers.
    V4(Ipv4Addr),
    /// In brackets on the wire.
    V6(Ipv6Addr),
}

impl<'a> Uri<'a> {
    /// Reads a URI that stands alone, without brackets.
    ///
    /// ```
    /// use busyhour_sip::{Host, Uri};
    /// let Some(Uri::Sip(uri)) = Uri::parse("sip:alice;day=tuesday@example.org:5070;lr") else {
    ///     panic!("a SIP URI");
    /// };
    /// assert_eq!(uri.user, Some("alice;day=tuesday"));
    /// assert_eq!(uri.host, Host::Name("example.org"));
    /// assert_eq!(uri.port, Some(5070));
    /// assert!(uri.param("lr").is_some());
    /// ```
    pub fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = lex::split_once(text, b':')?;
        let kind = match scheme {
            _ if scheme.eq_ignore_ascii_case("sip") => Scheme::Sip,
            _ if scheme.eq_ignore_ascii_case("sips") => Scheme::Sips,
            _ => return other(scheme, rest),
        };
        SipUri::parse(text, kind, rest).map(Self::Sip)
    }

    /// The SIP URI, if it is one.
    pub fn as_sip(&self) -> Option<&SipUri<'a>> {
        match self {
            Self::Sip(uri) => Some(uri),
            Self::Other { .. } => None,
        }
    }

    /// The SIP URI, if it is one that a request or a route can have: without
    /// headers (RFC 3261 §19.1.1, table 1).
    pub fn as_request_uri(&self) -> Option<SipUri<'a>> {
        let uri = self.as_sip()?;
        uri.headers().next().is_none().then_some(*uri)
    }

    /// Whether both name the same resource; other schemes by their text.
    pub fn matches(&self, that: &Uri<'_>) -> bool {
        match (self, that) {
            (Self::Sip(this), Uri::Sip(that)) => this.matches(that),
            (
                Self::Other { scheme, rest },
                Uri::Other {
                    scheme: scheme_b,
                    rest: rest_b,
                },
            ) => scheme.eq_ignore_ascii_case(scheme_b) && rest == rest_b,
            _ => false,
        }
    }
}

impl fmt::Display for Uri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sip(uri) => f.write_str(uri.text),
            Self::Other { scheme, rest } => write!(f, "{scheme}:{rest}"),
        }
    }
}

impl<'a> SipUri<'a> {
    fn parse(text: &'a str, scheme: Scheme, rest: &'a str) -> Option<Self> {
        let (user, password, rest) = split_userinfo(rest)?;
        let mut cursor = Cursor::new(rest);
        let (host, port) = Host::with_port(&mut cursor)?;
        let tail = cursor.rest();
        let (params, headers) = lex::split_once(tail, b'?').unwrap_or((tail, ""));
        if !params.is_empty() && !params.starts_with(';') {
            return None;
        }
        let uri = Self {
            text,
            scheme,
            user,
            password,
            host,
            port,
            params,
            headers,
        };
        uri.tail_is_sound().then_some(uri)
    }

    /// The URI parameters in order; a value is `None` where no `=` stands.
    pub fn params(&self) -> impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone + use<'a> {
        let params = self
            .params
            .get(1..)
            .unwrap_or("")
            .split(';')
            .filter(|param| !param.is_empty());
        params.map(|param| {
            param
                .split_once('=')
                .map_or((param, None), |(name, value)| (name, Some(value)))
        })
    }

    /// The parameter of this name, in any case, and its value.
    pub fn param(&self, name: &str) -> Option<Option<&'a str>> {
        if self.params.is_empty() {
            return None;
        }
        self.params()
            .find(|(param, _)| param.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The headers behind the question mark, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let headers = self.headers.split('&').filter(|header| !header.is_empty());
        headers.map(|header| header.split_once('=').unwrap_or((header, "")))
    }

    /// The port to use: the written one or the scheme's default.
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            Scheme::Sip => 5060,
            Scheme::Sips => 5061,
        })
    }

    /// Parameters and headers hold only what may stand there, none is empty,
    /// no parameter stands twice (RFC 3261 §19.1.1), and there are few enough
    /// that comparing each with each stays cheap.
    fn tail_is_sound(&self) -> bool {
        // Most have no parameter, or one.
        if self.headers.is_empty() {
            match self.params.as_bytes() {
                [] => return true,
                [_, only @ ..] if !only.contains(&b';') => {
                    return piece_is_sound(self.params.get(1..).unwrap_or(""));
                }
                _ => {}
            }
        }
        let mut params = self.params.split(';').skip(1);
        let mut headers = self.headers.split('&').filter(|_| !self.headers.is_empty());
        let few =
            self.params().nth(PIECES_MAX).is_none() && self.headers().nth(PIECES_MAX).is_none();
        few && params.all(piece_is_sound)
            && headers.all(piece_is_sound)
            && self.params_are_distinct()
    }

    fn params_are_distinct(&self) -> bool {
        let mut rest = self.params();
        while let Some((name, _)) = rest.next() {
            if rest
                .clone()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
            {
                return false;
            }
        }
        true
    }
}

impl fmt::Display for SipUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl Scheme {
    /// The scheme without its colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sip => "sip",
            Self::Sips => "sips",
        }
    }
}

impl<'a> Host<'a> {
    /// Takes `host [":" port]`.
    fn with_port(cursor: &mut Cursor<'a>) -> Option<(Self, Option<u16>)> {
        Some((Self::take(cursor)?, take_port(cursor)?))
    }

    pub(in crate::sip) fn take(cursor: &mut Cursor<'a>) -> Option<Self> {
        if cursor.peek() == Some(b'[') {
            let (address, _) = cursor.rest().get(1..)?.split_once(']')?;
            *cursor = Cursor::new(cursor.rest().get(address.len() + 2..)?);
            return address.parse().ok().map(Self::V6);
        }
        let name = cursor.take(HOST);
        let [first, .., last] = name.as_bytes() else {
            return (!name.is_empty()).then_some(Self::Name(name));
        };
        let is_numeric = first.is_ascii_digit() && last.is_ascii_digit();
        let address = if is_numeric { read_ipv4(name) } else { None };
        Some(address.map_or(Self::Name(name), Self::V4))
    }

    /// Whether both are the same host: names without case, addresses by value.
    pub fn matches(&self, that: &Host<'_>) -> bool {
        match (self, that) {
            (Self::Name(this), Host::Name(that)) => this.eq_ignore_ascii_case(that),
            (Self::V4(this), Host::V4(that)) => this == that,
            (Self::V6(this), Host::V6(that)) => this == that,
            _ => false,
        }
    }
}

impl fmt::Display for Host<'_> {
    /// As it stands in a URI: IPv6 in brackets and in its canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// `Some(None)` when no port stands there, `None` when a bad one does.
pub(in crate::sip) fn take_port(cursor: &mut Cursor<'_>) -> Option<Option<u16>> {
    match cursor.eat_spaced(b':') {
        true => read_port(cursor.take(DIGIT)).map(Some),
        false => Some(None),
    }
}

/// Digits alone as the standard library reads them, without its detours.
fn read_port(digits: &str) -> Option<u16> {
    let number = digits.bytes().try_fold(0, |number: u32, digit| {
        let number = number * 10 + u32::from(digit - b'0');
        (number <= u32::from(u16::MAX)).then_some(number)
    });
    number
        .filter(|_| !digits.is_empty())
        .and_then(|number| number.try_into().ok())
}

/// Four decimal numbers as the standard library reads them, without its detours.
fn read_ipv4(text: &str) -> Option<Ipv4Addr> {
    let (mut address, mut points, mut number, mut digits) = (0, 0, 0, 0);
    for byte in text.bytes() {
        let digit = u32::from(byte.wrapping_sub(b'0'));
        if digit < 10 {
            // No number but 0 begins with 0.
            let is_padded = number == 0 && digits > 0;
            number = number * 10 + digit;
            digits += 1;
            if is_padded || number > 255 {
                return None;
            }
        } else if byte == b'.' && digits > 0 && points < 3 {
            address = address << 8 | number;
            points += 1;
            (number, digits) = (0, 0);
        } else {
            return None;
        }
    }
    (points == 3 && digits > 0).then(|| Ipv4Addr::from_bits(address << 8 | number))
}

/// Whether each `%` is followed by two hexadecimal digits.
pub(in crate::sip) fn escapes_are_sound(text: &str) -> bool {
    if !text.bytes().any(|byte| byte == b'%') {
        return true;
    }
    let escape = |tail: &str| {
        tail.as_bytes()
            .get(..2)
            .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    text.split('%').skip(1).all(escape)
}

fn other<'a>(scheme: &'a str, rest: &'a str) -> Option<Uri<'a>> {
    let lettered = scheme.as_bytes().first()?.is_ascii_alphabetic();
    let scheme_is_sound = scheme
        .bytes()
        .all(|byte| lex::is(byte, ALPHANUM) || b"+-.".contains(&byte));
    let rest_is_sound = rest
        .bytes()
        .all(|byte| byte > b' ' && byte != 0x7f && !b"<>\"".contains(&byte));
    let sound = lettered && scheme_is_sound && rest_is_sound && !rest.is_empty();
    sound.then_some(Uri::Other { scheme, rest })
}

type UserInfo<'a> = (Option<&'a str>, Option<&'a str>, &'a str);

/// User, password and what follows the `@`. No other part may hold an `@`.
fn split_userinfo(rest: &str) -> Option<UserInfo<'_>> {
    let mut cursor = Cursor::new(rest);
    let user = cursor.take(USER);
    let (user, password, rest) = match cursor.eat(b'@') {
        true => (user, None, cursor.rest()),
        false => match lex::split_once(rest, b'@') {
            Some((userinfo, rest)) => split_password(userinfo, rest)?,
            None => return Some((None, None, rest)),
        },
    };
    let sound = !user.is_empty() && escapes_are_sound(user);
    sound.then_some((Some(user), password, rest))
}

fn split_password<'a>(
    userinfo: &'a str,
    rest: &'a str,
) -> Option<(&'a str, Option<&'a str>, &'a str)> {
    let (user, password) = lex::split_once(userinfo, b':')?;
    let sound = lex::all(user, USER) && lex::all(password, USER) && escapes_are_sound(password);
    sound.then_some((user, Some(password), rest))
}

fn piece_is_sound(piece: &str) -> bool {
    let allowed = piece
        .bytes()
        .all(|byte| lex::is(byte, URI_PARAM) || byte == b'=');
    allowed && !piece.is_empty() && !piece.starts_with('=') && escapes_are_sound(piece)
}

/// Parameters, and headers, that one URI may have.
const PIECES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_are_read_as_the_standard_library_reads_them(
            text in "[0-9.]{0,17}|([0-2]?[0-9]?[0-9]\\.){3}[0-9]{1,3}|[0-9a-z.:-]{0,9}",
            address in any::<u32>().prop_map(Ipv4Addr::from),
        ) {
            prop_assert_eq!(read_ipv4(&text), text.parse().ok());
            prop_assert_eq!(read_ipv4(&address.to_string()), Some(address));
        }

        #[test]
        fn ports_are_read_as_the_standard_library_reads_them(digits in "[0-9]{0,12}") {
            prop_assert_eq!(read_port(&digits), digits.parse().ok());
        }
    }
}
