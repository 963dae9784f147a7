//! Values of headers, each with its smallest and largest values.

use busyhour_sip::{
    CSeq, Contacts, Event, HeaderName, Host, Limits, Message, ParseError, Quality, RequestedPort,
    StreamFramer, SubscriptionState, Uri, Via,
};
use std::net::IpAddr;

#[test]
fn a_preference_has_at_most_three_decimals_and_is_at_most_one() {
    let read = |text| Quality::parse(text).map(Quality::thousandths);
    for (text, thousandths) in [
        ("0", 0),
        ("0.", 0),
        ("0.7", 700),
        ("0.07", 70),
        ("0.125", 125),
        ("1", 1000),
        ("1.000", 1000),
    ] {
        assert_eq!(read(text), Some(thousandths), "{text}");
    }
    for text in ["", "2", "01", ".5", "0.1234", "1.001", "0.5x", "-0"] {
        assert_eq!(read(text), None, "{text}");
    }
    assert_eq!(Quality::from_thousandths(1001), Quality::HIGHEST);
    let texts = [5, 70, 1000].map(|q| Quality::from_thousandths(q).to_string());
    assert_eq!(texts, ["0.005", "0.070", "1.000"]);
}

#[test]
fn a_subscription_is_over_when_its_state_is_terminated() {
    let ended = SubscriptionState::parse("Terminated;reason=timeout").unwrap();
    assert!(ended.is_terminated());
    assert_eq!(ended.expires(), None);
    let active = SubscriptionState::parse("active;expires=99999999999").unwrap();
    assert!(!active.is_terminated());
    assert_eq!(active.expires(), Some(u32::MAX));
    let odd = SubscriptionState::parse("active;expires=1x").unwrap();
    assert_eq!(odd.expires(), None);
    let empty = SubscriptionState::parse("active;expires=\"\"").unwrap();
    assert_eq!(empty.expires(), None);
}

#[test]
fn an_event_may_have_an_id_that_needs_no_quotes() {
    let id = |text| Event::parse(text).map(|event| (event.package, event.id()));
    assert_eq!(id("dialog"), Some(("dialog", None)));
    assert_eq!(id("dialog;id=7"), Some(("dialog", Some("7"))));
    assert_eq!(id("dialog;id=\"a b\""), None);
}

#[test]
fn sequence_numbers_are_less_than_two_to_the_31() {
    let number = |text| CSeq::parse(text).map(|cseq| cseq.number);
    assert_eq!(number("2147483647 REGISTER"), Some(2_147_483_647));
    assert_eq!(number(" 0  REGISTER "), Some(0));
    for text in [
        "2147483648 REGISTER",
        "4294967296 REGISTER",
        "1REGISTER",
        "1",
        "1 REGISTER x",
    ] {
        assert_eq!(number(text), None, "{text}");
    }
}

#[test]
fn a_via_has_its_branch_and_the_source_of_the_request() {
    let text = "SIP/2.0/UDP 192.0.2.1:5070;branch=z9hG4bK7;received=[2001:db8::1];rport=6000";
    let via = Via::parse(text).unwrap();
    assert_eq!(
        (via.transport, via.host, via.port),
        ("UDP", Host::V4([192, 0, 2, 1].into()), Some(5070))
    );
    assert_eq!(via.branch(), Some("z9hG4bK7"));
    assert_eq!(via.received(), "2001:db8::1".parse::<IpAddr>().ok());
    assert_eq!(via.rport(), Some(RequestedPort::Answered(6000)));
    let plain = Via::parse("sip / 2.0 / TCP example.com").unwrap();
    assert_eq!(
        (plain.branch(), plain.received(), plain.rport()),
        (None, None, None)
    );
    assert_eq!(plain.port, None);
    let reply = |via: &Via<'_>| via.reply_to("192.0.2.9:7000".parse().unwrap()).port();
    assert_eq!((reply(&via), reply(&plain)), (7000, 5060));
    let asked = Via::parse("SIP/2.0/UDP example.com;rport").unwrap();
    assert_eq!(asked.rport(), Some(RequestedPort::Asked));
    for text in [
        "SIP/3.0/UDP a",
        "SIP/2.0 UDP a",
        "HTTP/2.0/UDP a",
        "SIP/2.0/UDP a:x",
    ] {
        assert!(Via::parse(text).is_none(), "{text}");
    }
}

#[test]
fn headers_of_a_uri_are_in_order() {
    let uri = Uri::parse("sip:a@b?subject=x%20y&priority=&to=z").unwrap();
    let headers: Vec<_> = uri.as_sip().unwrap().headers().collect();
    assert_eq!(
        headers,
        [("subject", "x%20y"), ("priority", ""), ("to", "z")]
    );
    let none = Uri::parse("sip:a@b").unwrap();
    assert_eq!(none.as_sip().unwrap().headers().count(), 0);
}

