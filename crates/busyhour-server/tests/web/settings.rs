//! Mailboxes and hints over HTTP; the server behind has no network.

use crate::exchange::{Silent, open_config};
use busyhour::runtime::Runtime;
use busyhour_server::{
    server::{HintConfig, Limits, Server, ServerConfig},
    web::{Access, GraphOptions, Graphs, Scope, Token, Web, WebOptions},
};
use busyhour_store::{MemoryStore, SqliteOptions, SqliteStore, Store};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use ureq::Agent;

const AUTHORIZATION: &str = "authorization";
const BEARER: &str = "Bearer secret";

struct Fixture {
    web: Web,
    agent: Agent,
    server: Arc<Server>,
    runtime: Runtime,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Box::new(MemoryStore::new()))
    }

    fn with(store: Box<dyn Store>) -> Self {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let server = Server::start(runtime.clone(), config(), Arc::new(Silent), store).unwrap();
        let server = Arc::new(server);
        let graphs = Graphs::new(&runtime, GraphOptions::default(), Vec::new());
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)));
        let tokens = vec![Token::new("test", Scope::Write, "secret")];
        let options = WebOptions {
            tls: None,
            operator: None,
            certificates: None,
            telephone: None,
            challenges: None,
            address: Some("127.0.0.1:0".parse().unwrap()),
            socket: None,
            connections_max: 16,
            connections_per_source_max: 16,
            patience: Duration::from_secs(60),
            access: Arc::new(Access::new(Vec::new(), tokens)),
        };
        Self {
            web: Web::start(options, server.clone(), graphs).unwrap(),
            agent: agent.build().into(),
            server,
            runtime,
        }
    }

    /// Ends the server as the program does; then the database is free.
    fn end(self) {
        drop(self.web);
        assert!(self.server.shutdown(Duration::from_secs(60)));
        self.runtime.shutdown(Duration::from_secs(60));
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.web.address().unwrap())
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut response = self.agent.get(self.url(path)).call().unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), text)
    }

    fn put(&self, path: &str, body: &str) -> (u16, String) {
        let request = self.agent.put(self.url(path));
        let mut response = request.header(AUTHORIZATION, BEARER).send(body).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), text)
    }

    fn delete(&self, path: &str) -> u16 {
        let request = self.agent.delete(self.url(path));
        let response = request.header(AUTHORIZATION, BEARER).call().unwrap();
        response.status().as_u16()
    }
}

