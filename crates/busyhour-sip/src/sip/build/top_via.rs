//! The topmost Via of a request that came in, with what its receiver adds
//! (RFC 3261 §18.2.1, RFC 3581 §4, RFC 6223 §4.3).

use std::net::SocketAddr;

use crate::sip::text::lex::{self, VALUE};
use crate::sip::text::write::put_value;
use crate::sip::{ListIter, Output, Via};

/// Where a request came from, and what is offered to its sender.
#[derive(Clone, Copy, Debug)]
pub(in crate::sip) struct Received {
    pub(in crate::sip) source: SocketAddr,
    /// Keep-alives are welcome, so many seconds apart: the value of `keep`, if it came without one.
    pub(in crate::sip) keep_s: Option<u32>,
}

impl From<SocketAddr> for Received {
    fn from(source: SocketAddr) -> Self {
        Self {
            source,
            keep_s: None,
        }
    }
}

/// Writes the first line of Via: its first value gets `received` and `rport`. `is_plain`
/// says that no value holds a line end.
pub(in crate::sip) fn put_top_line(
    out: &mut impl Output,
    line: &str,
    received: Received,
    is_plain: bool,
) {
    let mut list = ListIter::new(line);
    match list.next().and_then(Via::parse) {
        None => {
            out.put(b"Via: ");
            put_value(out, line, is_plain);
            out.put(b"\r\n");
        }
        Some(via) => put_read_line(out, (&via, list.rest()), received, is_plain),
    }
}

/// The same for a line whose first value was read; what follows that in the line is as it was.
pub(in crate::sip) fn put_read_line(
    out: &mut impl Output,
    (via, rest): (&Via<'_>, Option<&str>),
    received: Received,
    is_plain: bool,
) {
    out.put(b"Via: ");
    put_top_via(out, via, received, is_plain);
    if let Some(rest) = rest {
        out.put(b",");
        put_value(out, rest, is_plain);
    }
    out.put(b"\r\n");
}

fn put_top_via(
    out: &mut impl Output,
    via: &Via<'_>,
    Received { source, keep_s }: Received,
    is_plain: bool,
) {
    put_value(out, via.hop_text, is_plain);
    let mut asked = false;
    for (name, value) in via.params.iter() {
        match (Ours::new(name), keep_s) {
            (None, _) => put_param(out, name, value, is_plain),
            (Some(Ours::Keep), Some(keep_s)) if value.is_none() => {
                out.put(b";keep=");
                out.put_decimal(keep_s.into());
            }
            (Some(Ours::Keep), _) => put_param(out, name, value, is_plain),
            (Some(ours), _) => asked |= ours == Ours::Rport,
        }
    }
    if asked || !via.is_from(source.ip()) {
        out.put(b";received=");
        out.put_ip(source.ip().to_canonical());
    }
    if asked {
        out.put(b";rport=");
        out.put_decimal(source.port().into());
    }
}

/// A value that needs quotes gets them back.
fn put_param(out: &mut impl Output, name: &str, value: Option<&str>, is_plain: bool) {
    out.put_all(&[";", name]);
    match value {
        Some(value) if !value.is_empty() && lex::all(value, VALUE) => {
            out.put_all(&["=", value]);
        }
        Some(value) => {
            out.put(b"=\"");
            put_value(out, value, is_plain);
            out.put(b"\"");
        }
        None => {}
    }
}

/// The parameters of Via that are ours to write.
#[derive(PartialEq, Eq)]
enum Ours {
    Received,
    Rport,
    Keep,
}

impl Ours {
    fn new(name: &str) -> Option<Self> {
        match name.len() {
            8 if name.eq_ignore_ascii_case("received") => Some(Self::Received),
            5 if name.eq_ignore_ascii_case("rport") => Some(Self::Rport),
            4 if name.eq_ignore_ascii_case("keep") => Some(Self::Keep),
            _ => None,
        }
    }
}
