//! What a running server takes when it reads its configuration again, on SIGHUP and over HTTP.

use crate::support::{Place, ServerProcess, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::{net::UdpSocket, time::Duration};

/// Its digest is in the configuration: `printf %s secret | sha256sum`.
const TOKEN: &str = "secret";
const TOKEN_SHA256: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

const BEFORE: &str = "
[[hint]]
extension = \"100\"
devices = [\"alice\"]
[[hint]]
extension = \"101\"
devices = [\"alice\"]
[[list]]
name = \"panel\"
entries = [\"alice\"]
[[domain]]
name = \"a.example\"
max_contacts = 5
[[webhook]]
name = \"crm\"
url = \"http://127.0.0.1:9/before\"
";

const AFTER: &str = "
[[hint]]
extension = \"100\"
devices = [\"alice\", \"bob\"]
[[hint]]
extension = \"102@b.example\"
devices = [\"carol\"]
[[list]]
name = \"panel\"
entries = [\"alice\", \"team\"]
[[list]]
name = \"team\"
entries = [\"bob\"]
[[domain]]
name = \"a.example\"
max_contacts = 7
[[domain]]
name = \"b.example\"
[[webhook]]
name = \"crm\"
url = \"http://127.0.0.1:9/after\"
[[webhook]]
name = \"second\"
url = \"http://127.0.0.1:9/second\"
";

fn configuration(settings: &str, tables: &str) -> String {
    format!(
        "sip.domains = [\"example.com\"]\nsip.auth = \"open\"\n{settings}\n{tables}\n\
         [[token]]\nname = \"test\"\nscope = \"write\"\nsha256 = \"{TOKEN_SHA256}\"\n"
    )
}

/// Status and body of a request with the token.
fn ask(server: &ServerProcess, method: &str, path: &str, body: &str) -> (u16, Value) {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("http://{}/api/v1{path}", server.http))
        .header("authorization", format!("Bearer {TOKEN}"));
    let answer = match method {
        "GET" => agent.run(request.body(()).unwrap()),
        _ => agent.run(request.body(body.to_owned()).unwrap()),
    };
    let mut answer = answer.unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    let said = serde_json::from_str(&text).unwrap_or(Value::Null);
    (answer.status().as_u16(), said)
}

fn get(server: &ServerProcess, path: &str) -> Value {
    ask(server, "GET", path, "").1
}

fn status(server: &ServerProcess, path: &str) -> u16 {
    ask(server, "GET", path, "").0
}

fn setting(server: &ServerProcess, name: &str) -> Value {
    let settings = get(server, "/settings");
    let all = settings["settings"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap().clone()
}

/// The lifetime that a REGISTER for a day is granted.
fn granted(server: &ServerProcess, user: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let here = socket.local_addr().unwrap();
    let register = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK{user}\r\n\
         From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\n\
         Call-ID: {user}\r\nCSeq: 1 REGISTER\r\nContact: <sip:{user}@{here}>\r\n\
         Expires: 86400\r\nContent-Length: 0\r\n\r\n"
    );
    socket.send_to(register.as_bytes(), server.sip).unwrap();
    let mut answer = [0; 4096];
    let len = socket.recv(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
    let (_, rest) = answer.split_once(";expires=").expect(&answer);
    rest.split(|it: char| !it.is_ascii_digit())
        .next()
        .unwrap()
        .to_owned()
}

fn reload_by_signal(server: &ServerProcess) {
    server.signal(Signal::SIGHUP);
}

fn reload_by_request(server: &ServerProcess) {
    let (status, said) = ask(server, "POST", "/reload", "");
    assert_eq!(status, 200, "{said}");
    assert_eq!(said["needs_restart"], json!(["sip.realm", "[[peer]]"]));
    let changed = said["changed"].as_array().unwrap();
    for wanted in ["log.level", "[[hint]]", "[[list]]", "[[domain]]"] {
        assert!(changed.contains(&json!(wanted)), "{wanted}: {said}");
    }
}

fn all_that_can_change_changes(reload: fn(&ServerProcess)) {
    let place = Place::new();
    let server = place.server(&configuration("", BEFORE));
    assert_eq!(granted(&server, "alice"), "7200");
    let settings = "sip.realm = \"other\"\nsip.max_expires_seconds = 4000\nlog.level = \"warn\"\n\
                    calls.records_days = 3\ncalls.records_max = 5\nruntime.drain_seconds = 7\n";
    let peer = "[[peer]]\nname = \"edge\"\naddresses = [\"192.0.2.1\"]\nmay_publish = true\n";
    place.file(
        "busyhour.toml",
        &configuration(settings, &format!("{AFTER}{peer}")),
    );
    reload(&server);
    wait_until(
        || setting(&server, "log.level")["value"] == "warn",
        || server.log(),
    );

    assert_eq!(granted(&server, "bob"), "4000");
    for (name, value) in [("calls.records_days", "3"), ("calls.records_max", "5")] {
        assert_eq!(setting(&server, name)["value"], value);
        let origin = setting(&server, name)["origin"].to_string();
        assert!(origin.contains("busyhour.toml"), "{origin}");
    }
    assert_eq!(setting(&server, "sip.realm")["value"], "busyhour");
    let devices = get(&server, "/hints/100")["devices"].clone();
    assert_eq!(devices.as_array().unwrap().len(), 2, "{devices}");
    assert_eq!(status(&server, "/hints/101"), 404);
    assert_eq!(status(&server, "/hints/102@b.example"), 200);
    let entries = get(&server, "/lists/panel")["entries"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 2, "{entries}");
    assert_eq!(status(&server, "/lists/team"), 200);
    assert_eq!(get(&server, "/tenants/a.example")["max_contacts"], 7);
    assert_eq!(status(&server, "/tenants/b.example"), 200);
    assert_eq!(
        get(&server, "/webhooks/crm")["url"],
        "http://127.0.0.1:9/after"
    );
    assert_eq!(status(&server, "/webhooks/second"), 200);

    // A line of level info is not there any more.
    let before = server.log().matches("accounts_read_again").count();
    assert_eq!(ask(&server, "POST", "/reload", "").0, 200);
    assert_eq!(server.log().matches("accounts_read_again").count(), before);

    place.file(
        "busyhour.toml",
        &configuration("http.requests_per_second = 1", ""),
    );
    assert_eq!(ask(&server, "POST", "/reload", "").0, 200);
    let mut requests = (0..100).map(|_| status(&server, "/hints"));
    assert!(requests.any(|status| status == 429), "the rate is new");
    assert!(server.stop().success());
}

#[test]
fn a_signal_changes_all_that_can_change() {
    all_that_can_change_changes(reload_by_signal);
}

#[test]
fn a_request_changes_all_that_can_change() {
    all_that_can_change_changes(reload_by_request);
}

#[test]
fn what_does_not_fit_beside_what_was_set_over_http_changes_nothing() {
    let place = Place::new();
    let server = place.server(&configuration("", BEFORE));
    for (path, body) in [
        ("/hints/200", json!({ "devices": ["alice"] })),
        ("/lists/wall", json!({ "entries": ["alice"] })),
        (
            "/tenants/c.example",
            json!({ "aliases": ["pbx.c.example"] }),
        ),
        ("/webhooks/other", json!({ "url": "http://127.0.0.1:9/" })),
    ] {
        let (status, said) = ask(&server, "PUT", path, &body.to_string());
        assert!(status < 300, "{path}: {status} {said}");
    }
    let accounts = "[[account]]\nuser = \"alice\"\npassword = \"wonder\"\n";
    for (table, reason) in [
        (
            "[[hint]]\nextension = \"200\"\ndevices = [\"bob\"]",
            "hint 200: it was set over HTTP",
        ),
        (
            "[[list]]\nname = \"wall\"\nentries = [\"bob\"]",
            "list wall: it was set over HTTP",
        ),
        (
            "[[list]]\nname = \"loop\"\nentries = [\"loop\"]",
            "contains itself",
        ),
        (
            "[[domain]]\nname = \"pbx.c.example\"",
            "`pbx.c.example` is a host of the domain `c.example`",
        ),
        (
            "[[webhook]]\nname = \"other\"\nurl = \"http://127.0.0.1:9/\"",
            "webhook other: it was set over HTTP",
        ),
    ] {
        let tables = format!("{accounts}{table}\n");
        let settings = "sip.max_expires_seconds = 4000";
        place.file("busyhour.toml", &configuration(settings, &tables));
        let (status, said) = ask(&server, "POST", "/reload", "");
        assert_eq!(status, 409, "{said}");
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.contains(reason), "{detail}");
    }
    let kept = [
        "/hints/101",
        "/lists/panel",
        "/tenants/a.example",
        "/webhooks/crm",
    ];
    for path in kept {
        assert_eq!(status(&server, path), 200, "{path}");
    }
    assert_eq!(setting(&server, "sip.max_expires_seconds")["value"], "7200");
    assert_eq!(granted(&server, "bob"), "7200");
    server.wait_for_log("the configuration was not reloaded");
    assert!(server.stop().success());
}
