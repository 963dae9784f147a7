//! Messages in a byte stream (RFC 3261 §18.3).

use crate::sip::{HeaderName, Limits, Message, ParseError};

/// What stands at the beginning of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A keep-alive of this many bytes: skip them. A double line end asks for
    /// a single one in return (RFC 5626 §3.5.1).
    KeepAlive {
        /// Bytes to skip.
        bytes: usize,
        /// Whether the peer waits for a line end.
        is_ping: bool,
    },
    /// A message of this many bytes: give them to [`Message::parse`].
    Message {
        /// Head and body.
        bytes: usize,
    },
    /// More bytes are needed to tell, or to complete the message.
    Incomplete,
}

impl Frame {
    /// Finds the first message in what was received so far.
    ///
    /// After an error the stream is unusable, since the beginning of the next message
    /// is unknown: answer with [`Message::salvage`] and close it.
    ///
    /// ```
    /// use busyhour_sip::{Frame, Limits};
    /// let stream = b"OPTIONS sip:a SIP/2.0\r\nl: 2\r\n\r\nhi and the next";
    /// let limits = Limits::default();
    /// assert_eq!(Frame::first(&stream[..10], &limits), Ok(Frame::Incomplete));
    /// assert_eq!(Frame::first(stream, &limits), Ok(Frame::Message { bytes: 33 }));
    /// assert_eq!(Frame::first(b"\r\n\r\nOPT", &limits), Ok(Frame::KeepAlive { bytes: 4, is_ping: true }));
    /// ```
    ///
    /// # Errors
    /// [`ParseError::Missing`] without Content-Length, which a stream must have;
    /// [`ParseError::TooLarge`] beyond the limits; any error of [`Message::parse`]
    /// about the head.
    pub fn first(stream: &[u8], limits: &Limits) -> Result<Self, ParseError> {
        StreamFramer::new(*limits).next(stream)
    }
}

/// Finds messages in a stream that arrives in pieces, and looks at no byte of
/// an incomplete message twice, however small the pieces are.
///
/// ```
/// use busyhour_sip::{Frame, Limits, StreamFramer};
/// let stream = b"OPTIONS sip:a SIP/2.0\r\nl: 2\r\n\r\nhi";
/// let mut framer = StreamFramer::new(Limits::default());
/// assert_eq!(framer.next(&stream[..32]), Ok(Frame::Incomplete));
/// assert_eq!(framer.message_bytes(), Some(33));
/// assert_eq!(framer.next(stream), Ok(Frame::Message { bytes: 33 }));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StreamFramer {
    limits: Limits,
    /// How many bytes of the current message were searched for the end of its head.
    searched: usize,
    /// How long it will be, once its head is complete.
    whole: Option<usize>,
}

impl StreamFramer {
    /// At the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            searched: 0,
            whole: None,
        }
    }

    /// Finds the frame at the beginning of `stream`. After [`Frame::Incomplete`], give
    /// the same bytes again with those that came since; after another frame, give the
    /// bytes that follow it.
    ///
    /// # Errors
    /// As [`Frame::first`].
    pub fn next(&mut self, stream: &[u8]) -> Result<Frame, ParseError> {
        let frame = match keep_alive(stream) {
            Some(keep_alive) => keep_alive,
            None => self.message(stream)?,
        };
        if frame != Frame::Incomplete {
            *self = Self::new(self.limits);
        }
        Ok(frame)
    }

    /// How long the message begun will be, once its head is complete.
    pub fn message_bytes(&self) -> Option<usize> {
        self.whole
    }

    fn message(&mut self, stream: &[u8]) -> Result<Frame, ParseError> {
        if self.whole.is_none() {
            self.whole = self.find_head(stream)?;
        }
        match self.whole {
            Some(bytes) if bytes <= stream.len() => Ok(Frame::Message { bytes }),
            None if stream.len() > self.limits.message_bytes => Err(ParseError::TooLarge),
            _ => Ok(Frame::Incomplete),
        }
    }

    fn find_head(&mut self, stream: &[u8]) -> Result<Option<usize>, ParseError> {
        // The blank line may have been cut apart.
        let from = self.searched.saturating_sub(HEAD_END.len() - 1);
        let unsearched = stream.get(from..).unwrap_or(&[]);
        let Some(at) = memchr::memmem::find(unsearched, HEAD_END) else {
            self.searched = stream.len();
            return Ok(None);
        };
        let head = from + at + HEAD_END.len();
        let body = body_bytes(stream.get(..head).unwrap_or(&[]), &self.limits)?;
        match head.saturating_add(body) {
            whole if whole > self.limits.message_bytes => Err(ParseError::TooLarge),
            whole => Ok(Some(whole)),
        }
    }
}

fn keep_alive(stream: &[u8]) -> Option<Frame> {
    match stream {
        // A line end may be the first half of a ping.
        [] | b"\r" | b"\r\n" | b"\r\n\r" => Some(Frame::Incomplete),
        [b'\r', b'\n', b'\r', b'\n', ..] => Some(Frame::KeepAlive {
            bytes: 4,
            is_ping: true,
        }),
        [b'\r', b'\n', ..] => Some(Frame::KeepAlive {
            bytes: 2,
            is_ping: false,
        }),
        _ => None,
    }
}

/// Reads the head alone, whose body has not come yet.
fn body_bytes(head: &[u8], limits: &Limits) -> Result<usize, ParseError> {
    let message = Message::parse_head(head, limits)?;
    let length = message
        .content_length()?
        .ok_or(ParseError::Missing(HeaderName::ContentLength))?;
    let length = length as usize;
    if length > limits.body_bytes {
        Err(ParseError::TooLarge)
    } else {
        Ok(length)
    }
}

const HEAD_END: &[u8] = b"\r\n\r\n";
