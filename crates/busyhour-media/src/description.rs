use busyhour_sip::Message;
use std::net::IpAddr;

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

    /// That in the body of a message; `None` without one. A description among several parts
    /// is not read.
    pub fn of(message: &Message<'_>) -> Option<Self> {
        body_of(message).map(Self::read)
    }
}

/// The description in a message's body.
pub(crate) fn body_of<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let body = Some(message.body()).filter(|body| !body.is_empty())?;
    let media = message.content_type().ok()??;
    media.covers("application", "sdp").then_some(body)
}