#[test]
fn a_framer_knows_the_length_of_a_message_when_its_head_is_complete() {
    let mut framer = StreamFramer::new(Limits::default());
    let stream = b"OPTIONS sip:a SIP/2.0\r\nl: 4\r\n\r\nbody";
    assert!(framer.next(&stream[..20]).is_ok());
    assert_eq!(framer.message_bytes(), None);
    assert!(framer.next(&stream[..stream.len() - 1]).is_ok());
    assert_eq!(framer.message_bytes(), Some(stream.len()));
    assert!(framer.next(stream).is_ok());
    assert_eq!(framer.message_bytes(), None, "the next message");
}

#[test]
fn contacts_have_their_own_lifetime_and_preference() {
    let text = "REGISTER sip:b SIP/2.0\r\n\
        m: <sip:a@b>;q=1.000;expires=60, <sip:c@b>;expires=x\r\n\r\n";
    let message = Message::parse(text.as_bytes()).unwrap();
    let Contacts::List(contacts) = message.contacts().unwrap() else {
        panic!("no star");
    };
    let contacts: Vec<_> = contacts
        .map(|contact| contact.unwrap())
        .map(|contact| (contact.q, contact.expires()))
        .collect();
    assert_eq!(
        contacts,
        [(Some(Quality::HIGHEST), Some(60)), (None, Some(3600))]
    );
    assert_eq!(message.status(), None);
    let answer = Message::parse(b"SIP/2.0 489 Bad Event\r\n\r\n").unwrap();
    assert_eq!(answer.status(), Some(489));
}

/// Without a method, or with another protocol, a line is no request that could
/// be answered.
#[test]
fn only_a_sip_request_is_salvaged() {
    let via = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\r\n";
    let salvaged = |line: &str| Message::salvage(format!("{line}\r\n{via}").as_bytes()).is_some();
    assert!(salvaged("OPTIONS junk junk SIP/7"));
    assert!(!salvaged("OPT@IONS sip:a SIP/2.0"));
    assert!(!salvaged(" sip:a SIP/2.0"));
    assert!(!salvaged("OPTIONS sip:a HTTP/1.1"));
}

/// Four numbers of at most 255, separated by dots and without leading zeros, are an
/// address.
#[test]
fn only_a_host_of_four_numbers_is_an_ipv4_address() {
    let is_address = |text: &str| {
        let uri = format!("sip:a@{text}");
        let host = Uri::parse(&uri).and_then(|uri| uri.as_sip().map(|sip| sip.host));
        matches!(host, Some(Host::V4(_)))
    };
    for text in ["0.0.0.0", "255.255.255.255", "10.0.200.1"] {
        assert!(is_address(text), "{text}");
    }
    for text in [
        "1..2.3",
        ".1.2.3",
        "1.2.3.",
        "256.1.1.1",
        "1.2.3.256",
        "01.2.3.4",
        "1.2.3.4.5",
        "1.2.3",
    ] {
        assert!(!is_address(text), "{text}");
    }
}

#[test]
fn answers_contain_the_requested_values() {
    let head = "SIP/2.0 423 Interval Too Brief\r\n";
    let text = format!("{head}Min-Expires: 3600\r\nSIP-If-Match: tag-7\r\n\r\n");
    let message = Message::parse(text.as_bytes()).unwrap();
    assert_eq!(message.min_expires(), Ok(Some(3600)));
    assert_eq!(message.sip_if_match(), Ok(Some("tag-7")));
    let message = Message::parse(b"SIP/2.0 200 OK\r\nSIP-If-Match: a b\r\n\r\n").unwrap();
    assert_eq!(message.min_expires(), Ok(None));
    assert!(message.sip_if_match().is_err());
}

#[test]
fn challenges_are_in_order_without_those_of_other_schemes() {
    let text = "SIP/2.0 401 Unauthorized\r\n\
        WWW-Authenticate: Digest realm=\"r\", nonce=\"1\", algorithm=SHA-256\r\n\
        WWW-Authenticate: Basic realm=\"r\"\r\n\
        WWW-Authenticate: Digest realm=\"r\", nonce=\"2\"\r\n\
        WWW-Authenticate: Digest realm=\"r\"\r\n\r\n";
    let message = Message::parse(text.as_bytes()).unwrap();
    let challenges = message.challenges(HeaderName::WwwAuthenticate);
    let nonces = challenges.map(|it| it.map(|challenge| (challenge.nonce, challenge.algorithm)));
    let malformed = ParseError::Malformed(HeaderName::WwwAuthenticate);
    let expected = [Ok(("1", "SHA-256")), Ok(("2", "")), Err(malformed)];
    assert_eq!(nonces.collect::<Vec<_>>(), expected);
}
