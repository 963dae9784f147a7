//! Whether a message has the headers that RFC 3261 §8.1.1 requires of every message.

use crate::sip::read::message_index::{ContactIndex, ReadIndex, TopViaIndex};
use crate::sip::text::lex;
use crate::sip::{
    Address, CSeq, Contact, Contacts, HeaderName, Host, Message, ParseError, Start, Uri, Via,
};

/// Parsed headers of a valid message, so that callers need not parse them again.
#[derive(Clone, Copy, Debug)]
pub struct Essentials<'a> {
    /// Of a request.
    pub request_uri: Option<Uri<'a>>,
    /// The topmost Via.
    pub via: Via<'a>,
    /// From.
    pub from: Address<'a>,
    /// To.
    pub to: Address<'a>,
    /// CSeq.
    pub cseq: CSeq<'a>,
    /// The only Contact.
    contact: Option<ContactIndex>,
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
        if let Some(kept) = self.kept {
            return Ok(kept);
        }
        let request_uri = match self.start() {
            Start::Request { .. } => Some(self.valid_request_uri()?),
            Start::Response { .. } => None,
        };
        let (via, from) = (self.valid_via()?, self.from()?);
        let essentials = Essentials {
            request_uri,
            via,
            from,
            to: self.to_beside(&from)?,
            cseq: self.valid_cseq()?,
            contact: self.valid_contacts()?,
        };
        self.expires()?;
        self.max_forwards()?;
        self.event()?;
        self.content_type()?;
        Ok(essentials)
    }

    /// Reads the essentials and keeps them, so that [`Message::via`], [`Message::from`],
    /// [`Message::to`] and [`Message::cseq`] need not read them again.
    ///
    /// ```
    /// use busyhour_sip::Message;
    /// let text = b"OPTIONS sip:a@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
    ///     From: <sip:b@example.org>;tag=1\r\nTo: <sip:a@example.org>\r\nCall-ID: 1\r\nCSeq: 7 OPTIONS\r\n\r\n";
    /// let mut message = Message::parse(text)?;
    /// let essentials = message.keep_essentials()?;
    /// assert_eq!(message.from()?, essentials.from);
    /// # Ok::<(), busyhour_sip::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Message::validate`]; then nothing is kept.
    pub fn keep_essentials(&mut self) -> Result<Essentials<'a>, ParseError> {
        let essentials = self.essentials()?;
        if essentials.request_uri.is_some() {
            let top_via = self.top_via_index(&essentials.via);
            self.index.to_mut().read = Some(ReadIndex {
                cseq: essentials.cseq.number,
                contact: essentials.contact,
                top_via,
            });
        }
        self.kept = Some(essentials);
        Ok(essentials)
    }

    /// Where the topmost Via lies, if that alone says how it is written with what its receiver adds.
    fn top_via_index(&self, via: &Via<'a>) -> Option<TopViaIndex> {
        let [before, behind] = via.read.around_rport?;
        let line = self.index.headers.first(HeaderName::Via)?;
        let value = line.value_range();
        let is_alone = via.hop_text.len() + via.params.as_str().len() == value.len();
        let is_folded = lex::find(via.hop_text.as_bytes(), 0, b'\r').is_some();
        if !is_alone || is_folded {
            return None;
        }
        let rport_start = value.start + (via.hop_text.len() + before.len()) as u16;
        let rport_end = value.end - behind.len() as u16;
        Some(TopViaIndex {
            value,
            rport: rport_start..rport_end,
            sent_by: match via.host {
                Host::V4(address) => Some(address.into()),
                Host::V6(address) => Some(address.into()),
                Host::Name(_) => None,
            },
        })
    }

    /// Headers have no place in a Request-URI (RFC 3261 §19.1.1, table 1).
    fn valid_request_uri(&self) -> Result<Uri<'a>, ParseError> {
        match self.request_uri()? {
            Uri::Sip(uri) if uri.headers().next().is_some() => Err(ParseError::RequestUri),
            uri => Ok(uri),
        }
    }

    /// CSeq, which names the method of the request, in a message that has a Call-ID.
    fn valid_cseq(&self) -> Result<CSeq<'a>, ParseError> {
        self.call_id()?;
        let cseq = self.cseq()?;
        match self.method() {
            Some(of_request) if of_request != cseq.method => Err(ParseError::MethodMismatch),
            _ => Ok(cseq),
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

    /// The only one of the contacts, which are all sound.
    fn valid_contacts(&self) -> Result<Option<ContactIndex>, ParseError> {
        if self.header(HeaderName::Contact).is_none() {
            return Ok(None);
        }
        let Contacts::List(mut contacts) = self.contacts()? else {
            return Ok(None);
        };
        let first = contacts.next().transpose()?;
        let Some(second) = contacts.next() else {
            return Ok(first.and_then(|contact| self.contact_index(&contact)));
        };
        second?;
        contacts.try_for_each(|contact| contact.map(drop))?;
        Ok(None)
    }

    /// Where the only contact lies, if its line ends with it.
    fn contact_index(&self, contact: &Contact<'a>) -> Option<ContactIndex> {
        let line = self.index.headers.first(HeaderName::Contact)?;
        let Address {
            uri_text, params, ..
        } = contact.address;
        let (before, end) = (
            self.head.get(..line.value_range().end.into())?,
            line.value_range().end,
        );
        let behind_uri = before.strip_suffix(params.as_str())?;
        let behind_uri = behind_uri.strip_suffix('>').unwrap_or(behind_uri);
        let uri_start = behind_uri.strip_suffix(uri_text)?.len();
        Some(ContactIndex {
            uri: (uri_start as u16, behind_uri.len() as u16),
            params: (end - params.as_str().len() as u16, end),
            q: contact.q,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As it is when it is read from its header.
        #[test]
        fn an_only_contact_is_found_again_as_it_was_read(
            before in "|\"Al, \\\\\"ice\" |Bob\r\n ",
            user in "(sip|sips|tel):[a-z0-9]{1,8}@(192\\.0\\.2\\.7|\\[2001:db8::7\\]|a\\.example)(:5070)?(;transport=tcp)?",
            in_brackets in any::<bool>(),
            params in prop::collection::vec("( ?; ?)(q=0\\.[0-9]|expires=[0-9]{1,5}|expires=x|ob|\\+sip\\.instance=\"<urn:x>\"|x=\"a,\r\n b\")", 0..4),
            rest in prop_oneof![8 => Just(""), 1 => Just(", <sip:b@192.0.2.8>"), 1 => Just("\r\nContact: <sip:b@192.0.2.8>"), 1 => Just(",")],
        ) {
            let contact = match in_brackets {
                true => format!("{before}<{user}>"),
                false => user,
            };
            let text = format!(
                "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:a@example.org>;tag=1\r\n\
                 To: <sip:a@example.org>\r\nCall-ID: 1\r\nCSeq: 7 REGISTER\r\nContact: {contact}{}{rest}\r\n\r\n",
                params.concat()
            );
            let mut message = Message::parse(text.as_bytes()).expect("a frame");
            prop_assert_eq!(message.only_contact(), None, "nothing is read yet");
            if message.keep_essentials().is_err() {
                prop_assert_eq!(message.only_contact(), None);
                return Ok(());
            }
            let Ok(Contacts::List(contacts)) = message.contacts() else {
                return Err(TestCaseError::fail("a star"));
            };
            let contacts: Vec<_> = contacts.map(|contact| contact.expect("a sound one").text()).collect();
            let only = message.only_contact();
            prop_assert_eq!(only.is_some(), contacts.len() == 1);
            prop_assert!(only.is_none_or(|only| only == contacts[0]));
            let elsewhere = message.index().clone();
            prop_assert_eq!(elsewhere.message(text.as_bytes()).only_contact(), only);
        }
    }
}
