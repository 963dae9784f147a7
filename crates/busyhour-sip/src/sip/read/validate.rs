//! Whether a message has the headers that RFC 3261 §8.1.1 requires of every message.

use crate::sip::{Address, Contacts, HeaderName, Message, ParseError, Start, Uri, Via};

/// Parsed headers of a valid message, so that callers need not parse them again.
#[derive(Clone, Copy, Debug)]
pub struct Essentials<'a> {
    /// Of a request.
    pub request_uri: Option<Uri<'a>>,
    /// The topmost Via.
    pub via: Via<'a>,
    /// To.
    pub to: Address<'a>,
}

impl<'a> Message<'a> {
    /// Checks the headers that every message needs (To, From, Call-ID, CSeq,
    /// Via), and the grammar of those that a registrar or notifier acts on:
    /// Request-URI, Max-Forwards, Expires, Contact, Event, Content-Type.
    ///
    /// A request without From tag or Max-Forwards passes, as RFC 2543 clients
    /// send such.
    ///
    /// # Errors
    /// The first thing found wrong; [`ParseError::status`] is the answer to it.
    pub fn validate(&self) -> Result<(), ParseError> {
        self.essentials().map(drop)
    }

    /// The same, with what was read on the way.
    ///
    /// # Errors
    /// As [`Message::validate`].
    pub fn essentials(&self) -> Result<Essentials<'a>, ParseError> {
        let request_uri = match self.start() {
            Start::Request { .. } => Some(self.valid_request_uri()?),
            Start::Response { .. } => None,
        };
        let essentials = Essentials {
            request_uri,
            via: self.valid_via()?,
            to: self.valid_to()?,
        };
        self.validate_contacts()?;
        self.expires()?;
        self.max_forwards()?;
        self.event()?;
        self.content_type()?;
        Ok(essentials)
    }

    /// Headers have no place in a Request-URI (RFC 3261 §19.1.1, table 1).
    fn valid_request_uri(&self) -> Result<Uri<'a>, ParseError> {
        match self.request_uri()? {
            Uri::Sip(uri) if uri.headers().next().is_some() => Err(ParseError::RequestUri),
            uri => Ok(uri),
        }
    }

    /// To, in a message that has all that names a dialog.
    fn valid_to(&self) -> Result<Address<'a>, ParseError> {
        self.from()?;
        let to = self.to()?;
        self.call_id()?;
        let method = self.cseq()?.method;
        match self.method() {
            Some(of_request) if of_request != method => Err(ParseError::MethodMismatch),
            _ => Ok(to),
        }
    }

    /// The topmost Via of those that are all sound.
    fn valid_via(&self) -> Result<Via<'a>, ParseError> {
        let mut vias = self.vias();
        let top = vias
            .next()
            .unwrap_or(Err(ParseError::Missing(HeaderName::Via)))?;
        vias.try_for_each(|via| via.map(drop))?;
        Ok(top)
    }

    fn validate_contacts(&self) -> Result<(), ParseError> {
        if self.header(HeaderName::Contact).is_none() {
            return Ok(());
        }
        match self.contacts()? {
            Contacts::Star => Ok(()),
            Contacts::List(mut contacts) => contacts.try_for_each(|contact| contact.map(drop)),
        }
    }
}
