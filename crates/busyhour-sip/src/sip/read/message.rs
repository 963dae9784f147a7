//! The frame of a message: start line, header lines, body.

use std::{borrow::Cow, fmt, ops::Range, sync::LazyLock};

use memchr::memmem::Finder;

use crate::sip::read::header_index::HeaderIndex;
use crate::sip::read::message_index::{BLANK_LINE_LEN, MessageIndex, StartIndex};
use crate::sip::text::lex::{self, DIGIT, SPACE, TOKEN};
use crate::sip::{Essentials, HeaderName, Limits, Method, Output, ParseError, Uri};

/// A request or response that borrows the datagram it came in.
#[derive(Clone)]
pub struct Message<'a> {
    pub(in crate::sip) head: &'a str,
    pub(in crate::sip) index: Cow<'a, MessageIndex>,
    start: Start<'a>,
    body: &'a [u8],
    /// What was read, and would be read again.
    pub(in crate::sip) kept: Option<Essentials<'a>>,
}

/// The first line of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// A request line.
    Request {
        /// What is asked for.
        method: Method<'a>,
        /// The Request-URI as written; [`Message::request_uri`] reads it.
        uri: &'a str,
    },
    /// A status line.
    Response {
        /// 100 to 699.
        status: u16,
        /// The reason phrase as written.
        reason: &'a str,
    },
}

