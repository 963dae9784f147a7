//! Bodies that are compressed on their way (RFC 3261 §7.4.1, §20.12).

use crate::sip::{HeaderName, Message};
use flate2::{Decompress, FlushDecompress, Status, bufread::GzDecoder};
use std::{borrow::Cow, io::Read};

/// The encodings that [`Message::decoded_body`] reads besides none at all, as Accept-Encoding lists them.
pub const ACCEPT_ENCODING: &str = "deflate, gzip";

/// Why an encoded body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyEncodingError {
    /// The encoding is not one of [`ACCEPT_ENCODING`], or there are several.
    #[error("Unsupported Content-Encoding")]
    Unsupported,
    /// In plain the body is longer than is taken.
    #[error("Body Too Long")]
    TooLong,
    /// The bytes are not of the encoding that Content-Encoding names, or not all of them.
    #[error("Body Cannot Be Decoded")]
    Broken,
}

impl<'a> Message<'a> {
    /// Whether the body has to be decoded before it can be read.
    ///
    /// ```
    /// let subscribe = "SUBSCRIBE sip:list@example.com SIP/2.0\r\nContent-Encoding: deflate\r\n\r\nx";
    /// assert!(busyhour_sip::Message::parse(subscribe.as_bytes()).unwrap().is_body_encoded());
    /// ```
    pub fn is_body_encoded(&self) -> bool {
        let is_encoding = |name: &str| !name.eq_ignore_ascii_case("identity");
        let mut encodings = self.elements(HeaderName::ContentEncoding);
        !self.body().is_empty() && encodings.any(is_encoding)
    }

    /// The body as it was before it was compressed; a body that is not compressed is lent as it came,
    /// however long it is.
    ///
    /// No more than about `len_max` bytes are ever allocated, whatever the compressed ones would become.
    ///
    /// # Errors
    ///
    /// [`BodyEncodingError::Unsupported`], [`BodyEncodingError::TooLong`] beyond `len_max` bytes, and
    /// [`BodyEncodingError::Broken`].
    ///
    /// ```
    /// use busyhour_sip::{BodyEncodingError, Message};
    ///
    /// let head = "PUBLISH sip:alice@example.com SIP/2.0\r\nContent-Encoding: deflate\r\n\r\n";
    /// // "hello", as zlib writes it.
    /// let body = b"\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15";
    /// let bytes = [head.as_bytes(), body].concat();
    /// let message = Message::parse(&bytes).unwrap();
    /// assert_eq!(message.decoded_body(5).unwrap(), &b"hello"[..]);
    /// assert_eq!(message.decoded_body(4), Err(BodyEncodingError::TooLong));
    /// ```
    pub fn decoded_body(&self, len_max: usize) -> Result<Cow<'a, [u8]>, BodyEncodingError> {
        let body = self.body();
        if !self.is_body_encoded() {
            return Ok(Cow::Borrowed(body));
        }
        let mut encodings = self.elements(HeaderName::ContentEncoding);
        let (Some(encoding), None) = (encodings.next(), encodings.next()) else {
            return Err(BodyEncodingError::Unsupported);
        };
        let plain = if encoding.eq_ignore_ascii_case("deflate") {
            inflate(body, len_max)?
        } else if encoding.eq_ignore_ascii_case("gzip") {
            gunzip(body, len_max)?
        } else {
            return Err(BodyEncodingError::Unsupported);
        };
        Ok(Cow::Owned(plain))
    }
}

/// The format of zlib (RFC 1950), which is what `deflate` means (RFC 9110 §8.4.1.2).
fn inflate(body: &[u8], len_max: usize) -> Result<Vec<u8>, BodyEncodingError> {
    let mut stream = Decompress::new(true);
    // With one byte more than may be, a body that is too long is told from one that just fits.
    let room_max = len_max.saturating_add(1);
    let mut plain = Vec::with_capacity(body.len().saturating_mul(USUAL_RATIO).min(room_max));
    loop {
        let (read, written) = (stream.total_in(), stream.total_out());
        let rest = usize::try_from(read).ok().and_then(|read| body.get(read..));
        let rest = rest.unwrap_or_default();
        let status = stream.decompress_vec(rest, &mut plain, FlushDecompress::None);
        let status = status.map_err(|_| BodyEncodingError::Broken)?;
        if plain.len() > len_max {
            return Err(BodyEncodingError::TooLong);
        }
        if status == Status::StreamEnd {
            let is_whole = stream.total_in() == body.len() as u64;
            return is_whole.then_some(plain).ok_or(BodyEncodingError::Broken);
        }
        if plain.len() == plain.capacity() {
            let room = plain.len().saturating_mul(2).max(1).min(room_max);
            plain.reserve_exact(room - plain.len());
        } else if (stream.total_in(), stream.total_out()) == (read, written) {
            // It had bytes to write to, so it lacks some to read.
            return Err(BodyEncodingError::Broken);
        }
    }
}

fn gunzip(body: &[u8], len_max: usize) -> Result<Vec<u8>, BodyEncodingError> {
    let mut stream = GzDecoder::new(body);
    let mut plain = Vec::new();
    let mut within = stream.by_ref().take((len_max as u64).saturating_add(1));
    let read = within.read_to_end(&mut plain);
    if plain.len() > len_max {
        return Err(BodyEncodingError::TooLong);
    }
    read.map_err(|_| BodyEncodingError::Broken)?;
    let is_whole = stream.into_inner().is_empty();
    is_whole.then_some(plain).ok_or(BodyEncodingError::Broken)
}

/// Lists and presence are about this much longer in plain.
const USUAL_RATIO: usize = 4;
