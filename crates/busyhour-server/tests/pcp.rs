//! The Performance Co-Pilot sees the server: its real `pmcd` and `pmdaopenmetrics` read
//! the server's own values.

// The other users of this file take what is not taken here.
#[allow(dead_code)]
#[path = "../../busyhour-pcp/tests/archive/pmcd.rs"]
mod pmcd;
mod support;

use pmcd::Pmcd;
use std::collections::{BTreeMap, BTreeSet};
use support::{Place, wait_until};

/// What `pminfo` prints of each metric, by its name without what all have in front.
fn described(pmcd: &Pmcd) -> BTreeMap<String, String> {
    let text = pmcd.ask("pminfo", &["-f", "-d", "-t", ROOT]);
    let mut described: BTreeMap<String, String> = BTreeMap::new();
    let mut last = None;
    for line in text.unwrap_or_default().lines() {
        match line.strip_prefix(ROOT) {
            Some(rest) => {
                let name = rest.trim_start_matches('.').split(' ').next().unwrap();
                last = Some(name.to_owned());
                described.insert(name.to_owned(), line.to_owned() + "\n");
            }
            None => {
                let text = last.as_ref().and_then(|name| described.get_mut(name));
                text.into_iter().for_each(|text| {
                    text.push_str(line.trim());
                    text.push('\n');
                });
            }
        }
    }
    described
}

#[test]
fn pmdaopenmetrics_takes_every_value_with_its_semantics_and_units() {
    let place = Place::new();
    let server = place.server("[sip]\nauth = \"open\"\n");
    let url = format!("http://{}/metrics/pcp\n", server.http);
    let pmcd = Pmcd::start(&[("busyhour", url)]);
    wait_until(
        || described(&pmcd).contains_key("registrar.accepted"),
        || format!("no metrics of the server in {:?}", pmcd.ask("pminfo", &[])),
    );
    let described = described(&pmcd);
    for (name, semantics, units) in [
        ("registrar.accepted", "counter", "count"),
        // Without the lines for PCP this would be taken for a counter.
        ("registrar.binding_count", "instant", "none"),
        ("registrar.latency_p99", "instant", "sec"),
        ("store.transaction", "counter", "sec"),
        ("traffic.received_bytes", "counter", "byte"),
        ("runtime.pool.queued_len", "instant", "none"),
        ("uptime", "instant", "sec"),
    ] {
        let text = &described
            .get(name)
            .unwrap_or_else(|| panic!("{name}: {described:?}"));
        let line = format!("Semantics: {semantics}  Units: {units}\n");
        assert!(text.contains(&line), "{name}:\n{text}");
        assert!(text.contains("value "), "{name}:\n{text}");
        assert!(text.contains("Data Type: double"), "{name}:\n{text}");
    }
    // What exists several times has instances, by name.
    let topics = &described["runtime.topics.published"];
    assert!(topics.contains(" or \"device-state\"] value "), "{topics}");
    // All of them, and the values that the server says.
    let told = server.get("/metrics/pcp");
    let names = told.lines().filter_map(|line| line.strip_prefix("# PCP5 "));
    let names: BTreeSet<&str> = names.map(|line| line.split(' ').next().unwrap()).collect();
    let seen: BTreeSet<&str> = described.keys().map(String::as_str).collect();
    assert_eq!(names.difference(&seen).next(), None);
    assert!(names.len() > 100, "{names:?}");
    let limit = server.stats()["runtime"]["pool"]["worker_count"].to_string();
    let workers = &described["runtime.pool.worker_count"];
    assert!(
        workers.contains(&format!("value {limit}\n")),
        "{limit}: {workers}"
    );
    assert!(server.stop().success());
}

const ROOT: &str = "openmetrics.busyhour";