impl<'a> Message<'a> {
    /// Reads one datagram within the default [`Limits`].
    ///
    /// Line ends before the start line are skipped (RFC 3261 §7.5); bytes
    /// after the body that Content-Length announces are ignored (§18.3).
    ///
    /// # Errors
    /// [`ParseError`] says what the frame lacks. The values of headers other
    /// than Content-Length are not looked at.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        Self::parse_within(datagram, &Limits::default())
    }

    /// Reads one datagram within limits of your own.
    ///
    /// # Errors
    /// As [`Message::parse`].
    pub fn parse_within(datagram: &'a [u8], limits: &Limits) -> Result<Self, ParseError> {
        let bytes = skip_line_ends(datagram);
        let mut message = Self::parse_head(bytes, limits)?;
        let rest = bytes.get(message.head.len() + BLANK_LINE_LEN..);
        message.body = message.cut_body(rest.unwrap_or(&[]), limits)?;
        let index = message.index.to_mut();
        index.head_start = datagram.len() - bytes.len();
        index.body_len = message.body.len() as u16;
        Ok(message)
    }

    /// Reads start line and headers of `bytes`, and leaves the body alone.
    pub(in crate::sip) fn parse_head(bytes: &'a [u8], limits: &Limits) -> Result<Self, ParseError> {
        if bytes.is_empty() {
            return Err(ParseError::Empty);
        }
        if bytes.len() > limits.message_bytes.min(u16::MAX as usize) {
            return Err(ParseError::TooLarge);
        }
        let head = std::str::from_utf8(split_head(bytes)?).map_err(|_| ParseError::NotText)?;
        let (line, headers_at) = split_start_line(head, limits)?;
        let index = index_of(head, StartIndex::parse(line)?, HeaderIndex::new());
        // The lines are noted where they stay, since the index is large.
        let mut message = Self::of(head, Cow::Owned(index), &[]);
        let headers = &mut message.index.to_mut().headers;
        headers.read(head, headers_at, limits)?;
        Ok(message)
    }

    /// Reads what a refusal needs from a request that [`Message::parse`]
    /// refused: bad header lines are skipped, the body is left out. `None`
    /// when not even a request line and a Via can be found.
    pub fn salvage(datagram: &'a [u8]) -> Option<Self> {
        let bytes = skip_line_ends(datagram);
        let limits = Limits::default();
        let readable = bytes.get(..bytes.len().min(limits.message_bytes))?;
        let head = lossy_head(readable);
        let (line, headers_at) = split_start_line(head, &limits).ok()?;
        let mut headers = HeaderIndex::new();
        headers.salvage(head, headers_at, &limits);
        let mut index = index_of(head, StartIndex::salvage(line)?, headers);
        index.head_start = datagram.len() - bytes.len();
        let message = Self::of(head, Cow::Owned(index), &[]);
        message.header(HeaderName::Via).is_some().then_some(message)
    }

    pub(in crate::sip) fn of(head: &'a str, index: Cow<'a, MessageIndex>, body: &'a [u8]) -> Self {
        let start = index.start.line(head);
        Self {
            head,
            index,
            start,
            body,
            kept: None,
        }
    }

    /// Where its parts lie, so that they need not be looked for again.
    pub fn index(&self) -> &MessageIndex {
        &self.index
    }

    /// The first line.
    pub fn start(&self) -> Start<'a> {
        self.start
    }

    /// The method, if this is a request.
    pub fn method(&self) -> Option<Method<'a>> {
        match self.start {
            Start::Request { method, .. } => Some(method),
            Start::Response { .. } => None,
        }
    }

    /// The status, if this is a response.
    pub fn status(&self) -> Option<u16> {
        match self.start {
            Start::Request { .. } => None,
            Start::Response { status, .. } => Some(status),
        }
    }

    /// The Request-URI, read.
    ///
    /// # Errors
    /// [`ParseError::RequestUri`] when its grammar is broken,
    /// [`ParseError::StartLine`] for a response.
    pub fn request_uri(&self) -> Result<Uri<'a>, ParseError> {
        match self.start {
            Start::Request { uri, .. } => Uri::parse(uri).ok_or(ParseError::RequestUri),
            Start::Response { .. } => Err(ParseError::StartLine),
        }
    }

    /// The body, as long as Content-Length says, or the rest of the datagram.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Whether every carriage return and line feed of start line and headers
    /// ends a line, so that no value holds one.
    pub(in crate::sip) fn is_plain(&self) -> bool {
        // No line feed stands without a carriage return before it.
        memchr::memchr_iter(b'\r', self.head.as_bytes()).count() == self.index.headers.len() + 1
    }

    /// Writes the message again: full header names, folds joined.
    pub fn write(&self, out: &mut impl Output) {
        match self.start {
            Start::Request { method, uri } => {
                out.put_all(&[method.as_str(), " ", uri, " SIP/2.0\r\n"]);
            }
            Start::Response { status, reason } => {
                out.put_line(format_args!("SIP/2.0 {status} {reason}"))
            }
        }
        for (_, name, value) in self.all_headers() {
            out.put_header(name, value);
        }
        out.put(b"\r\n");
        out.put(self.body);
    }

    fn cut_body(&self, rest: &'a [u8], limits: &Limits) -> Result<&'a [u8], ParseError> {
        let length = match self.content_length()? {
            Some(length) => length as usize,
            None => rest.len(),
        };
        if length > limits.body_bytes {
            return Err(ParseError::TooLarge);
        }
        rest.get(..length).ok_or(ParseError::BodyTruncated)
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("head", &self.head)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

impl StartIndex {
    fn parse(line: &str) -> Result<Self, ParseError> {
        match strip_version(line) {
            Some(rest) => Self::response(line, rest).ok_or(ParseError::StartLine),
            None => Self::request(line),
        }
    }

    /// A request line whose method and version are readable, whatever is between them.
    fn salvage(line: &str) -> Option<Self> {
        let (method, rest) = line.split_once(' ')?;
        let (uri, version) = rest.trim_end().rsplit_once(' ')?;
        let protocol = version.get(..4)?;
        let readable =
            !method.is_empty() && lex::all(method, TOKEN) && protocol.eq_ignore_ascii_case("SIP/");
        readable.then(|| Self::of_request(method, uri))
    }

    fn request(line: &str) -> Result<Self, ParseError> {
        let (method, rest) = lex::split_once(line, b' ').ok_or(ParseError::StartLine)?;
        let (uri, version) = lex::rsplit_once(rest, b' ').ok_or(ParseError::StartLine)?;
        let blank = uri.is_empty() || uri.bytes().any(|byte| lex::is(byte, SPACE));
        if blank || method.is_empty() || !lex::all(method, TOKEN) {
            return Err(ParseError::StartLine);
        }
        check_version(version)?;
        Ok(Self::of_request(method, uri))
    }

    /// One space stands between them.
    fn of_request(method: &str, uri: &str) -> Self {
        let uri_start = method.len() + 1;
        Self::Request {
            method_len: method.len() as u16,
            uri: offsets(uri_start..uri_start + uri.len()),
        }
    }

    /// `rest` is the end of `line`, behind the version.
    fn response(line: &str, rest: &str) -> Option<Self> {
        let (digits, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        let shaped = digits.len() == 3 && lex::all(digits, DIGIT);
        let status = digits
            .parse()
            .ok()
            .filter(|status| shaped && (100..700).contains(status))?;
        let reason = offsets(line.len() - reason.len()..line.len());
        Some(Self::Response { status, reason })
    }
}

/// No head is longer than [`Limits::message_bytes`], so each offset fits.
fn index_of(head: &str, start: StartIndex, headers: HeaderIndex) -> MessageIndex {
    MessageIndex {
        head_start: 0,
        head_len: head.len() as u16,
        body_len: 0,
        start,
        headers,
        read: None,
    }
}

fn offsets(range: Range<usize>) -> Range<u16> {
    range.start as u16..range.end as u16
}

fn skip_line_ends(bytes: &[u8]) -> &[u8] {
    let mut bytes = bytes;
    while let Some(rest) = bytes.strip_prefix(b"\r\n") {
        bytes = rest;
    }
    bytes
}

/// The start line and headers with their line ends. The line end that makes
/// the blank line follows, then the body.
fn split_head(bytes: &[u8]) -> Result<&[u8], ParseError> {
    let end = BLANK_LINE.find(bytes).ok_or(ParseError::Unterminated)?;
    bytes.get(..end + 2).ok_or(ParseError::Unterminated)
}

/// The readable beginning of a message, up to its last whole line.
fn lossy_head(bytes: &[u8]) -> &str {
    let head = split_head(bytes).unwrap_or(bytes);
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => {
            std::str::from_utf8(head.get(..error.valid_up_to()).unwrap_or(&[])).unwrap_or("")
        }
    };
    let end = text.rfind("\r\n").map_or(0, |at| at + 2);
    text.get(..end).unwrap_or("")
}

/// The first line, and where the next begins. It can't be folded, so a
/// continuation fails as a header line without a name.
fn split_start_line<'a>(head: &'a str, limits: &Limits) -> Result<(&'a str, usize), ParseError> {
    let end = lex::find(head.as_bytes(), 0, b'\r').ok_or(ParseError::StartLine)?;
    let (line, rest) = head.split_at_checked(end).ok_or(ParseError::StartLine)?;
    if !rest.starts_with("\r\n") || lex::find(line.as_bytes(), 0, b'\n').is_some() {
        return Err(ParseError::StartLine);
    }
    if end > limits.line_bytes {
        return Err(ParseError::LineTooLong);
    }
    Ok((line, end + 2))
}

fn strip_version(line: &str) -> Option<&str> {
    let (version, rest) = lex::split_once(line, b' ').unwrap_or((line, ""));
    version.eq_ignore_ascii_case(VERSION).then_some(rest)
}

fn check_version(version: &str) -> Result<(), ParseError> {
    if version.eq_ignore_ascii_case(VERSION) {
        return Ok(());
    }
    let protocol = version.get(..4).unwrap_or("");
    let number = version.get(4..).and_then(|number| number.split_once('.'));
    let numbered = number.is_some_and(|(major, minor)| is_number(major) && is_number(minor));
    match protocol.eq_ignore_ascii_case("SIP/") && numbered {
        true => Err(ParseError::Version),
        false => Err(ParseError::StartLine),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && lex::all(text, DIGIT)
}

const VERSION: &str = "SIP/2.0";
/// The searcher is built once, since building it costs as much as one search.
pub(in crate::sip) static BLANK_LINE: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"\r\n\r\n"));
