//! CSeq (RFC 3261 §20.16).

use crate::sip::Method;
use crate::sip::text::lex::{self, Cursor, DIGIT};

/// The sequence number of a request within its Call-ID, and its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// Below 2³¹.
    pub number: u32,
    /// The method of the request, also in its response.
    pub method: Method<'a>,
}

impl<'a> CSeq<'a> {
    /// Reads one value; `None` when its grammar is broken or the number is
    /// 2³¹ or more (RFC 3261 §8.1.1.5).
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut cursor = Cursor::new(lex::trim(text));
        let number: u32 = cursor.take(DIGIT).parse().ok()?;
        let after_number = cursor.rest().len();
        cursor.skip_space();
        let spaced = cursor.rest().len() < after_number;
        let method = Method::new(cursor.token()?);
        let sound = spaced && cursor.is_end() && number < 1 << 31;
        sound.then_some(Self { number, method })
    }
}
