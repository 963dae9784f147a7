//! Datagrams to addresses that have not shown that they receive them: answers to
//! requests without credentials, and NOTIFYs that are not answered.

use crate::{
    ACCOUNTS, bystander,
    support::{Place, phone::Phone},
};
use std::time::{Duration, Instant};

#[test]
fn answers_to_a_source_without_credentials_are_limited_in_rate() {
    let place = Place::new();
    let server = place.server(&format!("[limits]\nunproven_per_second = 20\n{ACCOUNTS}"));
    let begun = Instant::now();
    let mut greedy = Phone::new(&server, 2, "user1");
    let mut pacer = Phone::new(&server, 4, "user4");
    for count in 1..=2000 {
        let register = greedy.register_request();
        greedy.send(&register);
        if count % 100 == 0 {
            // A request with credentials is answered; the server has read all
            // earlier requests by then.
            let register = pacer.register_request();
            pacer.ask(&register);
        }
    }
    server.wait_for("/traffic/unproven_not_answered", |count| count > 1000);
    let challenged = server.stat("/registrar/challenged");
    let rest = begun.elapsed().as_secs() * 20 + 20;
    // This includes the requests that test the rate.
    assert!(challenged <= 200 + 20 + rest, "{challenged} of {rest}");
    bystander::is_served(&server, 3, "user2");
    // A phone of that source can still register, since it retransmits its request.
    let register = greedy.register_request();
    let answer = greedy.ask(&register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

#[test]
fn a_phone_with_credentials_registers_as_fast_as_it_can() {
    let place = Place::new();
    let server = place.server(&format!("[limits]\nunproven_per_second = 1\n{ACCOUNTS}"));
    let mut phone = Phone::new(&server, 2, "user1");
    for _ in 0..100 {
        let register = phone.register_request();
        let answer = phone.ask(&register);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    assert_eq!(server.stat("/traffic/unproven_not_answered"), 0);
}

/// The phones behind a session border controller keep their NAT open with OPTIONS, and
/// none of them sends credentials for hours.
#[test]
fn options_that_are_as_long_as_their_answer_are_all_answered() {
    let place = Place::new();
    let server = place.server(&format!("[limits]\nunproven_per_second = 1\n{ACCOUNTS}"));
    let mut phone = Phone::new(&server, 2, "user1");
    let usual = "Max-Forwards: 70\r\nContact: <sip:user1@192.0.2.7:5060>\r\n\
        Accept: application/sdp\r\nUser-Agent: a telephone\r\n";
    let long = format!("{usual}Supported: {}\r\n", "timer, ".repeat(40));
    for headers in [usual, &long].repeat(50) {
        let options = phone.request("OPTIONS", "sip:example.com", "sip:example.com", headers);
        phone.send(&options);
        let answer = phone.hear(WITHIN).expect("the first request is answered");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        let is_long = headers.len() > usual.len();
        assert!(!is_long || answer.contains("Allow: REGISTER"), "{answer}");
    }
    assert_eq!(server.stat("/traffic/unproven_not_answered"), 0);
    // An answer that is longer than its request is not sent: an attacker could use it
    // to flood others.
    for _ in 0..100 {
        let options = phone.request("OPTIONS", "sip:a.b", "sip:a.b", "");
        phone.send(
            &options
                .replace("Content-Length: 0", "l:0")
                .replace(";rport", ""),
        );
    }
    server.wait_for("/traffic/unproven_not_answered", |count| count > 50);
}

/// With `open` no request has credentials, so its source address may be forged.
#[test]
fn notifies_to_a_watcher_that_answers_none_are_limited_in_rate() {
    let place = Place::new();
    let open = "[sip]\nauth = \"open\"\ndomains = \"example.com\"\n";
    let server = place.server(&format!("{open}[limits]\nunproven_per_second = 1\n"));
    let begun = Instant::now();
    let mut greedy = Phone::new(&server, 2, "user1");
    for _ in 0..100 {
        let subscribe = greedy.subscribe_request("user1", "");
        greedy.send(&subscribe);
    }
    server.wait_for("/watch/created", |count| count == 100);
    server.wait_for("/watch/unproven", |count| count > 0);
    let sent = server.stat("/watch/notified") + server.stat("/watch/retransmitted");
    let rest = begun.elapsed().as_secs() + 1;
    assert!(sent <= 10 + rest, "{sent} of {rest}");
    bystander::is_served(&server, 3, "user2");
    // A watcher that answers gets its NOTIFYs: each answer allows more than one
    // further NOTIFY.
    let deadline = begun + std::time::Duration::from_secs(60);
    let mut told = 0;
    while told < 100 && greedy.notified_until(deadline).is_some() {
        told += 1;
    }
    assert_eq!(told, 100);
}

const WITHIN: Duration = Duration::from_secs(60);
