//! Request validation and route preprocessing (RFC 3261 §16.3, §16.4).

use crate::support::*;
use busyhour_proxy::{Received, RequestRefusal, Routing};
use busyhour_sip::Message;

fn refusal(text: &str) -> Option<RequestRefusal> {
    Bench::new().try_begin(alice(), text).err()
}

fn read(text: &str, check: impl FnOnce(Routing<'_>)) {
    let message = Message::parse(text.as_bytes()).expect("a message");
    check(routing(&message, &Bench::new().loops).expect("a valid request"));
}

/// RFC 3261 §16.3 step 1.
#[test]
fn a_request_without_what_every_message_needs_is_refused() {
    let refused = refusal(&invite().replace("Call-ID: call-1\r\n", ""));
    assert_eq!(refused.expect("refused").status().code(), 400);
}

/// RFC 3261 §16.3 step 2.
#[test]
fn a_request_uri_of_another_scheme_is_refused() {
    let text = invite().replace("INVITE sip:bob@example.org", "INVITE tel:+49891234");
    assert_eq!(refusal(&text), Some(RequestRefusal::UnsupportedScheme));
}

/// RFC 3261 §16.3 step 3, §16.6 step 3.
#[test]
fn max_forwards_is_counted_down_and_ends_at_0() {
    let with = |value: &str| invite().replace("Max-Forwards: 70\r\n", value);
    assert_eq!(
        refusal(&with("Max-Forwards: 0\r\n")),
        Some(RequestRefusal::TooManyHops)
    );
    for (value, sent) in [("Max-Forwards: 1\r\n", "0"), ("", "70")] {
        let forwarded = Bench::new().call(&with(value), target(1));
        assert_eq!(lines(&forwarded[0].text, "Max-Forwards"), [sent]);
    }
}

/// RFC 3261 §16.3 step 4, RFC 5393 §4.2.2: a loop is what would take the same way again.
#[test]
fn a_request_that_comes_back_unchanged_is_a_loop() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1)).remove(0).text;
    // The next hop sends it back with the Request-URI with which it came first.
    let back = forwarded
        .replace("INVITE sip:bob@192.0.2.101", "INVITE sip:bob@example.org")
        .replacen(
            "Via: ",
            "Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKx\r\nVia: ",
            1,
        )
        .replace("Record-Route: <sip:rr@192.0.2.1;lr>\r\n", "");
    assert_eq!(bench.receive(bob(1), &back), Received::New);
    assert_eq!(
        bench.try_begin(bob(1), &back),
        Err(RequestRefusal::LoopDetected)
    );
    let refused = bench.take().remove(0);
    assert!(refused.text.starts_with("SIP/2.0 482 "), "{}", refused.text);
}

/// RFC 3261 §16.3 step 4: a spiral is no loop.
#[test]
fn a_request_that_comes_back_for_another_user_is_forwarded() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1)).remove(0).text;
    let spiral = forwarded
        .replace("INVITE sip:bob@192.0.2.101", "INVITE sip:carol@example.org")
        .replacen(
            "Via: ",
            "Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKx\r\nVia: ",
            1,
        );
    let id = bench.begin(bob(1), &spiral);
    bench.forward(id, target(2));
    assert_eq!(starts(&bench.take())[1], "INVITE > 192.0.2.102:5060");
}

/// RFC 5393 §4.2.1: every field that decides the way counts.
#[test]
fn a_request_that_comes_back_with_another_route_or_credentials_is_no_loop() {
    let changes = [
        ("Route: <sip:next.example.net;lr>\r\n", ""),
        (
            "Proxy-Authorization: Digest username=\"a\", realm=\"r\", nonce=\"n\", uri=\"u\", response=\"0\"\r\n",
            "",
        ),
        ("Proxy-Require: \r\n", ""),
        ("", "To: <sip:bob@example.org>;tag=other\r\n"),
    ];
    for (more, to) in changes {
        let mut bench = Bench::new();
        let forwarded = bench.call(&invite(), target(1)).remove(0).text;
        let back = forwarded
            .replace("INVITE sip:bob@192.0.2.101", "INVITE sip:bob@example.org")
            .replacen(
                "Via: ",
                &format!("{more}Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKx\r\nVia: "),
                1,
            );
        let back = match to {
            "" => back,
            to => back.replace("To: <sip:bob@example.org>\r\n", to),
        };
        assert!(bench.try_begin(bob(1), &back).is_ok(), "{back}");
    }
}

