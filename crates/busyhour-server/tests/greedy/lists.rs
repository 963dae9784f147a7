//! One account subscribes to a list as often as it can.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place,
        phone::{Phone, proven},
    },
};
use std::time::{Duration, Instant};

#[test]
fn the_watched_resources_of_one_account_are_limited() {
    let place = Place::new();
    let entries: Vec<_> = (1..=20).map(|number| format!("\"user{number}\"")).collect();
    let entries = entries.join(", ");
    let list = format!("[[list]]\nname = \"panel\"\nentries = [{entries}]\n");
    let server = place.server(&format!("[limits]\nlist_lamps = 2000\n{list}{ACCOUNTS}"));
    let mut greedy = Phone::new(&server, 2, "user1");
    let first = greedy.subscribe_request("panel", LISTS);
    let challenge = greedy.challenge(&first);
    for count in 1..=80 {
        let subscribe = greedy.subscribe_request("panel", LISTS);
        greedy.send(&proven(&subscribe, &challenge, "user1", "secret", count));
    }
    // Half of the bound is the least that anybody may have: 1,024 of 2,000.
    server.wait_for("/traffic/refused_share", |count| count >= 29);
    assert_eq!(server.stat("/list/lamp_count"), 1020);
    // What a list shows is followed behind the answer.
    server.wait_for("/list/resource_count", |count| count == 20);
    bystander::is_served(&server, 3, "user2");
    let mut other = Phone::new(&server, 4, "user3");
    let subscribe = other.subscribe_request("panel", LISTS);
    let answer = other.ask(&subscribe);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let notify = other.notified_until(Instant::now() + Duration::from_secs(60));
    assert!(notify.expect("a NOTIFY").contains("fullState=\"true\""));
    assert!(
        server.get("/healthz").starts_with("ok"),
        "only the greedy account is limited"
    );
}

const LISTS: &str = "Supported: eventlist\r\n";
