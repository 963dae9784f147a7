//! Parameters behind a semicolon: `;name=value`, `;name="quoted"`, `;flag`.

use std::ops::Range;

use crate::sip::text::lex::Cursor;

/// The parameters of a header value, known to be well formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<'a> {
    text: &'a str,
}

/// The parameters in order: name, and the value where there is one, without
/// its quotes.
#[derive(Clone, Debug)]
pub struct ParamIter<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Params<'a> {
    /// Reads `*( ; name [= value] )`; `None` when something else is there.
    pub fn parse(text: &'a str) -> Option<Self> {
        Some(Self::parse_for("", text)?.0)
    }

    /// As [`parse`](Self::parse), and the value of the first parameter of this name, which
    /// costs less than looking for it later.
    pub(in crate::sip) fn parse_for(name: &str, text: &'a str) -> Option<(Self, Option<&'a str>)> {
        let mut found = None;
        let params = Self::parse_each(text, |param, value, _| {
            if found.is_none() && param.eq_ignore_ascii_case(name) {
                found = Some(value);
            }
        })?;
        Some((params, found.flatten()))
    }

    /// As [`parse`](Self::parse), and calls `see` for each parameter in turn with its name, its value and where in `text` it
    /// lies, the semicolon and white space around it included.
    #[inline]
    pub(in crate::sip) fn parse_each(
        text: &'a str,
        mut see: impl FnMut(&'a str, Option<&'a str>, Range<usize>),
    ) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        while !cursor.is_end() {
            let start = cursor.at();
            let (param, value) = next_param(&mut cursor)?;
            see(param, value, start..cursor.at());
        }
        Some(Self { text })
    }

    /// Those of a text that was read before.
    pub(in crate::sip) fn of_read(text: &'a str) -> Self {
        Self { text }
    }

    /// The parameters in order.
    pub fn iter(&self) -> ParamIter<'a> {
        let mut cursor = Cursor::new(self.text);
        cursor.skip_space();
        ParamIter { cursor }
    }

    /// The value of the first parameter of this name, in any case; `None`
    /// also when it has no value.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.find(name).flatten()
    }

    /// Whether a parameter of this name is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// As written, the leading semicolon included.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    pub(in crate::sip) fn find(&self, name: &str) -> Option<Option<&'a str>> {
        if self.text.is_empty() {
            return None;
        }
        let mut params = self.iter();
        params
            .find(|(param, _)| param.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl<'a> Iterator for ParamIter<'a> {
    type Item = (&'a str, Option<&'a str>);

    fn next(&mut self) -> Option<Self::Item> {
        next_param(&mut self.cursor)
    }
}

fn next_param<'a>(cursor: &mut Cursor<'a>) -> Option<(&'a str, Option<&'a str>)> {
    if !cursor.eat_spaced(b';') {
        return None;
    }
    let name = cursor.token()?;
    let value = match cursor.eat_spaced(b'=') {
        true => Some(cursor.value()?),
        false => None,
    };
    cursor.skip_space();
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_case_values_with_and_without_quotes() {
        let params = Params::parse(" ; Tag = a1 ;lr;x=\"a;b\\\"c\" ").expect("well formed");
        assert_eq!(params.value("tag"), Some("a1"));
        assert!(params.has("LR"));
        assert_eq!(params.value("lr"), None);
        assert_eq!(params.value("x"), Some("a;b\\\"c"));
        assert_eq!(params.iter().count(), 3);
    }

    #[test]
    fn empty_and_broken_parameters_are_refused() {
        for broken in [";", ";;a", ";a=", ";a=\"", "a=b", ";a b", ";a=b,c", ";=b"] {
            assert_eq!(Params::parse(broken), None, "{broken}");
        }
        assert_eq!(Params::parse(" \r\n "), Some(Params { text: " \r\n " }));
    }
}
