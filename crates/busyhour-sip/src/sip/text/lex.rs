//! The lexical basis of RFC 3261 §25.1: character classes, a cursor, lists.
//!
//! Values are read where they lie, folds included, so white space here is
//! space, tab and the line ends of a fold.

use std::borrow::Cow;

/// Reads a header value from left to right; every step says whether it fits.
#[derive(Clone, Copy, Debug)]
pub(in crate::sip) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// How far it has come.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    pub fn is_end(&self) -> bool {
        self.at >= self.text.len()
    }

    #[inline]
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Takes `byte` if it is next. `byte` must be ASCII.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    /// Takes `byte` with any white space around it.
    #[inline]
    pub fn eat_spaced(&mut self, byte: u8) -> bool {
        self.skip_space();
        let here = self.eat(byte);
        if here {
            self.skip_space();
        }
        here
    }

    /// Takes bytes of the class. A class holds all non-ASCII bytes or none, so
    /// the cut falls between characters.
    #[inline]
    pub fn take(&mut self, class: u8) -> &'a str {
        let start = self.at;
        self.at = run_end(self.text.as_bytes(), start, class);
        self.text.get(start..self.at).unwrap_or("")
    }

    /// Takes `text` if it is next, as it is spelled.
    pub fn eat_text(&mut self, text: &str) -> bool {
        let here = self.rest().starts_with(text);
        self.at += if here { text.len() } else { 0 };
        here
    }

    #[inline]
    pub fn skip_space(&mut self) {
        self.at = run_end(self.text.as_bytes(), self.at, SPACE);
    }

    /// A token of at least one character.
    #[inline]
    pub fn token(&mut self) -> Option<&'a str> {
        Some(self.take(TOKEN)).filter(|token| !token.is_empty())
    }

    /// A quoted string; gives what stands between the quotes, escapes included.
    pub fn quoted(&mut self) -> Option<&'a str> {
        self.peek().filter(|byte| *byte == b'"')?;
        let inner = self.text.get(self.at + 1..)?;
        let length = closing_quote(inner.as_bytes())?;
        self.at += length + 2;
        inner.get(..length)
    }

    /// A parameter value: a quoted string (without its quotes) or a word.
    #[inline]
    pub fn value(&mut self) -> Option<&'a str> {
        if self.peek() == Some(b'"') {
            return self.quoted();
        }
        Some(self.take(VALUE)).filter(|value| !value.is_empty())
    }
}

/// The elements of a comma-separated header value, trimmed, where commas in
/// quoted strings and in angle brackets do not separate.
#[derive(Clone, Debug)]
pub struct ListIter<'a> {
    rest: Option<&'a str>,
}

impl<'a> ListIter<'a> {
    /// Splits `value`; an empty value is an empty list.
    pub fn new(value: &'a str) -> Self {
        let value = trim(value);
        Self {
            rest: Some(value).filter(|value| !value.is_empty()),
        }
    }

    /// What was not yet split.
    pub(in crate::sip) fn rest(&self) -> Option<&'a str> {
        self.rest
    }
}

impl<'a> Iterator for ListIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest.take()?;
        let end = list_comma(rest.as_bytes());
        self.rest = end.and_then(|comma| rest.get(comma + 1..));
        Some(trim(rest.get(..end.unwrap_or(rest.len())).unwrap_or("")))
    }
}

/// The content of a quoted string: each backslash pair stands for its second character
/// (RFC 3261 §25.1, quoted-pair).
///
/// ```
/// use busyhour_sip::unescape;
/// assert_eq!(unescape(r#"J Rosenberg \\\""#), r#"J Rosenberg \""#);
/// ```
pub fn unescape(inner: &str) -> Cow<'_, str> {
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

/// Cuts white space, also that of a fold, from both ends.
pub(in crate::sip) fn trim(text: &str) -> &str {
    let bytes = text.as_bytes();
    let is_dark = |byte: &u8| !is(*byte, SPACE);
    // Most values have been trimmed before.
    if bytes.first().is_some_and(is_dark) && bytes.last().is_some_and(is_dark) {
        return text;
    }
    let Some(start) = bytes.iter().position(is_dark) else {
        return text.get(..0).unwrap_or("");
    };
    let end = bytes.iter().rposition(is_dark).map_or(start, |at| at + 1);
    text.get(start..end).unwrap_or("")
}

