//! What a proxy changes in a message that it forwards (RFC 3261 §16.6, §16.7), and the
//! requests of a client transaction (§9.1, §17.1.1.3).

use busyhour_sip::{HeaderName, LastRoute, Message, RequestEdit, ResponseEdit, Status};

use crate::message::wire;

const REQUEST: &str = "\
INVITE sip:bob@example.org SIP/2.0
v: SIP/2.0/UDP 10.0.0.7:5070 ;branch=z9hG4bKa;rport, SIP/2.0/UDP behind;branch=z9hG4bKb
Via: SIP/2.0/TCP third;branch=z9hG4bKc
X-Folded: one
  two
Route: <sip:r1;lr>, <sip:r2;lr>
Max-Forwards: 0070
Route: <sip:r3;lr>
f: <sip:alice@example.org>;tag=a
t: <sip:bob@example.org>
i: c1
CSeq: 3 INVITE
Max-Breadth: 60
Content-Length: 4

body";

fn forwarded(text: &str, edit: &RequestEdit<'_>) -> String {
    let bytes = wire(text);
    let mut out = Vec::new();
    let message = Message::parse(&bytes).expect("sound");
    message.forward_request(edit, &mut out);
    assert_eq!(Message::parse(&out).expect("sound").body(), message.body());
    String::from_utf8(out).expect("text").replace("\r\n", "\n")
}

fn edit() -> RequestEdit<'static> {
    RequestEdit {
        uri: "sip:bob@192.0.2.8",
        via: "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKo",
        source: Some("192.0.2.7:40000".parse().expect("an address")),
        max_forwards: 69,
        ..RequestEdit::default()
    }
}

#[test]
fn what_does_not_change_is_copied_as_it_is() {
    let edit = RequestEdit {
        max_breadth: Some(7),
        record_route: "<sip:us;lr>",
        ..edit()
    };
    assert_eq!(
        forwarded(REQUEST, &edit),
        "INVITE sip:bob@192.0.2.8 SIP/2.0\n\
         Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKo\n\
         Record-Route: <sip:us;lr>\n\
         Via: SIP/2.0/UDP 10.0.0.7:5070;branch=z9hG4bKa;received=192.0.2.7;rport=40000, SIP/2.0/UDP behind;branch=z9hG4bKb\n\
         Via: SIP/2.0/TCP third;branch=z9hG4bKc\n\
         X-Folded: one\n  two\n\
         Route: <sip:r1;lr>, <sip:r2;lr>\n\
         Max-Forwards: 69\n\
         Route: <sip:r3;lr>\n\
         f: <sip:alice@example.org>;tag=a\n\
         t: <sip:bob@example.org>\n\
         i: c1\n\
         CSeq: 3 INVITE\n\
         Content-Length: 4\n\
         Max-Breadth: 7\n\nbody"
    );
}

/// RFC 3325 §5, in requests and responses.
#[test]
fn an_asserted_identity_is_removed_with_all_its_lines() {
    let text = REQUEST.replace(
        "Max-Forwards: 0070\n",
        "P-Asserted-Identity: <sip:a@x>,\n <tel:+1>\nMax-Forwards: 0070\np-asserted-identity: <sip:b@x>\n",
    );
    let dropped = RequestEdit {
        drops_identity: true,
        ..edit()
    };
    assert_eq!(forwarded(&text, &dropped), forwarded(REQUEST, &edit()));
    assert!(forwarded(&text, &edit()).contains("\nP-Asserted-Identity: <sip:a@x>,\n <tel:+1>\n"));
    let plain = "SIP/2.0 200 OK\nVia: one\nVia: two\nContent-Length: 0\n\n";
    let asserted = plain.replace("Via: two\n", "Via: two\nP-Asserted-Identity: <sip:b@x>\n");
    let back = |text: &str, drops_identity| {
        let bytes = wire(text);
        let mut out = Vec::new();
        let edit = ResponseEdit {
            drops_identity,
            ..ResponseEdit::default()
        };
        let message = Message::parse(&bytes).expect("sound");
        message.forward_response(&edit, &mut out);
        String::from_utf8(out).expect("text").replace("\r\n", "\n")
    };
    assert_eq!(back(&asserted, true), plain.replace("Via: one\n", ""));
    assert_eq!(back(&asserted, false), asserted.replace("Via: one\n", ""));
}

