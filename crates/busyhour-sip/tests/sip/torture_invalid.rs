//! RFC 4475 §3.1.2 and §3.3: messages that must be refused, by their names in
//! the RFC, with the error of each.

use busyhour_sip::{HeaderName, Message, ParseError, Status};

use crate::message::wire;

const START: &str = "REGISTER sip:example.com SIP/2.0";

fn judge(text: &str) -> Result<(), ParseError> {
    let bytes = wire(text);
    Message::parse(&bytes).and_then(|message| message.validate())
}

/// A valid REGISTER in which one line is replaced.
fn with(start: &str, replaced: &str, by: &str) -> String {
    let sound = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKx\nFrom: <sip:c@example.net>;tag=1\n\
                 To: <sip:u@example.com>\nCall-ID: t\nCSeq: 1 REGISTER\nMax-Forwards: 70\nExpires: 60\n\
                 Contact: <sip:u@192.0.2.1>\n";
    let lines = sound
        .lines()
        .map(|line| if line.starts_with(replaced) { by } else { line });
    let text = format!(
        "{start}\n{}\n",
        lines
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    );
    assert_ne!(
        text,
        format!("{START}\n{sound}"),
        "{replaced} must change something"
    );
    text
}

#[test]
fn the_message_without_a_replacement_is_valid() {
    assert_eq!(judge(&with(START, "Expires:", "Expires: 61")), Ok(()));
}

#[test]
fn one_bad_header() {
    use HeaderName::*;
    let cases = [
        ("badinv01", "Via:", "Via: SIP/2.0/UDP 192.0.2.15;;,;,,", Via),
        (
            "badinv01",
            "Contact:",
            "Contact: \"Joe\" <sip:joe@example.org>;;;;",
            Contact,
        ),
        ("ncl", "Expires:", "Content-Length: -999", ContentLength),
        (
            "scalar02",
            "CSeq:",
            "CSeq: 36893488147419103232 REGISTER",
            CSeq,
        ),
        (
            "scalar02",
            "Max-Forwards:",
            "Max-Forwards: 300",
            MaxForwards,
        ),
        ("scalar02", "Expires:", "Expires: 1O", Expires),
        (
            "quotbal",
            "To:",
            "To: \"Mr. J. User <sip:j.user@example.com>",
            To,
        ),
        (
            "regbadct",
            "Contact:",
            "Contact: sip:user@example.com?Route=%3Csip:sip.example.com%3E",
            Contact,
        ),
        (
            "badaspec",
            "To:",
            "To: \"Watson, Thomas\" < sip:t.watson@example.org >",
            To,
        ),
        (
            "baddn",
            "From:",
            "From: Bell, Alexander <sip:a.g.bell@example.com>;tag=43",
            From,
        ),
        ("2³¹ and more", "CSeq:", "CSeq: 2147483648 REGISTER", CSeq),
        ("no method", "CSeq:", "CSeq: 1", CSeq),
        ("no space", "CSeq:", "CSeq: 1REGISTER", CSeq),
        (
            "q above one",
            "Contact:",
            "Contact: <sip:u@192.0.2.1>;q=1.1",
            Contact,
        ),
        (
            "an empty element",
            "Contact:",
            "Contact: <sip:u@192.0.2.1>,,<sip:u@192.0.2.2>",
            Contact,
        ),
        ("a space within", "Call-ID:", "Call-ID: a b", CallId),
        ("nothing", "Call-ID:", "Call-ID:", CallId),
        (
            "a body of no kind",
            "Expires:",
            "Content-Type: text",
            ContentType,
        ),
        ("an event of no name", "Expires:", "Event: ;id=1", Event),
        (
            "an open bracket",
            "Contact:",
            "Contact: <sip:u@192.0.2.1",
            Contact,
        ),
        (
            "another protocol",
            "Via:",
            "Via: HTTP/1.1/TCP 192.0.2.1",
            Via,
        ),
        ("no host", "Via:", "Via: SIP/2.0/UDP ;branch=z9hG4bK1", Via),
    ];
    for (name, replaced, by, header) in cases {
        assert_eq!(
            judge(&with(START, replaced, by)),
            Err(ParseError::Malformed(header)),
            "{name}: {by}"
        );
    }
}

