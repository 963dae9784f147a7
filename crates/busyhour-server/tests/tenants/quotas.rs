//! What a domain may have, and that a greedy one takes nothing from others.

use crate::{
    support::{Place, busyhour},
    telephone::{Api, Telephone},
};
use serde_json::json;

const QUOTAS: &str = "
[sip]
domains = [\"example.com\"]
algorithms = [\"MD5\"]
[[domain]]
name = \"b.example\"
[[token]]
name = \"test\"
scope = \"write\"
sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"
";

#[test]
fn a_domain_has_what_its_quotas_allow_and_shows_it() {
    let place = Place::new();
    let server = place.server(QUOTAS);
    let api = Api::new(&server, "secret");
    let quotas = json!({
        "max_accounts": 3, "max_contacts": 3, "max_watchers": 2, "max_calls": 1,
    });
    assert_eq!(api.put("/api/tenants/a.example", &quotas).0, 201);
    let put = |user: &str| {
        api.put(
            &format!("/api/accounts/{user}"),
            &json!({"password": "secret"}),
        )
    };
    for user in [
        "u1@a.example",
        "u2@a.example",
        "u3@a.example",
        "v1@b.example",
        "v2@b.example",
    ] {
        assert_eq!(put(user).0, 201);
    }
    let (status, reason) = put("u4@a.example");
    assert_eq!(status, 409, "{reason}");
    assert_eq!(put("u3@a.example").0, 200, "one that is there");
    let of = |address: &str| Telephone::new(&server, address, "secret");
    let (u1, u2, u3) = (of("u1@a.example"), of("u2@a.example"), of("u3@a.example"));
    assert_eq!((u1.registers(), u2.registers()), (200, 200));
    let second = of("u1@a.example");
    assert_eq!(second.registers(), 200);
    assert_eq!(u3.registers(), 403, "the fourth contact");
    assert_eq!(u1.registers(), 200, "a refresh is none");
    for count in 0..4 {
        let subscribed = u1.subscribe("presence", "u2@a.example");
        assert_eq!(subscribed, if count < 2 { 200 } else { 503 });
    }
    assert_eq!(u1.call("u2@a.example"), 100);
    u2.rings();
    assert_eq!(u2.call("u1@a.example"), 503, "the second call");
    // Another domain is served as if nothing were.
    let (v1, v2) = (of("v1@b.example"), of("v2@b.example"));
    assert_eq!((v1.registers(), v2.registers()), (200, 200));
    assert_eq!(v1.subscribe("presence", "v2@b.example"), 200);
    assert_eq!(v1.call("v2@b.example"), 100);
    v2.rings();
    let (_, used) = api.get("/api/tenants/a.example");
    for (field, wanted) in [
        ("account_count", 3),
        ("contact_count", 3),
        ("watcher_count", 2),
        ("call_count", 1),
        ("refused", 5),
        ("refused_accounts", 1),
        ("refused_contacts", 1),
        ("refused_registrations", 0),
        ("refused_watchers", 2),
        ("refused_calls", 1),
        ("refused_memory", 0),
        ("refused_other_share", 0),
        // Not the one with a contact too many.
        ("registrations", 4),
    ] {
        assert_eq!(used[field], wanted, "{field} in {used}");
    }
    assert!(used["memory_bytes"].as_u64().unwrap() > 0, "{used}");
    let mut show = busyhour();
    place.keep_sockets_here(&mut show);
    let shown = show.args(["show", "tenants", "--json"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("\"a.example\"") && shown.contains("\"b.example\""),
        "{shown}"
    );
    let mut show = busyhour();
    place.keep_sockets_here(&mut show);
    let shown = show.args(["show", "tenants"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let header: Vec<_> = shown.lines().next().unwrap().split_whitespace().collect();
    assert!(header.contains(&"REFUSED_WATCHERS"), "{shown}");
    assert!(!header.contains(&"REFUSED_MEMORY"), "{shown}");
    let metrics = server.get("/metrics");
    let line = "busyhour_tenants_contacts{name=\"a.example\"} 3";
    assert!(metrics.contains(line), "{metrics}");
    let line = "busyhour_tenants_refused_contacts_total{name=\"a.example\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    // More is allowed: at once.
    let more = json!({"max_contacts": 9});
    assert_eq!(api.put("/api/tenants/a.example", &more).0, 200);
    assert_eq!(u3.registers(), 200);
    assert_eq!(u1.subscribe("presence", "u2@a.example"), 200);
}

#[test]
fn registrations_of_a_domain_have_a_rate() {
    let place = Place::new();
    let server = place.server(QUOTAS);
    let api = Api::new(&server, "secret");
    let slow = json!({"registrations_per_second": 0});
    assert_eq!(api.put("/api/tenants/a.example", &slow).0, 201);
    for user in ["u1@a.example", "v1@b.example"] {
        let put = api.put(
            &format!("/api/accounts/{user}"),
            &json!({"password": "secret"}),
        );
        assert_eq!(put.0, 201);
    }
    let u1 = Telephone::new(&server, "u1@a.example", "secret");
    assert_eq!(u1.registers(), 503);
    let (_, used) = api.get("/api/tenants/a.example");
    assert_eq!(used["refused_registrations"], 1, "{used}");
    assert_eq!(used["registrations"], 0, "{used}");
    assert_eq!(
        Telephone::new(&server, "v1@b.example", "secret").registers(),
        200
    );
    let five = json!({"registrations_per_second": 1});
    assert_eq!(api.put("/api/tenants/a.example", &five).0, 200);
    assert_eq!(
        (0..10).filter(|_| u1.registers() == 200).count(),
        10,
        "ten at once"
    );
}
