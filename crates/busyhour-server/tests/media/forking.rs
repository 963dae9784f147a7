//! Calls whose offers go to several telephones, and offers in an UPDATE, with a real rtpengine.

use crate::{
    Telephone, audio_of, call, is_heard,
    late_offer::LateOffer,
    server,
    support::{Place, phone::header, rtpengine::Rtpengine, wait_until},
    with_description,
};
use std::time::Duration;

/// Two telephones of one address ring, one of them with media (183); the other one answers. Each has a leg of its own.
#[test]
fn of_two_telephones_that_ring_the_one_that_answers_is_heard() {
    let (relay, place) = (Rtpengine::start(13_700..13_800), Place::new());
    let media = format!("relays = \"{}\"\nuse = \"always\"\n", relay.address);
    let server = server(&place, &media);
    let mut alice = Telephone::new(&server, 2, "alice");
    let [desk, pocket] = [3, 4].map(|host| Telephone::new(&server, host, "bob"));
    let invite = alice.invite("bob", &alice.description());
    alice.phone.send(&invite);
    let offered = [&desk, &pocket].map(|one| one.hear_until("INVITE "));
    let to_alice = offered.each_ref().map(|offer| audio_of(offer));
    for address in to_alice {
        assert_eq!(address.ip().to_string(), "127.0.0.1", "the relay's");
    }
    assert_eq!(relay.calls(), 1, "the legs are of one call");
    // An announcement from the desk, before anybody answers.
    desk.respond(
        &tagged(&offered[0], "desk"),
        "183 Session Progress",
        &desk.description(),
    );
    let early = alice.hear_until("SIP/2.0 183 ");
    assert!(early.contains("tag=desk"), "{early}");
    is_heard(&desk, to_alice[0], &alice, 1);
    // The other one answers.
    pocket.respond(
        &tagged(&offered[1], "pocket"),
        "200 OK",
        &pocket.description(),
    );
    let answer = alice.hear_until("SIP/2.0 200 ");
    assert!(answer.contains("tag=pocket"), "{answer}");
    let cseq = header(&answer, "CSeq").unwrap().split(' ').next().unwrap();
    alice
        .phone
        .send(&alice.within("ACK", cseq.parse().unwrap(), &answer));
    pocket.hear_until("ACK ");
    let cancel = desk.hear_until("CANCEL ");
    desk.respond(&cancel, "200 OK", "");
    desk.respond(&tagged(&offered[0], "desk"), "487 Request Terminated", "");
    desk.hear_until("ACK ");
    let to_pocket = audio_of(&answer);
    is_heard(&alice, to_pocket, &pocket, 2);
    is_heard(&pocket, to_alice[1], &alice, 3);
    alice.phone.send(&alice.within("BYE", 60, &answer));
    let bye = pocket.hear_until("BYE ");
    pocket.respond(&bye, "200 OK", "");
    alice.hear_until("SIP/2.0 200 ");
    wait_until(|| relay.calls() == 0, || "the call stays".to_owned());
    server.wait_for("/media/call_count", |count| count == 0);
}

/// The relay handles the offer for one telephone after the answer of the other one.
#[test]
fn the_telephone_that_answers_hears_the_caller_even_if_the_relay_is_late_with_the_other_one() {
    let (relay, place) = (Rtpengine::start(13_900..14_000), Place::new());
    let late = LateOffer::before(relay.address);
    let media = format!("relays = \"{}\"\nuse = \"always\"\n", late.address);
    let server = server(&place, &media);
    let mut alice = Telephone::new(&server, 2, "alice");
    let phones = [3, 4].map(|host| Telephone::new(&server, host, "bob"));
    let invite = alice.invite("bob", &alice.description());
    alice.phone.send(&invite);
    let (rings, offered) = first_that_is_called(&phones);
    rings.respond(&offered, "200 OK", &rings.description());
    let answer = alice.hear_until("SIP/2.0 200 ");
    let cseq = header(&answer, "CSeq").unwrap().split(' ').next().unwrap();
    let ack = alice.within("ACK", cseq.parse().unwrap(), &answer);
    alice.phone.send(&ack);
    rings.hear_until("ACK ");
    wait_until(|| late.is_replied(), || "no second offer came".to_owned());
    is_heard(&alice, audio_of(&answer), rings, 1);
    is_heard(rings, audio_of(&offered), &alice, 2);
}

