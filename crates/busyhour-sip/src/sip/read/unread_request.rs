//! Requests that are refused or dropped without being read.

use crate::sip::read::message::BLANK_LINE;
use crate::sip::read::message_index::BLANK_LINE_LEN;
use crate::sip::text::lex::{self, DIGIT, SPACE, TOKEN};
use crate::sip::{CSeq, HeaderName, Limits, ListIter, Method, Via};

/// An INVITE outside of dialogs, or an ACK, as far as it has to be looked at to refuse the one
/// and to know the other again.
///
/// Its lines are found, and the topmost Via is read. Only what is written as nearly everybody
/// writes it is found: all else has to be read by [`Message::parse`](crate::Message::parse),
/// which takes each message that is found here, too, and finds the same.
///
/// ```
/// use busyhour_sip::{HeaderName, Method, Status, UnreadRequest};
///
/// let invite = b"INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n\
///     From: <sip:a@example.org>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: 1\r\nCSeq: 7 INVITE\r\n\r\n";
/// let request = UnreadRequest::find(invite).ok_or("it has to be read")?;
/// assert_eq!((request.method(), request.header(HeaderName::CSeq)), (Method::Invite, "7 INVITE"));
/// let mut answer = Vec::new();
/// let source = "192.0.2.7:5060".parse()?;
/// request.write_refusal(&mut answer, (Status::SERVICE_UNAVAILABLE, "Busy"), source, "tag", 4);
/// assert!(answer.starts_with(b"SIP/2.0 503 Busy\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UnreadRequest<'a> {
    method: Method<'a>,
    uri: &'a str,
    pub(in crate::sip) via: Via<'a>,
    /// What follows the topmost value in its line.
    pub(in crate::sip) via_rest: Option<&'a str>,
    /// The lines of Via.
    vias: [&'a str; VIAS_MAX],
    vias_len: usize,
    from: &'a str,
    to: &'a str,
    call_id: &'a str,
    cseq: CSeq<'a>,
    cseq_text: &'a str,
}

/// The values that are looked for.
#[derive(Default)]
struct Found<'a> {
    vias: [&'a str; VIAS_MAX],
    vias_len: usize,
    from: Option<&'a str>,
    to: Option<&'a str>,
    call_id: Option<&'a str>,
    cseq: Option<&'a str>,
    content_length: Option<&'a str>,
}

impl<'a> UnreadRequest<'a> {
    /// Finds the lines of an INVITE whose To has no tag, or of an ACK whose To has one, within
    /// the default [`Limits`]. `None` if it is neither, is wrong, or is written in another way
    /// than usual: with folded lines, compact names, or more than four lines of Via.
    pub fn find(datagram: &'a [u8]) -> Option<Self> {
        let limits = Limits::default();
        let methods = [Method::Invite, Method::Ack].into_iter();
        let starts = |method: &Method<'_>| datagram.starts_with(method.as_str().as_bytes());
        let method = methods.into_iter().find(starts)?;
        if datagram.len() > limits.message_bytes {
            return None;
        }
        let head_len = BLANK_LINE.find(datagram)? + BLANK_LINE_LEN;
        let head = std::str::from_utf8(datagram.get(..head_len)?).ok()?;
        let body_len = datagram.len().checked_sub(head_len + BLANK_LINE_LEN)?;
        let (line, mut rest) = take_line(head, &limits)?;
        let uri = uri_of(line, method)?;
        let (mut found, mut count) = (Found::default(), 0);
        while !rest.is_empty() {
            let line;
            (line, rest) = take_line(rest, &limits)?;
            count += 1;
            found.take(line)?;
        }
        // A carriage return stands nowhere but at the end of a line.
        let is_plain = memchr::memchr_iter(b'\r', head.as_bytes()).count() == count + 1;
        let fits = found
            .content_length
            .is_none_or(|len| is_within(len, body_len));
        let is_sound = is_plain && fits && count <= limits.headers;
        is_sound.then(|| found.request(method, uri))?
    }

