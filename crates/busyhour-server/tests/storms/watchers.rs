//! A storm whose devices are watched, against the real program: at the end
//! every watcher has the right state.

use crate::support::{Place, ServerProcess, busyhour};
use serde_json::Value;

const CONFIGURATION: &str = "
[sip]
domains = [\"example.com\"]
[[account_range]]
prefix = \"device\"
count = 100
password = \"busyhour\"
";

fn storm(server: &ServerProcess, options: &str) -> Value {
    let mut command = busyhour();
    command.args(["storm", "--json", "--domain", "example.com"]);
    command.args(["--auth", "device{n}:busyhour"]);
    command.args(["--devices", "40", "--over", "200ms", "--watchers", "100"]);
    command.args(["--pid", &server.pid().to_string()]);
    command.args(options.split_whitespace());
    let output = command.output().expect("the program runs");
    let report = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}{errors}");
    serde_json::from_str(&report).expect("JSON")
}

#[test]
fn watchers_of_sip_devices_have_the_right_state() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let report = storm(&server, &format!("--threads 2 --target {}", server.sip));
    assert_eq!(
        (&report["acknowledged"], &report["watchers"]),
        (&40.into(), &100.into())
    );
    assert_eq!(
        (&report["notified"], &report["watchers_wrong"]),
        (&100.into(), &0.into())
    );
    assert_eq!(report["watchers_ended"], 0);
    assert!(
        report["cpu_us_per_notify"]
            .as_f64()
            .is_some_and(|each| each > 0.0)
    );
    assert_eq!(server.stat("/watch/watcher_count"), 100);
    assert!(server.stat("/watch/confirmed") >= 200);
    assert_eq!(
        server.stat("/watch/refreshed"),
        100,
        "each subscription was asked for again"
    );
}

#[test]
fn watchers_of_iax2_devices_have_the_right_state() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let (iax2, sip) = (server.iax2, server.sip);
    let report = storm(
        &server,
        &format!("--protocol iax2 --target {iax2} --watch-target {sip}"),
    );
    assert_eq!(
        (&report["acknowledged"], &report["notified"]),
        (&40.into(), &100.into())
    );
    assert_eq!(report["watchers_wrong"], 0);
}
