//! What a session description (RFC 8866) says of hold: whether its sender sends and
//! receives (RFC 3264 §8.4, RFC 6337 §5.3). Nothing else of it is read.

use crate::sip::Message;

/// Whether the sender of a description sends media and receives some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaDirection {
    /// Some stream is sent.
    pub sends: bool,
    /// Some stream is received: otherwise the other side is on hold.
    pub receives: bool,
}

impl MediaDirection {
    /// Of a description: what its streams do together. A stream says it itself, or the
    /// session says it for all; one with port 0 is not used (RFC 3264 §6), and one at the
    /// address 0.0.0.0 receives nothing, as in RFC 2543. `None` if no stream is used.
    ///
    /// ```
    /// use busyhour_sip::sdp::MediaDirection;
    /// let held = b"v=0\r\nc=IN IP4 192.0.2.1\r\na=sendonly\r\nm=audio 4000 RTP/AVP 0\r\n";
    /// let direction = MediaDirection::read(held).unwrap();
    /// assert_eq!((direction.sends, direction.receives), (true, false));
    /// ```
    pub fn read(description: &[u8]) -> Option<Self> {
        let mut reading = Reading::default();
        for line in description.split(|byte| *byte == b'\n') {
            reading.take(line.strip_suffix(b"\r").unwrap_or(line));
        }
        reading.end_stream();
        reading.together
    }

    /// Of a message whose body is such a description, alone or as a part of several
    /// (RFC 5621 §8.1); `None` without one.
    pub fn of(message: &Message<'_>) -> Option<Self> {
        Self::read(description(message)?)
    }
}

/// Lines on their way into a direction.
#[derive(Default)]
struct Reading {
    session: Stream,
    stream: Option<Stream>,
    together: Option<MediaDirection>,
}

/// A stream, or what the session says for all of them.
#[derive(Clone, Copy)]
struct Stream {
    sends: bool,
    receives: bool,
    is_nowhere: bool,
    is_used: bool,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            sends: true,
            receives: true,
            is_nowhere: false,
            is_used: true,
        }
    }
}

impl Reading {
    fn take(&mut self, line: &[u8]) {
        match line {
            [b'm', b'=', media @ ..] => self.begin_stream(media),
            [b'a', b'=', attribute @ ..] => self.current().attribute(attribute),
            [b'c', b'=', connection @ ..] => self.current().connection(connection),
            _ => {}
        }
    }

    fn current(&mut self) -> &mut Stream {
        self.stream.as_mut().unwrap_or(&mut self.session)
    }

    fn begin_stream(&mut self, media: &[u8]) {
        self.end_stream();
        let mut words = media.split(|byte| *byte == b' ');
        let port = words.nth(1).unwrap_or(b"0");
        self.stream = Some(Stream {
            is_used: !matches!(port, b"0" | [b'0', b'/', ..]),
            ..self.session
        });
    }

    fn end_stream(&mut self) {
        let Some(stream) = self.stream.take().filter(|stream| stream.is_used) else {
            return;
        };
        let together = self.together.get_or_insert(MediaDirection {
            sends: false,
            receives: false,
        });
        together.sends |= stream.sends;
        together.receives |= stream.receives && !stream.is_nowhere;
    }
}

impl Stream {
    fn attribute(&mut self, attribute: &[u8]) {
        (self.sends, self.receives) = match attribute {
            b"sendrecv" => (true, true),
            b"sendonly" => (true, false),
            b"recvonly" => (false, true),
            b"inactive" => (false, false),
            _ => return,
        };
    }

    fn connection(&mut self, connection: &[u8]) {
        self.is_nowhere = connection.trim_ascii() == b"IN IP4 0.0.0.0";
    }
}

/// The description in the body.
fn description<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let body = Some(message.body()).filter(|body| !body.is_empty())?;
    let media = message.content_type().ok()??;
    if media.covers("application", "sdp") {
        return Some(body);
    }
    let is_multipart = media.kind.eq_ignore_ascii_case("multipart");
    part(
        body,
        media.params.value("boundary").filter(|_| is_multipart)?,
    )
}

