//! Secrets in messages, replaced by `***`.

use std::borrow::Cow;

/// A message as text, without what would let its reader authenticate or listen: responses
/// and nonces of digest authentication (RFC 7616), keys of SRTP in SDP (RFC 4568, RFC 4567)
/// and `k=` (RFC 4566). Without bodies, a line tells how long the body is.
///
/// Line ends before the message are left out, as its reader skips them (RFC 3261 §7.5): the end
/// of the headers is the first empty line after the start line.
pub(super) fn masked(bytes: &[u8], has_bodies: bool) -> String {
    let mut bytes = bytes;
    while let Some(rest) = bytes.strip_prefix(b"\r\n") {
        bytes = rest;
    }
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = match text.find("\r\n\r\n") {
        Some(end) => text.split_at(end + 4),
        None => (&*text, ""),
    };
    let mut out = String::with_capacity(text.len());
    for header in headers(head) {
        let name = header.split(':').next().unwrap_or("").trim_end();
        let mut secret = AUTHENTICATION.iter();
        out += &match secret.any(|one| one.eq_ignore_ascii_case(name)) {
            true => without_parameters(header),
            false => Cow::from(header),
        };
    }
    match has_bodies {
        true => body
            .split_inclusive('\n')
            .for_each(|line| out += &without_key(line)),
        false if body.is_empty() => {}
        false => out += &format!("[{} bytes]\r\n", bytes.len() - head.len()),
    }
    out
}

/// The first line and each header, with the lines in which it goes on.
fn headers(head: &str) -> impl Iterator<Item = &str> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let mut ends = rest.match_indices('\n').map(|(place, _)| place + 1);
        let is_end = |end: &usize| !rest[*end..].starts_with([' ', '\t']);
        let end = ends.find(is_end).unwrap_or(rest.len());
        let (header, others) = rest.split_at(end);
        rest = others;
        (!header.is_empty()).then_some(header)
    })
}

/// Masks the values of parameters of a header that are secret.
fn without_parameters(header: &str) -> Cow<'_, str> {
    let (header, line_end) = header.split_at(header.trim_end_matches(['\r', '\n']).len());
    let mut out = String::with_capacity(header.len());
    let mut rest = header;
    while let Some((before, after)) = rest.split_once('=') {
        let name = before
            .trim_end()
            .rsplit([' ', '\t', '\r', '\n', ',', ':'])
            .next();
        let name = name.unwrap_or("");
        let (value, others) = value_of(after);
        out += before;
        out.push('=');
        out += match PARAMETERS.iter().any(|one| one.eq_ignore_ascii_case(name)) {
            true => "\"***\"",
            false => value,
        };
        rest = others;
    }
    out += rest;
    out += line_end;
    out.into()
}

/// The value at the beginning, quoted or not, and what follows.
fn value_of(text: &str) -> (&str, &str) {
    let start = text.len() - text.trim_start_matches([' ', '\t', '\r', '\n']).len();
    let end = match text[start..].strip_prefix('"') {
        Some(quoted) => {
            let mut is_escaped = false;
            let end = quoted.find(|one| {
                let is_end = one == '"' && !is_escaped;
                is_escaped = one == '\\' && !is_escaped;
                is_end
            });
            end.map_or(text.len(), |end| start + 1 + end + 1)
        }
        None => {
            let end = text[start..].find([',', ' ', '\t', '\r', '\n']);
            end.map_or(text.len(), |end| start + end)
        }
    };
    text.split_at(end)
}

/// Masks a line of SDP that has a key. An attribute may have several keys; all are behind
/// the first `inline:`.
fn without_key(line: &str) -> Cow<'_, str> {
    let (text, line_end) = line.split_at(line.trim_end_matches(['\r', '\n']).len());
    let key_line = KEY_LINES.iter().find(|one| {
        let begin = text.get(..one.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(one))
    });
    let Some(key_line) = key_line else {
        return line.into();
    };
    match text.split_once("inline:") {
        Some((before, _)) => format!("{before}inline:***{line_end}").into(),
        None => format!("{key_line}***{line_end}").into(),
    }
}

