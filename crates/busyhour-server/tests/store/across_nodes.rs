//! The HTTP interface of a cluster: any node answers for all of them.

use crate::{
    cluster::{Node, Site, USERS, aors},
    support::{
        busyhour,
        phone::{Phone, proven},
    },
    wait_until,
};
use serde_json::Value;
use std::collections::BTreeSet;

impl Node {
    /// The status of an answer, and its body.
    fn asked(&self, method: &str, path: &str) -> (u16, Value) {
        let answer = self.ask(method, path, "");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        let body = serde_json::from_str(body).unwrap_or(Value::Null);
        (status.expect("a status"), body)
    }

    /// What `busyhour show` says on standard error.
    fn shown(&self, what: &str) -> String {
        let mut command = busyhour();
        command.args(["show", what, "--http", &self.0.http.to_string()]);
        let output = command.output().expect("it runs");
        String::from_utf8(output.stderr).expect("text")
    }

    fn page(&self, path: &str) -> Value {
        let (status, page) = self.asked("GET", path);
        assert_eq!(status, 200, "{path}: {page}");
        page
    }
}

fn texts(page: &Value, list: &str, field: &str) -> Vec<String> {
    let entries = page[list].as_array().expect("a list").iter();
    let texts = entries.map(|it| it[field].as_str().expect("a text").to_owned());
    texts.collect()
}

fn registered(nodes: &[Node; 3]) {
    for (number, user) in USERS.iter().enumerate() {
        let answer = nodes[number % 3].register(user);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
}

/// Whatever node is asked for a device, its owner answers, and does what is to be done.
#[test]
fn any_node_answers_for_each_device() {
    let site = Site::new();
    let nodes = site.three_nodes();
    registered(&nodes);
    let of_beta = nodes[1].users();
    for node in &nodes {
        for user in USERS {
            let shown = node.page(&format!("/api/v1/bindings/{user}"));
            assert_eq!(
                texts(&shown, "bindings", "aor"),
                [format!("sip:{user}@example.com")]
            );
            let shown = node.page(&format!("/api/v1/bindings?user={user}"));
            assert_eq!(
                texts(&shown, "bindings", "aor"),
                [format!("sip:{user}@example.com")]
            );
            let shown = node.page(&format!("/api/v1/bindings?user={user}@example.com"));
            assert_eq!(
                texts(&shown, "bindings", "aor"),
                [format!("sip:{user}@example.com")]
            );
            let shown = node.page(&format!("/api/v1/devices/{user}"));
            assert_eq!(shown["state"], "registered");
        }
        assert_eq!(node.asked("GET", "/api/v1/devices/nobody").0, 404);
        assert_eq!(node.asked("GET", "/api/v1/bindings/nobody").0, 404);
        assert_eq!(node.asked("GET", "/api/v1/bindings?user=ada&x=1").0, 400);
    }
    let [alpha, beta, gamma] = &nodes;
    let user = of_beta.first().expect("it has some");
    let (status, removed) = alpha.asked("DELETE", &format!("/api/v1/bindings/{user}"));
    assert_eq!((status, &removed["removed"]), (200, &Value::from(1)));
    assert!(!beta.users().contains(user));
    for node in [alpha, gamma] {
        let (status, _) = node.asked("DELETE", &format!("/api/v1/bindings/{user}"));
        assert_eq!(status, 404, "what its owner says");
    }
    assert!(alpha.0.stat("/cluster/http_asked") > 0);
    assert!(beta.0.stat("/cluster/http_answered") > 0);
    assert_eq!(alpha.0.stat("/cluster/http_unanswered"), 0);
}

/// A list is one of the whole cluster, page by page; a node that is silent is named.
#[test]
fn a_list_is_of_the_whole_cluster() {
    let site = Site::new();
    let nodes = site.three_nodes();
    registered(&nodes);
    let [alpha, beta, gamma] = &nodes;
    for (list, sort) in [
        ("bindings", ""),
        ("devices", ""),
        ("devices", "&sort=-contacts"),
    ] {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = alpha.page(&format!("/api/v1/{list}?limit=5{sort}{after}"));
            found.extend(texts(&page, list, "aor"));
            if list == "devices" {
                assert_eq!(page["match_count"], USERS.len());
            }
            assert_eq!(page.get("unanswered_nodes"), None);
            let Some(next) = page["next"].as_str() else {
                break;
            };
            after = format!("&after={}", next.replace('|', "%7C"));
        }
        let mut expected: Vec<_> = aors(&USERS).into_iter().collect();
        if !sort.is_empty() {
            expected.reverse();
        }
        assert_eq!(found, expected, "{list}{sort}");
    }
    let page = gamma.page("/api/v1/devices");
    let named: BTreeSet<_> = texts(&page, "devices", "node").into_iter().collect();
    assert_eq!(named.len(), 3, "{named:?}");
    assert_eq!(gamma.asked("GET", "/api/v1/devices?node=nobody").0, 404);
    let page = gamma.page("/api/v1/devices?node=beta");
    assert_eq!(
        texts(&page, "devices", "aor")
            .into_iter()
            .collect::<BTreeSet<_>>(),
        beta.users()
    );
    // Subscriptions and failures, each at the node that has it.
    for node in &nodes {
        let mut watcher = Phone::new(&node.0, 11, "watcher");
        let request = watcher.subscribe_request("ada", "");
        assert!(watcher.ask(&request).starts_with("SIP/2.0 200 "));
    }
    for node in &nodes {
        let page = node.page("/api/v1/watchers");
        assert_eq!(page["match_count"], 3, "{page}");
    }
    beta.0.stand_still();
    let silent = |page: &Value| page["unanswered_nodes"] == serde_json::json!(["beta"]);
    let page = alpha.page("/api/v1/calls");
    assert!(silent(&page), "{page}");
    let page = gamma.page("/api/v1/failures");
    // By now it may be known that its life is over.
    assert!(
        silent(&page) || page.get("unanswered_nodes").is_none(),
        "{page}"
    );
    beta.0.go_on();
}

