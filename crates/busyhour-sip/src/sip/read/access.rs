//! Typed accessors for the headers of a message.

use crate::sip::read::header_index::Line;
use crate::sip::read::message_index::{ContactIndex, text};
use crate::sip::text::lex::{self, ListIter, VALUE, saturating_u32};
use crate::sip::{
    Address, CSeq, ContactIter, ContactText, Contacts, DigestChallenge, DigestCredentials, Event,
    HeaderName, MediaRange, Message, Params, ParseError, SipUri, SubscriptionState, Via, ViaIter,
};

/// The values of all lines of one header name, in order, trimmed.
#[derive(Clone, Debug)]
pub struct Headers<'m, 'a> {
    message: &'m Message<'a>,
    next: Option<&'m Line>,
}

/// The elements of all comma-separated values of one header, in order.
#[derive(Clone, Debug)]
pub struct Elements<'m, 'a> {
    lines: Headers<'m, 'a>,
    list: ListIter<'a>,
}

impl<'a> Message<'a> {
    /// The value of the first line of this name, folds included.
    pub fn header(&self, name: HeaderName) -> Option<&'a str> {
        self.index
            .headers
            .first(name)
            .map(|line| line.value(self.head))
    }

    /// The values of all lines of this name.
    pub fn headers(&self, name: HeaderName) -> Headers<'_, 'a> {
        Headers {
            message: self,
            next: self.index.headers.first(name),
        }
    }

    /// The value of the first line of a name that has no [`HeaderName`].
    pub fn header_named(&self, name: &str) -> Option<&'a str> {
        let mut headers = self.all_headers();
        headers
            .find(|(_, written, _)| written.eq_ignore_ascii_case(name))
            .map(|(_, _, value)| value)
    }

    /// Every header line in order: what it is, its long name, its value.
    pub fn all_headers(&self) -> impl Iterator<Item = (HeaderName, &'a str, &'a str)> + '_ {
        (0..self.index.headers.len())
            .filter_map(|at| self.index.headers.get(at))
            .map(|line| {
                let name = match line.name {
                    HeaderName::Other => line.name_text(self.head),
                    known => known.as_str(),
                };
                (line.name, name, line.value(self.head))
            })
    }

    /// The comma-separated elements of all lines of this name, trimmed: the
    /// tokens of Require, Supported, Allow, Allow-Events and their like. An
    /// empty element between two commas is given as an empty text.
    pub fn elements(&self, name: HeaderName) -> Elements<'_, 'a> {
        Elements {
            lines: self.headers(name),
            list: ListIter::new(""),
        }
    }

    /// Whether a list header holds `token`, in any case.
    pub fn has_token(&self, name: HeaderName, token: &str) -> bool {
        self.elements(name)
            .any(|element| element.eq_ignore_ascii_case(token))
    }

    /// The topmost Via.
    ///
    /// # Errors
    /// [`ParseError::Missing`] or [`ParseError::Malformed`].
    pub fn via(&self) -> Result<Via<'a>, ParseError> {
        match self.kept {
            Some(kept) => Ok(kept.via),
            None => self
                .vias()
                .next()
                .unwrap_or(Err(ParseError::Missing(HeaderName::Via))),
        }
    }

    /// Every Via, the latest hop first.
    pub fn vias(&self) -> ViaIter<'_, 'a> {
        ViaIter::new(self.elements(HeaderName::Via))
    }

    /// From.
    ///
    /// # Errors
    /// [`ParseError::Missing`], [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn from(&self) -> Result<Address<'a>, ParseError> {
        match self.kept {
            Some(kept) => Ok(kept.from),
            None => self.required(HeaderName::From, with_plain_tag),
        }
    }

    /// To.
    ///
    /// # Errors
    /// [`ParseError::Missing`], [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn to(&self) -> Result<Address<'a>, ParseError> {
        match self.kept {
            Some(kept) => Ok(kept.to),
            None => self.required(HeaderName::To, with_plain_tag),
        }
    }

    /// To of a message whose From was read.
    pub(in crate::sip) fn to_beside(&self, from: &Address<'a>) -> Result<Address<'a>, ParseError> {
        let from_text = self.header(HeaderName::From).unwrap_or("");
        self.required(HeaderName::To, |text| {
            Address::parse_beside(text, (from_text, from)).filter(has_plain_tag)
        })
    }

    /// Call-ID; compare it byte by byte.
    ///
    /// # Errors
    /// [`ParseError::Missing`], [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn call_id(&self) -> Result<&'a str, ParseError> {
        let visible = |text: &'a str| Some(text).filter(|text| is_word(text));
        self.required(HeaderName::CallId, visible)
    }

    /// CSeq.
    ///
    /// # Errors
    /// [`ParseError::Missing`], [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn cseq(&self) -> Result<CSeq<'a>, ParseError> {
        match self.kept {
            Some(kept) => Ok(kept.cseq),
            None => match (&self.index.read, self.method()) {
                (Some(read), Some(method)) => Ok(CSeq {
                    number: read.cseq,
                    method,
                }),
                _ => self.required(HeaderName::CSeq, CSeq::parse),
            },
        }
    }

    /// The Contact headers. A `*` beside other contacts is malformed.
    ///
    /// # Errors
    /// [`ParseError::Malformed`] for the header; each contact of a list has its own
    /// result.
    pub fn contacts(&self) -> Result<Contacts<'_, 'a>, ParseError> {
        let mut elements = self.elements(HeaderName::Contact);
        let mut lines = self.headers(HeaderName::Contact);
        let may_be_star = lines.any(|line| lex::find(line.as_bytes(), 0, b'*').is_some());
        if !may_be_star || !elements.clone().any(|element| element == "*") {
            return Ok(Contacts::List(ContactIter::new(elements)));
        }
        let alone = elements.next() == Some("*") && elements.next().is_none();
        if alone {
            Ok(Contacts::Star)
        } else {
            Err(ParseError::Malformed(HeaderName::Contact))
        }
    }

    /// The only Contact of a request whose essentials were [kept](Message::keep_essentials), which is not `*`: it was
    /// read then, and only the parts of its text are found again. `None` says nothing: read [`contacts`](Self::contacts).
    pub fn only_contact(&self) -> Option<ContactText<'a>> {
        let ContactIndex { uri, params, q } = self.index.read.as_ref()?.contact?;
        let text = |(start, end)| text(self.head, &(start..end));
        Some(ContactText {
            uri: text(uri),
            params: Params::of_read(text(params)),
            q,
        })
    }

    /// Expires in seconds; beyond `u32` it stays at the largest.
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn expires(&self) -> Result<Option<u32>, ParseError> {
        self.optional(HeaderName::Expires, saturating_u32)
    }

    /// Min-Expires in seconds.
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn min_expires(&self) -> Result<Option<u32>, ParseError> {
        self.optional(HeaderName::MinExpires, saturating_u32)
    }

    /// Max-Forwards, 0 to 255.
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn max_forwards(&self) -> Result<Option<u8>, ParseError> {
        self.optional(HeaderName::MaxForwards, |text| {
            saturating_u32(text)?.try_into().ok()
        })
    }

    /// Max-Breadth (RFC 5393 §5).
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn max_breadth(&self) -> Result<Option<u32>, ParseError> {
        self.optional(HeaderName::MaxBreadth, saturating_u32)
    }

    /// Content-Length in bytes; several equal lines count as one.
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn content_length(&self) -> Result<Option<u32>, ParseError> {
        let mut values = self.headers(HeaderName::ContentLength);
        let Some(first) = values.next() else {
            return Ok(None);
        };
        if values.any(|other| other != first) {
            return Err(ParseError::Repeated(HeaderName::ContentLength));
        }
        saturating_u32(first)
            .map(Some)
            .ok_or(ParseError::Malformed(HeaderName::ContentLength))
    }

    /// Content-Type.
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn content_type(&self) -> Result<Option<MediaRange<'a>>, ParseError> {
        self.optional(HeaderName::ContentType, MediaRange::parse)
    }

    /// Event.
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn event(&self) -> Result<Option<Event<'a>>, ParseError> {
        self.optional(HeaderName::Event, Event::parse)
    }

    /// Subscription-State.
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn subscription_state(&self) -> Result<Option<SubscriptionState<'a>>, ParseError> {
        self.optional(HeaderName::SubscriptionState, SubscriptionState::parse)
    }

    /// SIP-If-Match, an entity tag (RFC 3903 §11.3.2).
    ///
    /// # Errors
    /// [`ParseError::Repeated`] or [`ParseError::Malformed`].
    pub fn sip_if_match(&self) -> Result<Option<&'a str>, ParseError> {
        self.optional(HeaderName::SipIfMatch, |text| {
            Some(text).filter(|text| is_word(text))
        })
    }

    /// The ranges of all Accept headers, each with its own result.
    pub fn accept(&self) -> impl Iterator<Item = Result<MediaRange<'a>, ParseError>> + '_ {
        let elements = self.elements(HeaderName::Accept);
        elements
            .map(|text| MediaRange::parse(text).ok_or(ParseError::Malformed(HeaderName::Accept)))
    }

    /// Whether a body of this type may be sent back: true also without Accept.
    pub fn accepts(&self, kind: &str, subtype: &str) -> bool {
        let silent = self.header(HeaderName::Accept).is_none();
        silent
            || self
                .accept()
                .flatten()
                .any(|range| range.covers(kind, subtype))
    }

    /// The addresses of Route, Record-Route, Path, Service-Route or another
    /// header that holds a list of them.
    pub fn addresses(
        &self,
        name: HeaderName,
    ) -> impl Iterator<Item = Result<Address<'a>, ParseError>> + '_ {
        self.elements(name)
            .map(move |text| Address::parse(text).ok_or(ParseError::Malformed(name)))
    }

    /// The URIs of Route, Record-Route or Path. Each has to stand in brackets and
    /// to be a SIP URI without headers (RFC 3261 §20.34, RFC 3327 §4).
    pub fn routes(
        &self,
        name: HeaderName,
    ) -> impl Iterator<Item = Result<SipUri<'a>, ParseError>> + '_ {
        self.elements(name).map(move |text| {
            let address = Address::parse(text).filter(|_| text.contains('<'));
            let uri = address.and_then(|address| address.uri.as_request_uri());
            uri.ok_or(ParseError::Malformed(name))
        })
    }

    /// The digest credentials of Authorization or Proxy-Authorization, one a
    /// line; other schemes are passed over.
    pub fn credentials(
        &self,
        name: HeaderName,
    ) -> impl Iterator<Item = Result<DigestCredentials<'a>, ParseError>> + '_ {
        let values = self.headers(name).map(DigestCredentials::parse);
        values.filter_map(move |value| value.ok_or(ParseError::Malformed(name)).transpose())
    }

    /// The digest challenges of WWW-Authenticate or Proxy-Authenticate.
    pub fn challenges(
        &self,
        name: HeaderName,
    ) -> impl Iterator<Item = Result<DigestChallenge<'a>, ParseError>> + '_ {
        let values = self.headers(name).map(DigestChallenge::parse);
        values.filter_map(move |value| value.ok_or(ParseError::Malformed(name)).transpose())
    }

    fn required<T>(
        &self,
        name: HeaderName,
        read: impl Fn(&'a str) -> Option<T>,
    ) -> Result<T, ParseError> {
        self.optional(name, read)?.ok_or(ParseError::Missing(name))
    }

    fn optional<T>(
        &self,
        name: HeaderName,
        read: impl Fn(&'a str) -> Option<T>,
    ) -> Result<Option<T>, ParseError> {
        let mut values = self.headers(name);
        let Some(value) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(ParseError::Repeated(name));
        }
        read(value).map(Some).ok_or(ParseError::Malformed(name))
    }
}

impl<'a> Iterator for Headers<'_, 'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let line = self.next?;
        self.next = self.message.index.headers.next(line);
        Some(line.value(self.message.head))
    }
}

impl<'a> Iterator for Elements<'_, 'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            if let Some(element) = self.list.next() {
                return Some(element);
            }
            self.list = ListIter::new(self.lines.next()?);
        }
    }
}

/// A text that needs quotes is not a valid tag (RFC 3261 §25.1), and we could not
/// repeat it in our messages.
fn with_plain_tag(text: &str) -> Option<Address<'_>> {
    Address::parse(text).filter(has_plain_tag)
}

fn has_plain_tag(address: &Address<'_>) -> bool {
    address.tag().is_none_or(|tag| lex::all(tag, VALUE))
}

/// Visible characters alone, at least one.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}
