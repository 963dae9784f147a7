//! Whether a message has what RFC 3261 §8.1.1 demands of all.

use super::{Contacts, HeaderName, Message, ParseError, Start, Uri};

impl Message<'_> {
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
        if let Start::Request { .. } = self.start() {
            self.validate_request_uri()?;
        }
        self.validate_vias()?;
        self.validate_dialog()?;
        self.validate_contacts()?;
        self.expires()?;
        self.max_forwards()?;
        self.event()?;
        self.content_type().map(drop)
    }

    /// Headers have no place in a Request-URI (RFC 3261 §19.1.1, table 1).
    fn validate_request_uri(&self) -> Result<(), ParseError> {
        match self.request_uri()? {
            Uri::Sip(uri) if uri.headers().next().is_some() => Err(ParseError::RequestUri),
            _ => Ok(()),
        }
    }

    fn validate_dialog(&self) -> Result<(), ParseError> {
        self.from()?;
        self.to()?;
        self.call_id()?;
        let method = self.cseq()?.method;
        match self.method() {
            Some(of_request) if of_request != method => Err(ParseError::MethodMismatch),
            _ => Ok(()),
        }
    }

    fn validate_vias(&self) -> Result<(), ParseError> {
        let mut vias = self.vias();
        vias.next()
            .unwrap_or(Err(ParseError::Missing(HeaderName::Via)))?;
        vias.try_for_each(|via| via.map(drop))
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
