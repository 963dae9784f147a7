use busyhour_sip::Message;
use std::{borrow::Cow, net::IpAddr};

/// What a session description (RFC 8866) says of how its media travels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Description {
    /// The address of its first used stream; `None` if it has a name, or is 0.0.0.0.
    pub address: Option<IpAddr>,
    /// It is of a browser: DTLS-SRTP (RFC 5763) with ICE (RFC 8839).
    pub is_web: bool,
    /// Some stream is used.
    pub has_media: bool,
}

impl Description {
    /// Reads one.
    pub fn read(text: &[u8]) -> Self {
        let mut read = Self::default();
        let (mut has_fingerprint, mut has_ice) = (false, false);
        let (mut is_stream, mut is_first) = (false, false);
        for line in text.split(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(line).unwrap_or("").trim_end();
            if let Some(media) = line.strip_prefix("m=") {
                is_stream = true;
                let port = media.split(' ').nth(1).unwrap_or("0");
                let is_used = port.split('/').next() != Some("0");
                is_first = is_used && !read.has_media;
                read.has_media |= is_used;
            } else if let Some(connection) = line.strip_prefix("c=") {
                let named = connection.split(' ').nth(2).unwrap_or("");
                let named = named.split('/').next().and_then(|ip| ip.parse().ok());
                // The session says it for all streams, and the first used one for itself.
                if !is_stream || is_first {
                    read.address = named.filter(|ip: &IpAddr| !ip.is_unspecified());
                }
            } else if line.starts_with("a=fingerprint:") {
                has_fingerprint = true;
            } else if line.starts_with("a=ice-ufrag:") {
                has_ice = true;
            }
        }
        read.is_web = has_fingerprint && has_ice;
        read
    }

    /// That in the body of a message, decoded if it is compressed; `None` without one, or if it cannot be decoded or
    /// becomes longer than [`DESCRIPTION_BYTES_MAX`]. A description among several parts is not read.
    pub fn of(message: &Message<'_>) -> Option<Self> {
        body_of(message).as_deref().map(Self::read)
    }
}

/// The description in a message's body.
pub(crate) fn body_of<'a>(message: &Message<'a>) -> Option<Cow<'a, [u8]>> {
    if message.body().is_empty() || !message.content_type().ok()??.covers("application", "sdp") {
        return None;
    }
    message.decoded_body(DESCRIPTION_BYTES_MAX).ok()
}

/// A compressed description becomes no longer than this. A longer one would not fit into the datagram to the relay.
pub const DESCRIPTION_BYTES_MAX: usize = 60_000;