/// RFC 3261 §16.3 step 5.
#[test]
fn an_unknown_option_in_proxy_require_is_refused_and_named() {
    let mut bench = Bench::new();
    let text = request("INVITE", "Proxy-Require: foo, bar\r\n");
    assert!(bench.try_begin(alice(), &text).is_err());
    let refused = bench.take().remove(0);
    assert!(refused.text.starts_with("SIP/2.0 420 Bad Extension"));
    assert_eq!(lines(&refused.text, "Unsupported"), ["foo, bar"]);
    assert!(lines(&refused.text, "To")[0].contains(";tag="));
    assert_eq!(refused.to, alice());
}

/// RFC 3261 §17.2.1: an ACK never gets a response, a malformed one neither.
#[test]
fn a_refused_ack_gets_no_response() {
    let mut bench = Bench::new();
    let ack = request("ACK", "").replace("Max-Forwards: 70", "Max-Forwards: 0");
    assert!(bench.try_begin(alice(), &ack).is_err());
    assert!(bench.take().is_empty());
}

/// RFC 3261 §16.4: the topmost Route that names this proxy is removed.
#[test]
fn our_own_route_is_taken_off_and_told() {
    let text = request(
        "BYE",
        "Route: <sip:rr@192.0.2.1;lr>, <sip:next.example.net;lr>\r\n",
    );
    read(&text, |routing| {
        let own: Vec<_> = routing.own_routes().map(|uri| uri.text).collect();
        assert_eq!(own, ["sip:rr@192.0.2.1;lr"]);
        let next = routing.next_route().map(|uri| uri.text);
        assert_eq!(next, Some("sip:next.example.net;lr"));
    });
    let forwarded = Bench::new().call(&text, target(1));
    assert_eq!(
        lines(&forwarded[0].text, "Route"),
        ["<sip:next.example.net;lr>"]
    );
}

/// RFC 5658 §4: both halves of a double Record-Route are ours.
#[test]
fn both_of_our_routes_are_taken_off() {
    let text = request(
        "BYE",
        "Route: <sip:rr@192.0.2.1;lr;transport=tcp>\r\nRoute: <sip:rr@192.0.2.1;lr>\r\n",
    );
    read(&text, |routing| {
        assert_eq!(routing.own_routes().count(), 2);
        assert!(routing.next_route().is_none());
    });
    let forwarded = Bench::new().call(&text, target(1));
    assert!(lines(&forwarded[0].text, "Route").is_empty());
}

/// RFC 3261 §16.4: the previous hop is a strict router (RFC 2543).
#[test]
fn the_request_uri_of_a_strict_router_is_put_back() {
    let text = request(
        "BYE",
        "Route: <sip:next.example.net;lr>, <sip:bob@192.0.2.8>\r\n",
    );
    let text = text.replace("BYE sip:bob@example.org", "BYE sip:rr@192.0.2.1;lr");
    read(&text, |routing| {
        assert_eq!(routing.request_uri(), "sip:bob@192.0.2.8");
        assert_eq!(routing.own_routes().count(), 1);
        let next = routing.next_route().map(|uri| uri.text);
        assert_eq!(next, Some("sip:next.example.net;lr"));
    });
    let mut unchanged = target(1);
    unchanged.uri = None;
    let forwarded = Bench::new().call(&text, unchanged);
    assert!(
        forwarded[0]
            .text
            .starts_with("BYE sip:bob@192.0.2.8 SIP/2.0\r\n")
    );
    assert_eq!(
        lines(&forwarded[0].text, "Route"),
        ["<sip:next.example.net;lr>"]
    );
}

/// RFC 3261 §16.4: `maddr` that names this proxy has done its work.
#[test]
fn our_maddr_is_taken_off() {
    let uri = "sip:bob:pw@other.example;maddr=192.0.2.1;transport=tcp;x=1";
    let text = invite().replace("sip:bob@example.org SIP", &format!("{uri} SIP"));
    read(&text, |routing| {
        assert_eq!(routing.request_uri(), "sip:bob:pw@other.example;x=1");
    });
    let text = text.replace("maddr=192.0.2.1", "maddr=192.0.2.2");
    read(&text, |routing| {
        assert!(routing.request_uri().contains("maddr=192.0.2.2"));
    });
}

/// RFC 3261 §20.34, §7.3.1.
#[test]
fn a_malformed_route_is_refused() {
    let refused = refusal(&request("BYE", "Route: sip:next.example.net\r\n"));
    assert_eq!(refused.expect("refused").status().code(), 400);
}
