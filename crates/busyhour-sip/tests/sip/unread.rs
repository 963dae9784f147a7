//! Requests that are refused or dropped without being read, with the reader as the oracle.

use crate::properties::{
    an_ack_is_known_by_the_to_that_is_read, what_is_found_unread_is_what_is_read,
};
use busyhour_sip::{Method, UnreadRequest, is_ack_to};
use proptest::prelude::*;

const INVITE: &str = "INVITE sip:bob@example.org SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.7:5061;branch=z9hG4bK1;rport\r\n\
    Via: SIP/2.0/TCP a.example.org;branch=z9hG4bK0\r\nMax-Forwards: 70\r\n\
    From: \"A\" <sip:a@example.org>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: 1@a\r\n\
    CSeq: 7 INVITE\r\nContact: <sip:a@192.0.2.7>\r\nContent-Length: 2\r\n\r\nhi";

fn is_found(text: &str) -> bool {
    what_is_found_unread_is_what_is_read(text.as_bytes());
    UnreadRequest::find(text.as_bytes()).is_some()
}

#[test]
fn a_usual_invite_and_the_ack_of_its_refusal_are_found() {
    assert!(is_found(INVITE));
    let ack = INVITE
        .replace("INVITE", "ACK")
        .replace("org>\r\nCall", "org>;tag=x\r\nCall");
    assert!(is_found(&ack));
    let found = UnreadRequest::find(ack.as_bytes()).expect("it is found");
    assert_eq!(found.method(), Method::Ack);
    for same in [
        INVITE.replace("Content-Length: 2\r\n", ""),
        INVITE.replace(
            "a.example.org;branch=z9hG4bK0",
            "a.example.org, SIP/2.0/UDP b",
        ),
        INVITE.replace("bob@example.org>", "bób@example.org>"),
        INVITE.replace("CSeq: ", "CSEQ:"),
        INVITE.replace("hi", "hi and what follows"),
    ] {
        assert!(is_found(&same), "{same}");
    }
}

fn is_ack(text: &str) -> bool {
    an_ack_is_known_by_the_to_that_is_read(text.as_bytes());
    is_ack_to(text.as_bytes(), "-mark")
}

#[test]
fn the_ack_of_a_refusal_is_known_by_the_end_of_its_to() {
    let ack = INVITE
        .replace("INVITE", "ACK")
        .replace("org>\r\nCall", "org>;tag=x-mark\r\nCall");
    assert!(is_ack(&ack));
    for same in [
        ack.replace("To: ", "To:"),
        ack.replace("-mark", "-mark \t"),
        // It gets no answer, whatever else is wrong.
        ack.replace("Call-ID: 1@a\r\n", ""),
        ack.replace("hi", "h"),
    ] {
        assert!(is_ack(&same), "{same}");
    }
    for other in [
        INVITE.replace("org>\r\nCall", "org>;tag=x-mark\r\nCall"),
        ack.replace("-mark", "-mark;x=y"),
        ack.replace("-mark", "-mark\r\n ;x=y"),
        ack.replace("-mark\r", "-mark"),
        ack.replace("-mark", "-nark"),
        ack.replace("ACK sip", "ACKsip"),
        ack.replace("To: ", "t: "),
        ack.replace("To: ", "X-To: "),
        ack.replace("To: ", "From: ")
            .replace("hi", "h\nTo: -mark\r\n"),
        ack.split_once("-mark").unwrap().0.to_owned(),
        String::new(),
    ] {
        assert!(!is_ack(&other), "{other}");
    }
}

