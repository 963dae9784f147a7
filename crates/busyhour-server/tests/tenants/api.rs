//! Tokens for one domain: they see and change that alone.

use crate::{
    support::{Place, ServerProcess, wait_until},
    telephone::{Api, Telephone},
    users::{DOMAINS, run},
};
use serde_json::json;

/// One for all domains, and one for `a.example`.
fn tokens(place: &Place, server: &ServerProcess) -> (Api, Api) {
    let make = |name: &str, more: &[&str]| {
        let add = ["token", "add", name, "--scope", "write", "--json"];
        let (done, said) = run(place, &[&add, more].concat(), "");
        assert!(done, "{said}");
        let made: serde_json::Value = serde_json::from_str(&said).unwrap();
        Api::new(server, made["token"].as_str().unwrap())
    };
    let all = make("all", &[]);
    let of_a = make("of-a", &["--domain", "a.example"]);
    wait_until(|| of_a.get("/api/accounts").0 == 200, || server.log());
    (all, of_a)
}

#[test]
fn a_token_of_a_domain_sees_and_changes_that_alone() {
    let place = Place::new();
    let server = place.server(DOMAINS);
    let (all, of_a) = tokens(&place, &server);
    let secret = json!({"password": "secret"});
    wait_until(
        || all.put("/api/accounts/bob@b.example", &secret).0 < 300,
        || server.log(),
    );
    assert_eq!(of_a.put("/api/accounts/alice@a.example", &secret).0, 201);
    for (path, body) in [
        ("/api/accounts/mallory@b.example", &secret),
        ("/api/accounts/mallory", &secret),
        (
            "/api/accounts/alice@a.example",
            &json!({"password": "x", "aliases": ["bob@b.example"]}),
        ),
        ("/api/tenants/a.example", &json!({"max_accounts": 9})),
        ("/api/hints/100@b.example", &json!({"devices": ["alice"]})),
        (
            "/api/hints/100@a.example",
            &json!({"devices": ["bob@b.example"]}),
        ),
        ("/api/mailboxes/bob@b.example", &json!({})),
        ("/api/lists/panel@b.example", &json!({"entries": ["alice"]})),
        ("/api/lists/panel", &json!({"entries": ["alice"]})),
        (
            "/api/lists/panel@a.example",
            &json!({"entries": ["alice", "Bob <bob@b.example>"]}),
        ),
    ] {
        let (status, said) = of_a.put(path, body);
        assert_eq!(status, 403, "{path}: {said}");
    }
    let hint = json!({"devices": ["alice"]});
    assert_eq!(of_a.put("/api/hints/100@a.example", &hint).0, 201);
    assert_eq!(
        all.put("/api/hints/100@b.example", &json!({"devices": ["bob"]}))
            .0,
        201
    );
    let list = json!({"entries": ["Alice <alice>", "100@a.example"]});
    assert_eq!(of_a.put("/api/lists/panel@a.example", &list).0, 201);
    let list = json!({"entries": ["bob"]});
    assert_eq!(all.put("/api/lists/panel@b.example", &list).0, 201);
    let (_, shown) = of_a.get("/api/lists/panel@a.example");
    assert_eq!(shown["entries"][0]["uri"], "sip:alice@a.example");
    assert_eq!(
        of_a.put("/api/mailboxes/alice@a.example", &json!({"waiting": true}))
            .0,
        201
    );
    assert_eq!(
        all.put("/api/mailboxes/bob@b.example", &json!({"waiting": true}))
            .0,
        201
    );
    for telephone in ["alice@a.example", "bob@b.example"] {
        assert_eq!(
            Telephone::new(&server, telephone, "secret").registers(),
            200
        );
        assert_eq!(Telephone::new(&server, telephone, "wrong").registers(), 403);
    }
    let users = |(_, list): (u16, serde_json::Value), kind: &str, field: &str| -> Vec<String> {
        let list = list[kind]
            .as_array()
            .unwrap_or_else(|| panic!("{list}"))
            .clone();
        list.iter()
            .map(|one| one[field].as_str().unwrap().to_owned())
            .collect()
    };
    for (path, kind, field, own) in [
        ("/api/accounts", "accounts", "user", "alice@a.example"),
        ("/api/bindings", "bindings", "aor", "sip:alice@a.example"),
        ("/api/hints", "hints", "extension", "100@a.example"),
        ("/api/mailboxes", "mailboxes", "id", "alice@a.example"),
        ("/api/lists", "lists", "name", "panel@a.example"),
        ("/api/failures", "failures", "user", "alice@a.example"),
        ("/api/tenants", "tenants", "name", "a.example"),
    ] {
        assert_eq!(users(of_a.get(path), kind, field), [own], "{path}");
        assert_eq!(users(all.get(path), kind, field).len(), 2, "{path}");
    }
    for kind in [
        "accounts",
        "bindings",
        "hints",
        "lists",
        "mailboxes",
        "failures",
    ] {
        let (mut path, mut pages) = (format!("/api/{kind}?limit=1"), Vec::new());
        for _ in 0..3 {
            let (status, page) = of_a.get(&path);
            let text = page.to_string();
            assert!(
                status == 200 && !text.contains("b.example"),
                "{path}: {text}"
            );
            let next = page["next"].as_str().map(str::to_owned);
            pages.push(page);
            let Some(next) = next else { break };
            path = format!("/api/{kind}?limit=1&after={next}");
        }
        let listed = |page: &serde_json::Value| page[kind].as_array().map_or(0, Vec::len);
        assert_eq!(pages.iter().map(listed).sum::<usize>(), 1, "{pages:?}");
    }
    for path in ["/api/stats", "/api/call-records", "/metrics", "/api/v1/log"] {
        assert_eq!(of_a.get(path).0, 403, "{path}");
    }
    for path in [
        "/api/bindings/sip:bob@b.example",
        "/api/accounts/bob@b.example",
    ] {
        assert_eq!((of_a.get(path).0, of_a.delete(path)), (403, 403), "{path}");
    }
    assert_eq!(of_a.delete("/api/bindings/sip:alice@a.example"), 200);
    assert_eq!(of_a.delete("/api/accounts/alice@a.example"), 204);
    assert_eq!(all.get("/api/accounts/bob@b.example").0, 200);
}

#[test]
fn a_token_of_a_domain_reads_the_changes_of_that_alone() {
    let place = Place::new();
    let server = place.server(DOMAINS);
    let (all, of_a) = tokens(&place, &server);
    let secret = json!({"password": "secret"});
    for address in ["bob@b.example", "alice@a.example"] {
        let path = format!("/api/accounts/{address}");
        wait_until(|| all.put(&path, &secret).0 < 300, || server.log());
        let mailbox = format!("/api/mailboxes/{address}");
        assert_eq!(all.put(&mailbox, &json!({"waiting": true})).0, 201);
        assert_eq!(Telephone::new(&server, address, "secret").registers(), 200);
    }
    let told = |api: &Api| api.stream_until("/api/changes?snapshot=true", "event: live");
    let (own, everything) = (told(&of_a), told(&all));
    for name in ["\"sip:alice@a.example\"", "\"alice@a.example\""] {
        assert!(own.contains(name), "{own}");
    }
    assert!(!own.contains("b.example"), "{own}");
    for name in ["\"sip:bob@b.example\"", "\"bob@b.example\""] {
        assert!(everything.contains(name), "{everything}");
    }
}
