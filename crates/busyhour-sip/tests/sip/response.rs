//! What a response copies from its request.

use busyhour_sip::{HeaderName, Message, ResponseBuilder, SliceOutput, Status};

use crate::message::wire;

const REQUEST: &str = "\
SUBSCRIBE sip:desk@example.org SIP/2.0
Via: SIP/2.0/UDP 10.0.0.7:5070
 ;branch=z9hG4bKa;rport;note=\"a;b\";received=192.0.2.99, SIP/2.0/UDP behind;branch=z9hG4bKb
Record-Route: <sip:p1;lr>, <sip:p2;lr>
From: <sip:watcher@example.org>
 ;tag=w
To: <sip:desk@example.org>
Call-ID: c1
CSeq: 3 SUBSCRIBE
";

fn answer(request: &Message<'_>, source: Option<&str>) -> String {
    let mut out = Vec::new();
    let source = source.map(|source| source.parse().expect("an address"));
    ResponseBuilder::new(&mut out, request, Status::OK, source)
        .to_tag("t9")
        .copy(HeaderName::RecordRoute)
        .header(HeaderName::Expires, 60)
        .body("text/plain", b"lit");
    String::from_utf8(out).expect("text")
}

#[test]
fn vias_get_the_source_the_server_saw() {
    let bytes = wire(REQUEST);
    let request = Message::parse(&bytes).expect("sound");
    let text = answer(&request, Some("198.51.100.4:40001"));
    let response = Message::parse(text.as_bytes()).expect("sound");
    assert_eq!(response.validate(), Ok(()));
    let top = response.via().expect("sound");
    assert_eq!(top.received(), "198.51.100.4".parse().ok());
    assert!(text.contains(";rport=40001, SIP"), "{text}");
    assert_eq!(
        text.matches("received").count(),
        1,
        "the value from the client is dropped"
    );
    assert_eq!(top.params.value("note"), Some("a;b"));
    assert_eq!(response.vias().count(), 2);
}

#[test]
fn the_same_source_adds_no_received_and_no_source_changes_nothing() {
    let bytes = wire(
        "OPTIONS sip:a SIP/2.0\nVia: SIP/2.0/UDP [2001:db8::1]:5060;branch=z9hG4bK1\nTo: <sip:a>;tag=x",
    );
    let request = Message::parse(&bytes).expect("sound");
    let text = answer(&request, Some("[2001:db8::1]:5060"));
    assert!(
        text.contains("Via: SIP/2.0/UDP [2001:db8::1]:5060;branch=z9hG4bK1\r\n"),
        "{text}"
    );
    assert!(
        text.contains("To: <sip:a>;tag=x\r\n"),
        "an existing tag is kept: {text}"
    );
    let mapped = answer(&request, Some("[::ffff:192.0.2.5]:5060"));
    assert!(mapped.contains(";received=192.0.2.5\r\n"), "{mapped}");
    let untouched = answer(&request, None);
    assert!(untouched.contains(";branch=z9hG4bK1\r\n"), "{untouched}");
}

#[test]
fn dialog_headers_are_copied_without_folds() {
    let bytes = wire(REQUEST);
    let request = Message::parse(&bytes).expect("sound");
    let text = answer(&request, None);
    for line in [
        "SIP/2.0 200 OK\r\n",
        "From: <sip:watcher@example.org> ;tag=w\r\n",
        "To: <sip:desk@example.org>;tag=t9\r\n",
        "Call-ID: c1\r\n",
        "CSeq: 3 SUBSCRIBE\r\n",
        "Record-Route: <sip:p1;lr>, <sip:p2;lr>\r\n",
        "Expires: 60\r\n",
        "Content-Type: text/plain\r\nContent-Length: 3\r\n\r\nlit",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

#[test]
fn a_fold_in_another_header_changes_nothing() {
    let plain = REQUEST.replace("\n ;", ";");
    let folded = plain.replace("CSeq", "Subject: a\n b\nCSeq");
    let [plain, folded] = [plain, folded].map(|text| wire(&text));
    for source in [None, Some("198.51.100.4:40001")] {
        let [plain, folded] =
            [&plain, &folded].map(|bytes| answer(&Message::parse(bytes).expect("sound"), source));
        assert_eq!(plain, folded);
        assert!(
            plain.contains("From: <sip:watcher@example.org>;tag=w\r\n"),
            "{plain}"
        );
    }
}

#[test]
fn a_value_cannot_start_another_header() {
    let bytes = wire(REQUEST);
    let request = Message::parse(&bytes).expect("sound");
    let mut out = Vec::new();
    ResponseBuilder::with_reason(&mut out, &request, Status::BAD_REQUEST, "No\r\nX: 1", None)
        .to_tag("t\r\nX: 2")
        .header(HeaderName::Warning, "a\r\nX: 3")
        .finish();
    let response = Message::parse(&out).expect("sound");
    assert_eq!(response.header_named("X"), None);
}

#[test]
fn a_refused_request_can_still_be_answered() {
    let mut bytes = wire(&REQUEST.replace("Call-ID", "no colon here\nCall-ID"));
    bytes.extend_from_slice(b"\xff");
    assert!(Message::parse(&bytes).is_err());
    let request = Message::salvage(&bytes).expect("a Via is there");
    let text = answer(&request, Some("192.0.2.1:5060"));
    assert_eq!(
        Message::parse(text.as_bytes()).map(|response| response.validate()),
        Ok(Ok(()))
    );
    for hopeless in [
        &b"\x00\x01\x02"[..],
        b"SIP/2.0 200 OK\r\nVia: x\r\n\r\n",
        b"OPTIONS sip:a SIP/2.0\r\n\r\n",
    ] {
        assert!(Message::salvage(hopeless).is_none());
    }
}

#[test]
fn a_slice_that_is_too_small_is_an_error() {
    let bytes = wire(REQUEST);
    let request = Message::parse(&bytes).expect("sound");
    let mut room = [0; 100];
    let mut out = SliceOutput::new(&mut room);
    ResponseBuilder::new(&mut out, &request, Status::OK, None).finish();
    assert_eq!(out.written(), None);
}
