//! One account subscribes and never answers a NOTIFY. It uses up its share of
//! the memory of subscriptions, of kept answers, of waiting NOTIFYs, and of the
//! number of subscriptions.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place, ServerProcess,
        phone::{Phone, proven},
    },
};

/// A sixteenth of the default, so that a share is used up sooner. Requests in progress,
/// up to 1,024 of 2 KiB, need 2 MiB.
const LITTLE_MEMORY: &str = "[runtime]\nbuffer_budget_mib = 16\n";

/// As [`subscribe_many_to`], to the sender's own presence.
fn subscribe_many(server: &ServerProcess, count: u32, headers: &str) {
    subscribe_many_to(server, "presence", count, headers);
}

/// user1 at 127.0.0.2 sends `count` SUBSCRIBEs with these headers, and reads
/// nothing. The server has read all of them when this returns.
fn subscribe_many_to(server: &ServerProcess, package: &str, count: u32, headers: &str) {
    let package = format!("Event: {package}\r\n");
    let mut greedy = Phone::new(server, 2, "user1");
    let first = greedy.subscribe_request("user1", "");
    let challenge = greedy.challenge(&first);
    let mut pacer = Phone::new(server, 2, "user1");
    for count in 1..=count {
        let subscribe = greedy.subscribe_request("user1", headers);
        let subscribe = subscribe.replace("Event: presence\r\n", &package);
        greedy.send(&proven(&subscribe, &challenge, "user1", "secret", count));
        if count % 20 == 0 {
            let options = pacer.request("OPTIONS", "sip:example.com", "sip:example.com", "");
            pacer.challenge(&options);
        }
    }
}

#[test]
fn long_routes_are_refused_and_use_no_memory() {
    let place = Place::new();
    let server = place.server(&format!("{LITTLE_MEMORY}{ACCOUNTS}"));
    let route = format!(
        "Record-Route: <sip:{}.example.com;lr>\r\n",
        "p".repeat(2000)
    );
    subscribe_many(&server, 400, &route.repeat(25));
    bystander::is_served(&server, 3, "user2");
    server.wait_for("/watch/too_long", |count| count > 0);
    assert_eq!(server.stat("/traffic/no_buffer"), 0);
}

fn via(len: usize) -> String {
    let branch = "v".repeat(len);
    format!("Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{branch}\r\n")
}

#[test]
fn long_requests_in_progress_have_a_share() {
    let place = Place::new();
    let server = place.server(&format!("{LITTLE_MEMORY}{ACCOUNTS}"));
    subscribe_many(&server, 2000, &via(6000));
    bystander::is_served(&server, 3, "user2");
    let without_buffer = server.stat("/traffic/no_buffer");
    bystander::is_served(&server, 4, "user3");
    assert_eq!(server.stat("/traffic/no_buffer"), without_buffer);
}

#[test]
fn kept_answers_have_a_share() {
    let place = Place::new();
    let server = place.server(&format!("{LITTLE_MEMORY}{ACCOUNTS}"));
    subscribe_many(&server, 2600, &via(1200));
    bystander::is_served(&server, 3, "user2");
    server.wait_for("/traffic/refused_share", |count| count > 1000);
    assert_eq!(server.stat("/traffic/answers_not_kept"), 0);
    let kept = server.stat("/traffic/transaction_bytes");
    assert!(kept < 16 << 20 >> 2 >> 2, "{kept}");
    assert!(
        server.get("/healthz").starts_with("ok"),
        "only the greedy account is limited"
    );
}

/// Registers a long contact, which each NOTIFY of the package `reg` contains.
fn register_long_contact(server: &ServerProcess) {
    let mut phone = Phone::new(server, 2, "user1");
    let long = format!(
        "Contact: <sip:user1@127.0.0.2:9;x={}>\r\n",
        "x".repeat(3000)
    );
    let register = phone.request(
        "REGISTER",
        "sip:example.com",
        "sip:user1@example.com",
        &long,
    );
    let answer = phone.ask(&register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

#[test]
fn unanswered_notifies_have_a_share() {
    let place = Place::new();
    let server = place.server(&format!("{LITTLE_MEMORY}{ACCOUNTS}"));
    register_long_contact(&server);
    subscribe_many_to(&server, "reg", 1000, "");
    bystander::is_served(&server, 3, "user2");
    server.wait_for("/watch/over_share", |count| count > 0);
    let without_buffer = server.stat("/traffic/no_buffer");
    bystander::is_served(&server, 4, "user3");
    let (kept, waiting) = (
        server.stat("/traffic/transaction_bytes"),
        server.stat("/watch/unanswered_bytes"),
    );
    let share = 16 << 20 >> 2;
    assert!(kept < share / 4 && waiting < share / 4, "{kept}, {waiting}");
    // Requests in progress may use the last buffer for a moment. What is kept afterwards
    // must not.
    assert_eq!(server.stat("/traffic/no_buffer"), without_buffer);
    assert!(
        server.get("/healthz").starts_with("ok"),
        "only the greedy account is limited"
    );
}

#[test]
fn the_subscriptions_of_one_account_are_limited() {
    let place = Place::new();
    let server = place.server(&format!("[limits]\nwatchers = 2000\n{ACCOUNTS}"));
    subscribe_many(&server, 1300, "");
    server.wait_for("/traffic/refused_share", |count| count >= 270);
    assert_eq!(server.stat("/watch/watcher_count"), 1024);
    bystander::is_served(&server, 3, "user2");
    assert!(
        server.get("/healthz").starts_with("ok"),
        "only the greedy account is limited"
    );
}