/// Whoever asks for a list learns what is missing in it, by HTTP and at the command line.
#[test]
fn a_node_that_stands_still_is_named_in_every_list() {
    // Long enough for all lists before the lease of beta is over.
    let site = Site::with("[cluster]\nlease_seconds = 20\n");
    let nodes = site.three_nodes();
    registered(&nodes);
    let [alpha, beta, _] = &nodes;
    let of_beta = beta.users();
    beta.0.stand_still();
    let lists = ["bindings", "devices", "watchers", "calls", "failures"];
    std::thread::scope(|scope| {
        let pages = lists.map(|list| {
            (
                list,
                scope.spawn(move || alpha.page(&format!("/api/v1/{list}"))),
            )
        });
        let shown = scope.spawn(|| alpha.shown("calls"));
        for (list, page) in pages {
            let page = page.join().expect("a page");
            assert_eq!(
                page["unanswered_nodes"],
                serde_json::json!(["beta"]),
                "{list}: {page}"
            );
            if let "bindings" | "devices" = list {
                // What is there is of the other two.
                let found = texts(&page, list, "aor").into_iter().collect();
                assert!(of_beta.is_disjoint(&found), "{list}: {page}");
            }
        }
        let shown = shown.join().expect("it ran");
        let told = "node beta of the cluster gives no answer: what it has is missing";
        assert!(shown.contains(told), "{shown}");
    });
    beta.0.go_on();
}

/// An account is of all nodes: who has the device ends its registration.
#[test]
fn an_account_that_is_disabled_anywhere_ends_the_registration_at_its_owner() {
    let site = Site::with_accounts();
    let nodes = site.three_nodes();
    let [alpha, beta, gamma] = &nodes;
    let account = |user: &str| format!("/api/v1/accounts/{user}");
    for user in USERS {
        let answer = alpha.ask("PUT", &account(user), r#"{"password":"first"}"#);
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }
    let answer = |user: &str, password: &str| {
        let mut phone = Phone::new(&gamma.0, 9, user);
        let request = phone.register_request();
        let challenge = phone.challenge(&request);
        let request = phone.register_request();
        phone.ask(&proven(&request, &challenge, user, password, 1))
    };
    for user in USERS {
        wait_until(
            || answer(user, "first").starts_with("SIP/2.0 200 "),
            || answer(user, "first"),
        );
    }
    for user in USERS {
        let disabled = beta.ask("PATCH", &account(user), r#"{"disabled":true}"#);
        assert!(disabled.starts_with("HTTP/1.1 200 "), "{disabled}");
    }
    for (node, user) in nodes.iter().cycle().zip(USERS) {
        let shown = || node.page(&format!("/api/v1/devices/{user}"));
        wait_until(|| shown()["state"] == "disabled", || shown().to_string());
    }
    for node in &nodes {
        let page = node.page("/api/v1/devices?state=disabled");
        assert_eq!(
            page["match_count"],
            USERS.len(),
            "each account once: {page}"
        );
    }
}

/// What is told of a device in a page is what its owner knows, also of an account without one.
#[test]
fn a_node_without_a_lease_says_nothing_of_devices() {
    let mut site = Site::new();
    let alpha = site.node("alpha");
    alpha.wait_until_it_serves(256);
    assert!(alpha.register("ada").starts_with("SIP/2.0 200 "));
    assert_eq!(
        texts(&alpha.page("/api/v1/devices"), "devices", "aor"),
        ["sip:ada@example.com"]
    );
    site.postgres.crash();
    let page = || alpha.page("/api/v1/devices");
    wait_until(
        || page()["unanswered_nodes"][0] == "alpha",
        || page().to_string(),
    );
    assert_eq!(page()["devices"], serde_json::json!([]));
    assert_eq!(alpha.page("/api/v1/calls").get("unanswered_nodes"), None);
}
