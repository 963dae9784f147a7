//! The Contact headers of a message (RFC 3261 §20.10).

use crate::sip::read::access::Elements;
use crate::sip::{Contact, HeaderName, ParseError};

/// The Contact headers of a message.
#[derive(Clone, Debug)]
pub enum Contacts<'m, 'a> {
    /// `*`: all bindings.
    Star,
    /// The contacts in order; none for a message without Contact.
    List(ContactIter<'m, 'a>),
}

/// The Contact values of a message in order.
#[derive(Clone, Debug)]
pub struct ContactIter<'m, 'a> {
    elements: Elements<'m, 'a>,
}

impl<'m, 'a> ContactIter<'m, 'a> {
    pub(in crate::sip) fn new(elements: Elements<'m, 'a>) -> Self {
        Self { elements }
    }
}

impl<'a> Iterator for ContactIter<'_, 'a> {
    type Item = Result<Contact<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.elements.next()?;
        Some(Contact::parse(text).ok_or(ParseError::Malformed(HeaderName::Contact)))
    }
}
