//! The Performance Co-Pilot sees the server: its real `pmcd` and `pmdaopenmetrics` read
//! the server's own values; and the server samples a running `pmcd`.

// The other users of this file take what is not taken here.

use crate::pmcd::Pmcd;
use crate::support::{Place, ServerProcess, wait_until};
use std::collections::{BTreeMap, BTreeSet, HashSet};

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

/// The last value of a series in the last minute.
fn last(server: &ServerProcess, path: &str) -> Option<f64> {
    let found = server.get(&format!("/render?target={path}&from=-1min&format=json"));
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let points = found[0]["datapoints"].as_array()?;
    points.iter().rev().find_map(|point| point[0].as_f64())
}

#[test]
fn a_running_pmcd_is_sampled_and_found_again_after_it_was_gone() {
    let mut pmcd = Pmcd::start(&[]);
    let place = Place::new();
    let mut command = place.serve();
    command.arg("--graphite-pmcd").arg(pmcd.socket());
    command.args(["--graphite-pmcd-metrics", "sample"]);
    command.args(["--graphite-sample-seconds", "1"]);
    let server = ServerProcess::start(&mut command, &place);
    let seconds = "pmcd.sample.seconds";
    // A rate needs two samples.
    wait_until(|| last(&server, seconds).is_some(), || server.log());
    for (path, value) in [
        ("pmcd.sample.long.ten", 10.0),
        ("pmcd.sample.double.million", 1e6),
        ("pmcd.sample.ulong.bin.bin-300", 300.0),
    ] {
        assert_eq!(last(&server, path), Some(value), "{path}");
    }
    // A counter of milliseconds grows by 1,000 in a second, however late a sample is. The
    // counter itself would be beyond that after two.
    let of_ring = |field: &str| server.stats()["graphite"]["pmcd"][field].as_u64().unwrap();
    wait_until(|| of_ring("sampled") > 3, || server.log());
    let rate = last(&server, "pmcd.sample.milliseconds").unwrap();
    assert!((900.0..1100.0).contains(&rate), "{rate}");
    assert_eq!(last(&server, "pmcd.sample.string.hullo"), None);
    assert!(of_ring("series_count") > 100 && of_ring("sampled") >= 2);
    pmcd.stop();
    server.wait_for_log("pmcd is not sampled");
    let before = of_ring("sampled");
    pmcd.start_again();
    server.wait_for_log("pmcd is sampled again");
    wait_until(|| of_ring("sampled") > before, || server.log());
    // One line for each problem: the connection ends, and a try meanwhile may find no socket.
    let log = server.log();
    let lines = log
        .lines()
        .filter(|line| line.contains("pmcd is not sampled"));
    let problems: Vec<_> = lines
        .filter_map(|line| line.split_once("problem="))
        .collect();
    let distinct: HashSet<_> = problems.iter().map(|(_, problem)| problem).collect();
    assert_eq!(problems.len(), distinct.len(), "{log}");
    assert!(server.stop().success());
}

#[test]
fn where_there_is_no_pmcd_the_log_says_so_and_the_server_serves() {
    let place = Place::new();
    let mut command = place.serve();
    let nowhere = place.path("nobody.socket");
    command.arg("--graphite-pmcd").arg(&nowhere);
    let server = ServerProcess::start(&mut command, &place);
    server.wait_for_log("pmcd is not sampled");
    assert!(
        server.log().contains("No such file or directory"),
        "{}",
        server.log()
    );
    assert_eq!(server.get("/healthz"), "ok\n");
    assert!(server.stop().success());
}
