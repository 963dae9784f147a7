//! A message with another body.

use busyhour_sip::Message;

/// The same message with this body in plain and its length; `None` if it does not end with its own.
pub(crate) fn with_body(datagram: &[u8], message: &Message<'_>, body: &[u8]) -> Option<Vec<u8>> {
    let head = datagram.strip_suffix(message.body())?;
    let mut written = Vec::with_capacity(head.len() + body.len() + 8);
    let head = head.strip_suffix(b"\r\n")?;
    let mut is_dropped = false;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        // A folded line belongs to the one before.
        let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
        is_dropped = match is_folded {
            true => is_dropped,
            false => tells_of_body(line),
        };
        if !is_dropped {
            written.extend_from_slice(line);
        }
    }
    written.extend(format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes());
    written.extend_from_slice(body);
    Some(written)
}

/// Of the other headers none says how the bytes of the body are to be read.
fn tells_of_body(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let name = name.trim_ascii();
    let names: [&[u8]; 4] = [b"Content-Length", b"l", b"Content-Encoding", b"e"];
    names.iter().any(|one| name.eq_ignore_ascii_case(one))
}