fn routes(text: &str, edit: &RequestEdit<'_>) -> Vec<String> {
    let text = forwarded(text, edit);
    let lines = text.lines().filter_map(|line| line.strip_prefix("Route: "));
    lines.map(str::to_owned).collect()
}

#[test]
fn routes_are_removed_from_the_top_and_added_there() {
    let skip = |skip_routes| RequestEdit {
        skip_routes,
        ..edit()
    };
    assert_eq!(routes(REQUEST, &skip(1)), ["<sip:r2;lr>", "<sip:r3;lr>"]);
    assert_eq!(routes(REQUEST, &skip(2)), ["<sip:r3;lr>"]);
    assert!(routes(REQUEST, &skip(3)).is_empty());
    assert!(routes(REQUEST, &skip(9)).is_empty());
    let added = RequestEdit {
        route: "<sip:path;lr>",
        ..skip(2)
    };
    assert_eq!(routes(REQUEST, &added), ["<sip:path;lr>", "<sip:r3;lr>"]);
}

#[test]
fn the_last_route_is_removed_or_followed_by_another() {
    let last = |skip_routes, last_route| RequestEdit {
        skip_routes,
        last_route,
        ..edit()
    };
    let removed = last(1, LastRoute::Removed);
    assert_eq!(routes(REQUEST, &removed), ["<sip:r2;lr>"]);
    let joined = REQUEST.replace("Route: <sip:r3;lr>\n", "");
    assert_eq!(
        routes(&joined, &last(0, LastRoute::Removed)),
        ["<sip:r1;lr>"]
    );
    let before = LastRoute::Before("sip:bob");
    assert_eq!(
        routes(REQUEST, &last(2, before)),
        ["<sip:r3;lr>", "<sip:bob>"]
    );
    assert_eq!(routes(REQUEST, &last(3, before)), ["<sip:bob>"]);
    let bare = joined.replace("Route: <sip:r1;lr>, <sip:r2;lr>\n", "");
    assert_eq!(routes(&bare, &last(0, before)), ["<sip:bob>"]);
    assert!(routes(&bare, &last(0, LastRoute::Removed)).is_empty());
}

#[test]
fn what_is_missing_is_added() {
    let text = REQUEST
        .replace("Max-Forwards: 0070\n", "")
        .replace("Content-Length: 4\n", "");
    let text = forwarded(&text, &edit());
    assert!(text.contains("\nMax-Forwards: 69\n"), "{text}");
    assert!(text.contains("\nContent-Length: 4\n\nbody"), "{text}");
    assert!(!text.contains("Max-Breadth"), "{text}");
}

#[test]
fn without_a_source_the_topmost_via_stays_as_it_is() {
    let edit = RequestEdit {
        source: None,
        ..edit()
    };
    let line = "\nv: SIP/2.0/UDP 10.0.0.7:5070 ;branch=z9hG4bKa;rport, SIP/2.0/UDP behind;branch=z9hG4bKb\n";
    assert!(forwarded(REQUEST, &edit).contains(line));
}

#[test]
fn credentials_of_these_realms_are_left_out() {
    let digest = |realm: &str| {
        format!(
            "Proxy-Authorization: Digest username=\"a\", realm=\"{realm}\", nonce=\"n\", uri=\"u\", response=\"r\"\n"
        )
    };
    let ours = ["ours".into(), "ours \"too\"".into()];
    let too = digest("ours \\\"too\\\"");
    let lines = digest("ours") + &digest("theirs") + &too + "Proxy-Authorization: Basic YTpi\n";
    let text = REQUEST.replace("Max-Breadth: 60\n", &lines);
    let edit = RequestEdit {
        realms: &ours,
        ..edit()
    };
    let text = forwarded(&text, &edit);
    assert!(!text.contains("realm=\"ours"), "{text}");
    assert_eq!(text.matches("Proxy-Authorization").count(), 2, "{text}");
}

