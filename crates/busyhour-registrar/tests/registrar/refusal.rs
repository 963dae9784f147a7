//! The answer that each refusal has, and the header that says what to do.

use super::request;
use busyhour_registrar::{ALLOW_EVENTS, Refusal, write_refusal};
use busyhour_sip::{Host, Message};
use std::time::Duration;

#[test]
fn each_refusal_has_its_status_its_reason_and_its_header() {
    let soon = Duration::from_millis(2500);
    for (refusal, status, header) in [
        (Refusal::BadRequest("No Such".into()), "400 No Such", ""),
        (Refusal::Forbidden("Not You"), "403 Not You", ""),
        (Refusal::TooManyContacts, "403 Too Many Contacts", ""),
        (Refusal::NotFound, "404 Not Found", ""),
        (
            Refusal::not_served(&Host::Name("example.org")),
            "404 Domain example.org Not Served Here",
            "",
        ),
        (Refusal::NotAcceptable, "406 Not Acceptable", ""),
        (
            Refusal::ConditionFailed,
            "412 Conditional Request Failed",
            "",
        ),
        (Refusal::TooLarge, "413 Request Entity Too Large", ""),
        (
            Refusal::UnsupportedMedia("application/pidf+xml"),
            "415 Unsupported Media Type",
            "Accept: application/pidf+xml\r\nAccept-Encoding: deflate, gzip\r\n",
        ),
        (Refusal::UnsupportedScheme, "416 Unsupported URI Scheme", ""),
        (
            Refusal::BadExtension("100rel, foo".to_owned()),
            "420 Bad Extension",
            "Unsupported: 100rel, foo\r\n",
        ),
        (
            Refusal::IntervalTooBrief(Duration::from_secs(60)),
            "423 Interval Too Brief",
            "Min-Expires: 60\r\n",
        ),
        (
            Refusal::FirstHopLacksOutbound,
            "439 First Hop Lacks Outbound Support",
            "",
        ),
        (
            Refusal::TooManyPublications,
            "480 Too Many Publications",
            "",
        ),
        (
            Refusal::NoSubscription,
            "481 Subscription Does Not Exist",
            "",
        ),
        (
            Refusal::BadEvent,
            "489 Bad Event",
            &format!("Allow-Events: {ALLOW_EVENTS}\r\n"),
        ),
        (Refusal::OutOfOrder, "500 CSeq Out Of Order", ""),
        (
            Refusal::Overloaded(soon),
            "503 Service Unavailable",
            "Retry-After: 3\r\n",
        ),
        (
            Refusal::LoginPaused(soon),
            "503 Too Many Wrong Passwords",
            "Retry-After: 3\r\n",
        ),
        (Refusal::TooLongToKeep, "513 Message Too Large", ""),
        (
            Refusal::TooLongToAnswer,
            "513 Contacts Exceed A Datagram",
            "",
        ),
    ] {
        let answer = refused(&refusal);
        let first = format!("SIP/2.0 {status}\r\n");
        assert!(answer.starts_with(&first), "{refusal:?}: {answer}");
        assert!(answer.contains(header), "{refusal:?}: {answer}");
        let says = [
            "Accept:",
            "Unsupported:",
            "Min-Expires:",
            "Allow-Events:",
            "Retry-After:",
        ];
        let count = says.iter().filter(|name| answer.contains(**name)).count();
        assert_eq!(count, usize::from(!header.is_empty()), "{answer}");
    }
}

fn refused(refusal: &Refusal) -> String {
    let text = request("sip:example.com", "call", 1, "User-Agent: phone");
    let message = Message::parse(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let source = "192.0.2.1:5062".parse().unwrap();
    write_refusal(&mut answer, &message, refusal, source, "t1");
    String::from_utf8(answer).unwrap()
}