fn first_that_is_called(phones: &[Telephone]) -> (&Telephone, String) {
    let (mut called, mut all) = (None, phones.iter().cycle());
    wait_until(
        || {
            let phone = all.next().expect("there are telephones");
            let heard = phone.phone.hear(Duration::from_millis(20));
            called = heard.map(|heard| (phone, heard));
            called.is_some()
        },
        || "nobody is called".to_owned(),
    );
    let (phone, heard) = called.expect("it was awaited");
    assert!(heard.starts_with("INVITE "), "{heard}");
    (phone, heard)
}

/// The caller changes his media by an UPDATE; then the callee does.
#[test]
fn an_update_of_either_side_moves_the_media_within_the_relay() {
    let (relay, place) = (Rtpengine::start(13_800..13_900), Place::new());
    let media = format!("relays = \"{}\"\nuse = \"always\"\n", relay.address);
    let server = server(&place, &media);
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let (offered, answer) = call(&mut alice, &bob);
    let (to_alice, to_bob) = (audio_of(&offered), audio_of(&answer));
    is_heard(&alice, to_bob, &bob, 1);
    is_heard(&bob, to_alice, &alice, 2);

    let held = format!("{}a=sendonly\r\n", alice.description());
    let update = with_description(&alice.within("UPDATE", 50, &answer), &held);
    alice.phone.send(&update);
    let offer = bob.hear_until("UPDATE ");
    assert_eq!(audio_of(&offer).ip().to_string(), "127.0.0.1");
    assert!(offer.contains("a=sendonly"), "{offer}");
    let listens = format!("{}a=recvonly\r\n", bob.description());
    bob.respond(&offer, "200 OK", &listens);
    let accepted = alice.hear_until("SIP/2.0 200 ");
    assert!(header(&accepted, "CSeq").unwrap().contains("UPDATE"));
    assert!(accepted.contains("a=recvonly"), "{accepted}");
    is_heard(&alice, audio_of(&accepted), &bob, 3);

    // From the other side, with the number that the INVITE had.
    let update = from_callee(&bob, &offered, &answer, "UPDATE");
    let update = with_description(&update, &bob.description());
    bob.phone.send(&update);
    let offer = alice.hear_until("UPDATE ");
    assert_eq!(audio_of(&offer).ip().to_string(), "127.0.0.1");
    alice.respond(&offer, "200 OK", &alice.description());
    let accepted = bob.hear_until("SIP/2.0 200 ");
    assert!(header(&accepted, "CSeq").unwrap().contains("UPDATE"));
    is_heard(&bob, audio_of(&accepted), &alice, 4);
    is_heard(&alice, audio_of(&offer), &bob, 5);
    assert_eq!(relay.calls(), 1);
}

/// The request as a telephone answers it that has this tag.
fn tagged(request: &str, tag: &str) -> String {
    let line = |line: &str| match line.starts_with("To:") {
        true => format!("{line};tag={tag}"),
        false => line.to_owned(),
    };
    let lines: Vec<String> = request.lines().map(line).collect();
    lines.join("\r\n")
}

/// A request within the dialog from the side that was called; its number is that of the INVITE.
fn from_callee(bob: &Telephone, offered: &str, answer: &str, method: &str) -> String {
    let of = |name| header(offered, name).unwrap();
    let routes: Vec<_> = offered
        .lines()
        .filter_map(|line| line.strip_prefix("Record-Route: "))
        .collect();
    let cseq = of("CSeq").split(' ').next().unwrap();
    format!(
        "{method} {} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKcallee{method};rport\r\n\
         Max-Forwards: 70\r\nRoute: {}\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\n\
         CSeq: {cseq} {method}\r\n{}Content-Length: 0\r\n\r\n",
        of("Contact").trim_matches(['<', '>']),
        bob.phone.address(),
        routes.join(", "),
        header(answer, "To").unwrap(),
        of("From"),
        of("Call-ID"),
        bob.contact(),
    )
}
