//! The topmost Via of a request that came in, with what its receiver adds
//! (RFC 3261 §18.2.1, RFC 3581 §4, RFC 6223 §4.3).

use std::net::SocketAddr;

use crate::sip::read::message_index::TopViaIndex;
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

/// The same for a line whose only value was read before: all of it but `rport` is as it was. A value without white space
/// holds no line end.
pub(in crate::sip) fn put_indexed_line(
    out: &mut impl Output,
    (head, via): (&str, &TopViaIndex),
    Received { source, .. }: Received,
) {
    let text = |start: u16, end: u16| head.get(start.into()..end.into()).unwrap_or("");
    out.put_all(&[
        "Via: ",
        text(via.value.start, via.rport.start),
        text(via.rport.end, via.value.end),
    ]);
    let is_from = via.sent_by == Some(source.ip().to_canonical());
    put_received(out, source, !via.rport.is_empty(), is_from);
    out.put(b"\r\n");
}

fn put_top_via(
    out: &mut impl Output,
    via: &Via<'_>,
    Received { source, keep_s }: Received,
    is_plain: bool,
) {
    put_value(out, via.hop_text, is_plain);
    let asked = match via.read.around_rport {
        Some([before, behind]) => {
            out.put_all(&[before, behind]);
            via.read.rport.is_some()
        }
        None => put_params(out, via, keep_s, is_plain),
    };
    put_received(out, source, asked, via.is_from(source.ip()));
}

/// What the receiver of a request adds: where it came from, if its sender has `asked` or is not at the address that it names.
fn put_received(out: &mut impl Output, source: SocketAddr, asked: bool, is_from: bool) {
    if asked || !is_from {
        out.put(b";received=");
        out.put_ip(source.ip().to_canonical());
    }
    if asked {
        out.put(b";rport=");
        out.put_decimal(source.port().into());
    }
}

/// Each parameter but those that are ours; returns whether `rport` was among them.
fn put_params(out: &mut impl Output, via: &Via<'_>, keep_s: Option<u32>, is_plain: bool) -> bool {
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
    asked
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Parameter by parameter is how it is written without a short way.
        #[test]
        fn a_via_that_is_copied_is_the_one_that_is_written_parameter_by_parameter(
            params in prop::collection::vec(
                "( ?; ?)(rport|RPORT|received|keep|branch|x|lr)(=[a-z0-9.:]{1,5}|=\"[a-z;= ]{0,5}\"| = a|)( ?)",
                0..5,
            ),
            host in "192\\.0\\.2\\.7|a\\.example|\\[2001:db8::7\\]( ?:5060)?",
            keep_s in prop::option::of(0..99_u32),
        ) {
            let text = format!("SIP/2.0/UDP {host}{}", params.concat());
            let Some(via) = Via::parse(&text) else {
                return Ok(());
            };
            let source: SocketAddr = "192.0.2.7:40000".parse().expect("an address");
            let mut written = Vec::new();
            put_top_via(&mut written, &via, Received { source, keep_s }, true);
            let mut naive = via.hop_text.as_bytes().to_vec();
            let asked = put_params(&mut naive, &via, keep_s, true);
            put_received(&mut naive, source, asked, via.is_from(source.ip()));
            prop_assert_eq!(String::from_utf8(written), String::from_utf8(naive));
        }
    }
}
