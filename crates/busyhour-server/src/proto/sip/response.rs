//! Writes responses (RFC 3261 §8.2.6).

use std::fmt::Display;
use std::net::SocketAddr;

use super::lex::{self, VALUE};
use super::write::put_unfolded;
use super::{Address, HeaderName, ListIter, Message, Output, Status, Via};

/// Writes the answer to a request: what the request dictates first, then the
/// headers given, then the body.
///
/// See the [module](super) for an example.
#[derive(Debug)]
#[must_use = "a response is whole only after finish or body"]
pub struct ResponseBuilder<'o, 'm, 'a, O> {
    out: &'o mut O,
    request: &'m Message<'a>,
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
        reason: impl Display,
        source: Option<SocketAddr>,
    ) -> Self {
        put_status(out, status);
        out.put_line(reason);
        put_vias(out, request, source);
        for name in [HeaderName::From, HeaderName::CallId, HeaderName::CSeq] {
            copy(out, request, name);
        }
        Self {
            out,
            request,
            to_is_written: false,
        }
    }

    /// Writes To, with `tag` added unless the request brought one (§8.2.6.2).
    /// Call it before any header; without it To is copied as it is.
    pub fn to_tag(mut self, tag: impl Display) -> Self {
        let Some(to) = self
            .request
            .header(HeaderName::To)
            .filter(|_| !self.to_is_written)
        else {
            return self;
        };
        self.to_is_written = true;
        let tagged = Address::parse(to).is_some_and(|to| to.params.has("tag"));
        self.out.put(b"To: ");
        put_unfolded(self.out, to);
        if !tagged {
            self.out.put(b";tag=");
            self.out.put_display(tag);
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

    /// Copies all lines of a header from the request, as RFC 3261 §12.1.1
    /// wants of Record-Route, and RFC 3327 of Path.
    pub fn copy(mut self, name: HeaderName) -> Self {
        self.write_to();
        copy(self.out, self.request, name);
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
            copy(self.out, self.request, HeaderName::To);
        }
    }
}

/// Content-Type, Content-Length, the blank line and the body.
pub(super) fn put_body(out: &mut impl Output, content_type: &str, body: &[u8]) {
    out.put_header("Content-Type", content_type);
    out.put_line(format_args!("Content-Length: {}", body.len()));
    out.put(b"\r\n");
    out.put(body);
}

fn put_status(out: &mut impl Output, status: Status) {
    let code = status.code();
    let digit = |place: u16| b'0' + (code / place % 10) as u8;
    out.put(b"SIP/2.0 ");
    out.put(&[digit(100), digit(10), digit(1), b' ']);
}

fn copy(out: &mut impl Output, request: &Message<'_>, name: HeaderName) {
    for value in request.headers(name) {
        out.put_header(name.as_str(), value);
    }
}

/// The lines stay whole but for the topmost value: a line for each element of
/// a long list would make the answer many times as long as the request.
fn put_vias(out: &mut impl Output, request: &Message<'_>, source: Option<SocketAddr>) {
    let mut lines = request.headers(HeaderName::Via);
    if let Some(source) = source {
        lines
            .next()
            .into_iter()
            .for_each(|line| put_top_line(out, line, source));
    }
    lines.for_each(|line| out.put_header("Via", line));
}

fn put_top_line(out: &mut impl Output, line: &str, source: SocketAddr) {
    let mut list = ListIter::new(line);
    let Some(via) = list.next().and_then(Via::parse) else {
        return out.put_header("Via", line);
    };
    put_top_via(out, &via, source);
    if let Some(rest) = list.rest() {
        out.put(b",");
        put_unfolded(out, rest);
    }
    out.put(b"\r\n");
}

fn put_top_via(out: &mut impl Output, via: &Via<'_>, source: SocketAddr) {
    out.put(b"Via: ");
    put_unfolded(out, via.hop_text);
    let kept = via.params.iter().filter(|(name, _)| !is_ours(name));
    kept.for_each(|(name, value)| put_param(out, name, value));
    let asked = via.rport().is_some();
    if asked || !via.is_from(source.ip()) {
        out.put_display(format_args!(";received={}", source.ip().to_canonical()));
    }
    if asked {
        out.put_display(format_args!(";rport={}", source.port()));
    }
}

fn is_ours(name: &str) -> bool {
    name.eq_ignore_ascii_case("received") || name.eq_ignore_ascii_case("rport")
}

/// A value that needs quotes gets them back.
fn put_param(out: &mut impl Output, name: &str, value: Option<&str>) {
    out.put_all(&[";", name]);
    match value {
        Some(value) if !value.is_empty() && lex::all(value, VALUE) => out.put_all(&["=", value]),
        Some(value) => {
            out.put(b"=\"");
            put_unfolded(out, value);
            out.put(b"\"");
        }
        None => {}
    }
}
