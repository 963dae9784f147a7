//! An operator changes accounts by commands and over HTTP, while a server runs.

use crate::support::{Place, ServerProcess, busyhour, wait_until};
use md5::{Digest, Md5};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::{
    io::Write,
    net::UdpSocket,
    process::{Command, Output, Stdio},
};

/// The command `busyhour device …` with the store of a place.
fn device(place: &Place, words: &[&str]) -> Command {
    let mut command = busyhour();
    command.arg("device").args(words);
    command.arg("--store-path").arg(place.path("busyhour.db"));
    command
}

/// Runs a command with this text on its standard input.
fn run(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments may end before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn good(place: &Place, words: &[&str], input: &str) -> String {
    let output = run(device(place, words), input);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn bad(place: &Place, words: &[&str], input: &str) -> (Option<i32>, String) {
    let output = run(device(place, words), input);
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        words.lines().all(|line| line.starts_with("busyhour: ")),
        "{words}"
    );
    (output.status.code(), words)
}

/// Registers once with the storm; returns whether it was acknowledged.
fn registers(server: &ServerProcess, user: &str, password: &str) -> bool {
    let mut command = busyhour();
    command.args(["storm", "--devices", "1", "--over", "10ms"]);
    command.args(["--target", &server.sip.to_string()]);
    command.args(["--auth", &format!("{user}:{password}")]);
    command.output().unwrap().status.success()
}

#[test]
fn devices_are_added_listed_and_removed() {
    let place = Place::new();
    let words = [
        "add",
        "alice",
        "--create",
        "--max-contacts",
        "2",
        "--mailbox",
        "100",
        "--hint",
        "200",
    ];
    let database = place.path("busyhour.db").display().to_string();
    assert_eq!(
        good(&place, &words, "wonder\n"),
        format!("alice: may register in the realm busyhour (database {database})\n")
    );
    let (code, words) = bad(&place, &["add", "alice"], "x\n");
    assert_eq!(code, Some(1));
    assert!(words.contains("--replace"), "{words}");
    good(&place, &["add", "alice", "--replace", "--iax2"], "wonder\n");
    let shown: Value = serde_json::from_str(&good(
        &place,
        &["show", "alice", "--json", "--http", NOBODY],
        "",
    ))
    .unwrap();
    assert_eq!(
        shown,
        json!({
            "user": "alice", "realm": "busyhour", "algorithms": ["MD5", "SHA-256", "SHA-512-256"],
            "iax2": true, "max_contacts": null, "mailbox": null, "hints": [], "store": database,
            "disabled": false,
            "failures": null, "bindings": null,
        })
    );
    let shown = good(&place, &["show", "alice", "--http", NOBODY], "");
    assert!(
        shown.contains("unknown: no server answers at 127.0.0.1:1"),
        "{shown}"
    );
    assert!(good(&place, &["list"], "").contains("alice"));
    let removed = format!("alice: removed from database {database}\n");
    assert_eq!(good(&place, &["remove", "alice"], ""), removed);
    let (code, words) = bad(&place, &["remove", "alice"], "");
    assert_eq!(code, Some(1));
    assert!(words.contains("there is no device `alice`"), "{words}");
    assert_eq!(bad(&place, &["show", "alice"], "").0, Some(1));
}

#[test]
fn wrong_usage_is_reported_and_changes_nothing() {
    let place = Place::new();
    good(&place, &["add", "x", "--create"], "x\n");
    good(&place, &["remove", "x"], "");
    assert_eq!(bad(&place, &["add", "a b"], "x\n").0, Some(2));
    assert_eq!(bad(&place, &["add", "alice"], "\n").0, Some(2));
    assert_eq!(
        bad(
            &place,
            &["add", "alice", "--store-durability", "memory"],
            "x\n"
        )
        .0,
        Some(2)
    );
    let file = place.file("devices.csv", "user,password\nalice,x\nb b,y\n");
    let (code, words) = bad(&place, &["import", file.to_str().unwrap()], "");
    assert_eq!(code, Some(2));
    assert!(
        words.contains("line 3: `b b` is not a user name"),
        "{words}"
    );
    let listed: Value = serde_json::from_str(&good(&place, &["list", "--json"], "")).unwrap();
    assert_eq!(listed["devices"], json!([]));
}

/// If a device is invalid, the command reads no password and makes no database.
#[test]
fn a_device_is_refused_before_its_password_is_asked_for() {
    let place = Place::new();
    let refusal = |words: &[&str]| {
        let (code, words) = bad(&place, words, "");
        assert_eq!(code, Some(2), "{words}");
        words
    };
    let name = refusal(&["add", "a b", "--create"]);
    assert!(
        name.starts_with("busyhour: `a b` is not a user name; "),
        "{name}"
    );
    assert!(!name.contains("password"), "{name}");
    let mailbox = refusal(&["add", "alice", "--create", "--mailbox", "m m"]);
    assert!(mailbox.contains("mailbox: `m m`"), "{mailbox}");
    assert!(!mailbox.contains("password"), "{mailbox}");
    let hash = refusal(&["add", "alice", "--create", "--md5", "zz"]);
    assert!(hash.contains("md5: give 32 hexadecimal digits"), "{hash}");
    assert!(!place.path("busyhour.db").exists());
}

/// A server with an account for bob, and its HTTP address.
fn with_bob() -> (Place, ServerProcess, String) {
    let place = Place::new();
    let server = place.server("");
    good(&place, &["add", "bob"], "right\n");
    server.wait_for("/registrar/account_count", |count| count == 1);
    let http = server.http.to_string();
    (place, server, http)
}

#[test]
fn where_a_device_is_registered_is_shown() {
    let (place, server, http) = with_bob();
    let shown = good(&place, &["show", "bob", "--http", &http], "");
    assert!(shown.contains("registered  not now"), "{shown}");
    assert!(registers(&server, "bob", "right"));
    let shown = good(&place, &["show", "bob", "--http", &http], "");
    assert!(shown.contains("registered  sip:bob@"), "{shown}");
    assert!(shown.contains(" s left"), "{shown}");
    let words = ["show", "bob", "--json", "--http", &http];
    let shown: Value = serde_json::from_str(&good(&place, &words, "")).unwrap();
    assert_eq!(
        shown["bindings"].as_array().map(Vec::len),
        Some(1),
        "{shown}"
    );
    let of_carol = server.get("/api/bindings?user=carol");
    assert_eq!(of_carol, r#"{"bindings":[],"next":null}"#);
}

/// The account is there since the server has started, and bob is registered.
fn registered_bob(place: &Place, configuration: &str) -> ServerProcess {
    good(place, &["add", "bob", "--create"], "right\n");
    let server = place.server(configuration);
    assert!(registers(&server, "bob", "right"));
    server
}

#[test]
fn a_server_without_http_is_asked_on_its_local_socket() {
    let place = Place::new();
    let _server = registered_bob(&place, "[http]\nlisten = \"off\"\n");
    let show = |words: &[&str]| {
        let mut command = device(&place, &[&["show", "bob"], words].concat());
        place.keep_sockets_here(&mut command);
        String::from_utf8(run(command, "").stdout).unwrap()
    };
    let configuration = place.path("busyhour.toml");
    let shown = show(&["--config", configuration.to_str().unwrap()]);
    assert!(shown.contains("registered  sip:bob@"), "{shown}");
    let sockets = place.path("run");
    let mut sockets = std::fs::read_dir(sockets).unwrap();
    let socket = sockets.next().unwrap().unwrap().path();
    let shown = show(&["--socket", socket.to_str().unwrap()]);
    assert!(shown.contains("registered  sip:bob@"), "{shown}");
}

#[test]
fn the_socket_of_the_configuration_is_asked_before_its_address() {
    let place = Place::new();
    let socket = place.path("own.sock");
    let settings = |listen: &str| {
        let socket = socket.display();
        format!("[http]\nlisten = \"{listen}\"\nsocket = \"{socket}\"\n")
    };
    let server = registered_bob(&place, &settings("off"));
    // Nobody listens at this address.
    let file = place.path("other.toml");
    std::fs::write(&file, settings(NOBODY)).unwrap();
    let words = ["show", "bob", "--config", file.to_str().unwrap()];
    let shown = good(&place, &words, "");
    assert!(shown.contains("registered  sip:bob@"), "{shown}");
    assert!(server.stop().success());
    let shown = good(&place, &words, "");
    let unknown = "failures    unknown: no server answers at ";
    assert!(shown.contains(unknown) && shown.contains(NOBODY), "{shown}");
    std::fs::write(&file, "[http]\nlisten = \"off\"\nsocket = \"off\"\n").unwrap();
    let shown = good(&place, &words, "");
    let both = "unknown: the server has neither HTTP nor a local socket";
    assert!(shown.contains(both), "{shown}");
}

#[test]
fn the_reason_why_a_device_does_not_register_is_shown() {
    let (place, server, http) = with_bob();
    let shown = good(&place, &["show", "bob", "--http", &http], "");
    assert!(shown.contains("none that the server remembers"), "{shown}");
    assert!(!registers(&server, "bob", "wrong"));
    assert!(!registers(&server, "nobody", "wrong"));

    let shown = good(&place, &["show", "bob", "--http", &http], "");
    assert!(shown.contains("over UDP: wrong password (once)"), "{shown}");
    let (code, words) = bad(&place, &["show", "nobody", "--http", &http], "");
    assert_eq!(code, Some(1));
    assert!(words.contains("there is no device `nobody`"), "{words}");
    assert!(
        words.contains("over UDP: unknown account (once)"),
        "{words}"
    );
    let words = ["show", "bob", "--json", "--http", &http];
    let shown: Value = serde_json::from_str(&good(&place, &words, "")).unwrap();
    let failure = &shown["failures"][0];
    assert_eq!(
        (&failure["reason"], &failure["count"]),
        (&json!("wrong password"), &json!(1))
    );
    let listed: Value = serde_json::from_str(&server.get("/api/failures?user=nobody")).unwrap();
    assert_eq!(listed["failures"][0]["reason"], "unknown account");
    let all: Value = serde_json::from_str(&server.get("/api/failures")).unwrap();
    assert_eq!(all["failures"].as_array().map(Vec::len), Some(2), "{all}");
    let account: Value = serde_json::from_str(&server.get("/api/accounts/bob")).unwrap();
    assert_eq!(account["failures"], shown["failures"]);
    server.wait_for_log("protocol=\"sip\" reason=\"wrong password\" user=\"bob\"");

    assert!(registers(&server, "bob", "right"));
    server.wait_for_log("registration added source=127.0.0.1 port=");
}

/// A telephone without a password, or with the password of another server, stops when
/// it is challenged.
#[test]
fn a_device_that_does_not_answer_its_challenge_is_shown() {
    let (place, server, http) = with_bob();
    let telephone = Telephone::new(&server);
    for user in ["bob", "bob", "nobody"] {
        telephone.challenge(user, "");
    }
    let reason = "asked for a password, never answered";
    let shown = good(&place, &["show", "bob", "--http", &http], "");
    let line = format!("over UDP: {reason} (2 times)");
    assert!(shown.contains(&line), "{shown}");
    let words = ["show", "bob", "--json", "--http", &http];
    let shown: Value = serde_json::from_str(&good(&place, &words, "")).unwrap();
    assert_eq!(shown["failures"][0]["reason"], reason, "{shown}");
    assert_eq!(shown["failures"][0]["count"], 2, "{shown}");
    // Only users who have an account are listed; otherwise anyone could fill the
    // memory.
    let all: Value = serde_json::from_str(&server.get("/api/failures")).unwrap();
    assert_eq!(all["failures"], shown["failures"], "{all}");
    assert_eq!(
        server.get("/api/failures?user=nobody"),
        r#"{"failures":[]}"#
    );
    // A telephone that answers the challenge is not listed, whether the answer is
    // right or wrong.
    assert!(!registers(&server, "bob", "wrong"));
    let shown = good(&place, &["show", "bob", "--http", &http], "");
    assert!(!shown.contains(reason), "{shown}");
    assert!(shown.contains("wrong password (once)"), "{shown}");
    assert!(registers(&server, "bob", "right"));
    let all = server.get("/api/failures");
    assert!(!all.contains(reason), "{all}");
}

/// Each of these telephones is challenged as often as it sends a request.
#[test]
fn a_device_whose_credentials_are_never_right_is_shown() {
    let (place, server, http) = with_bob();
    let telephone = Telephone::new(&server);
    let never = "asked for a password, never answered";
    let shown = || good(&place, &["show", "bob", "--http", &http], "");
    let credentials = |nonce: &str, response: &str, more: &str| {
        format!(
            "Authorization: Digest username=\"bob\", realm=\"busyhour\", nonce=\"{nonce}\", \
             uri=\"sip:127.0.0.1\", response=\"{response}\"{more}\r\n"
        )
    };

    // The telephone sends its user name before it is challenged, and then
    // stops.
    telephone.challenge("bob", &credentials("", "", ""));
    assert!(shown().contains(&format!("{never} (once)")), "{}", shown());
    // The telephone uses a nonce that was never sent to its address.
    telephone.challenge("bob", &credentials("6543210f00", "0", ""));
    let told = format!("{never} (2 times)");
    assert!(shown().contains(&told), "{}", shown());

    let nonce = telephone.challenge("bob", "");
    for more in [
        ", algorithm=MD5-sess, qop=auth, nc=00000001, cnonce=\"c\"",
        ", algorithm=MD5, qop=auth-int, nc=00000001, cnonce=\"c\"",
        ", algorithm=MD5, qop=auth",
    ] {
        telephone.challenge("bob", &credentials(&nonce, &"0".repeat(32), more));
    }
    let told = shown();
    assert!(
        told.contains("algorithm or qop not offered (3 times)"),
        "{told}"
    );
    assert!(!told.contains(never), "the telephone has answered: {told}");
}

/// It does not read the nonce of the second challenge, and repeats its answer to the first.
#[test]
fn a_device_that_answers_its_first_nonce_for_ever_is_told() {
    let (place, server, http) = with_bob();
    let shown = || good(&place, &["show", "bob", "--http", &http], "");
    let telephone = Telephone::new(&server);
    let nonce = telephone.challenge("bob", "");
    let secret = md5("bob:busyhour:right");
    let response = md5(&format!(
        "{secret}:{nonce}:{}",
        md5("REGISTER:sip:127.0.0.1")
    ));
    let answer = format!(
        "Authorization: Digest username=\"bob\", realm=\"busyhour\", nonce=\"{nonce}\", \
         uri=\"sip:127.0.0.1\", response=\"{response}\"\r\n"
    );
    let accepted = telephone.register("bob", &answer);
    assert!(accepted.starts_with("SIP/2.0 200 "), "{accepted}");
    let old = "asked again since its nonce was too old, never answered that";
    assert!(!shown().contains(old), "{}", shown());
    for _ in 0..3 {
        telephone.challenge("bob", &answer);
    }
    let told = shown();
    assert!(told.contains(&format!("{old} (3 times)")), "{told}");
    // As soon as it answers the newest one, nothing is wrong.
    assert!(registers(&server, "bob", "right"));
    let told = shown();
    assert!(!told.contains(old), "{told}");
}

/// A telephone that sends what a test gives it, from one address.
struct Telephone {
    socket: UdpSocket,
    sent: std::cell::Cell<u32>,
}

impl Telephone {
    fn new(server: &ServerProcess) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.sip).unwrap();
        socket
            .set_read_timeout(Some(std::time::Duration::from_secs(20)))
            .unwrap();
        let sent = std::cell::Cell::new(0);
        Self { socket, sent }
    }

    /// Sends a REGISTER of `user` with these additional header lines, which must be
    /// answered with 401, and returns the nonce of the answer.
    fn challenge(&self, user: &str, more: &str) -> String {
        let answer = self.register(user, more);
        assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
        let (_, nonce) = answer.split_once("nonce=\"").unwrap();
        nonce.split_once('"').unwrap().0.to_owned()
    }

    /// Sends a REGISTER of `user` with these additional header lines, and returns the
    /// answer.
    fn register(&self, user: &str, more: &str) -> String {
        let address = self.socket.local_addr().unwrap();
        let number = self.sent.replace(self.sent.get() + 1);
        let request = format!(
            "REGISTER sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bK{number}\r\n\
             From: <sip:{user}@127.0.0.1>;tag=t\r\nTo: <sip:{user}@127.0.0.1>\r\n\
             Call-ID: c{number}\r\nCSeq: 1 REGISTER\r\nContact: <sip:{user}@{address}>\r\n\
             {more}Content-Length: 0\r\n\r\n"
        );
        self.socket.send(request.as_bytes()).unwrap();
        let mut answer = [0; 2048];
        let len = self.socket.recv(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..len]).into_owned()
    }
}

