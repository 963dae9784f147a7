//! Where the parts of a message lie, without its bytes.

use crate::sip::read::header_index::HeaderIndex;
use crate::sip::{Message, Method, Quality, Start};
use std::{borrow::Cow, net::IpAddr, ops::Range};

/// What [`Message::parse`] found in a datagram, as offsets.
///
/// It borrows nothing, so it can go to another thread together with the buffer; there
/// [`message`](Self::message) gives the message without a second parse.
///
/// ```
/// use busyhour_sip::{Message, MessageIndex, Method};
///
/// let datagram = b"OPTIONS sip:example.org SIP/2.0\r\nCSeq: 7 OPTIONS\r\n\r\n".to_vec();
/// let index: MessageIndex = Message::parse(&datagram)?.index().clone();
/// let read = std::thread::spawn(move || {
///     let message = index.message(&datagram);
///     (message.method() == Some(Method::Options), message.cseq().map(|cseq| cseq.number))
/// });
/// assert_eq!(read.join().unwrap(), (true, Ok(7)));
/// # Ok::<(), busyhour_sip::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MessageIndex {
    /// Where the start line begins: line ends may stand before it.
    pub(in crate::sip) head_start: usize,
    /// Start line and headers with their line ends, without the blank line.
    pub(in crate::sip) head_len: u16,
    pub(in crate::sip) body_len: u16,
    pub(in crate::sip) start: StartIndex,
    pub(in crate::sip) headers: HeaderIndex,
    /// What [`Message::keep_essentials`] has read.
    pub(in crate::sip) read: Option<ReadIndex>,
}

/// What was read of a request, and need not be read again where only its index is left.
#[derive(Clone, Debug)]
pub(in crate::sip) struct ReadIndex {
    /// Of CSeq, which has the method of the request.
    pub cseq: u32,
    /// If there is one Contact, and no `*`.
    pub contact: Option<ContactIndex>,
    /// If the first line of Via has one value without what its receiver writes, but for one `rport`.
    pub top_via: Option<TopViaIndex>,
}

/// The only Contact, whose URI was read, as offsets into the head.
#[derive(Clone, Copy, Debug)]
pub(in crate::sip) struct ContactIndex {
    pub uri: (u16, u16),
    /// What follows it, and its bracket.
    pub params: (u16, u16),
    pub q: Option<Quality>,
}

/// The only value of the first line of Via, as offsets into the head.
#[derive(Clone, Debug)]
pub(in crate::sip) struct TopViaIndex {
    /// All of it.
    pub value: Range<u16>,
    /// Where `;rport` stands in it; empty without one.
    pub rport: Range<u16>,
    /// What sent-by is, unless that is a name.
    pub sent_by: Option<IpAddr>,
}

/// The first line, as offsets into the head.
#[derive(Clone, Debug)]
pub(in crate::sip) enum StartIndex {
    Request { method_len: u16, uri: Range<u16> },
    Response { status: u16, reason: Range<u16> },
}

impl MessageIndex {
    /// The message that was found in `datagram`.
    ///
    /// Give the same datagram or a copy of it: other bytes give a meaningless message,
    /// but never a panic.
    pub fn message<'a>(&'a self, datagram: &'a [u8]) -> Message<'a> {
        let head_end = self.head_start + usize::from(self.head_len);
        let body_start = head_end + BLANK_LINE_LEN;
        let head = datagram.get(self.head_start..head_end).unwrap_or(&[]);
        let body = datagram.get(body_start..body_start + usize::from(self.body_len));
        Message::of(
            std::str::from_utf8(head).unwrap_or(""),
            Cow::Borrowed(self),
            body.unwrap_or(&[]),
        )
    }
}

impl StartIndex {
    pub(in crate::sip) fn line<'a>(&self, head: &'a str) -> Start<'a> {
        match self {
            Self::Request { method_len, uri } => Start::Request {
                method: Method::new(text(head, &(0..*method_len))),
                uri: text(head, uri),
            },
            Self::Response { status, reason } => Start::Response {
                status: *status,
                reason: text(head, reason),
            },
        }
    }
}

pub(in crate::sip) fn text<'a>(head: &'a str, range: &Range<u16>) -> &'a str {
    head.get(range.start.into()..range.end.into()).unwrap_or("")
}

/// The line end between head and body.
pub(in crate::sip) const BLANK_LINE_LEN: usize = 2;