/// The first part of type `application/sdp` (RFC 2046 §5.1).
fn part<'a>(body: &'a [u8], boundary: &str) -> Option<&'a [u8]> {
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let finder = memchr::memmem::Finder::new(&delimiter);
    let mut ends = finder.find_iter(body).peekable();
    while let Some(at) = ends.next() {
        let end = *ends.peek()?;
        let part = body.get(at + delimiter.len()..end)?;
        if let Some(content) = content_of_sdp(part) {
            return Some(content);
        }
    }
    None
}

fn content_of_sdp(part: &[u8]) -> Option<&[u8]> {
    let blank = memchr::memmem::find(part, b"\r\n\r\n")?;
    let head = std::str::from_utf8(part.get(..blank)?).ok()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let is_sdp = lines.any(|(name, value)| {
        let media = value.split(';').next().unwrap_or("").trim();
        name.trim().eq_ignore_ascii_case("Content-Type")
            && media.eq_ignore_ascii_case("application/sdp")
    });
    part.get(blank + 4..).filter(|_| is_sdp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(lines: &str) -> Option<(bool, bool)> {
        let text = lines.replace('/', "\r\n");
        let read = MediaDirection::read(text.as_bytes())?;
        Some((read.sends, read.receives))
    }

    #[test]
    fn the_streams_word_counts_over_the_sessions() {
        // RFC 3264 §5.1: without an attribute a stream is sendrecv.
        assert_eq!(direction("v=0/m=audio 1 x 0"), Some((true, true)));
        assert_eq!(direction("a=inactive/m=audio 1 x 0"), Some((false, false)));
        let own = "a=inactive/m=audio 1 x 0/a=recvonly";
        assert_eq!(direction(own), Some((false, true)));
        let first = "m=audio 1 x 0/a=sendonly/m=video 2 x 9";
        assert_eq!(direction(first), Some((true, true)));
    }

    #[test]
    fn a_call_is_held_only_when_all_used_streams_are() {
        let both = "m=audio 1 x 0/a=sendonly/m=video 2 x 9/a=inactive";
        assert_eq!(direction(both), Some((true, false)));
        let unused = "m=audio 1 x 0/a=sendonly/m=video 0 x 9/m=video 0/2 x 9".replace("0/2", "0");
        assert_eq!(direction(&unused), Some((true, false)));
        assert_eq!(direction("m=audio 0 x 0"), None);
        assert_eq!(direction("v=0"), None);
        assert_eq!(direction("m=audio"), None);
    }

    #[test]
    fn the_null_address_receives_nothing() {
        // RFC 3264 §8.4: hold as in RFC 2543.
        let session = "c=IN IP4 0.0.0.0/m=audio 1 x 0";
        assert_eq!(direction(session), Some((true, false)));
        let stream = "c=IN IP4 192.0.2.1/m=audio 1 x 0/c=IN IP4 0.0.0.0";
        assert_eq!(direction(stream), Some((true, false)));
        let own = "c=IN IP4 0.0.0.0/m=audio 1 x 0/c=IN IP4 192.0.2.1";
        assert_eq!(direction(own), Some((true, true)));
    }

    #[test]
    fn a_ports_zero_with_a_count_is_zero() {
        let read = MediaDirection::read(b"m=audio 0/2 RTP/AVP 0\r\na=sendonly\r\n");
        assert_eq!(read, None);
    }

    #[test]
    fn a_description_is_found_among_the_parts_of_a_body() {
        let parts = "--x y\r\nContent-Type: text/plain\r\n\r\na=inactive\r\n--x y\r\n\
             content-type: application/SDP ;a=b\r\n\r\nm=audio 1 x 0\r\na=sendonly\r\n--x y--\r\n";
        let message = |media: &str, body: &str| {
            let text = format!("INVITE sip:a SIP/2.0\r\nContent-Type: {media}\r\n\r\n{body}");
            MediaDirection::of(&Message::parse(text.as_bytes()).expect("sound"))
        };
        let sends = Some(MediaDirection {
            sends: true,
            receives: false,
        });
        assert_eq!(message("multipart/mixed;boundary=\"x y\"", parts), sends);
        assert_eq!(message("multipart/mixed", parts), None);
        assert_eq!(message("multipart/mixed;boundary=z", parts), None);
        assert_eq!(message("text/plain", "m=audio 1 x 0"), None);
        assert_eq!(
            message("application/sdp", "m=audio 1 x 0\r\na=sendonly"),
            sends
        );
        assert_eq!(message("application/sdp", ""), None);
    }
}