fn back(text: &str, edit: &ResponseEdit<'_>) -> String {
    let bytes = wire(text);
    let mut out = Vec::new();
    Message::parse(&bytes)
        .expect("sound")
        .forward_response(edit, &mut out);
    String::from_utf8(out).expect("text").replace("\r\n", "\n")
}

const RESPONSE: &str = "\
SIP/2.0 503 Not now, но потом
From: <sip:alice@example.org>;tag=a
v: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKo, SIP/2.0/UDP 10.0.0.7;branch=z9hG4bKa
Via: SIP/2.0/UDP behind;branch=z9hG4bKb
Content-Length: 0

";

#[test]
fn a_response_loses_its_topmost_via() {
    assert_eq!(
        back(RESPONSE, &ResponseEdit::default()),
        RESPONSE.replace("v: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKo, SIP", "Via: SIP")
    );
    let alone = RESPONSE.replace(", SIP/2.0/UDP 10.0.0.7;branch=z9hG4bKa", "");
    assert_eq!(
        back(&alone, &ResponseEdit::default()),
        alone.replace("v: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKo\n", "")
    );
}

#[test]
fn a_response_gets_another_status_and_headers_more() {
    let edit = ResponseEdit {
        status: Some(Status::SERVER_INTERNAL_ERROR),
        more: &[(HeaderName::WwwAuthenticate, "Digest realm=\"x\"")],
        ..ResponseEdit::default()
    };
    let text = back(&RESPONSE.replace("Content-Length: 0\n", ""), &edit);
    assert!(
        text.starts_with("SIP/2.0 500 Server Internal Error\nFrom: "),
        "{text}"
    );
    let end = "\nWWW-Authenticate: Digest realm=\"x\"\nContent-Length: 0\n\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn cancel_and_ack_have_what_ties_them_to_their_invite() {
    let bytes = wire(REQUEST);
    let sent = Message::parse(&bytes).expect("sound");
    let mut out = Vec::new();
    sent.write_cancel(&["SIP;cause=200", "Q.850;cause=16"], &mut out);
    assert_eq!(
        String::from_utf8(out).expect("text").replace("\r\n", "\n"),
        "CANCEL sip:bob@example.org SIP/2.0\n\
         Via: SIP/2.0/UDP 10.0.0.7:5070 ;branch=z9hG4bKa;rport\n\
         Max-Forwards: 70\n\
         Route: <sip:r1;lr>, <sip:r2;lr>\n\
         Route: <sip:r3;lr>\n\
         From: <sip:alice@example.org>;tag=a\n\
         To: <sip:bob@example.org>\n\
         Call-ID: c1\n\
         CSeq: 3 CANCEL\n\
         Reason: SIP;cause=200\n\
         Reason: Q.850;cause=16\n\
         Content-Length: 0\n\n"
    );
    let mut out = Vec::new();
    sent.write_ack("<sip:bob@example.org>;tag=b", &mut out);
    let ack = Message::parse(&out).expect("sound");
    assert_eq!(ack.validate(), Ok(()));
    assert_eq!(ack.to().expect("sound").tag(), Some("b"));
}

#[test]
fn max_breadth_is_a_number() {
    let bytes = wire(REQUEST);
    assert_eq!(
        Message::parse(&bytes).expect("sound").max_breadth(),
        Ok(Some(60))
    );
    let bytes = wire(&REQUEST.replace("Max-Breadth: 60", "Max-Breadth: x"));
    assert!(
        Message::parse(&bytes)
            .expect("sound")
            .max_breadth()
            .is_err()
    );
}
