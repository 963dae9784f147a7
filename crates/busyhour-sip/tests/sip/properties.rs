//! What must hold for any bytes; tests and fuzzer share it.

use busyhour_sip::{
    Address, BodyEncodingError, Contact, Contacts, Frame, HeaderName, Limits, Message, Method,
    ParseError, ResponseBuilder, Start, Status, StreamFramer, UnreadRequest, Uri, Via, is_ack_to,
};

/// Reads `bytes` as a message in every way, and checks the results.
pub fn hold(bytes: &[u8]) {
    if let Ok(message) = Message::parse(bytes) {
        touch_everything(&message);
        survives_writing(&message);
        index_has_it_all(&message, bytes);
        what_is_kept_is_what_is_read(&message, bytes);
    }
    what_is_found_unread_is_what_is_read(bytes);
    an_ack_is_known_by_the_to_that_is_read(bytes);
    frames_advance(bytes);
    frames_come_in_pieces(bytes);
    if let Some(message) = Message::salvage(bytes) {
        touch_everything(&message);
        answer_is_sound(&message, bytes.len());
        index_has_it_all(&message, bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        values_hold(text);
    }
}

/// The names of a request that was not read are those that are read, and its refusal is the same.
pub fn what_is_found_unread_is_what_is_read(bytes: &[u8]) {
    let Some(unread) = UnreadRequest::find(bytes) else {
        return;
    };
    let message = Message::parse(bytes).expect("what is found can be read");
    assert_eq!(message.method(), Some(unread.method()));
    assert!(matches!(message.start(), Start::Request { uri, .. } if uri == unread.uri()));
    let names = [
        HeaderName::Via,
        HeaderName::From,
        HeaderName::To,
        HeaderName::CallId,
    ];
    for name in names.into_iter().chain([HeaderName::CSeq]) {
        assert_eq!(message.header(name), Some(unread.header(name)), "{name}");
    }
    assert_eq!(message.via().as_ref(), Ok(unread.via()));
    assert_eq!(message.cseq(), Ok(unread.cseq()));
    if unread.method() == Method::Ack {
        return;
    }
    assert!(
        !message.to().is_ok_and(|to| to.tag().is_some()),
        "it is of no dialog"
    );
    for source in [
        "192.0.2.7:5060",
        "[2001:db8::7]:40000",
        "[::ffff:192.0.2.9]:5060",
    ] {
        let source = source.parse().expect("an address");
        let (mut short, mut long) = (Vec::new(), Vec::new());
        let because = (Status::SERVICE_UNAVAILABLE, "Overloaded");
        unread.write_refusal(&mut short, because, source, "t4g", 3);
        ResponseBuilder::with_reason(&mut long, &message, because.0, because.1, Some(source))
            .to_tag("t4g")
            .header(HeaderName::RetryAfter, 3)
            .finish();
        assert_eq!(
            String::from_utf8_lossy(&short),
            String::from_utf8_lossy(&long)
        );
    }
}

/// What is kept of a message is what is read of it header by header, and an answer that is written from its index is the one
/// that is written from the message.
fn what_is_kept_is_what_is_read(message: &Message<'_>, bytes: &[u8]) {
    let mut kept = message.clone();
    let Ok(essentials) = kept.keep_essentials() else {
        return assert!(message.validate().is_err());
    };
    assert_eq!(message.via(), Ok(essentials.via));
    assert_eq!(message.from(), Ok(essentials.from));
    assert_eq!(message.to(), Ok(essentials.to));
    assert_eq!(message.cseq(), Ok(essentials.cseq));
    assert_eq!(message.validate(), kept.validate());
    let again = kept.index().message(bytes);
    assert_eq!(again.cseq(), Ok(essentials.cseq));
    if message.method().is_none() {
        return;
    }
    for source in ["192.0.2.7:5060", "[2001:db8::7]:40000", "127.0.0.1:5060"] {
        let source = source.parse().expect("an address");
        let answer = |message: &Message<'_>| {
            let mut out = Vec::new();
            ResponseBuilder::new_keeping_alive(&mut out, message, Status::OK, source, 30)
                .to_tag("t4g")
                .finish();
            String::from_utf8(out).expect("text")
        };
        assert_eq!(answer(&again), answer(message));
        assert_eq!(answer(&kept), answer(message));
    }
}

