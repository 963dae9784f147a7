//! Nodes that set several things at the same time, each of which is right by what its node knows: all
//! end with what the database has.

use crate::{cluster::Site, support::phone::Phone, wait_until};
use std::{
    thread,
    time::{Duration, Instant},
};

const LISTS: &str = "[limits]\nlists = 2\n";

/// Each of two nodes sets a list with the other's in it.
#[test]
fn lists_that_contain_each_other_are_the_same_at_all_nodes() {
    let site = Site::with(LISTS);
    let nodes = [site.node("alpha"), site.node("beta")];
    let set = |list: &str, entry: &str| {
        let body = format!("{{\"entries\":[\"{entry}\",\"carl\"]}}");
        (format!("/api/v1/lists/{list}"), body)
    };
    let (path, body) = set("a", "b");
    let answer = nodes[0].ask("PUT", &path, &body);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    // Another node cannot know it yet.
    let row = r#"INSERT INTO setting VALUES ('list', 'b', '{"entries":["a"]}')"#;
    site.sql(row);
    for node in &nodes {
        for (list, entry) in [("a", "sip:b@"), ("b", "sip:a@")] {
            let shown = || node.ask("GET", &format!("/api/v1/lists/{list}"), "");
            wait_until(|| shown().contains(entry), shown);
        }
        node.0.wait_for("/list/loops", |loops| loops == 2);
        assert!(node.0.log().contains("list_contains_itself"));
    }
    // Whoever reads it at its start has the same.
    let late = site.node("gamma");
    for list in ["a", "b"] {
        let shown = late.ask("GET", &format!("/api/v1/lists/{list}"), "");
        assert!(shown.starts_with("HTTP/1.1 200 "), "{shown}");
    }
    // A request does not make it worse, and one that mends it is taken everywhere.
    let (path, body) = set("a", "b");
    let answer = nodes[1].ask("PUT", &path, &body);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let (path, body) = set("b", "ada");
    let answer = nodes[1].ask("PUT", &path, &body);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    for node in nodes.iter().chain([&late]) {
        let shown = || node.ask("GET", "/api/v1/lists/b", "");
        wait_until(|| shown().contains("sip:ada@"), shown);
    }
}

/// What has no room is tried again, and is there when it has.
#[test]
fn what_a_node_has_no_room_for_is_taken_when_it_has() {
    let site = Site::with(LISTS);
    let nodes = [site.node("alpha"), site.node("beta")];
    let has = |number: usize, list: &str| {
        let answer = nodes[number].ask("GET", &format!("/api/v1/lists/{list}"), "");
        answer.starts_with("HTTP/1.1 200 ")
    };
    // As two nodes with the last places to give may do together.
    let rows: Vec<String> = (1..=5)
        .map(|number| format!("('list', 'l{number}', '{{\"entries\":[\"ada\"]}}')"))
        .collect();
    site.sql(&format!("INSERT INTO setting VALUES {}", rows.join(",")));
    for (number, node) in nodes.iter().enumerate() {
        node.0
            .wait_for("/store/settings_refused", |refused| refused == 1);
        assert_eq!(node.0.stat("/list/list_count"), 4);
        node.0.wait_for_log("setting_of_another_node_has_no_effect");
        let answer = node.ask("PUT", "/api/v1/lists/more", r#"{"entries":["ada"]}"#);
        assert!(answer.starts_with("HTTP/1.1 409 "), "{number}: {answer}");
    }
    let there = (1..=5).map(|number| format!("l{number}"));
    let there: Vec<String> = there.filter(|list| has(0, list)).collect();
    site.sql(&format!("DELETE FROM setting WHERE name = '{}'", there[0]));
    for node in &nodes {
        node.0
            .wait_for("/store/settings_refused", |refused| refused == 0);
        let all = || node.ask("GET", "/api/v1/lists", "");
        let is_same = |list: &String| all().contains(&format!("\"{list}\"")) != (*list == there[0]);
        let lists: Vec<String> = (1..=5).map(|number| format!("l{number}")).collect();
        wait_until(|| lists.iter().all(is_same), all);
    }
}

/// The node that has the address of a list knows of it before their SUBSCRIBE, after that, or while it is stored.
#[test]
fn panels_that_have_just_subscribed_are_told_that_their_address_is_a_list() {
    let site = Site::new();
    let nodes = [site.node("alpha"), site.node("beta")];
    for node in &nodes {
        node.wait_until_it_serves(128);
    }
    for round in 0..8_usize {
        let list = format!("panel{round}");
        let mut panels = [0, 1].map(|number| Phone::new(&nodes[number].0, 9, "watcher"));
        thread::scope(|scope| {
            for panel in &mut panels {
                let request = panel.subscribe_request(&list, LISTS_TOO);
                scope.spawn(move || {
                    let answer = panel.ask(&request);
                    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
                });
            }
            thread::sleep(Duration::from_millis(round as u64 * 5));
            let path = format!("/api/v1/lists/{list}");
            let answer = nodes[round % 2].ask("PUT", &path, r#"{"entries":["ada"]}"#);
            assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
        });
        for panel in &mut panels {
            is_told_of_ada(panel, &list);
        }
    }
}

fn is_told_of_ada(panel: &mut Phone, list: &str) {
    loop {
        let notify = panel.notified_until(Instant::now() + Duration::from_secs(20));
        let notify = notify.unwrap_or_else(|| panic!("nothing is told of {list}"));
        if notify.contains("sip:ada@example.com") {
            return;
        }
        if notify.contains("\r\nSubscription-State: terminated;reason=deactivated\r\n") {
            let request = panel.subscribe_request(list, LISTS_TOO);
            let answer = panel.ask(&request);
            assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        }
    }
}

const LISTS_TOO: &str = "Supported: eventlist\r\n\
    Accept: application/pidf+xml, application/rlmi+xml, multipart/related\r\n";
