//! What an operator does with a running server over HTTP: settings, log, reload, a small storm, a new password.

use crate::{
    run,
    support::{Place, ServerProcess, busyhour, wait_until},
};
use serde_json::{Value, json};

/// Their digest is in the configuration: `printf %s secret | sha256sum`.
const TOKEN: &str = "secret";
const TOKEN_SHA256: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn configuration(more: &str) -> String {
    format!(
        "[sip]\ndomains = [\"example.com\"]\n{more}\n[[token]]\nname = \"test\"\nscope = \"write\"\nsha256 = \"{TOKEN_SHA256}\"\n"
    )
}

/// Status and body of a request with the token.
fn ask(server: &ServerProcess, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, _, said) = ask_if(server, method, path, body, None);
    (status, said)
}

/// The same with If-Match, and with the ETag of the answer.
fn ask_if(
    server: &ServerProcess,
    method: &str,
    path: &str,
    body: &str,
    tag: Option<&str>,
) -> (u16, String, Value) {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("http://{}/api/v1{path}", server.http))
        .header("authorization", format!("Bearer {TOKEN}"));
    let request = match tag {
        Some(tag) => request.header("if-match", tag),
        None => request,
    };
    let answer = match method {
        "GET" => agent.run(request.body(()).unwrap()),
        _ => agent.run(request.body(body).unwrap()),
    };
    let mut answer = answer.unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    let said = serde_json::from_str(&text).unwrap_or(Value::Null);
    let tag = answer.headers().get("etag");
    let tag = tag.map_or(String::new(), |tag| tag.to_str().unwrap().to_owned());
    (answer.status().as_u16(), tag, said)
}

