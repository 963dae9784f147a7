//! Messages in a byte stream (RFC 3261 §18.3).

use super::{HeaderName, Limits, Message, ParseError};

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
    /// A stream that gives an error can't be read on, since nobody knows where
    /// the next message begins: answer with [`Message::salvage`] and close it.
    ///
    /// ```
    /// use busyhour_server::proto::sip::{Frame, Limits};
    /// let stream = b"OPTIONS sip:a SIP/2.0\r\nl: 2\r\n\r\nhi and the next";
    /// let limits = Limits::default();
    /// assert_eq!(Frame::first(&stream[..10], &limits), Ok(Frame::Incomplete));
    /// assert_eq!(Frame::first(stream, &limits), Ok(Frame::Message { bytes: 33 }));
    /// assert_eq!(Frame::first(b"\r\n\r\nOPT", &limits), Ok(Frame::KeepAlive { bytes: 4, is_ping: true }));
    /// ```
    ///
    /// # Errors
    /// [`ParseError::Missing`] without Content-Length, which a stream must
    /// have; [`ParseError::TooLarge`] beyond the limits; what
    /// [`Message::parse`] says of the head.
    pub fn first(stream: &[u8], limits: &Limits) -> Result<Self, ParseError> {
        if let Some(keep_alive) = keep_alive(stream) {
            return Ok(keep_alive);
        }
        let Some(head) = memchr::memmem::find(stream, b"\r\n\r\n") else {
            return if stream.len() > limits.message_bytes {
                Err(ParseError::TooLarge)
            } else {
                Ok(Self::Incomplete)
            };
        };
        let head = head + 4;
        let whole = head.saturating_add(body_bytes(stream.get(..head).unwrap_or(&[]), limits)?);
        match whole {
            whole if whole > limits.message_bytes => Err(ParseError::TooLarge),
            whole if whole > stream.len() => Ok(Self::Incomplete),
            bytes => Ok(Self::Message { bytes }),
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
