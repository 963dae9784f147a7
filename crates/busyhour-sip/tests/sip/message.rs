//! Frames and accessors of messages.

use busyhour_sip::{
    Contacts, HeaderName, Limits, Message, Method, ParseError, Quality, RequestedPort, Start,
};

/// A complete request whose lines are joined by CRLF.
pub fn wire(lines: &str) -> Vec<u8> {
    let mut text = lines.trim_start().replace('\n', "\r\n");
    if !text.contains("\r\n\r\n") {
        text.push_str("\r\n\r\n");
    }
    text.into_bytes()
}

const REGISTER: &str = "\
REGISTER sip:example.org SIP/2.0
v: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bKa;rport,
 SIP / 2.0 / TCP [2001:db8::9]:5061 ; branch = z9hG4bKb ; received=2001:db8::1
Via: SIP/2.0/UDP first.example.org;branch=z9hG4bKc
f: \"Alice \\\"A\\\" Example\" <sip:alice@example.org;transport=udp>;tag=a1
To: sip:alice@example.org;x=1
i: 77@192.0.2.7
CSEQ: 4711 REGISTER
Max-Forwards: 70
m: \"Desk\" <sip:alice@192.0.2.7:5070;ob>;q=0.7;expires=60;+sip.instance=\"<urn:uuid:1>\";reg-id=1,
 <sip:alice@198.51.100.3>
Contact: <mailto:alice@example.org>;expires=99999999999
Expires: 3600
Authorization: Digest username=\"alice\", realm=\"example.org\",
 nonce=\"n\", uri=\"sip:example.org\", response=\"00\" , algorithm=SHA-256, qop=auth, nc=0000000A, cnonce=\"c\"