#[test]
fn settings_are_shown_with_their_origin_and_read_again() {
    let place = Place::new();
    let server = place.server(&configuration(""));
    let (status, said) = ask(&server, "GET", "/settings", "");
    assert_eq!(status, 200);
    let setting = |name: &str| {
        let all = said["settings"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    let origin = setting("sip.domains")["origin"].to_string();
    assert!(origin.contains("busyhour.toml"), "{origin}");
    assert_eq!(setting("sip.realm")["origin"], "default");

    let account = "[[account]]\nuser = \"alice\"\npassword = \"wonder\"";
    place.file(
        "busyhour.toml",
        &configuration(&format!("[http]\nmax_connections = 500\n{account}")),
    );
    let (status, said) = ask(&server, "POST", "/reload", "");
    assert_eq!(
        (status, &said["configured_accounts"]),
        (200, &json!(1)),
        "{said}"
    );
    assert_eq!(said["tokens"], 1);
    assert_eq!(said["needs_restart"], json!(["http.max_connections"]));
    assert_eq!(server.stat("/registrar/account_count"), 0, "of the store");

    place.file("busyhour.toml", &configuration("no_such_key = 1"));
    let (status, said) = ask(&server, "POST", "/reload", "");
    assert_eq!(status, 409, "{said}");
    assert!(said["detail"].as_str().unwrap().contains("no_such_key"));
    assert!(server.stop().success());
}

#[test]
fn the_log_is_read_behind_a_line_and_begins_anew_with_the_server() {
    let place = Place::new();
    let server = place.server(&configuration(""));
    assert_eq!(ask(&server, "POST", "/reload", "").0, 200);
    let (status, said) = ask(&server, "GET", "/log?search=ACCOUNTS%20READ%20AGAIN", "");
    assert_eq!(status, 200);
    let lines = said["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{said}");
    assert_eq!(lines[0]["message"], "accounts read again");
    assert_eq!(lines[0]["event"], "accounts_read_again");
    assert_eq!(lines[0]["fields"]["tokens"], "1");
    server.wait_for_log(" event=accounts_read_again\n");
    let all = ask(&server, "GET", "/log", "").1;
    let last = all["lines"].as_array().unwrap().last().unwrap();
    let behind = format!("/log?after={}", last["number"]);
    assert_eq!(ask(&server, "GET", &behind, "").1["lines"], json!([]));
    assert_eq!(
        ask(&server, "GET", "/log?level=error", "").1["lines"],
        json!([])
    );
    assert_eq!(
        ask(&server, "GET", "/log?level=loud", "").1["field"],
        "level"
    );
    let again = ask(&server, "GET", "/log", "").1["begun_unix_ms"].clone();
    assert_eq!(again, said["begun_unix_ms"]);
    assert!(server.stop().success());
    let server = place.server(&configuration(""));
    let (_, said) = ask(&server, "GET", "/log", "");
    assert!(said["begun_unix_ms"].as_u64() > again.as_u64());
    assert!(server.stop().success());
}

#[test]
fn a_small_storm_registers_and_leaves_no_account_however_it_ends() {
    let place = Place::new();
    let server = place.server(&configuration(""));
    let (status, said) = ask(&server, "POST", "/storm", r#"{"devices": 2001}"#);
    assert_eq!((status, &said["field"]), (400, &json!("devices")));
    let plan = r#"{"devices": 20, "seconds": 1, "watchers": 5}"#;
    let (status, said) = ask(&server, "POST", "/storm", plan);
    assert_eq!((status, &said["is_running"]), (201, &json!(true)), "{said}");
    assert_eq!(ask(&server, "POST", "/storm", plan).0, 409, "one at a time");
    let shown = || ask(&server, "GET", "/storm", "").1;
    wait_until(|| shown()["is_running"] == false, || shown().to_string());
    let report = shown()["report"].clone();
    assert_eq!(report["acknowledged"], 20, "{}", shown());
    assert!(server.stat("/registrar/challenged") >= 20);
    server.wait_for("/registrar/binding_count", |count| count == 0);

    let long = r#"{"devices": 60, "seconds": 60}"#;
    assert_eq!(ask(&server, "POST", "/storm", long).0, 201);
    server.wait_for("/registrar/binding_count", |count| count > 0);
    assert_eq!(server.stat("/registrar/account_count"), 0, "none is stored");
    assert!(server.stop().success());
    let server = place.server(&configuration(""));
    assert_eq!(
        ask(&server, "GET", "/accounts", "").1["accounts"],
        json!([])
    );
    assert_eq!(shown_storm(&server), json!(null));
    assert!(server.stop().success());
}

fn shown_storm(server: &ServerProcess) -> Value {
    ask(server, "GET", "/storm", "").1["plan"].clone()
}

#[test]
fn a_new_password_changes_nothing_else_of_an_account() {
    let place = Place::new();
    let server = place.server(&configuration(""));
    let entry = r#"{"password": "old", "mailbox": "sales", "hints": ["100"], "max_contacts": 3, "aliases": ["al"], "watchers": ["bob"]}"#;
    assert_eq!(ask(&server, "PUT", "/accounts/alice", entry).0, 201);
    let before = ask(&server, "GET", "/accounts/alice", "").1;
    let (status, said) = ask(&server, "POST", "/accounts/alice/password", "");
    let made = said["password"].as_str().unwrap().to_owned();
    assert_eq!((status, made.len()), (200, 20));
    assert_eq!(ask(&server, "GET", "/accounts/alice", "").1, before);
    assert!(registers(&server, &place, &made), "with the new one");
    let given = r#"{"password": "given"}"#;
    let (status, said) = ask(&server, "POST", "/accounts/alice/password", given);
    assert_eq!((status, &said["password"]), (200, &Value::Null));
    assert!(registers(&server, &place, "given"));
    assert!(!registers(&server, &place, &made), "the old one is gone");
    assert_eq!(ask(&server, "POST", "/accounts/bob/password", "").0, 404);
    assert!(server.stop().success());
}

fn registers(server: &ServerProcess, place: &Place, password: &str) -> bool {
    let mut storm = busyhour();
    storm.args([
        "storm",
        "--devices",
        "1",
        "--over",
        "1ms",
        "--domain",
        "example.com",
    ]);
    storm.args(["--auth", &format!("alice:{password}")]);
    storm.args(["--target", &server.sip.to_string()]);
    storm.arg("--store-path").arg(place.path("none.db"));
    run(&mut storm).0 == 0
}

#[test]
fn a_disabled_account_is_refused_until_it_is_enabled() {
    let place = Place::new();
    let server = place.server(&configuration(""));
    assert_eq!(
        ask(
            &server,
            "PUT",
            "/accounts/alice",
            r#"{"password": "wonder"}"#
        )
        .0,
        201
    );
    assert!(registers(&server, &place, "wonder"));
    server.wait_for("/registrar/binding_count", |count| count == 1);
    let (_, tag, _) = ask_if(&server, "GET", "/accounts/alice", "", None);
    let disable = r#"{"disabled": true}"#;
    let (status, _, said) = ask_if(&server, "PATCH", "/accounts/alice", disable, Some("\"x\""));
    assert_eq!(status, 412, "{said}");
    let (status, after, said) = ask_if(&server, "PATCH", "/accounts/alice", disable, Some(&tag));
    assert_eq!((status, &said["disabled"]), (200, &json!(true)), "{said}");
    assert_ne!(tag, after);
    let (_, read, _) = ask_if(&server, "GET", "/accounts/alice", "", None);
    assert_eq!(after, read, "the tag of an answer is that of the next look");
    server.wait_for("/registrar/binding_count", |count| count == 0);
    assert!(!registers(&server, &place, "wonder"));
    let (_, failures) = ask(&server, "GET", "/failures?user=alice", "");
    assert_eq!(
        failures["failures"][0]["reason"], "Account Disabled",
        "{failures}"
    );
    let (_, device) = ask(&server, "GET", "/devices/alice", "");
    assert_eq!(device["state"], "disabled", "{device}");
    let (_, found) = ask(&server, "GET", "/devices?state=offline", "");
    assert_eq!(found["match_count"], 0, "{found}");
    assert_eq!(ask(&server, "PATCH", "/accounts/bob", disable).0, 404);
    assert!(server.stop().success());

    let server = place.server(&configuration(""));
    assert!(!registers(&server, &place, "wonder"), "after a restart too");
    let device = |words: &[&str]| {
        let mut command = busyhour();
        command.arg("device").args(words).arg("--store-path");
        run(command.arg(place.path("busyhour.db")))
    };
    assert!(device(&["list"]).1.contains("disabled"));
    let (_, exported, _) = device(&["export", "--format", "json"]);
    assert!(exported.contains("\"disabled\": true"), "{exported}");
    assert_eq!(device(&["enable", "alice", "nobody"]).0, 1);
    let is_enabled = || ask(&server, "GET", "/accounts/alice", "").1["disabled"] == false;
    wait_until(is_enabled, || server.log());
    assert!(registers(&server, &place, "wonder"));
    assert_eq!(device(&["disable", "alice"]).0, 0);
    server.wait_for("/registrar/binding_count", |count| count == 0);
    assert!(server.stop().success());
}

/// Many clients change one mailbox, each what it has read: nothing that was written is lost.
#[test]
fn changes_with_a_condition_do_not_overwrite_each_other() {
    let place = Place::new();
    let server = place.server(&configuration(""));
    let zero = r#"{"voice": {"new": 0, "old": 0}}"#;
    assert_eq!(ask(&server, "PUT", "/mailboxes/100", zero).0, 201);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| count_one_more(&server)));
        }
    });
    let (_, said) = ask(&server, "GET", "/mailboxes/100", "");
    assert_eq!(said["voice"]["new"], 20, "{said}");
    let (status, _, said) = ask_if(&server, "DELETE", "/mailboxes/100", "", Some("\"x\""));
    assert_eq!(status, 412, "{said}");
    assert_eq!(
        ask_if(&server, "DELETE", "/mailboxes/100", "", Some("*")).0,
        204
    );
    assert_eq!(
        ask_if(&server, "PUT", "/mailboxes/100", zero, Some("*")).0,
        412
    );
    assert!(server.stop().success());
}

fn count_one_more(server: &ServerProcess) {
    loop {
        let (_, tag, said) = ask_if(server, "GET", "/mailboxes/100", "", None);
        let more = said["voice"]["new"].as_u64().unwrap() + 1;
        let body = json!({ "voice": { "new": more, "old": 0 } }).to_string();
        match ask_if(server, "PUT", "/mailboxes/100", &body, Some(&tag)).0 {
            200 => return,
            412 => {}
            other => panic!("{other}"),
        }
    }
}
