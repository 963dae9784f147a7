//! Media types and ranges: Accept, Content-Type (RFC 3261 §20.1, §20.15).

use crate::sip::Params;
use crate::sip::text::lex::Cursor;

/// `type/subtype` with parameters; either may be `*` in an Accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaRange<'a> {
    /// `application`, …
    pub kind: &'a str,
    /// `pidf+xml`, …
    pub subtype: &'a str,
    /// `q` and others.
    pub params: Params<'a>,
}

impl<'a> MediaRange<'a> {
    /// Reads one value; `None` when its grammar is broken.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        let kind = cursor.token()?;
        if !cursor.eat_spaced(b'/') {
            return None;
        }
        let subtype = cursor.token()?;
        Some(Self {
            kind,
            subtype,
            params: Params::parse(cursor.rest())?,
        })
    }

    /// Whether `kind/subtype` lies in this range.
    ///
    /// ```
    /// use busyhour_sip::MediaRange;
    /// let range = MediaRange::parse("application/*;q=0.5").unwrap();
    /// assert!(range.covers("application", "pidf+xml"));
    /// assert!(!range.covers("text", "plain"));
    /// ```
    pub fn covers(&self, kind: &str, subtype: &str) -> bool {
        let fits = |pattern: &str, name| pattern == "*" || pattern.eq_ignore_ascii_case(name);
        fits(self.kind, kind) && fits(self.subtype, subtype)
    }
}
