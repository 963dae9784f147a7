//! Writes requests.

use std::fmt::Display;

use crate::sip::build::response::put_body;
use crate::sip::{HeaderName, Method, Output};

/// Writes a request in the order the calls are made.
///
/// ```
/// use busyhour_sip::{HeaderName, Message, Method, RequestBuilder};
/// let mut datagram = Vec::new();
/// RequestBuilder::new(&mut datagram, Method::Options, "sip:example.org")
///     .header(HeaderName::Via, "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1;rport")
///     .header(HeaderName::MaxForwards, 70)
///     .header(HeaderName::From, "<sip:probe@example.org>;tag=1")
///     .header(HeaderName::To, "<sip:example.org>")
///     .header(HeaderName::CallId, "1@192.0.2.1")
///     .header(HeaderName::CSeq, "1 OPTIONS")
///     .finish();
/// let request = Message::parse(&datagram).unwrap();
/// assert_eq!(request.validate(), Ok(()));
/// ```
#[derive(Debug)]
#[must_use = "a request is whole only after finish or body"]
pub struct RequestBuilder<'o, O> {
    out: &'o mut O,
}

impl<'o, O: Output> RequestBuilder<'o, O> {
    /// Begins a request with its request line.
    pub fn new(out: &'o mut O, method: Method<'_>, uri: impl Display) -> Self {
        out.put_all(&[method.as_str(), " "]);
        out.put_display(uri);
        out.put(b" SIP/2.0\r\n");
        Self { out }
    }

    /// Adds a header.
    pub fn header(self, name: HeaderName, value: impl Display) -> Self {
        self.header_named(name.as_str(), value)
    }

    /// Adds a header that has no [`HeaderName`].
    pub fn header_named(self, name: &str, value: impl Display) -> Self {
        self.out.put_all(&[name, ": "]);
        self.out.put_line(value);
        self
    }

    /// Ends the request without a body.
    pub fn finish(self) {
        self.out.put(b"Content-Length: 0\r\n\r\n");
    }

    /// Ends the request with a body.
    pub fn body(self, content_type: &str, body: &[u8]) {
        put_body(self.out, content_type, body);
    }
}