#[test]
fn start_lines() {
    let cases = [
        (
            "ltgtruri",
            "INVITE <sip:user@example.com> SIP/2.0",
            ParseError::RequestUri,
        ),
        (
            "lwsruri",
            "INVITE sip:user@example.com; lr SIP/2.0",
            ParseError::StartLine,
        ),
        (
            "lwsstart",
            "INVITE  sip:user@example.com  SIP/2.0",
            ParseError::StartLine,
        ),
        (
            "trws",
            "OPTIONS sip:remote-target@example.com SIP/2.0  ",
            ParseError::StartLine,
        ),
        (
            "escruri",
            "INVITE sip:user@example.com?Route=%3Csip:example.com%3E SIP/2.0",
            ParseError::RequestUri,
        ),
        (
            "badvers",
            "OPTIONS sip:t.watson@example.org SIP/7.0",
            ParseError::Version,
        ),
        (
            "bigcode",
            "SIP/2.0 4294967301 better not break the receiver",
            ParseError::StartLine,
        ),
        (
            "mismatch01",
            "OPTIONS sip:user@example.com SIP/2.0",
            ParseError::MethodMismatch,
        ),
        (
            "mismatch02",
            "NEWMETHOD sip:user@example.com SIP/2.0",
            ParseError::MethodMismatch,
        ),
        ("another protocol", "GET / HTTP/1.1", ParseError::StartLine),
    ];
    for (name, start, error) in cases {
        assert_eq!(judge(&with(start, "Expires:", "")), Err(error), "{name}");
    }
    assert_eq!(ParseError::Version.status(), Status::VERSION_NOT_SUPPORTED);
    assert_eq!(ParseError::MethodMismatch.status(), Status::BAD_REQUEST);
}

#[test]
fn clerr_a_body_shorter_than_announced() {
    let text = with(START, "Expires:", "Content-Length: 9999") + "\nshort";
    assert_eq!(judge(&text), Err(ParseError::BodyTruncated));
}

#[test]
fn insuf_what_every_request_needs() {
    use HeaderName::*;
    for (line, header) in [
        ("Via:", Via),
        ("From:", From),
        ("To:", To),
        ("Call-ID:", CallId),
        ("CSeq:", CSeq),
    ] {
        assert_eq!(
            judge(&with(START, line, "")),
            Err(ParseError::Missing(header)),
            "{line}"
        );
    }
}

#[test]
fn multi01_and_mcl01_what_must_not_repeat() {
    use HeaderName::*;
    for (line, twice, header) in [
        (
            "To:",
            "To: <sip:u@example.com>\nTo: <sip:v@example.com>",
            To,
        ),
        ("From:", "From: <sip:c@a>;tag=1\nf: <sip:c@a>;tag=1", From),
        ("Call-ID:", "Call-ID: t\ni: t", CallId),
        ("CSeq:", "CSeq: 5 REGISTER\nCSeq: 59 REGISTER", CSeq),
        (
            "Max-Forwards:",
            "Max-Forwards: 70\nMax-Forwards: 5",
            MaxForwards,
        ),
        ("Expires:", "Expires: 5\nExpires: 6", Expires),
    ] {
        assert_eq!(
            judge(&with(START, line, twice)),
            Err(ParseError::Repeated(header)),
            "{twice}"
        );
    }
    let lengths =
        with(START, "Expires:", "Content-Length: 13\nContent-Length: 5") + "\nThere's no way";
    assert_eq!(judge(&lengths), Err(ParseError::Repeated(ContentLength)));
}

#[test]
fn scalarlg_a_response_beyond_all_numbers() {
    let text = with(
        "SIP/2.0 503 Service Unavailable",
        "CSeq:",
        "CSeq: 9292394834772304023312 OPTIONS",
    );
    assert_eq!(judge(&text), Err(ParseError::Malformed(HeaderName::CSeq)));
}