/// As in digest without `qop` (RFC 2617 §3.2.2).
fn md5(text: &str) -> String {
    let hash = Md5::digest(text);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// No server listens for HTTP at this address.
const NOBODY: &str = "127.0.0.1:1";

#[test]
fn a_running_server_uses_imported_accounts() {
    let place = Place::new();
    let server = place.server("");
    assert!(!registers(&server, "d7", "p7"));
    let mut file = String::from("user,password\n");
    for number in 0..2500 {
        file += &format!("d{number},p{number}\n");
    }
    let file = place.file("devices.csv", &file);
    let words = good(&place, &["import", file.to_str().unwrap(), "--json"], "");
    let report: Value = serde_json::from_str(&words).unwrap();
    assert_eq!(report["devices"], 2500);
    server.wait_for("/registrar/account_count", |count| count == 2500);
    assert!(registers(&server, "d7", "p7"));
    assert!(!registers(&server, "d7", "p8"));
    good(&place, &["remove", "d7"], "");
    server.wait_for("/registrar/account_count", |count| count == 2499);
    assert!(!registers(&server, "d7", "p7"));
}

#[test]
fn changes_of_accounts_over_http_need_a_token_and_apply_at_once() {
    let place = Place::new();
    let made = busyhour()
        .args(["token", "shop", "--scope", "write", "--json"])
        .output()
        .unwrap();
    let token: Value = serde_json::from_slice(&made.stdout).unwrap();
    let mut server = place.server("");
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let put = |server: &ServerProcess, user: &str, body: &str| {
        let url = format!("http://{}/api/accounts/{user}", server.http);
        agent
            .put(url)
            .header("authorization", &bearer)
            .send(body)
            .unwrap()
    };
    assert_eq!(put(&server, "alice", "{}").status(), 401);
    let entry = format!(
        "[[token]]\nname = \"shop\"\nscope = \"write\"\nsha256 = {}\n",
        token["sha256"]
    );
    place.file("busyhour.toml", &entry);
    server.signal(Signal::SIGHUP);
    server.wait_for_log("accounts read again");

    assert_eq!(
        put(&server, "alice", r#"{"password": "wonder"}"#).status(),
        201
    );
    assert!(registers(&server, "alice", "wonder"));
    assert_eq!(
        put(&server, "alice", r#"{"password": "other"}"#).status(),
        200
    );
    assert!(!registers(&server, "alice", "wonder"));
    assert_eq!(put(&server, "alice", r#"{"pasword": "x"}"#).status(), 400);
    assert_eq!(
        put(&server, "alice", r#"{"user": "bob", "password": "x"}"#).status(),
        400
    );
    let page: Value = serde_json::from_str(&server.get("/api/accounts?limit=1")).unwrap();
    assert_eq!(page["accounts"][0]["user"], "alice");
    assert!(!page.to_string().contains("other"));

    server.signal(Signal::SIGKILL);
    server.wait();
    let server = place.server(&entry);
    assert!(
        registers(&server, "alice", "other"),
        "the account was durable"
    );
    let url = format!("http://{}/api/accounts/alice", server.http);
    let delete = || {
        agent
            .delete(&url)
            .header("authorization", &bearer)
            .call()
            .unwrap()
    };
    assert_eq!(delete().status(), 204);
    assert_eq!(delete().status(), 404);
    assert!(!registers(&server, "alice", "other"));
}

/// A limit of an account applies together with the server's limit.
#[test]
fn an_account_may_have_fewer_contacts_than_others() {
    let place = Place::new();
    good(
        &place,
        &["add", "few", "--create", "--max-contacts", "1"],
        "x\n",
    );
    good(&place, &["add", "many"], "x\n");
    let server = place.server("");
    // Two storms register from two ports, so they have two contacts.
    assert!(registers(&server, "few", "x"));
    assert!(!registers(&server, "few", "x"));
    assert!(registers(&server, "many", "x"));
    assert!(registers(&server, "many", "x"));
}

/// A command must not use the wrong database and report success.
#[test]
fn every_command_names_its_store_and_none_creates_one_unasked() {
    let place = Place::new();
    let database = place.path("busyhour.db").display().to_string();
    let file = place.file("devices.csv", "user,password\nalice,x\n");
    let import = ["import", file.to_str().unwrap(), "--json"];
    for words in [
        &["list"][..],
        &["show", "alice"],
        &["remove", "alice"],
        &["add", "alice"],
        &import,
    ] {
        let (code, said) = bad(&place, words, "x\n");
        assert_eq!(code, Some(1), "{words:?}");
        let problem = format!("there is no database of busyhour at {database}; ");
        assert!(said.contains(&problem), "{said}");
        assert!(
            said.contains("--store-path") && said.contains("--create"),
            "{said}"
        );
    }
    assert!(!place.path("busyhour.db").exists());
    let created = good(&place, &[&import[..], &["--create"]].concat(), "");
    for said in [
        created,
        good(&place, &["list"], ""),
        good(&place, &["list", "--json"], ""),
        good(&place, &["show", "alice"], ""),
        good(&place, &["show", "alice", "--json"], ""),
        good(&place, &["import", import[1], "--dry-run"], ""),
        good(&place, &["import", import[1]], ""),
        good(&place, &["remove", "alice"], ""),
        bad(&place, &["show", "alice"], "").1,
    ] {
        assert!(said.contains(&database), "{said}");
    }
    let url = "postgres://busyhour:topsecret@127.0.0.1:1/busyhour";
    let mut list = busyhour();
    list.args(["device", "list", "--store-url", url]);
    let said = String::from_utf8(run(list, "").stderr).unwrap();
    assert!(said.contains("busyhour:***@127.0.0.1:1/busyhour"), "{said}");
}

/// As the reference describes it for a server without configuration.
#[test]
fn hints_name_users_alone_if_the_server_has_no_domain() {
    let place = Place::new();
    let token = "[[token]]\nname = \"test\"\nscope = \"write\"\nsha256 = \
        \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\n";
    let server = place.server(token);
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let put = agent.put(format!("http://{}/api/hints/100", server.http));
    let mut put = put
        .header("authorization", "Bearer secret")
        .send(r#"{"devices": ["alice", "bob"]}"#)
        .unwrap();
    let said = put.body_mut().read_to_string().unwrap();
    assert_eq!(put.status(), 201, "{said}");
    good(&place, &["add", "bob", "--hint", "200"], "x\n");
    server.wait_for("/hint/hint_count", |count| count == 2);
    let state = |hint: &str| -> Value {
        let text = server.get(&format!("/api/hints/{hint}"));
        serde_json::from_str::<Value>(&text).unwrap()["state"].clone()
    };
    for hint in ["100", "200"] {
        assert_eq!(state(hint), "unavailable");
    }
    assert!(registers(&server, "bob", "x"));
    for hint in ["100", "200"] {
        wait_until(|| state(hint) == "idle", || state(hint).to_string());
    }
}

/// A command without effect must not look as if it had one.
#[test]
fn a_hint_of_an_account_that_matches_no_domain_is_reported_in_the_log() {
    let place = Place::new();
    good(&place, &["add", "bob", "--create", "--hint", "200"], "x\n");
    let mut serve = place.serve();
    let arguments: Vec<String> = serve
        .get_args()
        .map(|word| word.to_str().unwrap().into())
        .collect();
    serve = busyhour();
    serve.args(arguments.iter().map(|word| match word.as_str() {
        "127.0.0.1:0" => "0.0.0.0:0",
        word => word,
    }));
    let server = ServerProcess::start(&mut serve, &place);
    server.wait_for_log("hints of accounts have no effect");
    assert!(server.log().contains("sip.domains"), "{}", server.log());
    assert!(server.stop().success());
}