    /// INVITE or ACK.
    pub fn method(&self) -> Method<'a> {
        self.method
    }

    /// The Request-URI, as it is written.
    pub fn uri(&self) -> &'a str {
        self.uri
    }

    /// The topmost Via.
    pub fn via(&self) -> &Via<'a> {
        &self.via
    }

    /// CSeq, which names the method.
    pub fn cseq(&self) -> CSeq<'a> {
        self.cseq
    }

    /// The value of the first line of Via, From, To, Call-ID or CSeq, as it is written; empty
    /// for all others.
    pub fn header(&self, name: HeaderName) -> &'a str {
        match name {
            HeaderName::Via => self.vias[0],
            HeaderName::From => self.from,
            HeaderName::To => self.to,
            HeaderName::CallId => self.call_id,
            HeaderName::CSeq => self.cseq_text,
            _ => "",
        }
    }

    /// The lines of Via but for the first.
    pub(in crate::sip) fn other_vias(&self) -> &[&'a str] {
        self.vias.get(1..self.vias_len).unwrap_or(&[])
    }
}

impl<'a> Found<'a> {
    /// Takes a header line; `None` if it is written unusually, or repeats another one.
    fn take(&mut self, line: &'a str) -> Option<()> {
        let (name, value) = lex::split_once(line, b':')?;
        let is = |long: &str| name.eq_ignore_ascii_case(long);
        let place = match name.len() {
            0 | 1 => return None,
            2 if is("To") => &mut self.to,
            3 if is("Via") => {
                *self.vias.get_mut(self.vias_len)? = lex::trim(value);
                self.vias_len += 1;
                return Some(());
            }
            4 if is("From") => &mut self.from,
            4 if is("CSeq") => &mut self.cseq,
            7 if is("Call-ID") => &mut self.call_id,
            14 if is("Content-Length") => &mut self.content_length,
            _ => return lex::all(name, TOKEN).then_some(()),
        };
        place.replace(lex::trim(value)).is_none().then_some(())
    }

    fn request(self, method: Method<'a>, uri: &'a str) -> Option<UnreadRequest<'a>> {
        let (to, cseq_text) = (self.to?, self.cseq?);
        let mut parts = to.as_bytes().windows(3);
        let may_have_tag = parts.any(|part| part.eq_ignore_ascii_case(b"tag"));
        let cseq = CSeq::parse(cseq_text)?;
        if may_have_tag != (method == Method::Ack) || cseq.method != method {
            return None;
        }
        let mut vias = ListIter::new(self.vias[0]);
        Some(UnreadRequest {
            method,
            uri,
            via: Via::parse(vias.next()?)?,
            via_rest: vias.rest(),
            vias: self.vias,
            vias_len: self.vias_len,
            from: self.from?,
            to,
            call_id: self.call_id?,
            cseq,
            cseq_text,
        })
    }
}

/// The first line without its end, and what follows; `None` if it goes on in the next one.
fn take_line<'a>(text: &'a str, limits: &Limits) -> Option<(&'a str, &'a str)> {
    let feed = memchr::memchr(b'\n', text.as_bytes())?;
    let (line, rest) = (text.get(..feed)?.strip_suffix('\r')?, text.get(feed + 1..)?);
    let is_folded = rest.starts_with([' ', '\t']);
    (!is_folded && line.len() <= limits.line_bytes).then_some((line, rest))
}

fn uri_of<'a>(line: &'a str, method: Method<'_>) -> Option<&'a str> {
    let uri = line.strip_prefix(method.as_str())?.strip_prefix(' ')?;
    let uri = uri.strip_suffix(" SIP/2.0")?;
    let is_blank = |byte: u8| lex::is(byte, SPACE);
    (!uri.is_empty() && !uri.bytes().any(is_blank)).then_some(uri)
}

/// Whether a Content-Length announces no more than there is.
fn is_within(content_length: &str, body_len: usize) -> bool {
    let is_number = lex::all(content_length, DIGIT);
    let length = content_length.parse::<u16>().ok().filter(|_| is_number);
    length.is_some_and(|length| usize::from(length) <= body_len)
}

/// More lines are written by no usual way of proxies.
const VIAS_MAX: usize = 4;