/// The texts before and after the first `mark`. The parts of a message are short, so a
/// search optimised for long texts would cost more than it saves.
#[inline]
pub(in crate::sip) fn split_once(text: &str, mark: u8) -> Option<(&str, &str)> {
    let at = find(text.as_bytes(), 0, mark)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// The same for the last `mark`.
pub(in crate::sip) fn rsplit_once(text: &str, mark: u8) -> Option<(&str, &str)> {
    let at = text.bytes().rposition(|byte| byte == mark)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Where `mark` stands first from `at` on. Lines and values are short: eight bytes at a time are ahead of a search that
/// has to be prepared, and of one byte at a time.
#[inline]
pub(in crate::sip) fn find(bytes: &[u8], at: usize, mark: u8) -> Option<usize> {
    let mut at = at;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        // The lowest byte whose highest bit is set here is the first one that is equal.
        let other = u64::from_le_bytes(*word) ^ (u64::from(mark) * ONES);
        let found = other.wrapping_sub(ONES) & !other & HIGHEST_BITS;
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter()
        .position(|&byte| byte == mark)
        .map(|place| at + place)
}

/// Where the bytes of the class that begin at `at` end.
#[inline]
pub(in crate::sip) fn run_end(bytes: &[u8], at: usize, class: u8) -> usize {
    let mut at = at;
    while bytes.get(at).is_some_and(|&byte| is(byte, class)) {
        at += 1;
    }
    at
}

#[inline]
pub(in crate::sip) fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

#[inline]
pub(in crate::sip) fn all(text: &str, class: u8) -> bool {
    text.bytes().all(|byte| is(byte, class))
}

/// A number of decimal digits alone; beyond `u32` it stays at the largest.
pub(in crate::sip) fn saturating_u32(text: &str) -> Option<u32> {
    if text.is_empty() || !all(text, DIGIT) {
        return None;
    }
    Some(text.parse().unwrap_or(u32::MAX))
}

/// Where the quoted string that begins before `inner` ends.
fn closing_quote(inner: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', inner.get(at..)?)?;
        if inner.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

fn list_comma(bytes: &[u8]) -> Option<usize> {
    // Most lists have one element.
    find(bytes, 0, b',')?;
    let mut at = 0;
    let mut bracketed = false;
    loop {
        match bytes.get(at)? {
            b',' if !bracketed => return Some(at),
            b'<' => bracketed = true,
            b'>' => bracketed = false,
            b'"' if !bracketed => at += 1 + closing_quote(bytes.get(at + 1..)?)?,
            _ => {}
        }
        at += 1;
    }
}

/// A one in each byte.
const ONES: u64 = u64::MAX / 255;
const HIGHEST_BITS: u64 = ONES << 7;
/// RFC 3261 `token`.
pub(in crate::sip) const TOKEN: u8 = 1;
/// White space, the line ends of a fold included.
pub(in crate::sip) const SPACE: u8 = 2;
/// What may stand in a host name or an address without brackets.
pub(in crate::sip) const HOST: u8 = 4;
/// `unreserved` and `user-unreserved`; escapes are checked apart.
pub(in crate::sip) const USER: u8 = 8;
/// `paramchar` of a URI parameter, and what a URI header adds to it.
pub(in crate::sip) const URI_PARAM: u8 = 16;
/// Decimal digits.
pub(in crate::sip) const DIGIT: u8 = 32;
/// A parameter value outside of quotes: `token` or `host`, read generously.
pub(in crate::sip) const VALUE: u8 = 64;
/// Letters and digits.
pub(in crate::sip) const ALPHANUM: u8 = 128;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    table = mark(table, b"-.!%*_+`'~", TOKEN);
    table = mark(table, b" \t\r\n", SPACE);
    table = mark(table, b"-._", HOST);
    table = mark(table, b"-_.!~*'()%&=+$,;?/", USER);
    table = mark(table, b"-_.!~*'()%[]/:&+$?", URI_PARAM);
    table = mark(table, b"-.!%*_+`'~[]:/?@&$()#=|^{}", VALUE);
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] |= TOKEN | HOST | USER | URI_PARAM | VALUE | ALPHANUM;
        }
        if (byte as u8).is_ascii_digit() {
            table[byte] |= DIGIT;
        }
        byte += 1;
    }
    table
}

const fn mark(mut table: [u8; 256], bytes: &[u8], class: u8) -> [u8; 256] {
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] |= class;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mark_is_found_where_one_byte_after_the_other_finds_it(
            bytes in prop::collection::vec(prop_oneof![Just(b','), Just(b'-'), Just(b'\x00'), any::<u8>()], 0..40),
            at in 0..42_usize,
            mark in prop_oneof![Just(b','), Just(b'\x00'), any::<u8>()],
        ) {
            let naive = (at..bytes.len()).find(|&place| bytes[place] == mark);
            prop_assert_eq!(find(&bytes, at, mark), naive);
        }
    }

    #[test]
    fn a_list_keeps_commas_in_quotes_and_brackets() {
        let list = r#""Bell, A \" B" <sip:a@b;x=1,2>, sip:c@d ,, e"#;
        let elements: Vec<_> = ListIter::new(list).collect();
        let bell = r#""Bell, A \" B" <sip:a@b;x=1,2>"#;
        assert_eq!(elements, [bell, "sip:c@d", "", "e"]);
        assert_eq!(ListIter::new(" \r\n ").count(), 0);
        assert_eq!(ListIter::new(",").count(), 2);
    }

    #[test]
    fn an_open_quote_takes_the_rest_and_is_no_string() {
        assert_eq!(
            ListIter::new(r#""open, a"#).collect::<Vec<_>>(),
            [r#""open, a"#]
        );
        assert_eq!(Cursor::new(r#""open \""#).quoted(), None);
        assert_eq!(Cursor::new(r#""\"#).quoted(), None);
    }

    #[test]
    fn numbers_saturate_and_refuse_signs() {
        assert_eq!(saturating_u32("4294967296"), Some(u32::MAX));
        assert_eq!(saturating_u32("0"), Some(0));
        assert_eq!(saturating_u32("-1"), None);
        assert_eq!(saturating_u32("+1"), None);
        assert_eq!(saturating_u32(""), None);
    }
}