/// What is within a dialog, and all that only the reader understands, has to be read.
#[test]
fn what_is_written_in_another_way_has_to_be_read() {
    for (from, to) in [
        (
            "To: <sip:bob@example.org>",
            "To: <sip:bob@example.org>;TAG=2",
        ),
        ("To: <sip:bob@example.org>", "To: <sip:tag@example.org>"),
        ("INVITE sip", "OPTIONS sip"),
        ("INVITE sip", "\r\nINVITE sip"),
        (" SIP/2.0\r\nVia", " SIP/3.0\r\nVia"),
        ("sip:bob@example.org SIP", "sip:bob @example.org SIP"),
        ("Call-ID:", "i:"),
        ("Call-ID: 1@a", "Call-ID:\r\n 1@a"),
        ("Call-ID: 1@a", "Call-ID: 1@a\r\nCall-ID: 2"),
        ("Call-ID: 1@a\r\n", ""),
        ("From:", "From :"),
        ("From:", "Fr\tom: x\r\nFrom:"),
        ("Contact: ", "no colon\r\nContact: "),
        ("Max-Forwards: 70\r\n", "Max-Forwards: 70\n"),
        ("Max-Forwards: 70", "Max-Forwards: 7\r0"),
        ("7 INVITE", "7 BYE"),
        ("7 INVITE", "7"),
        ("192.0.2.7:5061;branch", "192.0.2.7:port;branch"),
        ("Length: 2", "Length: 3"),
        ("Length: 2", "Length: +2"),
        ("Length: 2", "Length: 2\r\nContent-Length: 1"),
        (
            "Via: SIP/2.0/TCP a.example.org",
            "Via: a\r\nVia: b\r\nVia: c\r\nVia: d",
        ),
        ("\r\n\r\nhi", "\r\n"),
    ] {
        assert!(INVITE.contains(from), "{from}");
        assert!(!is_found(&INVITE.replacen(from, to, 1)), "{to}");
    }
    let long = format!("X: {}\r\nContact", "x".repeat(9000));
    assert!(!is_found(&INVITE.replace("Contact", &long)));
    let many = format!("{}Contact", "X: y\r\n".repeat(130));
    assert!(!is_found(&INVITE.replace("Contact", &many)));
}

fn line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("Via"),
        Just("From"),
        Just("To"),
        Just("Call-ID"),
        Just("CSeq"),
        Just("via"),
        Just("Content-Length"),
        Just("t"),
        Just("X"),
        Just("To "),
        Just(""),
        Just("Contact"),
    ];
    let value = prop_oneof![
        Just("SIP/2.0/UDP 192.0.2.7;rport;branch=z9hG4bK1"),
        Just("SIP/2.0/UDP [2001:db8::7]:5060;received=192.0.2.1, SIP/2.0/TLS b;x=\"y\""),
        Just("SIP / 2.0 / UDP 192.0.2.9 ; branch = z9hG4bK2;a=\"\""),
        Just("<sip:a@b>"),
        Just("<sip:a@b>;tag=1"),
        Just("1 INVITE"),
        Just("2 ACK"),
        Just("0"),
        Just(" 1 "),
        Just(""),
        Just("a\r\n b"),
        Just("\u{e9}"),
        Just("a\rb"),
    ];
    (name, value).prop_map(|(name, value)| format!("{name}: {value}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Lines in any order, as often as may be.
    #[test]
    fn whatever_the_lines_are(lines in prop::collection::vec(line(), 0..6), ack in any::<bool>()) {
        let (method, tag) = if ack { ("ACK", ";tag=9") } else { ("INVITE", "") };
        let text = format!(
            "{method} sip:b@c SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:b@c>{tag}\r\nCall-ID: 1\r\nCSeq: 1 {method}\r\n{}\r\n\r\n",
            lines.join("\r\n"),
        );
        what_is_found_unread_is_what_is_read(text.as_bytes());
        let text = format!("{method} sip:b@c SIP/2.0\r\n{}\r\n\r\nbody", lines.join("\r\n"));
        what_is_found_unread_is_what_is_read(text.as_bytes());
    }

    /// One byte anywhere is another one.
    #[test]
    fn whatever_byte_is_changed(at in 0..INVITE.len(), byte in any::<u8>()) {
        let mut bytes = INVITE.as_bytes().to_vec();
        bytes[at] = byte;
        what_is_found_unread_is_what_is_read(&bytes);
    }
}
