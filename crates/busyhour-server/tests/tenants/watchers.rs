//! Who may watch whom: the own domain, and whom lists name.

use crate::{
    support::{Place, wait_until},
    telephone::{Api, Telephone},
};
use serde_json::json;

const LISTS: &str = "
[sip]
domains = [\"example.com\"]
algorithms = [\"MD5\"]
[[account_range]]
prefix = \"user\"
count = 9
password = \"secret\"
[[domain]]
name = \"a.example\"
[[domain]]
name = \"b.example\"
watchers = [\"boss@a.example\", \"@example.com\"]
[[list]]
name = \"panel\"
entries = [\"user1\"]
[[token]]
name = \"test\"
scope = \"write\"
sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"
";

#[test]
fn only_the_own_domain_and_listed_accounts_watch() {
    let place = Place::new();
    let server = place.server(LISTS);
    let api = Api::new(&server, "secret");
    for user in ["alice@a.example", "boss@a.example", "carol@b.example"] {
        let put = api.put(
            &format!("/api/accounts/{user}"),
            &json!({"password": "secret"}),
        );
        assert_eq!(put.0, 201, "{put:?}");
        assert_eq!(put.1["user"], user);
    }
    let of = |address: &str| Telephone::new(&server, address, "secret");
    let (alice, boss, carol) = (
        of("alice@a.example"),
        of("boss@a.example"),
        of("carol@b.example"),
    );
    let user1 = of("user1@example.com");
    let watches = |who: &Telephone, whom: &str| who.subscribe("presence", whom);
    assert_eq!(watches(&alice, "boss@a.example"), 200);
    assert_eq!(watches(&alice, "carol@b.example"), 403, "another domain");
    assert_eq!(watches(&boss, "carol@b.example"), 200, "listed");
    assert_eq!(
        watches(&user1, "carol@b.example"),
        200,
        "its domain is listed"
    );
    assert_eq!(watches(&user1, "alice@a.example"), 403);
    assert_eq!(watches(&carol, "user1@example.com"), 403);
    assert_eq!(watches(&user1, "user2@example.com"), 200, "as always");
    // Boss lets Carol watch, and nobody else, not even at home.
    let guarded = json!({"password": "secret", "watchers": ["carol@b.example"]});
    assert_eq!(api.put("/api/accounts/boss@a.example", &guarded).0, 200);
    // The subscription of Alice, which was allowed before, ends.
    loop {
        let notify = alice.notified();
        if notify.contains("Subscription-State: terminated;reason=rejected") {
            break;
        }
    }
    assert_eq!(watches(&carol, "boss@a.example"), 200);
    assert_eq!(watches(&alice, "boss@a.example"), 403);
    assert_eq!(watches(&boss, "boss@a.example"), 200, "himself");
    wait_until(
        || server.stat("/watch/watcher_count") == 5,
        || server.get("/api/stats"),
    );
}

#[test]
fn only_the_own_domain_is_shown_who_is_on_a_list() {
    let place = Place::new();
    let server = place.server(LISTS);
    let api = Api::new(&server, "secret");
    let secret = json!({"password": "secret"});
    assert_eq!(api.put("/api/accounts/alice@a.example", &secret).0, 201);
    let alice = Telephone::new(&server, "alice@a.example", "secret");
    let user1 = Telephone::new(&server, "user1@example.com", "secret");
    let event = "presence\r\nSupported: eventlist";
    assert_eq!(alice.subscribe(event, "panel@example.com"), 403);
    assert_eq!(user1.subscribe(event, "panel@example.com"), 200);

    // A list of the domain of Alice, which was added while the server runs; and nobody sees by it who
    // is on another one.
    let mixed = json!({"entries": ["alice", "panel@example.com"]});
    assert_eq!(api.put("/api/lists/mixed@a.example", &mixed).0, 201);
    assert_eq!(alice.subscribe(event, "mixed@a.example"), 200);
    // A datagram has room for one of the two.
    let mut told = String::new();
    while !told.contains("reason=\"rejected\"") {
        told.push_str(&alice.notified());
    }
    assert!(told.contains("uri=\"sip:alice@a.example\""), "{told}");
    assert!(told.contains("uri=\"sip:panel@example.com\""), "{told}");
    assert!(!told.contains("user1"), "{told}");
    assert_eq!(user1.subscribe(event, "mixed@a.example"), 403);
}
