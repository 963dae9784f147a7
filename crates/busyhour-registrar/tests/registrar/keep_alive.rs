//! What a device that offers keep-alives is told (RFC 6223).

use super::request;
use busyhour::clock::{Instant, UnixTime};
use busyhour_registrar::{Bindings, Now, Refusal, Registration, write_answer, write_refusal};
use busyhour_sip::{Flow, Message, Transport};

/// The topmost Via of the answer to a registration whose Via has this parameter.
fn via_of_answer(parameter: &str, transport: Transport) -> String {
    let text = request("sip:example.com", "c", 1, "Contact: <sip:a@192.0.2.1:5062>");
    let text = text.replace(";rport", &format!("{parameter};rport"));
    let message = Message::parse(text.as_bytes()).unwrap();
    let flow = Flow {
        transport,
        ..Flow::udp(
            "192.0.2.9:5060".parse().unwrap(),
            "192.0.2.1:5062".parse().unwrap(),
        )
    };
    let registration = Registration::read(&message, "sip:alice@example.com", flow).unwrap();
    let at = Now {
        now: Instant::ZERO,
        unix: UnixTime::from_secs(1),
        steady: UnixTime::from_secs(1),
    };
    let mut answer = Vec::new();
    write_answer(
        &mut answer,
        &message,
        &registration,
        &Bindings::default(),
        at,
        ("t", None),
    );
    via_of(answer)
}

fn via_of(answer: Vec<u8>) -> String {
    let answer = String::from_utf8(answer).unwrap();
    let via = answer.lines().find_map(|line| line.strip_prefix("Via: "));
    via.unwrap().to_owned()
}

#[test]
fn a_device_that_offers_keep_alives_is_told_how_often() {
    for (transport, value) in [
        (Transport::Udp, ";keep=30;"),
        (Transport::Tcp, ";keep=120;"),
        (Transport::Wss, ";keep=120;"),
    ] {
        let via = via_of_answer(";KEEP", transport);
        assert!(
            via.contains(value) && via.matches("keep").count() == 1,
            "{via}"
        );
    }
}

#[test]
fn who_offers_none_or_has_a_value_is_told_nothing() {
    assert!(!via_of_answer("", Transport::Udp).contains("keep"));
    assert!(via_of_answer(";keep=7", Transport::Udp).contains(";keep=7;"));
    assert!(via_of_answer(";keeper", Transport::Udp).contains(";keeper;"));
}

/// Nothing is kept for a device that is refused.
#[test]
fn a_refusal_offers_nothing() {
    let text = request("sip:example.com", "c", 1, "").replace(";rport", ";keep;rport");
    let message = Message::parse(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let source = "192.0.2.1:5062".parse().unwrap();
    write_refusal(&mut answer, &message, &Refusal::NotFound, source, "t");
    let via = via_of(answer);
    assert!(via.contains(";keep;"), "{via}");
}
