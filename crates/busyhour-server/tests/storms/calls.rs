//! A storm of calls against the real program: each call ends as planned on both sides, and
//! each lamp shows it.

use crate::support::{Place, ServerProcess, busyhour};
use serde_json::Value;

const CONFIGURATION: &str = "
[sip]
domains = [\"example.com\"]
[[account_range]]
prefix = \"device\"
count = 800
password = \"busyhour\"
";

fn storm(server: &ServerProcess, options: &str) -> Value {
    storm_of(40, server, options)
}

fn storm_of(devices: u32, server: &ServerProcess, options: &str) -> Value {
    let mut command = busyhour();
    command.args(["storm", "--calls", "--json", "--domain", "example.com"]);
    command.args(["--auth", "device{n}:busyhour"]);
    command.args(["--devices", &devices.to_string()]);
    let target = match options.contains("tcp") {
        true => server.tcp,
        false => server.sip,
    };
    command.args(["--target", &target.to_string()]);
    command.args(["--over", "1s", "--settle", "100ms"]);
    command.args(options.split_whitespace());
    let output = command.output().expect("the program runs");
    let report = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}{errors}");
    serde_json::from_str(&report).expect("JSON")
}

#[test]
fn calls_are_answered_and_the_lamps_show_it() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let pid = server.pid();
    let report = storm(&server, &format!("--rate 40 --watchers 40 --pid {pid}"));
    let of = |name: &str| report[name].as_u64();
    assert_eq!((of("calls"), of("answered")), (Some(40), Some(40)));
    assert_eq!(of("challenged"), Some(40));
    assert_eq!((of("lamps"), of("lamps_wrong")), (Some(40), Some(0)));
    assert_eq!(of("lamps_stale"), Some(0));
    // Early, confirmed and terminated; two that follow each other may be told as one.
    let told = of("lamps_told").zip(of("lamps_skipped"));
    assert_eq!(told.map(|(told, skipped)| told + skipped), Some(120));
    assert!(
        report["cpu_us_per_call"]
            .as_f64()
            .is_some_and(|each| each > 0.0)
    );
    assert!(report["answer_p99_us"].is_f64());
}

#[test]
fn of_two_contacts_one_answers_and_the_other_is_cancelled() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let report = storm(&server, "--closed 8 --forks 2 --ring 20ms");
    assert_eq!(report["answered"], report["calls"]);
    assert_eq!(report["cancelled_contacts"], report["calls"]);
}

#[test]
fn the_next_call_needs_no_notify_of_a_call_that_was_over_before_one() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let report = storm(&server, "--closed 8 --watchers 40");
    let of = |name: &str| report[name].as_u64().expect("a count");
    assert_eq!(of("answered"), of("calls"));
    assert_eq!((of("lamps_wrong"), of("lamps_stale")), (0, 0));
    assert!(of("lamps_told") > 0);
    assert_eq!(of("lamps_told") + of("lamps_skipped"), 3 * of("calls"));
}

#[test]
fn callers_give_up_while_it_rings_and_the_lamps_show_it() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let report = storm(&server, "--closed 8 --ring 30ms --give-up 50 --watchers 40");
    let of = |name: &str| report[name].as_u64().expect("a count");
    assert_eq!(of("given_up"), of("calls") / 2);
    assert_eq!(of("given_up") + of("answered"), of("calls"));
    assert_eq!(of("cancelled_contacts"), of("given_up"));
    assert_eq!((of("lamps_wrong"), of("lamps_stale")), (0, 0));
}

/// The whole state of the list takes several NOTIFYs. The callers are the users after the devices,
/// so there are accounts for twice as many.
#[test]
fn a_panel_with_a_list_of_all_devices_shows_each_of_them() {
    let place = Place::new();
    let entries = (1..=400).map(|number| format!("\"device{number}\""));
    let entries = entries.collect::<Vec<_>>().join(", ");
    let list = format!("[[list]]\nname = \"panel\"\nentries = [{entries}]\n");
    let server = place.server(&format!("{CONFIGURATION}{list}"));
    let report = storm_of(400, &server, "--closed 8 --watchers 2 --watch-list panel");
    let of = |name: &str| report[name].as_u64().expect("a count");
    assert_eq!(of("answered"), of("calls"));
    let (lamps, wrong, stale) = (of("lamps"), of("lamps_wrong"), of("lamps_stale"));
    assert_eq!((lamps, wrong, stale), (400, 0, 0));
    assert!(of("lamps_told") > 0);
}

#[test]
fn calls_go_over_connections() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let report = storm(&server, "--closed 4 --transport tcp");
    assert_eq!(report["answered"], report["calls"]);
    assert!(report["answered"].as_u64().is_some_and(|count| count > 4));
}

#[test]
fn calls_to_devices_that_nobody_may_register_fail() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let mut command = busyhour();
    command.args(["storm", "--calls", "--devices", "2", "--over", "1s"]);
    command.args(["--domain", "example.com", "--auth", "stranger{n}:wrong"]);
    command.args(["--target", &server.sip.to_string()]);
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("2 of 2 registrations failed"), "{errors}");
}
