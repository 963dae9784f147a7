//! The commands of NG: a cookie, a space, and a dictionary.

use crate::bencode::{NotBencode, Value};

/// What a relay is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Offer,
    Answer,
    Delete,
}

/// The names by which a relay knows a description.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub call_id: &'a str,
    /// Of who has written the offer.
    pub from_tag: &'a str,
    /// Of the other side, if it is known.
    pub to_tag: Option<&'a str>,
    /// Of the offer that left, or was answered.
    pub branch: Option<&'a str>,
}

/// One offer or answer, as the relay is to write it for the next recipient.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rewrite<'a> {
    pub kind: Kind,
    pub names: Names<'a>,
    pub description: &'a str,
    /// The recipient is a browser.
    pub for_web: bool,
    /// So is the sender.
    pub from_web: bool,
    /// The recipient has addresses of this family, and the sender of the other one, which the
    /// relay would give the recipient without a word.
    pub family: Option<&'static str>,
}

/// What a relay has answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Description(Vec<u8>),
    Done,
    Pong,
    /// It takes no more calls now.
    Full,
    Error(String),
}

impl Rewrite<'_> {
    pub fn write(&self, cookie: &str) -> Vec<u8> {
        let command = if self.kind == Kind::Offer {
            "offer"
        } else {
            "answer"
        };
        let mut entries = vec![
            ("command", Value::text(command)),
            ("call-id", Value::text(self.names.call_id)),
            ("from-tag", Value::text(self.names.from_tag)),
            ("sdp", Value::text(self.description)),
            ("replace", Value::texts(&["origin", "session-connection"])),
        ];
        entries.extend(self.names.to_tag.map(|tag| ("to-tag", Value::text(tag))));
        entries.extend(self.names.branch.map(|it| ("via-branch", Value::text(it))));
        let family = self.family.map(Value::text);
        entries.extend(family.map(|it| ("address family", it)));
        match (self.from_web, self.for_web) {
            (_, true) => entries.extend([
                ("transport-protocol", Value::text("UDP/TLS/RTP/SAVPF")),
                ("ICE", Value::text("force")),
                ("rtcp-mux", Value::texts(&["offer", "accept"])),
                ("flags", Value::texts(&["generate-mid"])),
                ("SDES", Value::texts(&["off"])),
            ]),
            (true, false) => entries.extend([
                ("transport-protocol", Value::text("RTP/AVP")),
                ("ICE", Value::text("remove")),
                ("rtcp-mux", Value::texts(&["demux"])),
            ]),
            (false, false) => entries.push(("ICE", Value::text("remove"))),
        }
        framed(cookie, &Value::dictionary(entries))
    }
}

/// The end of a call, or of one branch of it.
pub(crate) fn delete(cookie: &str, names: Names<'_>) -> Vec<u8> {
    let mut entries = vec![
        ("command", Value::text("delete")),
        ("call-id", Value::text(names.call_id)),
        ("from-tag", Value::text(names.from_tag)),
        // Nobody waits for late packets.
        ("delete-delay", Value::Number(0)),
    ];
    entries.extend(names.branch.map(|it| ("via-branch", Value::text(it))));
    framed(cookie, &Value::dictionary(entries))
}

pub(crate) fn ping(cookie: &str) -> Vec<u8> {
    framed(
        cookie,
        &Value::dictionary([("command", Value::text("ping"))]),
    )
}

/// The same command under another cookie, which a relay does not take for one that was sent again.
pub(crate) fn with_cookie(cookie: &str, datagram: &[u8]) -> Vec<u8> {
    let command = datagram.iter().skip_while(|byte| **byte != b' ');
    cookie.bytes().chain(command.copied()).collect()
}

fn framed(cookie: &str, value: &Value<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    bytes.extend_from_slice(cookie.as_bytes());
    bytes.push(b' ');
    value.write(&mut bytes);
    bytes
}

/// The cookie of a reply, as far as it is one.
pub(crate) fn cookie_of(datagram: &[u8]) -> Option<&str> {
    let space = datagram.iter().position(|byte| *byte == b' ')?;
    std::str::from_utf8(datagram.get(..space)?).ok()
}

/// The cookie and what was answered; `None` if it is no reply.
pub(crate) fn read(datagram: &[u8]) -> Option<(&str, Result<Reply, NotBencode>)> {
    let cookie = cookie_of(datagram)?;
    let reply = Value::read(datagram.get(cookie.len() + 1..)?);
    Some((cookie, reply.map(|value| reply_of(&value))))
}

fn reply_of(value: &Value<'_>) -> Reply {
    let text = |name| value.get(name).and_then(Value::as_text);
    match text("result") {
        Some("pong") => Reply::Pong,
        Some("ok") => match value.get("sdp").and_then(Value::as_bytes) {
            Some(description) => Reply::Description(description.to_vec()),
            None => Reply::Done,
        },
        Some("load limit") => Reply::Full,
        _ => {
            let reason = text("error-reason").or_else(|| text("warning"));
            Reply::Error(reason.unwrap_or("no reason").to_owned())
        }
    }
}
