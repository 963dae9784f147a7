//! Records of calls, as the command line and HTTP give them.

use crate::{
    OPEN, good, refused, rows,
    support::{Place, ServerProcess, wait_until},
    telephone::Telephone,
};
use serde_json::Value;

/// What HTTP answers.
fn page(server: &ServerProcess, query: &str) -> Value {
    serde_json::from_str(&server.get(&format!("/api/call-records{query}"))).unwrap()
}

fn call_ids(page: &Value) -> Vec<&str> {
    let records = page["call_records"].as_array().unwrap();
    records
        .iter()
        .map(|record| record["call_id"].as_str().unwrap())
        .collect()
}

fn wait_for_records(server: &ServerProcess, count: usize) {
    let found = || call_ids(&page(server, "")).len();
    wait_until(|| found() == count, || format!("{} records", found()));
}

#[test]
fn records_of_calls_survive_kill_9_and_are_filtered_and_exported() {
    let place = Place::new();
    let server = place.server(OPEN);
    let [alice, bob, carol] =
        ["alice", "bob", "carol"].map(|user| Telephone::register(&server, user));
    alice.call_in_vain(&bob, "=1+1");
    bob.call_in_vain(&carol, "second");
    alice.call_in_vain(&carol, "third");
    wait_for_records(&server, 3);
    let metrics = server.get("/metrics");
    for line in [
        "busyhour_calls_outcomes_busy_total 3.0",
        "busyhour_calls_post_dial_delay_seconds_count 3",
        "busyhour_calls_post_dial_delay_seconds_bucket{le=\"+Inf\"} 3",
        "busyhour_calls_records_stored_total 3.0",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
    server.kill();

    let server = place.server(OPEN);
    let all = page(&server, "");
    assert_eq!(call_ids(&all), ["third", "second", "=1+1"]);
    assert_eq!(all["next"], Value::Null);
    let first = page(&server, "?limit=2");
    assert_eq!(call_ids(&first), ["third", "second"]);
    let next = first["next"].as_str().unwrap();
    assert_eq!(
        call_ids(&page(&server, &format!("?limit=2&after={next}"))),
        ["=1+1"]
    );
    for (query, found) in [
        ("?user=bob", &["second", "=1+1"][..]),
        ("?user=alice&limit=1", &["third"]),
        ("?user=nobody", &[]),
        ("?outcome=busy&user=carol", &["third", "second"]),
        ("?outcome=answered", &[]),
        (
            "?from=2020-01-01T00:00:00Z&until=4000000000",
            &["third", "second", "=1+1"],
        ),
        ("?until=2020-01-01T00:00:00Z", &[]),
    ] {
        assert_eq!(call_ids(&page(&server, query)), found, "{query}");
    }

    let shown = rows(&place, &["call-records", "--user", "bob"]);
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0]["outcome"], "busy");
    let table = good(&place, &["call-records", "--outcome", "busy"]);
    assert!(
        table.contains("OUTCOME") && table.contains("486"),
        "{table}"
    );

    let csv = good(&place, &["call-records", "--csv"]);
    let lines: Vec<_> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), 5, "{csv}");
    assert!(lines[0].starts_with("id,call_id,from,to,"), "{csv}");
    assert!(lines[1].starts_with("3,third,sip:alice@"), "{csv}");
    assert!(lines[3].starts_with("1,'=1+1,sip:alice@"), "{csv}");
    assert_eq!(lines[4], "");
    assert_eq!(server.get("/api/call-records?format=csv"), csv);
    let busy = "limit=1&outcome=busy&format=csv";
    let page = ureq::get(format!("http://{}/api/call-records?{busy}", server.http));
    let page = page.call().expect("a page");
    let link = page.headers()["link"].to_str().expect("ASCII");
    let next = format!("<?{busy}&after=");
    assert!(link.starts_with(&next), "the same query: {link}");
}

#[test]
fn a_wrong_question_about_records_is_answered_with_what_is_allowed() {
    let place = Place::new();
    let server = place.server("[sip]\nauth = \"open\"\n[store]\ndurability = \"memory\"\n");
    for (words, reason) in [
        (["--outcome", "bored"], "no-answer"),
        (["--from", "yesterday"], "from: give a time such as"),
    ] {
        let words = [&["call-records"], &words[..]].concat();
        let code = if words[1] == "--outcome" { 2 } else { 1 };
        let said = refused(&place, &words, code);
        assert!(said.contains(reason), "{said}");
    }
    for query in ["after=x", "format=xml", "outcome=x", "limit=0"] {
        let url = format!("http://{}/api/call-records?{query}", server.http);
        let error = ureq::get(url).call().unwrap_err();
        assert!(
            matches!(error, ureq::Error::StatusCode(400)),
            "{query}: {error}"
        );
    }
}