/// What is known as an ACK unread is one, if it can be read at all, and has such a To.
pub fn an_ack_is_known_by_the_to_that_is_read(bytes: &[u8]) {
    assert!(!is_ack_to(bytes, "\n"), "no line has a line end in it");
    if !is_ack_to(bytes, "") {
        return;
    }
    if let Ok(message) = Message::parse(bytes) {
        assert_eq!(message.method(), Some(Method::Ack));
        let mut values = message.headers(HeaderName::To);
        assert!(values.any(|to| is_ack_to(bytes, to)));
    }
}

/// Calls every accessor; none may panic.
fn touch_everything(message: &Message<'_>) {
    let _ = message.validate();
    let _ = (
        message.request_uri(),
        message.min_expires(),
        message.subscription_state(),
    );
    let _ = (
        message.sip_if_match(),
        message.accepts("a", "b"),
        message.header_named("X"),
    );
    let _ = message.has_token(HeaderName::Require, "x");
    body_is_within_its_bound(message);
    touch(message.addresses(HeaderName::Route), |address| {
        address.params.iter().count()
    });
    touch(message.vias(), |via: Via<'_>| {
        (via.branch(), via.rport(), via.received())
    });
    touch(message.credentials(HeaderName::Authorization), |digest| {
        digest.nonce_count()
    });
    touch(
        message.challenges(HeaderName::WwwAuthenticate),
        |challenge| challenge.offers_auth(),
    );
    if let Ok(Contacts::List(contacts)) = message.contacts() {
        touch(contacts, |contact: Contact<'_>| {
            (contact.expires(), contact.instance(), contact.reg_id())
        });
    }
}

/// What is compressed becomes as long as is allowed at most, and the bound changes nothing else.
fn body_is_within_its_bound(message: &Message<'_>) {
    let whole = message.decoded_body(1 << 20);
    for len_max in [0, 100, 4096] {
        match (message.decoded_body(len_max), &whole) {
            (Ok(body), Ok(whole)) => {
                assert_eq!(&body, whole);
                assert!(body.len() <= len_max || !message.is_body_encoded());
            }
            (Err(BodyEncodingError::TooLong), Ok(whole)) => assert!(whole.len() > len_max),
            // The end, which is broken, was not reached.
            (Err(BodyEncodingError::TooLong), Err(_)) => {}
            (Err(error), Err(other)) => assert_eq!(error, *other),
            (Ok(body), Err(error)) => panic!("{body:?} beside {error}"),
            (Err(error), Ok(_)) => panic!("{error}"),
        }
    }
}

fn touch<T, R>(values: impl Iterator<Item = Result<T, ParseError>>, read: impl Fn(T) -> R) {
    values.flatten().for_each(|value| {
        let _ = read(value);
    });
}

/// A message that is written and read again differs only in white space.
fn survives_writing(message: &Message<'_>) {
    let mut once = Vec::new();
    message.write(&mut once);
    if once.len() > usize::from(u16::MAX) {
        return;
    }
    let unbounded = Limits {
        line_bytes: usize::MAX,
        ..Limits::default()
    };
    let again = Message::parse_within(&once, &unbounded).expect("what was written can be read");
    assert_eq!(again.start(), message.start());
    assert_eq!(again.body(), message.body());
    assert_eq!(again.validate(), message.validate());
    let lines = |message: &Message<'_>| message.all_headers().map(flat).collect::<Vec<_>>();
    assert_eq!(lines(&again), lines(message));
    let mut twice = Vec::new();
    again.write(&mut twice);
    assert_eq!(once, twice);
}

