//! Writes responses (RFC 3261 §8.2.6).

use std::fmt::Display;
use std::net::SocketAddr;

use crate::sip::build::top_via::{Received, put_indexed_line, put_top_line};
use crate::sip::text::write::put_value;
use crate::sip::{Address, HeaderName, HeaderValue, Message, Output, Status};

/// Writes the response to a request: first the headers that are copied from the
/// request, then the given headers, then the body.
///
/// See the [crate](crate) for an example.
#[derive(Debug)]
#[must_use = "a response is whole only after finish or body"]
pub struct ResponseBuilder<'o, 'm, 'a, O> {
    out: &'o mut O,
    request: &'m Message<'a>,
    /// See [`Message::is_plain`].
    is_plain: bool,
    to_is_written: bool,
}

impl<'o, 'm, 'a, O: Output> ResponseBuilder<'o, 'm, 'a, O> {
    /// Begins a response with status line, Via, From, Call-ID and CSeq of the
    /// request. With `source`, the topmost Via gets `received` and `rport` as
    /// RFC 3261 §18.2.1 and RFC 3581 §4 want.
    pub fn new(
        out: &'o mut O,
        request: &'m Message<'a>,
        status: Status,
        source: Option<SocketAddr>,
    ) -> Self {
        Self::with_reason(out, request, status, status.reason(), source)
    }

    /// As [`ResponseBuilder::new`] with a reason phrase of your own.
    pub fn with_reason(
        out: &'o mut O,
        request: &'m Message<'a>,
        status: Status,
        reason: &str,
        source: Option<SocketAddr>,
    ) -> Self {
        Self::begin(out, request, (status, reason), source.map(Received::from))
    }

    /// As [`ResponseBuilder::new`], and offers to take keep-alives (RFC 6223): if the topmost Via has `keep`, the sender
    /// is told to send one every `keep_s` seconds (0: as often as it likes).
    ///
    /// ```
    /// use busyhour_sip::{Message, ResponseBuilder, Status};
    ///
    /// let request = Message::parse(
    ///     b"REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bK1;keep\r\n\
    ///       Call-ID: 1\r\nCSeq: 1 REGISTER\r\n\r\n",
    /// )?;
    /// let (mut out, source) = (Vec::new(), "192.0.2.7:40000".parse()?);
    /// ResponseBuilder::new_keeping_alive(&mut out, &request, Status::OK, source, 30).finish();
    /// assert!(String::from_utf8(out)?.contains("branch=z9hG4bK1;keep=30;received=192.0.2.7\r\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new_keeping_alive(
        out: &'o mut O,
        request: &'m Message<'a>,
        status: Status,
        source: SocketAddr,
        keep_s: u32,
    ) -> Self {
        let received = Received {
            source,
            keep_s: Some(keep_s),
        };
        Self::begin(out, request, (status, status.reason()), Some(received))
    }

    fn begin(
        out: &'o mut O,
        request: &'m Message<'a>,
        (status, reason): (Status, &str),
        received: Option<Received>,
    ) -> Self {
        put_status(out, status);
        out.put_text(reason);
        out.put(b"\r\n");
        let mut this = Self {
            out,
            request,
            is_plain: request.is_plain(),
            to_is_written: false,
        };
        this.put_vias(received);
        for name in [HeaderName::From, HeaderName::CallId, HeaderName::CSeq] {
            this.put_copies(name);
        }
        this
    }

    /// Writes To, with `tag` added unless the request brought one (§8.2.6.2).
    /// Call it before any header; without it To is copied as it is.
    pub fn to_tag(mut self, tag: &str) -> Self {
        let Some(to) = self
            .request
            .header(HeaderName::To)
            .filter(|_| !self.to_is_written)
        else {
            return self;
        };
        self.to_is_written = true;
        // There is no parameter after the bracket that ends an address.
        let has_tag = |to: Address<'_>| to.params.has("tag");
        let tagged = !to.ends_with('>') && Address::parse(to).is_some_and(has_tag);
        self.out.put(b"To: ");
        put_value(self.out, to, self.is_plain);
        if !tagged {
            self.out.put(b";tag=");
            self.out.put_text(tag);
        }
        self.out.put(b"\r\n");
        self
    }

    /// Adds a header.
    pub fn header(self, name: HeaderName, value: impl Display) -> Self {
        self.header_named(name.as_str(), value)
    }

    /// Adds a header that has no [`HeaderName`].
    pub fn header_named(mut self, name: &str, value: impl Display) -> Self {
        self.write_to();
        self.out.put_all(&[name, ": "]);
        self.out.put_line(value);
        self
    }

    /// Adds a header whose value writes itself.
    pub fn value(mut self, name: HeaderName, value: &impl HeaderValue) -> Self {
        self.write_to();
        self.out.put_all(&[name.as_str(), ": "]);
        value.write_to(self.out);
        self.out.put(b"\r\n");
        self
    }

    /// Copies all lines of a header from the request, as RFC 3261 §12.1.1
    /// wants of Record-Route, and RFC 3327 of Path.
    pub fn copy(mut self, name: HeaderName) -> Self {
        self.write_to();
        self.put_copies(name);
        self
    }

    /// Ends the response without a body.
    pub fn finish(mut self) {
        self.write_to();
        self.out.put(b"Content-Length: 0\r\n\r\n");
    }

    /// Ends the response with a body.
    pub fn body(mut self, content_type: &str, body: &[u8]) {
        self.write_to();
        put_body(self.out, content_type, body);
    }

    fn write_to(&mut self) {
        if !self.to_is_written {
            self.to_is_written = true;
            self.put_copies(HeaderName::To);
        }
    }

    fn put_copies(&mut self, name: HeaderName) {
        let request = self.request;
        let lines = &request.index.headers;
        let mut next = lines.first(name);
        while let Some(line) = next {
            let whole = match self.is_plain {
                true => line.canonical_line(request.head, name.as_str()),
                false => None,
            };
            match whole {
                Some(whole) => self.out.put(whole.as_bytes()),
                None => self.put_copy(name, line.value(request.head)),
            }
            next = lines.next(line);
        }
    }

    fn put_copy(&mut self, name: HeaderName, value: &str) {
        self.out.put_all(&[name.as_str(), ": "]);
        put_value(self.out, value, self.is_plain);
        self.out.put(b"\r\n");
    }

    /// The lines are copied whole, except for the topmost value: one line for each
    /// element of a long list would make the response many times as long as the
    /// request.
    fn put_vias(&mut self, received: Option<Received>) {
        let mut lines = self.request.headers(HeaderName::Via);
        if let Some((received, line)) = received.and_then(|one| Some((one, lines.next()?))) {
            let read = self.request.index.read.as_ref();
            match read.and_then(|read| read.top_via.as_ref()) {
                Some(index) => put_indexed_line(self.out, (self.request.head, index), received),
                None => put_top_line(self.out, line, received, self.is_plain),
            }
        }
        lines.for_each(|line| self.put_copy(HeaderName::Via, line));
    }
}

/// Content-Type, Content-Length, the blank line and the body.
pub(in crate::sip) fn put_body(out: &mut impl Output, content_type: &str, body: &[u8]) {
    out.put_header("Content-Type", content_type);
    out.put_line(format_args!("Content-Length: {}", body.len()));
    out.put(b"\r\n");
    out.put(body);
}

pub(in crate::sip) fn put_status(out: &mut impl Output, status: Status) {
    let code = status.code();
    let digit = |place: u16| b'0' + (code / place % 10) as u8;
    out.put(b"SIP/2.0 ");
    out.put(&[digit(100), digit(10), digit(1), b' ']);
}