Authorization: Basic YTpi
k: path, outbound
Event: dialog;id=7
Accept: application/*;q=0.2, text/plain
X-Lamp:  on\x20
l: 4

body and more";

#[test]
fn every_accessor_reads_a_register_with_many_headers() {
    let bytes = wire(REGISTER);
    let request = Message::parse(&bytes).expect("sound");
    assert_eq!(request.validate(), Ok(()));
    let Start::Request { method, uri } = request.start() else {
        panic!("a request")
    };
    assert_eq!((method, uri), (Method::Register, "sip:example.org"));
    assert_eq!(request.body(), b"body");
    let from = request.from().expect("sound");
    assert_eq!(from.display, "Alice \\\"A\\\" Example");
    assert_eq!(
        (from.uri_text, from.tag()),
        ("sip:alice@example.org;transport=udp", Some("a1"))
    );
    let to = request.to().expect("sound");
    assert_eq!((to.uri_text, to.tag()), ("sip:alice@example.org", None));
    assert_eq!(request.call_id(), Ok("77@192.0.2.7"));
    assert_eq!(request.cseq().map(|cseq| cseq.number), Ok(4711));
    assert_eq!(request.max_forwards(), Ok(Some(70)));
    assert_eq!(request.expires(), Ok(Some(3600)));
    assert!(request.has_token(HeaderName::Supported, "PATH"));
    let event = request.event().expect("sound").expect("there");
    assert_eq!((event.package, event.id()), ("dialog", Some("7")));
    assert!(request.accepts("application", "dialog-info+xml") && !request.accepts("text", "html"));
    assert_eq!(request.header_named("x-lamp"), Some("on"));
}

#[test]
fn vias_are_in_order_across_lines_and_commas() {
    let bytes = wire(REGISTER);
    let request = Message::parse(&bytes).expect("sound");
    let vias: Vec<_> = request.vias().collect::<Result<_, _>>().expect("sound");
    let branches: Vec<_> = vias.iter().filter_map(|via| via.branch()).collect();
    assert_eq!(branches, ["z9hG4bKa", "z9hG4bKb", "z9hG4bKc"]);
    assert_eq!(vias[0].rport(), Some(RequestedPort::Asked));
    assert_eq!(vias[1].transport, "TCP");
    assert_eq!(vias[1].host.to_string(), "[2001:db8::9]");
    assert_eq!(vias[1].received(), "2001:db8::1".parse().ok());
    let source = "198.51.100.1:9".parse().expect("an address");
    assert_eq!(vias[0].reply_to(source), source);
    assert_eq!(vias[2].reply_to(source).port(), 5060);
}

#[test]
fn contacts_and_credentials_are_read_one_by_one() {
    let bytes = wire(REGISTER);
    let request = Message::parse(&bytes).expect("sound");
    let Ok(Contacts::List(contacts)) = request.contacts() else {
        panic!("a list")
    };
    let contacts: Vec<_> = contacts.collect::<Result<_, _>>().expect("sound");
    assert_eq!(contacts.len(), 3);
    assert_eq!(contacts[0].q.map(Quality::thousandths), Some(700));
    assert_eq!(contacts[0].expires(), Some(60));
    assert_eq!(contacts[0].instance(), Some("urn:uuid:1"));
    assert_eq!(
        (contacts[0].reg_id(), contacts[1].reg_id()),
        (Some(1), None)
    );
    assert_eq!(
        (contacts[1].expires(), contacts[2].expires()),
        (None, Some(u32::MAX))
    );
    let digests: Vec<_> = request.credentials(HeaderName::Authorization).collect();
    let [Ok(digest)] = digests[..] else {
        panic!("one digest challenge; the Basic one is skipped")
    };
    assert_eq!(
        (digest.username, digest.algorithm, digest.qop),
        ("alice", "SHA-256", "auth")
    );
    assert_eq!(digest.nonce_count(), Some(10));
}

#[test]
fn writing_joins_folds_and_reads_back_the_same() {
    let bytes = wire(REGISTER);
    let request = Message::parse(&bytes).expect("sound");
    let mut once = Vec::new();
    request.write(&mut once);
    let again = Message::parse(&once).expect("the message is still valid");
    assert_eq!(again.validate(), Ok(()));
    assert!(
        !String::from_utf8_lossy(&once).contains("\r\n "),
        "no fold is left"
    );
    let mut twice = Vec::new();
    again.write(&mut twice);
    assert_eq!(once, twice);
}

#[test]
fn a_star_must_be_the_only_contact() {
    let of = |contact: &str| wire(&format!("REGISTER sip:a SIP/2.0\n{contact}"));
    let star = of("Contact: *");
    assert!(matches!(
        Message::parse(&star).expect("sound").contacts(),
        Ok(Contacts::Star)
    ));
    for mixed in [
        "Contact: *, <sip:a@b>",
        "Contact: *\nContact: *",
        "m: <sip:a@b>\nm: *",
    ] {
        let bytes = of(mixed);
        let contacts = Message::parse(&bytes).expect("sound").contacts().map(drop);
        assert_eq!(
            contacts,
            Err(ParseError::Malformed(HeaderName::Contact)),
            "{mixed}"
        );
    }
}

#[test]
fn each_broken_frame_has_its_error() {
    let cases: [(&[u8], ParseError); 14] = [
        (b"", ParseError::Empty),
        (b"\r\n\r\n", ParseError::Empty),
        (b"REGISTER sip:a SIP/2.0\r\n", ParseError::Unterminated),
        (
            b"REGISTER sip:a SIP/2.0\nA: b\r\n\r\n",
            ParseError::StartLine,
        ),
        (b"REGISTER  sip:a SIP/2.0\r\n\r\n", ParseError::StartLine),
        (b"REGISTER sip:a SIP/2.0 \r\n\r\n", ParseError::StartLine),
        (b"REGISTER sip:a SIP/3.0\r\n\r\n", ParseError::Version),
        (b"SIP/2.0 99 Low\r\n\r\n", ParseError::StartLine),
        (b"SIP/2.0 4294967301 Big\r\n\r\n", ParseError::StartLine),
        (
            b"REGISTER sip:a SIP/2.0\r\nNo colon\r\n\r\n",
            ParseError::HeaderLine,
        ),
        (
            b"REGISTER sip:a SIP/2.0\r\n: x\r\n\r\n",
            ParseError::HeaderLine,
        ),
        (
            b"REGISTER sip:a SIP/2.0\r\nA: \xff\r\n\r\n",
            ParseError::NotText,
        ),
        (
            b"REGISTER sip:a SIP/2.0\r\nl: 5\r\n\r\nabc",
            ParseError::BodyTruncated,
        ),
        (
            b"REGISTER sip:a SIP/2.0\r\nl: -5\r\n\r\nabc",
            ParseError::Malformed(HeaderName::ContentLength),
        ),
    ];
    for (bytes, expected) in cases {
        let found = Message::parse(bytes).map(drop);
        assert_eq!(found, Err(expected), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn limits_are_kept() {
    let limits = Limits {
        message_bytes: 200,
        line_bytes: 40,
        headers: 3,
        body_bytes: 10,
    };
    let refuse = |text: &str| Message::parse_within(&wire(text), &limits).map(drop);
    let long = format!("REGISTER sip:a SIP/2.0\nA: {}", "x".repeat(60));
    assert_eq!(refuse(&long), Err(ParseError::LineTooLong));
    assert_eq!(
        refuse("REGISTER sip:a SIP/2.0\nA: 1\nA: 2\nA: 3\nA: 4"),
        Err(ParseError::TooManyHeaders)
    );
    assert_eq!(
        refuse(&format!(
            "REGISTER sip:a SIP/2.0\nA: 1\n\n{}",
            "b".repeat(11)
        )),
        Err(ParseError::TooLarge)
    );
    assert_eq!(refuse(&"x".repeat(300)), Err(ParseError::TooLarge));
    assert_eq!(refuse("REGISTER sip:a SIP/2.0\nA: 1\nA: 2\nA: 3"), Ok(()));
}

#[test]
fn more_headers_than_the_inline_index_holds_keep_their_order() {
    let mut text = String::from("OPTIONS sip:a SIP/2.0");
    for number in 0..100 {
        text.push_str(&format!(
            "\nVia: SIP/2.0/UDP h;branch=z9hG4bK{number}\nX-{number}: {number}"
        ));
    }
    let bytes = wire(&text);
    let limits = Limits {
        headers: 250,
        ..Limits::default()
    };
    let request = Message::parse_within(&bytes, &limits).expect("sound");
    let branches: Vec<_> = request
        .vias()
        .flatten()
        .filter_map(|via| via.branch())
        .collect();
    assert_eq!(branches.len(), 100);
    assert!(
        branches
            .iter()
            .enumerate()
            .all(|(at, branch)| *branch == format!("z9hG4bK{at}"))
    );
    assert_eq!(request.header_named("x-99"), Some("99"));
    assert_eq!(
        Message::parse(&bytes).map(drop),
        Err(ParseError::TooManyHeaders)
    );
}

#[test]
fn single_headers_must_not_repeat() {
    let bytes =
        wire("OPTIONS sip:a SIP/2.0\nCSeq: 1 OPTIONS\nCSeq: 2 OPTIONS\nl: 0\nContent-Length: 0");
    let request = Message::parse(&bytes).expect("equal lengths agree");
    assert_eq!(request.cseq(), Err(ParseError::Repeated(HeaderName::CSeq)));
    let bytes = wire("OPTIONS sip:a SIP/2.0\nl: 0\nl: 1\n\nx");
    assert_eq!(
        Message::parse(&bytes).map(drop),
        Err(ParseError::Repeated(HeaderName::ContentLength))
    );
}

#[test]
fn an_index_restores_the_message_on_another_thread() {
    let request = [b"\r\n\r\n".as_slice(), &wire(REGISTER)].concat();
    let response = b"SIP/2.0 486 Busy Here\r\nX: 1\r\nl: 1\r\n\r\nab".to_vec();
    for bytes in [request, response] {
        let message = Message::parse(&bytes).expect("sound");
        let written = |message: &Message<'_>| {
            let mut out = Vec::new();
            message.write(&mut out);
            (format!("{:?}", message.start()), out)
        };
        let first = written(&message);
        let index = message.index().clone();
        let again = std::thread::spawn(move || written(&index.message(&bytes)));
        assert_eq!(again.join().expect("no panic"), first);
    }
}
