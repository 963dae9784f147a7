//! What telephones write.

use crate::client::REALM;
use busyhour_sip::{HeaderName, Message};

/// A response with our tag, Record-Route and further lines.
pub fn reply(request: &Message<'_>, status: &str, tag: &str, lines: &str, body: &str) -> Vec<u8> {
    let mut head = format!("SIP/2.0 {status}\r\n");
    let copied = [
        HeaderName::Via,
        HeaderName::RecordRoute,
        HeaderName::From,
        HeaderName::CallId,
        HeaderName::CSeq,
    ];
    for name in copied {
        for value in request.headers(name) {
            head.push_str(&format!("{}: {value}\r\n", name.as_str()));
        }
    }
    let to = request.header(HeaderName::To).unwrap();
    let has_tag = request.to().unwrap().tag().is_some();
    let tag = match has_tag {
        true => String::new(),
        false => format!(";tag={tag}"),
    };
    head.push_str(&format!("To: {to}{tag}\r\n{lines}"));
    with_body(head, body).into_bytes()
}

pub fn with_body(head: String, body: &str) -> String {
    let media = match body.is_empty() {
        true => "",
        false => "Content-Type: application/sdp\r\n",
    };
    format!("{head}{media}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// What one offers who holds the other side, or talks.
pub fn offer(holds: bool) -> &'static str {
    match holds {
        true => "m=audio 4000 RTP/AVP 0\r\na=sendonly\r\n",
        false => "m=audio 4000 RTP/AVP 0\r\na=sendrecv\r\n",
    }
}

/// The answer of one who holds the other side, or talks, to what was offered.
pub fn answer_to(offer: &Message<'_>, holds: bool) -> &'static str {
    match (offer.body().is_empty(), is_hold(offer), holds) {
        (true, ..) => "",
        (false, true, true) => "m=audio 4000 RTP/AVP 0\r\na=inactive\r\n",
        (false, true, false) => "m=audio 4000 RTP/AVP 0\r\na=recvonly\r\n",
        (false, false, true) => "m=audio 4000 RTP/AVP 0\r\na=sendonly\r\n",
        (false, false, false) => "m=audio 4000 RTP/AVP 0\r\na=sendrecv\r\n",
    }
}

/// Whether the sender of a description does not listen (RFC 3264 §8.4).
pub fn is_hold(message: &Message<'_>) -> bool {
    let body = message.body();
    body.ends_with(b"a=sendonly\r\n") || body.ends_with(b"a=inactive\r\n")
}

/// The ACK of a refusal, or the CANCEL: of the same transaction as the INVITE.
pub fn same_transaction(method: &str, invite: &str, to: Option<&str>) -> String {
    let message = Message::parse(invite.as_bytes()).unwrap();
    let header = |name| message.header(name).unwrap();
    let uri = invite.split(' ').nth(1).unwrap();
    let routes: String = message
        .headers(HeaderName::Route)
        .map(|route| format!("Route: {route}\r\n"))
        .collect();
    format!(
        "{method} {uri} SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\n{routes}From: {}\r\nTo: {}\r\n\
         Call-ID: {}\r\nCSeq: {} {method}\r\nContent-Length: 0\r\n\r\n",
        header(HeaderName::Via),
        header(HeaderName::From),
        to.unwrap_or(header(HeaderName::To)),
        header(HeaderName::CallId),
        message.cseq().unwrap().number,
    )
}

pub fn user(number: usize) -> String {
    format!("sip:device{number}@{REALM}")
}
