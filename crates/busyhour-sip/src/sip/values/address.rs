//! `name-addr` and `addr-spec`: From, To, Contact, Route and their kin.

use crate::sip::text::lex::{self, Cursor, SPACE, TOKEN};
use crate::sip::{Params, Uri};

/// A display name, a URI and the parameters of the header around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The display name without quotes, escapes included; empty if none.
    pub display: &'a str,
    /// Whom it names.
    pub uri: Uri<'a>,
    /// The URI as written, without brackets.
    pub uri_text: &'a str,
    /// Parameters of the header, not of the URI.
    pub params: Params<'a>,
    tag: Option<&'a str>,
}

impl<'a> Address<'a> {
    /// Reads one value; `None` when its grammar is broken.
    ///
    /// Without brackets, parameters belong to the header, and the URI may hold
    /// neither comma nor question mark (RFC 3261 §20.10).
    ///
    /// ```
    /// use busyhour_sip::Address;
    /// let from = Address::parse(r#""Alice" <sip:alice@example.org;lr>;tag=a1"#).unwrap();
    /// assert_eq!((from.display, from.tag()), ("Alice", Some("a1")));
    /// let plain = Address::parse("sip:alice@example.org;tag=a1").unwrap();
    /// assert_eq!((plain.uri_text, plain.tag()), ("sip:alice@example.org", Some("a1")));
    /// ```
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = lex::trim(text);
        match split_display(text)? {
            (display, Some(bracketed)) => Self::bracketed(display, bracketed),
            (_, None) => Self::bare(text),
        }
    }

    /// As [`parse`](Self::parse) of a text that may have the same name and URI as another one, of which `other` was read:
    /// To and From of a registration have. Then only the parameters are read.
    pub(in crate::sip) fn parse_beside(
        text: &'a str,
        (other_text, other): (&'a str, &Self),
    ) -> Option<Self> {
        let params_at = other_text.len().checked_sub(other.params.as_str().len())?;
        let same = other_text.get(..params_at).filter(|it| it.ends_with('>'));
        match same.and_then(|same| text.strip_prefix(same)) {
            Some(params) => {
                let (params, tag) = Params::parse_for("tag", params)?;
                Some(Self {
                    params,
                    tag,
                    ..*other
                })
            }
            None => Self::parse(text),
        }
    }

    /// The dialog tag.
    pub fn tag(&self) -> Option<&'a str> {
        self.tag
    }

    fn bracketed(display: &'a str, text: &'a str) -> Option<Self> {
        let (uri_text, params) = lex::split_once(text, b'>')?;
        Self::of(display, uri_text, params)
    }

    fn bare(text: &'a str) -> Option<Self> {
        let end = text
            .bytes()
            .position(|byte| byte == b';' || lex::is(byte, SPACE));
        let (uri_text, params) = text.split_at_checked(end.unwrap_or(text.len()))?;
        if uri_text.contains([',', '?', '<', '>']) {
            return None;
        }
        Self::of("", uri_text, params)
    }

    fn of(display: &'a str, uri_text: &'a str, params: &'a str) -> Option<Self> {
        let uri = Uri::parse(uri_text)?;
        let (params, tag) = Params::parse_for("tag", params)?;
        Some(Self {
            display,
            uri,
            uri_text,
            params,
            tag,
        })
    }
}

/// The display name, and what follows the opening bracket if there is one.
fn split_display(text: &str) -> Option<(&str, Option<&str>)> {
    let mut cursor = Cursor::new(text);
    let display = match cursor.peek()? {
        b'"' => cursor.quoted()?,
        _ => lex::trim(cursor.take(TOKEN | SPACE)),
    };
    cursor.skip_space();
    let quoted = text.starts_with('"');
    match cursor.eat(b'<') {
        true => Some((display, Some(cursor.rest()))),
        false if quoted => None,
        false => Some(("", None)),
    }
}
