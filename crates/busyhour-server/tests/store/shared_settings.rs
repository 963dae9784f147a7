//! Nodes that set several things at the same time, each of which is right by what its node knows: all
//! end with what the database has.

use crate::{cluster::Site, wait_until};

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
