//! RFC 5118: IPv6 in SIP, with the situation of each section.

use busyhour_sip::{Contacts, Host, Message, ParseError, Uri};

use crate::message::wire;

fn register(uri: &str, via: &str) -> Vec<u8> {
    wire(&format!(
        "REGISTER {uri} SIP/2.0\nTo: sip:user@example.com\nFrom: sip:user@example.com;tag=81x2\nVia: {via}\n\
         Call-ID: SSG9559905523997077@hlau_4100\nMax-Forwards: 70\nContact: \"Caller\" <sip:caller@[2001:db8::1]>\n\
         CSeq: 98176 REGISTER\nContent-Length: 0"
    ))
}

const VIA: &str = "SIP/2.0/UDP [2001:db8::9:1];branch=z9hG4bKas3-111";

fn host_of(uri: &str) -> Result<(String, Option<u16>), ParseError> {
    let bytes = register(uri, VIA);
    let message = Message::parse(&bytes)?;
    message.validate()?;
    match message.request_uri()? {
        Uri::Sip(uri) => Ok((uri.host.to_string(), uri.port)),
        Uri::Other { .. } => panic!("a SIP URI"),
    }
}

#[test]
fn section_4_1_a_reference_in_brackets() {
    assert_eq!(
        host_of("sip:[2001:db8::10]"),
        Ok(("[2001:db8::10]".into(), None))
    );
    let bytes = register("sip:[2001:db8::10]", VIA);
    let message = Message::parse(&bytes).expect("sound");
    assert!(matches!(message.via().map(|via| via.host), Ok(Host::V6(_))));
    let Ok(Contacts::List(mut contacts)) = message.contacts() else {
        panic!("a list")
    };
    let contact = contacts.next().expect("one").expect("sound");
    assert_eq!(contact.address.uri_text, "sip:caller@[2001:db8::1]");
}

#[test]
fn section_4_2_without_brackets_is_refused() {
    assert_eq!(host_of("sip:2001:db8::10"), Err(ParseError::RequestUri));
}

#[test]
fn sections_4_3_and_4_4_the_port_is_outside_of_the_brackets() {
    assert_eq!(
        host_of("sip:[2001:db8::10:5070]"),
        Ok(("[2001:db8::10:5070]".into(), None))
    );
    assert_eq!(
        host_of("sip:[2001:db8::10]:5070"),
        Ok(("[2001:db8::10]".into(), Some(5070)))
    );
}

#[test]
fn section_4_5_received_with_and_without_brackets() {
    for received in ["[2001:db8::9:255]", "2001:db8::9:255"] {
        let bytes = register("sip:example.com", &format!("{VIA};received={received}"));
        let message = Message::parse(&bytes).expect("sound");
        assert_eq!(
            message.via().map(|via| via.received()),
            Ok("2001:db8::9:255".parse().ok())
        );
    }
}

#[test]
fn section_4_8_an_address_mapped_into_ipv6() {
    assert_eq!(
        host_of("sip:[::ffff:192.0.2.10]"),
        Ok(("[::ffff:192.0.2.10]".into(), None))
    );
}

/// The grammar of RFC 3261 allows three colons by mistake; RFC 5954 corrects
/// it.
#[test]
fn section_4_9_three_colons_are_refused() {
    assert_eq!(
        host_of("sip:[2001:db8:::192.0.2.1]"),
        Err(ParseError::RequestUri)
    );
}
