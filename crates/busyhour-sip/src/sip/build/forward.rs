//! Messages that a proxy forwards: what does not change is copied as it stands.

use std::net::SocketAddr;

use crate::sip::build::response::put_status;
use crate::sip::build::top_via::put_top_line;
use crate::sip::text::lex::{self, unescape};
use crate::sip::{DigestCredentials, HeaderName, ListIter, Message, Output, Start, Status};

/// What a proxy changes in a request (RFC 3261 §16.6). Texts must hold no line end.
///
/// ```
/// use busyhour_sip::{Message, RequestEdit};
///
/// let came = b"BYE sip:bob@example.org SIP/2.0\r\nv: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1;rport\r\n\
///     Route: <sip:192.0.2.1;lr>\r\nMax-Forwards: 70\r\nX: 1\r\nContent-Length: 0\r\n\r\n";
/// let edit = RequestEdit {
///     uri: "sip:bob@192.0.2.8",
///     via: "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK2",
///     source: Some("192.0.2.7:40000".parse()?),
///     max_forwards: 69,
///     skip_routes: 1,
///     ..RequestEdit::default()
/// };
/// let mut forwarded = Vec::new();
/// Message::parse(came)?.forward_request(&edit, &mut forwarded);
/// assert_eq!(
///     std::str::from_utf8(&forwarded)?,
///     "BYE sip:bob@192.0.2.8 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK2\r\n\
///      Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1;received=192.0.2.7;rport=40000\r\n\
///      Max-Forwards: 69\r\nX: 1\r\nContent-Length: 0\r\n\r\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestEdit<'e> {
    /// The Request-URI.
    pub uri: &'e str,
    /// The Via above all others.
    pub via: &'e str,
    /// Where the request came from, for its topmost Via.
    pub source: Option<SocketAddr>,
    /// Max-Forwards.
    pub max_forwards: u8,
    /// Max-Breadth (RFC 5393 §5); `None` removes it.
    pub max_breadth: Option<u32>,
    /// Values of Record-Route above all others, each of which becomes a line; empty for
    /// none.
    pub record_route: &'e str,
    /// Values of Route above those that stay; empty for none.
    pub route: &'e str,
    /// How many of the topmost values of Route are removed.
    pub skip_routes: usize,
    /// What becomes of the last value of Route.
    pub last_route: LastRoute<'e>,
    /// Credentials of these realms in Proxy-Authorization are removed.
    pub realms: &'e [Box<str>],
    /// P-Asserted-Identity is removed: the proxy does not trust the sender, or must not tell
    /// the next hop (RFC 3325 §5).
    pub drops_identity: bool,
    /// Another interval in Session-Expires, which keeps its parameters, or a new one without
    /// any (RFC 4028 §8.1).
    pub session_expires_s: Option<u32>,
    /// Another Min-SE, or a new one.
    pub min_se_s: Option<u32>,
}

/// What becomes of the last value of Route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LastRoute<'e> {
    /// It stays.
    #[default]
    Stays,
    /// It is removed: it has become the Request-URI (RFC 3261 §16.4).
    Removed,
    /// This URI comes after it: the next hop is a strict router (RFC 3261 §16.6, step 6).
    Before(&'e str),
}

/// What a proxy changes in a response beside its topmost Via.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResponseEdit<'e> {
    /// Another status (RFC 3261 §16.7, step 6: 500 for 503).
    pub status: Option<Status>,
    /// Header lines at the end, such as the challenges of other responses (step 7).
    pub more: &'e [(HeaderName, &'e str)],
    /// P-Asserted-Identity is removed, as in [`RequestEdit`].
    pub drops_identity: bool,
}