/// A message made from its index and its bytes is the same; with the bytes of
/// another datagram nothing panics.
fn index_has_it_all(message: &Message<'_>, bytes: &[u8]) {
    let index = message.index().clone();
    let again = index.message(bytes);
    assert_eq!(again.start(), message.start());
    assert_eq!(again.body(), message.body());
    let lines = |message: &Message<'_>| {
        let lines = message.all_headers();
        lines
            .map(|(header, name, value)| (header, name.to_owned(), value.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&again), lines(message));
    let (mut written, mut written_again) = (Vec::new(), Vec::new());
    message.write(&mut written);
    again.write(&mut written_again);
    assert_eq!(written_again, written);
    for others in [
        &bytes[1..],
        &bytes[..bytes.len() / 2],
        &[0xff; 700],
        &written,
    ] {
        touch_everything(&index.message(others));
    }
}

fn flat((header, name, value): (HeaderName, &str, &str)) -> (HeaderName, String, String) {
    let words = value
        .split([' ', '\t', '\r', '\n'])
        .filter(|word| !word.is_empty());
    (header, name.to_owned(), words.collect::<Vec<_>>().join(" "))
}

/// An answer can be parsed, belongs to the same transaction, and is hardly
/// longer than the request.
fn answer_is_sound(request: &Message<'_>, request_bytes: usize) {
    let Start::Request { .. } = request.start() else {
        panic!("responses are not answered")
    };
    let source = "198.51.100.9:4000".parse().expect("an address");
    let mut out = Vec::new();
    ResponseBuilder::new(&mut out, request, Status::BAD_REQUEST, Some(source))
        .to_tag("t")
        .finish();
    assert!(
        out.len() <= 2 * request_bytes + 512,
        "{} from {request_bytes}",
        out.len()
    );
    if out.len() > usize::from(u16::MAX) {
        return;
    }
    let unbounded = Limits {
        line_bytes: usize::MAX,
        ..Limits::default()
    };
    let response = Message::parse_within(&out, &unbounded).expect("the answer can be parsed");
    assert_eq!(response.call_id().is_ok(), request.call_id().is_ok());
    assert_eq!(response.cseq(), request.cseq());
    if let Ok(via) = request.via() {
        assert_eq!(response.via().map(|via| via.branch()), Ok(via.branch()));
        assert_eq!(response.vias().count(), request.vias().count());
    }
}

/// A stream is divided into pieces that lie within it; each piece that is
/// called a message can be parsed.
fn frames_advance(bytes: &[u8]) {
    let limits = Limits::default();
    let mut rest = bytes;
    while let Ok(frame) = Frame::first(rest, &limits) {
        let length = match frame {
            Frame::Incomplete => return,
            Frame::KeepAlive { bytes, .. } => bytes,
            Frame::Message { bytes } => {
                Message::parse(&rest[..bytes]).expect("a framed message can be read");
                bytes
            }
        };
        assert!(length > 0);
        rest = &rest[length..];
    }
}

/// Pieces that arrive in parts are found as soon as possible, and are the same as
/// when they arrive as a whole.
fn frames_come_in_pieces(bytes: &[u8]) {
    let step = bytes.len() / PIECES_MAX + 1;
    let mut framer = StreamFramer::new(Limits::default());
    for end in (0..bytes.len()).step_by(step).chain([bytes.len()]) {
        let arrived = &bytes[..end];
        let found = framer.next(arrived);
        assert_eq!(found, Frame::first(arrived, &Limits::default()));
        if found != Ok(Frame::Incomplete) {
            return;
        }
    }
}

/// The most pieces that a stream is divided into. Bytes that look like STUN may
/// give very small pieces, and the oracle searches each prefix again.
const PIECES_MAX: usize = 64;

/// Reads single values from arbitrary text.
fn values_hold(text: &str) {
    let _ = (
        Address::parse(text),
        Via::parse(text),
        ParseError::Empty.status(),
    );
    let Some(Uri::Sip(uri)) = Uri::parse(text) else {
        return;
    };
    assert!(uri.matches(&uri), "{text}");
    let (mut once, mut twice) = (String::new(), String::new());
    uri.canonical_aor(&mut once);
    let canonical = Uri::parse(&once).expect("a canonical address is an address");
    canonical
        .as_sip()
        .expect("the scheme is the same")
        .canonical_aor(&mut twice);
    assert_eq!(once, twice);
}
