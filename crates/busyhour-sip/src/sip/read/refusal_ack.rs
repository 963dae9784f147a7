//! ACKs of refusals, known again without being read.

use crate::sip::text::lex;

/// Whether a datagram is an ACK whose To ends with this text, such as a tag that only refusals of
/// the receiver have. Nothing else is looked at, so a message that is wrong elsewhere may be taken
/// for one: it must get no answer, and an ACK never gets one.
///
/// `false` also for an ACK that is not written as nearly everybody writes it, with `To:` at the
/// beginning of one line: [`Message::parse`](crate::Message::parse) has to read it.
///
/// ```
/// use busyhour_sip::is_ack_to;
///
/// let ack = b"ACK sip:bob@example.org SIP/2.0\r\nTo: <sip:bob@example.org>;tag=1f-busy\r\n\r\n";
/// assert!(is_ack_to(ack, "-busy") && !is_ack_to(ack, "-gone"));
/// ```
pub fn is_ack_to(datagram: &[u8], to_end: &str) -> bool {
    datagram.starts_with(b"ACK ") && to_of(datagram).is_some_and(|to| to.ends_with(to_end))
}

/// The value of the first line of To in the head.
fn to_of(datagram: &[u8]) -> Option<&str> {
    let at = memchr::memmem::find(datagram, TO)?;
    let (head, line) = datagram.split_at_checked(at)?;
    if memchr::memmem::find(head, b"\r\n\r").is_some() {
        return None;
    }
    let line = line.get(TO.len()..)?;
    let end = memchr::memchr(b'\n', line)?;
    let is_folded = matches!(line.get(end + 1), Some(b' ' | b'\t'));
    let value = line.get(..end)?.strip_suffix(b"\r")?;
    let value = std::str::from_utf8(value).ok()?;
    (!is_folded).then(|| lex::trim(value))
}

const TO: &[u8] = b"\nTo:";
