//! The Via headers of a message (RFC 3261 §20.42).

use crate::sip::read::access::Elements;
use crate::sip::{HeaderName, ParseError, Via};

/// The Via values of a message, the latest hop first.
#[derive(Clone, Debug)]
pub struct ViaIter<'m, 'a> {
    elements: Elements<'m, 'a>,
}

impl<'m, 'a> ViaIter<'m, 'a> {
    pub(in crate::sip) fn new(elements: Elements<'m, 'a>) -> Self {
        Self { elements }
    }
}

impl<'a> Iterator for ViaIter<'_, 'a> {
    type Item = Result<Via<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.elements.next()?;
        Some(Via::parse(text).ok_or(ParseError::Malformed(HeaderName::Via)))
    }
}