const AUTHENTICATION: [&str; 6] = [
    "Authorization",
    "Proxy-Authorization",
    "WWW-Authenticate",
    "Proxy-Authenticate",
    "Authentication-Info",
    "Proxy-Authentication-Info",
];
const PARAMETERS: [&str; 5] = ["response", "nonce", "cnonce", "nextnonce", "rspauth"];
const KEY_LINES: [&str; 3] = ["a=crypto:", "a=key-mgmt:", "k="];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_masked_however_they_are_written() {
        let message = "REGISTER sip:x SIP/2.0\r\n\
            Authorization: Digest username=\"alice\", realm=\"r, response=1\",nonce = \"n\\\"1\",\r\n \
            uri=\"sip:x\",response=\"0123\", cnonce=c1 , qop=auth, nc=00000001\r\n\
            proxy-authorization:Digest RESPONSE=\"s3\"\r\n\
            Subject: response=\"kept\"\r\n\r\nresponse=\"kept\"";
        let expected = "REGISTER sip:x SIP/2.0\r\n\
            Authorization: Digest username=\"alice\", realm=\"r, response=1\",nonce =\"***\",\r\n \
            uri=\"sip:x\",response=\"***\", cnonce=\"***\" , qop=auth, nc=00000001\r\n\
            proxy-authorization:Digest RESPONSE=\"***\"\r\n\
            Subject: response=\"kept\"\r\n\r\nresponse=\"kept\"";
        assert_eq!(masked(message.as_bytes(), true), expected);
    }

    #[test]
    fn line_ends_before_the_message_hide_no_secret() {
        for ahead in ["\r\n", "\r\n\r\n", "\r\n\r\n\r\n"] {
            let message = "REGISTER sip:x SIP/2.0\r\n\
                Authorization: Digest response=\"s3\"\r\n\r\nbody";
            let text = masked(format!("{ahead}{message}").as_bytes(), false);
            let expected = "REGISTER sip:x SIP/2.0\r\n\
                Authorization: Digest response=\"***\"\r\n\r\n[4 bytes]\r\n";
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_secret_in_the_next_line_is_masked() {
        let message = "REGISTER sip:x SIP/2.0\r\n\
            Authorization: Digest response=\r\n \"0123\", cnonce\r\n =\r\n\tc1, nc=1,\r\n \
            nonce=\"ab\r\n cd\"\r\nProxy-Authorization: Digest response=\r\nSubject: a\r\n b\r\n\r\n";
        let expected = "REGISTER sip:x SIP/2.0\r\n\
            Authorization: Digest response=\"***\", cnonce\r\n =\"***\", nc=1,\r\n \
            nonce=\"***\"\r\nProxy-Authorization: Digest response=\"***\"\r\nSubject: a\r\n b\r\n\r\n";
        assert_eq!(masked(message.as_bytes(), true), expected);
    }

    #[test]
    fn challenges_are_masked() {
        let message = "SIP/2.0 401 Unauthorized\r\n\
            WWW-Authenticate: Digest realm=\"r\", nonce=\"abc\", algorithm=MD5\r\n\
            Authentication-Info: nextnonce=\"d\", rspauth=\"e\"\r\n\r\n";
        let text = masked(message.as_bytes(), true);
        assert!(text.contains("nonce=\"***\", algorithm=MD5"), "{text}");
        assert!(
            text.contains("nextnonce=\"***\", rspauth=\"***\""),
            "{text}"
        );
    }

    #[test]
    fn keys_of_media_are_masked_and_the_rest_of_the_body_is_not() {
        let message = "INVITE sip:x SIP/2.0\r\n\r\nv=0\r\n\
            a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3\r\n\
            a=key-mgmt:mikey AQAFgM0X\r\nk=clear:secret\r\na=rtpmap:0 PCMU/8000\r\n";
        let text = masked(message.as_bytes(), true);
        assert!(
            text.ends_with(
                "v=0\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:***\r\n\
                 a=key-mgmt:***\r\nk=***\r\na=rtpmap:0 PCMU/8000\r\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_body_that_is_not_wanted_is_only_counted() {
        let message = b"MESSAGE sip:x SIP/2.0\r\n\r\nhello \xff";
        let text = masked(message, false);
        assert_eq!(text, "MESSAGE sip:x SIP/2.0\r\n\r\n[7 bytes]\r\n");
        assert!(masked(message, true).ends_with("hello \u{fffd}"));
        assert_eq!(
            masked(b"BYE sip:x SIP/2.0\r\n\r\n", false),
            "BYE sip:x SIP/2.0\r\n\r\n"
        );
    }
}
