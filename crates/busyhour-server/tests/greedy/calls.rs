//! One account calls and calls, and nobody answers. It uses up its share of the requests
//! between devices, and of the memory of their messages.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place, ServerProcess,
        phone::{Phone, proven},
    },
};
use std::time::{Duration, Instant};

/// A sixteenth of the default, so that a share is used up sooner.
const LITTLE_MEMORY: &str = "[runtime]\nbuffer_budget_mib = 16\n";
/// The least that there may be, so that a share is used up sooner: a source has 1,024 of
/// the 4,096 requests that belong to them.
const FEW_CALLS: &str = "[limits]\ncalls = 1024\n";

/// user1 at 127.0.0.2, which never answers, calls itself `count` times with these headers.
/// The server has read all of the INVITEs when this returns.
fn call_many(server: &ServerProcess, count: u32, headers: &str) {
    let mut greedy = Phone::new(server, 2, "user1");
    let register = greedy.register_request();
    let answer = greedy.ask(&register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let first = invite(&mut greedy, "");
    let challenge = greedy.challenge(&first);
    let mut pacer = Phone::new(server, 2, "user1");
    for count in 1..=count {
        let invite = invite(&mut greedy, headers);
        greedy.send(&proven(&invite, &challenge, "user1", "secret", count));
        if count % 20 == 0 {
            let options = pacer.request("OPTIONS", "sip:example.com", "sip:example.com", "");
            pacer.challenge(&options);
        }
    }
}

/// The INVITE of a phone for itself.
fn invite(phone: &mut Phone, headers: &str) -> String {
    let (user, address) = (phone.user.clone(), phone.address());
    let aor = format!("sip:{user}@example.com");
    let headers = format!("Contact: <sip:{user}@{address}>\r\n{headers}");
    phone.request("INVITE", &aor, &aor, &headers)
}

/// Another device registers and is called within 2 s.
#[track_caller]
fn is_called(server: &ServerProcess, host: u8, user: &str) {
    bystander::is_served(server, host, user);
    let mut phone = Phone::new(server, host, user);
    let register = phone.register_request();
    let answer = phone.ask(&register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let first = invite(&mut phone, "");
    let challenge = phone.challenge(&first);
    phone.send(&proven(&first, &challenge, user, "secret", 1));
    let until = Instant::now() + Duration::from_secs(2);
    let mut heard = Vec::new();
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let Some(message) = phone.hear(left) else {
            break;
        };
        if message.starts_with("INVITE ") {
            return;
        }
        heard.push(message);
    }
    panic!("{user} is not called: {heard:#?}\n{}", server.stats());
}

#[test]
fn messages_of_calls_have_a_share() {
    let place = Place::new();
    let server = place.server(&format!("{LITTLE_MEMORY}{ACCOUNTS}"));
    let long = format!("Subject: {}\r\n", "s".repeat(6000));
    call_many(&server, 400, &long);
    server.wait_for("/traffic/refused_share", |count| count > 300);
    is_called(&server, 3, "user2");
    assert_eq!(server.stat("/traffic/no_buffer"), 0);
    server.has_room_for_all();
}

#[test]
fn requests_between_devices_have_a_share() {
    let place = Place::new();
    let server = place.server(&format!("{FEW_CALLS}{ACCOUNTS}"));
    call_many(&server, 1500, "");
    server.wait_for("/traffic/refused_share", |count| count > 400);
    is_called(&server, 3, "user2");
    server.has_room_for_all();
}

/// user1 is a number for emergencies here.
#[test]
fn calls_for_help_have_a_share() {
    let place = Place::new();
    let emergency = "[calls]\nemergency = \"user1\"\n";
    let server = place.server(&format!("{LITTLE_MEMORY}{emergency}{ACCOUNTS}"));
    let long = format!("Subject: {}\r\n", "s".repeat(6000));
    call_many(&server, 400, &long);
    server.wait_for("/traffic/refused_share", |count| count > 300);
    is_called(&server, 3, "user2");
    assert_eq!(server.stat("/traffic/no_buffer"), 0);
    server.has_room_for_all();
}