impl<'a> Message<'a> {
    /// Writes this request as a proxy forwards it: unchanged lines are copied as they
    /// are, the body too. A message without Content-Length gets one, for streams.
    pub fn forward_request(&self, edit: &RequestEdit<'_>, out: &mut impl Output) {
        let Start::Request { method, .. } = self.start() else {
            return;
        };
        out.put_all(&[
            method.as_str(),
            " ",
            edit.uri,
            " SIP/2.0\r\nVia: ",
            edit.via,
        ]);
        out.put(b"\r\n");
        // belle-sip, which every Linphone has, repeats values of a list in its responses.
        for value in ListIter::new(edit.record_route) {
            out.put_header(HeaderName::RecordRoute.as_str(), value);
        }
        put_list(HeaderName::Route, edit.route, out);
        let mut routes = RouteEdit::new(self, edit);
        let (mut has_max_forwards, routes_change) = (false, routes.is_needed);
        let changes = |at, name, value: &str| match name {
            HeaderName::Via => edit.source.is_some() && self.is_first(at, name),
            HeaderName::Route => routes_change,
            HeaderName::ProxyAuthorization => is_of_realm(value, edit.realms),
            HeaderName::MaxForwards | HeaderName::MaxBreadth => true,
            HeaderName::PAssertedIdentity => edit.drops_identity,
            HeaderName::SessionExpires => edit.session_expires_s.is_some(),
            HeaderName::MinSe => edit.min_se_s.is_some(),
            _ => false,
        };
        let put = |at, name, value: &str, out: &mut _| match (name, edit.source) {
            (HeaderName::Via, Some(source)) => put_top_line(out, value, source.into(), false),
            (HeaderName::Route, _) => routes.put_line(at, value, out),
            (HeaderName::MaxForwards, _) => {
                has_max_forwards = true;
                put_number(name, edit.max_forwards.into(), out);
            }
            _ => {}
        };
        self.put_lines(out, changes, put);
        routes.put_alone(out);
        if !has_max_forwards {
            put_number(HeaderName::MaxForwards, edit.max_forwards.into(), out);
        }
        if let Some(breadth) = edit.max_breadth {
            put_number(HeaderName::MaxBreadth, breadth.into(), out);
        }
        if let Some(interval_s) = edit.session_expires_s {
            let before = self.header(HeaderName::SessionExpires).unwrap_or("");
            let params = before.split_once(';').map_or("", |(_, params)| params);
            out.put_all(&[HeaderName::SessionExpires.as_str(), ": "]);
            out.put_decimal(interval_s.into());
            out.put_all(&[if params.is_empty() { "" } else { ";" }, params, "\r\n"]);
        }
        if let Some(min_se_s) = edit.min_se_s {
            put_number(HeaderName::MinSe, min_se_s.into(), out);
        }
        self.put_end(out);
    }

    /// Writes this response without its topmost Via (RFC 3261 §16.7, step 3).
    pub fn forward_response(&self, edit: &ResponseEdit<'_>, out: &mut impl Output) {
        match edit.status {
            Some(status) => {
                put_status(out, status);
                out.put_all(&[status.reason(), "\r\n"]);
            }
            None => out.put(self.start_line().as_bytes()),
        }
        let changes = |at, name, _: &str| match name {
            HeaderName::Via => self.is_first(at, name),
            HeaderName::PAssertedIdentity => edit.drops_identity,
            _ => false,
        };
        let put = |_, name, value: &str, out: &mut _| {
            if name == HeaderName::Via {
                put_after_first(value, out);
            }
        };
        self.put_lines(out, changes, put);
        for (name, value) in edit.more {
            out.put_header(name.as_str(), value);
        }
        self.put_end(out);
    }

