//! A usual REGISTER is parsed, kept as offsets, checked and read without an
//! allocation, and a request is forwarded without one.

use busyhour_sip::{Contacts, HeaderName, Message, RequestEdit, ResponseEdit, SliceOutput};

const REGISTER: &[u8] = b"REGISTER sip:example.org SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bKnashds7;rport\r\n\
    Max-Forwards: 70\r\n\
    From: \"Alice\" <sip:alice@example.org>;tag=456248\r\n\
    To: \"Alice\" <sip:alice@example.org>\r\n\
    Call-ID: 843817637684230@998sdasdh09\r\n\
    CSeq: 1826 REGISTER\r\n\
    Contact: <sip:alice@192.0.2.7:5070;ob>;expires=600;+sip.instance=\"<urn:uuid:1>\";reg-id=1\r\n\
    Expires: 7200\r\n\
    Allow: INVITE, ACK, CANCEL, BYE, NOTIFY, REFER, MESSAGE, OPTIONS, INFO, SUBSCRIBE\r\n\
    Supported: path, outbound, gruu\r\n\
    User-Agent: Desk/1.0\r\n\
    Authorization: Digest username=\"alice\", realm=\"example.org\", nonce=\"84a4cc6f3082121f32b42a2187831a9e\",\r\n \
    uri=\"sip:example.org\", response=\"7587245234b3434cc3412213e5f113a5432\", algorithm=MD5, qop=auth, nc=00000001, cnonce=\"0a4f113b\"\r\n\
    Content-Length: 0\r\n\r\n";

/// Reads everything that a registrar needs from a REGISTER.
fn read() -> u32 {
    let index = Message::parse(REGISTER).expect("sound").index().clone();
    let request = index.message(REGISTER);
    request.validate().expect("sound");
    let via = request.via().expect("sound");
    let Ok(Contacts::List(contacts)) = request.contacts() else {
        panic!("a list")
    };
    let expires = contacts
        .flatten()
        .filter_map(|contact| contact.expires())
        .sum::<u32>();
    let digest = request
        .credentials(HeaderName::Authorization)
        .flatten()
        .next()
        .expect("there");
    let found = via.branch().is_some()
        && digest.nonce_count() == Some(1)
        && request.from().expect("sound").tag().is_some();
    assert!(found && !request.has_token(HeaderName::Require, "path"));
    expires
        + request.cseq().expect("sound").number
        + request.expires().expect("sound").expect("there")
}

#[test]
fn a_register_needs_no_allocation() {
    let counted = allocation_counter::measure(|| assert_eq!(read(), 600 + 1826 + 7200));
    assert_eq!(counted.count_total, 0);
}

#[test]
fn forwarding_needs_no_allocation() {
    let edit = RequestEdit {
        uri: "sip:alice@192.0.2.8",
        via: "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK2",
        source: "192.0.2.7:5070".parse().ok(),
        max_forwards: 69,
        record_route: "<sip:192.0.2.1;lr>",
        ..RequestEdit::default()
    };
    let mut room = [0; 2_048];
    let counted = allocation_counter::measure(|| {
        let request = Message::parse(REGISTER).expect("sound");
        let mut out = SliceOutput::new(&mut room);
        request.forward_request(&edit, &mut out);
        let written = out.written().expect("it fits");
        let forwarded = Message::parse(&room[..written]).expect("sound");
        let mut back = [0; 2_048];
        forwarded.forward_response(&ResponseEdit::default(), &mut SliceOutput::new(&mut back));
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn the_counter_counts_allocations() {
    let counted = allocation_counter::measure(|| assert_eq!(vec![1, 2, 3].len(), 3));
    assert_eq!(counted.count_total, 1);
}
