//! The kept answers to requests: `limits.transactions`.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place,
        phone::{Phone, proven},
    },
};

#[test]
fn many_requests_of_one_source_drop_no_kept_answer_of_another() {
    let place = Place::new();
    let server = place.server(&format!(
        "[limits]\ntransactions = {TRANSACTIONS}\n{ACCOUNTS}"
    ));
    let mut other = Phone::new(&server, 3, "user2");
    let register = other.register_request();
    let challenge = other.challenge(&register);
    let register = proven(&register, &challenge, "user2", "secret", 1);
    let answer = other.challenge(&register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let mut greedy = Phone::new(&server, 2, "user1");
    let first = greedy.register_request();
    let challenge = greedy.challenge(&first);
    for count in 1..MANY {
        let register = greedy.register_request();
        let register = proven(&register, &challenge, "user1", "secret", count);
        match count % 20 {
            0 => drop(greedy.challenge(&register)),
            _ => greedy.send(&register),
        }
    }
    assert!(server.stat("/traffic/answers_not_kept") > 0);
    assert_eq!(server.stat("/traffic/transactions_evicted"), 0);
    let answered = server.stat("/traffic/retransmissions_answered");
    assert_eq!(other.challenge(&register), answer);
    server.wait_for("/traffic/retransmissions_answered", |now| now > answered);
    bystander::is_served(&server, 4, "user3");
    assert!(
        server.get("/healthz").starts_with("ok"),
        "only the greedy client is limited"
    );
}

/// A refusal of a call is kept, since the same INVITE might ring a moment later.
#[test]
fn many_refused_calls_of_one_source_drop_no_kept_refusal_of_another() {
    let place = Place::new();
    let server = place.server(&format!(
        "[limits]\ntransactions = {TRANSACTIONS}\n{ACCOUNTS}"
    ));
    let mut other = Phone::new(&server, 3, "user2");
    let invite = call_to_nobody(&mut other);
    let challenge = other.challenge(&invite);
    let invite = proven(
        &call_to_nobody(&mut other),
        &challenge,
        "user2",
        "secret",
        1,
    );
    let answer = other.challenge(&invite);
    assert!(answer.starts_with("SIP/2.0 480 "), "{answer}");
    let mut greedy = Phone::new(&server, 2, "user1");
    let first = call_to_nobody(&mut greedy);
    let challenge = greedy.challenge(&first);
    for count in 1..MANY {
        let invite = call_to_nobody(&mut greedy);
        let invite = proven(&invite, &challenge, "user1", "secret", count);
        match count % 20 {
            0 => drop(greedy.challenge(&invite)),
            _ => greedy.send(&invite),
        }
    }
    server.wait_for("/traffic/answers_not_kept", |count| count > 100);
    assert_eq!(server.stat("/traffic/transactions_evicted"), 0);
    // Whom it called has registered meanwhile, and must not ring.
    let mut called = Phone::new(&server, 4, "user9");
    let register = called.register_request();
    let registered = called.ask(&register);
    assert!(registered.starts_with("SIP/2.0 200 "), "{registered}");
    let answered = server.stat("/traffic/retransmissions_answered");
    assert_eq!(other.challenge(&invite), answer);
    server.wait_for("/traffic/retransmissions_answered", |now| now > answered);
    bystander::is_served(&server, 5, "user3");
    server.has_room_for_all();
}

/// An INVITE for somebody who is not registered.
fn call_to_nobody(phone: &mut Phone) -> String {
    let contact = format!("Contact: <sip:{}@{}>\r\n", phone.user, phone.address());
    let called = "sip:user9@example.com";
    phone.request("INVITE", called, called, &contact)
}

/// A client sends a SUBSCRIBE again until it is answered. If there is no room to
/// keep the answer, the subscription is refused.
#[test]
fn a_repeated_request_has_one_effect_however_much_its_source_has_sent() {
    let place = Place::new();
    let open = "[sip]\nauth = \"open\"\n[runtime]\nbuffer_budget_mib = 16\n";
    let server = place.server(open);
    let mut greedy = Phone::new(&server, 2, "user1");
    for _ in 0..COUNT {
        let subscribe = greedy.subscribe_request("user1", "");
        // It is sent once more after its answer, as if that was lost.
        greedy.challenge(&subscribe);
        greedy.send(&subscribe);
    }
    bystander::is_served(&server, 3, "user2");
    server.wait_for("/traffic/refused_share", |count| count > 0);
    let created = server.stat("/watch/created");
    assert!(created <= COUNT, "{created}");
}

const COUNT: u64 = 1200;
/// So few that more requests than that come while an answer is kept, for 32 s, on a machine that is
/// busy with other things.
const TRANSACTIONS: u64 = 400;
const MANY: u32 = 1000;