    /// Copies the header lines as they are, in as few pieces as possible; `put` writes
    /// those that change.
    fn put_lines<O: Output>(
        &self,
        out: &mut O,
        changes: impl Fn(usize, HeaderName, &'a str) -> bool,
        mut put: impl FnMut(usize, HeaderName, &'a str, &mut O),
    ) {
        let mut copied = self.start_line().len();
        for at in 0..self.index.headers.len() {
            let Some(line) = self.index.headers.get(at) else {
                break;
            };
            let value = line.value(self.head);
            if !changes(at, line.name, value) {
                continue;
            }
            let unchanged = self.head.get(copied..line.start()).unwrap_or("");
            out.put(unchanged.as_bytes());
            put(at, line.name, value, out);
            let next = self.index.headers.get(at + 1);
            copied = next.map_or(self.head.len(), |next| next.start());
        }
        out.put(self.head.get(copied..).unwrap_or("").as_bytes());
    }

    /// The start line with its line end.
    fn start_line(&self) -> &'a str {
        let first = self.index.headers.get(0);
        let end = first.map_or(self.head.len(), |line| line.start());
        self.head.get(..end).unwrap_or("")
    }

    fn is_first(&self, at: usize, name: HeaderName) -> bool {
        self.index.headers.first_number(name) == Some(at)
    }

    fn put_end(&self, out: &mut impl Output) {
        if self.header(HeaderName::ContentLength).is_none() {
            put_number(HeaderName::ContentLength, self.body().len() as u64, out);
        }
        out.put(b"\r\n");
        out.put(self.body());
    }
}

/// What is left to do on the way through the lines of Route.
struct RouteEdit<'e> {
    /// Whether any line changes.
    is_needed: bool,
    skip: usize,
    last: LastRoute<'e>,
    last_line: Option<usize>,
}

impl<'e> RouteEdit<'e> {
    fn new(request: &Message<'_>, edit: &RequestEdit<'e>) -> Self {
        Self {
            is_needed: edit.skip_routes > 0 || edit.last_route != LastRoute::Stays,
            skip: edit.skip_routes,
            last: edit.last_route,
            last_line: request.index.headers.last_number(HeaderName::Route),
        }
    }

    /// Writes what stays of a line; nothing if that is nothing.
    fn put_line(&mut self, at: usize, line: &str, out: &mut impl Output) {
        let mut list = ListIter::new(line);
        while self.skip > 0 && list.next().is_some() {
            self.skip -= 1;
        }
        let is_last = self.last_line == Some(at);
        let kept = list.rest().map_or("", lex::trim);
        match self.last {
            LastRoute::Removed if is_last => {
                put_list(HeaderName::Route, without_last(kept), out);
            }
            LastRoute::Before(uri) if is_last => {
                put_list(HeaderName::Route, kept, out);
                out.put_all(&["Route: <", uri, ">\r\n"]);
            }
            _ => put_list(HeaderName::Route, kept, out),
        }
    }

    /// Writes the last value if the request had no Route.
    fn put_alone(&self, out: &mut impl Output) {
        if let (LastRoute::Before(uri), None) = (self.last, self.last_line) {
            out.put_all(&["Route: <", uri, ">\r\n"]);
        }
    }
}

/// A list without its last value.
fn without_last(list: &str) -> &str {
    let mut values = ListIter::new(list);
    let mut end = 0;
    while values.next().is_some() {
        // The comma stands before the rest.
        end = values
            .rest()
            .map_or(end, |rest| list.len() - rest.len() - 1);
    }
    list.get(..end).unwrap_or("")
}

/// Writes the values of a list; nothing for none.
fn put_list(name: HeaderName, values: &str, out: &mut impl Output) {
    if !values.is_empty() {
        out.put_header(name.as_str(), values);
    }
}

/// Writes what follows the first value of a Via line.
fn put_after_first(line: &str, out: &mut impl Output) {
    let mut list = ListIter::new(line);
    list.next();
    put_list(HeaderName::Via, list.rest().map_or("", lex::trim), out);
}

fn put_number(name: HeaderName, number: u64, out: &mut impl Output) {
    out.put_all(&[name.as_str(), ": "]);
    out.put_decimal(number);
    out.put(b"\r\n");
}

/// Whether these are digest credentials of one of the realms.
fn is_of_realm(credentials: &str, realms: &[Box<str>]) -> bool {
    if realms.is_empty() {
        return false;
    }
    let read = DigestCredentials::parse(credentials).flatten();
    read.is_some_and(|read| {
        let realm = unescape(read.realm);
        realms.iter().any(|one| **one == *realm)
    })
}
