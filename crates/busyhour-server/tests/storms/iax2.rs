//! A storm over IAX2 against the real program.

use crate::support::{Place, ServerProcess, busyhour};
use std::process::Output;

const CONFIGURATION: &str = "
[[account_range]]
prefix = \"device\"
count = 1000
password = \"busyhour\"
";

fn storm(server: &ServerProcess, options: &str) -> Output {
    let target = server.iax2.to_string();
    let mut command = busyhour();
    command.args(["storm", "--protocol", "iax2", "--json", "--target", &target]);
    command.args(options.split_whitespace());
    command.output().expect("the program runs")
}

/// The report of a storm that must succeed.
fn report(server: &ServerProcess, options: &str) -> serde_json::Value {
    let output = storm(server, options);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn acknowledged_registrations_of_a_storm_survive_a_kill() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let closed = report(
        &server,
        "--devices 400 --closed 32 --threads 2 --auth device{n}:busyhour",
    );
    assert_eq!(
        (&closed["protocol"], &closed["sent"]),
        (&"iax2".into(), &400.into())
    );
    assert_eq!(
        (&closed["acknowledged"], &closed["auth"]),
        (&400.into(), &true.into())
    );
    assert_eq!(closed["challenged"], 400);
    assert_eq!(server.stat("/iax2/accepted"), 400);
    server.kill();
    let server = place.server(CONFIGURATION);
    assert_eq!(server.stat("/registrar/binding_count"), 400);
    let open = report(
        &server,
        "--devices 400 --over 400ms --kind refresh --auth device{n}:busyhour",
    );
    assert_eq!(open["acknowledged"], 400);
    let replaced = server.stat("/registrar/removed");
    assert_eq!(
        (replaced, server.stat("/registrar/binding_count")),
        (400, 400)
    );
}

#[test]
fn a_refused_storm_reports_it() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let output = storm(&server, "--devices 5 --closed 5 --auth device{n}:guess");
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["failures"]["REGREJ 29"], 5);
    assert_eq!(server.stat("/iax2/denied"), 5);
}
