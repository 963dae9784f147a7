//! Why a message, or one header of it, is refused.

use super::{HeaderName, Status};

/// What is wrong with a message or with a header that was asked for.
///
/// The text is fit for a reason phrase; [`ParseError::status`] names the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing but line ends: a keep-alive (RFC 5626 §3.5.1), not a message.
    #[error("Empty Message")]
    Empty,
    /// The blank line that ends the headers is missing.
    #[error("Headers Not Terminated")]
    Unterminated,
    /// The message is longer than [`super::Limits::message_bytes`].
    #[error("Message Too Large")]
    TooLarge,
    /// A line is longer than [`super::Limits::line_bytes`].
    #[error("Header Line Too Long")]
    LineTooLong,
    /// There are more header lines than [`super::Limits::headers`].
    #[error("Too Many Headers")]
    TooManyHeaders,
    /// The headers are not UTF-8 text (RFC 3261 §7).
    #[error("Headers Not UTF-8")]
    NotText,
    /// The first line is neither a request line nor a status line.
    #[error("Malformed Start Line")]
    StartLine,
    /// The protocol is SIP, the version is not 2.0.
    #[error("Version Not Supported")]
    Version,
    /// A header line without a name, a colon, or with a bare line feed.
    #[error("Malformed Header Line")]
    HeaderLine,
    /// The body is shorter than its Content-Length (RFC 3261 §18.3).
    #[error("Body Shorter Than Content-Length")]
    BodyTruncated,
    /// A header that this request must have is absent.
    #[error("Missing {0}")]
    Missing(HeaderName),
    /// A header that may stand once stands more often.
    #[error("Repeated {0}")]
    Repeated(HeaderName),
    /// The value of this header does not follow its grammar.
    #[error("Malformed {0}")]
    Malformed(HeaderName),
    /// The Request-URI does not follow the grammar of RFC 3261 §19.1.
    #[error("Malformed Request-URI")]
    RequestUri,
    /// The CSeq names another method than the request line.
    #[error("CSeq Method Mismatch")]
    MethodMismatch,
}

impl ParseError {
    /// The status a server answers this with.
    pub fn status(self) -> Status {
        match self {
            Self::Version => Status::VERSION_NOT_SUPPORTED,
            Self::TooLarge => Status::MESSAGE_TOO_LARGE,
            _ => Status::BAD_REQUEST,
        }
    }
}