#[test]
fn a_mailbox_is_set_read_listed_and_removed() {
    let fixture = Fixture::new();
    assert_eq!(fixture.get("/api/mailboxes/alice").0, 404);
    let (status, text) = fixture.put("/api/mailboxes/alice", r#"{"voice":{"new":2,"old":8}}"#);
    assert_eq!(status, 201, "{text}");
    let told =
        json!({"id": "alice", "voice": {"new": 2, "old": 8, "urgent_new": 0, "urgent_old": 0}});
    assert_eq!(read(&text), told);
    assert_eq!(
        fixture.put("/api/mailboxes/alice", r#"{"waiting":true}"#).0,
        200
    );
    assert_eq!(fixture.put("/api/mailboxes/bob%40x", "{}").0, 201);
    let (status, text) = fixture.get("/api/mailboxes?limit=1");
    assert_eq!(status, 200);
    let page = json!({"mailboxes": [{"id": "alice", "waiting": true}], "next": "alice"});
    assert_eq!(read(&text), page);
    let (_, text) = fixture.get("/api/mailboxes?after=alice");
    assert_eq!(
        read(&text),
        json!({"mailboxes": [{"id": "bob@x"}], "next": null})
    );
    assert_eq!(
        fixture.put("/api/mailboxes/carol", "{}").0,
        409,
        "limits.mailboxes"
    );
    assert_eq!(fixture.delete("/api/mailboxes/alice"), 204);
    assert_eq!(fixture.delete("/api/mailboxes/alice"), 404);
}

#[test]
fn a_hint_is_set_read_listed_and_removed_but_not_where_the_file_has_it() {
    let fixture = Fixture::new();
    let (status, text) = fixture.put("/api/hints/200", r#"{"devices":["alice","bob"]}"#);
    assert_eq!(status, 201, "{text}");
    let devices = ["sip:alice@example.com", "sip:bob@example.com"];
    let told = json!({
        "extension": "200", "devices": devices, "state": "unavailable", "configured": false
    });
    assert_eq!(read(&text), told);
    assert_eq!(read(&fixture.get("/api/hints/200").1), told);
    let (_, text) = fixture.get("/api/hints?limit=1");
    assert_eq!(read(&text)["hints"][0]["extension"], "100");
    assert_eq!(read(&text)["next"], "100");
    assert_eq!(fixture.delete("/api/hints/100"), 409);
    let (status, text) = fixture.put("/api/hints/100", r#"{"devices":["bob"]}"#);
    assert_eq!(
        (status, text.contains("configuration file")),
        (409, true),
        "{text}"
    );
    assert_eq!(fixture.delete("/api/hints/200"), 204);
    assert_eq!(fixture.delete("/api/hints/200"), 404);
    assert_eq!(fixture.get("/api/hints/200").0, 404);
}

#[test]
fn settings_are_there_after_the_next_start() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("busyhour.db");
    let store = || Box::new(SqliteStore::open(SqliteOptions::new(&path)).unwrap());
    let first = Fixture::with(store());
    for (path, body) in [
        ("/api/mailboxes/alice", r#"{"voice":{"new":2,"old":8}}"#),
        ("/api/mailboxes/bob", "{}"),
        (
            "/api/hints/200",
            r#"{"devices":["alice","sip:bob@example.com"]}"#,
        ),
        ("/api/hints/300", r#"{"devices":["alice"]}"#),
    ] {
        assert_eq!(first.put(path, body).0, 201, "{path}");
    }
    assert_eq!(first.delete("/api/mailboxes/bob"), 204);
    assert_eq!(first.delete("/api/hints/300"), 204);
    let read = |fixture: &Fixture| ["/api/mailboxes", "/api/hints"].map(|path| fixture.get(path));
    let before = read(&first);
    first.end();
    let second = Fixture::with(store());
    assert_eq!(read(&second), before);
    assert!(before[0].1.contains("\"new\":2"), "{before:?}");
    assert!(before[1].1.contains("sip:bob@example.com"), "{before:?}");
}

#[test]
fn an_invalid_setting_is_400_with_the_reason() {
    let fixture = Fixture::new();
    for (path, body, reason) in [
        (
            "/api/mailboxes/alice",
            "",
            "body: line 1, column 0: the JSON ends too early",
        ),
        (
            "/api/mailboxes/alice",
            "{\"voice\":{\"new\":-1}}",
            "body: line 1, column 18: found a negative number where a whole number belongs",
        ),
        (
            "/api/mailboxes/alice",
            "{\"smell\":{}}",
            "unknown field `smell`",
        ),
        (
            "/api/mailboxes/alice",
            "{\"voice\":{\"urgent_new\":1}}",
            "More Urgent Messages",
        ),
        (
            "/api/mailboxes/alice",
            "{\"account\":\"no uri\"}",
            "Message-Account Is No URI",
        ),
        (
            "/api/mailboxes/a%20b",
            "{}",
            "a mailbox has a name of 1 to 128",
        ),
        (
            "/api/hints/1%200",
            "{\"devices\":[\"alice\"]}",
            "an extension is 1 to 64",
        ),
        ("/api/hints/100", "{}", "field `devices` is missing"),
        ("/api/hints/300", "{\"devices\":[]}", "1 to 64 devices"),
        (
            "/api/hints/300",
            "{\"devices\":[\"sip:a@elsewhere.org\"]}",
            "device `sip:a@elsewhere.org`",
        ),
    ] {
        let (status, text) = fixture.put(path, body);
        assert_eq!(status, 400, "{path} {body} {text}");
        assert!(text.contains(reason), "{path} {body} {text}");
    }
    for path in ["/api/mailboxes?limit=0", "/api/hints?limit=100001"] {
        assert_eq!(fixture.get(path).0, 400, "{path}");
    }
    assert_eq!(
        fixture.put("/api/mailboxes/alice", &" ".repeat(70_000)).0,
        413
    );
}

#[test]
fn setting_something_needs_a_token() {
    let fixture = Fixture::new();
    for path in ["/api/mailboxes/alice", "/api/hints/200"] {
        let response = fixture.agent.put(fixture.url(path)).send("{}").unwrap();
        assert_eq!(response.status(), 401, "{path}");
        let response = fixture.agent.delete(fixture.url(path)).call().unwrap();
        assert_eq!(response.status(), 401, "{path}");
    }
}

fn config() -> ServerConfig {
    ServerConfig {
        hints: vec![HintConfig {
            extension: "100".to_owned(),
            devices: vec!["alice".to_owned()],
        }],
        limits: Limits {
            mailboxes_max: 2,
            ..Limits::default()
        },
        ..open_config()
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
