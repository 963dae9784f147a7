//! The HTTP interface with versions: problems, tags, devices and watchers, over real connections.

use crate::{
    exchange::{Silent, open_config},
    waiting::wait_until,
};
use busyhour::runtime::Runtime;
use busyhour_server::{
    server::{Server, ServerConfig},
    web::{Access, GraphOptions, Graphs, Scope, Token, Web, WebOptions},
};
use busyhour_sip::Flow;
use busyhour_store::MemoryStore;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use ureq::Agent;

struct Fixture {
    web: Web,
    agent: Agent,
    server: Arc<Server>,
    runtime: Runtime,
}

/// Status, header ETag and body.
type Told = (u16, Option<String>, Value);

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let config = ServerConfig {
            domains: vec!["example.com".into()],
            ..open_config()
        };
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, Arc::new(Silent), store).unwrap();
        let server = Arc::new(server);
        let graphs = Graphs::new(&runtime, GraphOptions::default(), Vec::new());
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)));
        let tokens = vec![
            Token::new("test", Scope::Write, "secret"),
            Token::new("shop", Scope::Write, "domain").in_domain(Some("other.example".into())),
        ];
        let options = WebOptions {
            tls: None,
            certificates: None,
            challenges: None,
            address: Some("127.0.0.1:0".parse().unwrap()),
            socket: None,
            connections_max: 16,
            connections_per_source_max: 16,
            patience: Duration::from_secs(60),
            access: Arc::new(Access::new(Vec::new(), tokens)),
            operator: None,
            telephone: None,
        };
        Self {
            web: Web::start(options, server.clone(), graphs).unwrap(),
            agent: agent.build().into(),
            server,
            runtime,
        }
    }

    fn get(&self, path: &str) -> Told {
        self.get_with(path, &[])
    }

    fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Told {
        let url = format!("http://{}{path}", self.web.address().unwrap());
        let mut request = self.agent.get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = request.call().unwrap();
        let tag = response
            .headers()
            .get("etag")
            .map(|tag| tag.to_str().unwrap().to_owned());
        let text = response.body_mut().read_to_string().unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (response.status().as_u16(), tag, body)
    }

    /// Registers a user over UDP from 192.0.2.`host`, and waits until the server has it.
    fn register(&self, user: &str, host: u8, agent: &str) {
        let before = self.server.stats().registrar.binding_count;
        let register = format!(
            "REGISTER sip:example.com SIP/2.0\r\n\
            Via: SIP/2.0/UDP 192.0.2.{host}:5060;branch=z9hG4bK{user};rport\r\n\
            From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\n\
            Call-ID: {user}\r\nCSeq: 1 REGISTER\r\nUser-Agent: {agent}\r\n\
            Contact: <sip:{user}@192.0.2.{host}>\r\nExpires: 600\r\nContent-Length: 0\r\n\r\n"
        );
        let local = "192.0.2.200:5060".parse().unwrap();
        let flow = Flow::udp(local, format!("192.0.2.{host}:5060").parse().unwrap());
        let buffer = self
            .runtime
            .buffers()
            .copy_from(register.as_bytes())
            .unwrap();
        self.server.message(flow, &buffer);
        let is_registered = || self.server.stats().registrar.binding_count != before;
        wait_until(is_registered, || format!("{user} is not registered"));
    }
}

#[test]
fn a_refusal_is_a_problem_and_without_a_version_a_line() {
    let fixture = Fixture::new();
    let (status, _, problem) = fixture.get("/api/v1/bindings?limit=0");
    assert_eq!(status, 400);
    let expected = json!({
        "title": "Bad Request",
        "status": 400,
        "detail": "limit: give a whole number from 1 to 100000",
        "instance": "/api/v1/bindings",
        "field": "limit",
    });
    assert_eq!(problem, expected);
    let (status, _, line) = fixture.get("/api/bindings?limit=0");
    assert_eq!(
        (status, line),
        (400, json!("limit: give a whole number from 1 to 100000\n"))
    );
    let (status, _, problem) = fixture.get("/api/v1/nothing");
    assert_eq!((status, &problem["status"]), (404, &json!(404)));
    let (status, _, problem) =
        fixture.get_with("/api/v1/stats", &[("authorization", "Bearer domain")]);
    assert_eq!(status, 403);
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("other.example"),
        "{problem}"
    );
    let (status, _, line) = fixture.get("/api/v2/stats");
    assert_eq!((status, line), (404, json!("")));
}

#[test]
fn what_has_not_changed_is_not_sent_again() {
    let fixture = Fixture::new();
    let (status, tag, page) = fixture.get("/api/v1/hints");
    assert_eq!((status, page), (200, json!({"hints": [], "next": null})));
    let tag = tag.expect("a tag");
    let (status, again, body) = fixture.get_with("/api/v1/hints", &[("if-none-match", &tag)]);
    assert_eq!((status, again.as_ref(), body), (304, Some(&tag), json!("")));
    assert_eq!(
        fixture
            .get_with("/api/v1/hints", &[("if-none-match", "\"x\"")])
            .0,
        200
    );
}

#[test]
fn devices_are_searched_filtered_sorted_and_paged() {
    let fixture = Fixture::new();
    for (number, user) in ["carol", "alice", "bob", "dave"].into_iter().enumerate() {
        let agent = ["Desk 4", "Soft/2.0", "Desk 4", "Attic"][number];
        fixture.register(user, 10 + number as u8, agent);
    }
    let names = |path: &str| {
        let (status, _, page) = fixture.get(path);
        assert_eq!(status, 200, "{page}");
        let devices = page["devices"].as_array().unwrap().iter();
        let names = devices.map(|one| {
            one["aor"].as_str().unwrap()[4..]
                .split('@')
                .next()
                .unwrap()
                .to_owned()
        });
        (names.collect::<Vec<_>>(), page)
    };
    let (all, page) = names("/api/v1/devices");
    assert_eq!(all, ["alice", "bob", "carol", "dave"]);
    assert_eq!(
        (&page["match_count"], &page["next"]),
        (&json!(4), &Value::Null)
    );
    let alice = &page["devices"][0];
    assert_eq!(
        (&alice["state"], &alice["account"]),
        (&json!("registered"), &Value::Null)
    );
    assert_eq!(alice["contacts"][0]["user_agent"], "Soft/2.0");
    assert_eq!(alice["contacts"][0]["source"], "192.0.2.11:5060");
    assert_eq!(names("/api/v1/devices?search=DESK").0, ["bob", "carol"]);
    assert_eq!(names("/api/v1/devices?search=192.0.2.13").0, ["dave"]);
    assert_eq!(names("/api/v1/devices?sort=-aor&limit=1").0, ["dave"]);
    assert_eq!(
        names("/api/v1/devices?sort=user_agent").0,
        ["dave", "bob", "carol", "alice"]
    );
    assert_eq!(names("/api/v1/devices?state=unreachable").0, [""; 0]);
    assert_eq!(names("/api/v1/devices?transport=tcp").0, [""; 0]);
    for sort in [
        "aor",
        "-aor",
        "last_seen",
        "-expires",
        "user_agent",
        "-contacts",
    ] {
        let (whole, _) = names(&format!("/api/v1/devices?sort={sort}"));
        let (mut paged, mut after) = (Vec::new(), String::new());
        loop {
            let (some, page) = names(&format!("/api/v1/devices?sort={sort}&limit=1{after}"));
            assert_eq!(page["match_count"], 4);
            paged.extend(some);
            let Some(next) = page["next"].as_str() else {
                break;
            };
            after = format!("&after={}", next.replace('|', "%7C").replace(' ', "%20"));
        }
        assert_eq!(paged, whole, "{sort}");
    }
    for (wrong, field) in [
        ("state=gone", "state"),
        ("sort=age", "sort"),
        ("transport=pigeon", "transport"),
        ("limit=0", "limit"),
    ] {
        let (status, _, problem) = fixture.get(&format!("/api/v1/devices?{wrong}"));
        assert_eq!((status, problem["field"].as_str()), (400, Some(field)));
    }
    let (_, page) = names("/api/v1/devices");
    assert_eq!(page["devices"].as_array().unwrap().len(), 4);
    let (_, _, of_other) =
        fixture.get_with("/api/v1/devices", &[("authorization", "Bearer domain")]);
    assert_eq!(of_other["match_count"], 0, "{of_other}");
}

#[test]
fn a_device_is_shown_by_its_address_alone() {
    let fixture = Fixture::new();
    fixture.register("alice", 10, "Desk");
    for name in ["alice", "alice@example.com", "sip:alice@example.com"] {
        let (status, _, device) = fixture.get(&format!("/api/v1/devices/{name}"));
        assert_eq!(
            (status, &device["aor"]),
            (200, &json!("sip:alice@example.com"))
        );
        assert_eq!(device["contacts"][0]["source"], "192.0.2.10:5060");
    }
    for unknown in ["alice@other.example", "alic", "bob"] {
        let (status, _, problem) = fixture.get(&format!("/api/v1/devices/{unknown}"));
        assert_eq!(status, 404, "{unknown}: {problem}");
    }
    let token = [("authorization", "Bearer domain")];
    let (status, ..) = fixture.get_with("/api/v1/devices/alice@example.com", &token);
    assert_eq!(status, 403, "a token of another domain");
}

/// So the description is true: each operation is there, and knows the parameters that it says, and no others.
#[test]
fn every_operation_is_there_and_refuses_unknown_parameters() {
    let fixture = Fixture::new();
    let (_, _, document) = fixture.get("/api/v1/openapi.json");
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let filled: Vec<_> = path
            .split('/')
            .map(|part| if part.starts_with('{') { "alice" } else { part })
            .collect();
        for method in operations.as_object().unwrap().keys() {
            let request = ureq::http::Request::builder()
                .method(method.to_uppercase().as_str())
                .uri(format!(
                    "http://{}{}?no_such=1",
                    fixture.web.address().unwrap(),
                    filled.join("/")
                ))
                .header("authorization", "Bearer secret");
            let mut answer = fixture.agent.run(request.body(()).unwrap()).unwrap();
            let text = answer.body_mut().read_to_string().unwrap();
            let problem: Value = serde_json::from_str(&text).unwrap_or_default();
            assert_eq!(
                (answer.status().as_u16(), problem["field"].as_str()),
                (400, Some("no_such")),
                "{method} {path}: {text}"
            );
            asked += 1;
        }
    }
    assert!(asked > 60, "{asked}");
}

#[test]
fn the_session_says_what_a_token_allows() {
    let fixture = Fixture::new();
    let (_, _, nobody) = fixture.get("/api/v1/session");
    assert_eq!(
        (&nobody["token"], &nobody["scope"]),
        (&Value::Null, &json!("read"))
    );
    let (_, _, test) = fixture.get_with("/api/v1/session", &[("authorization", "Bearer secret")]);
    assert_eq!(
        (&test["token"], &test["scope"]),
        (&json!("test"), &json!("write"))
    );
    let (_, _, shop) = fixture.get_with("/api/v1/session", &[("authorization", "Bearer domain")]);
    assert_eq!(shop["domain"], "other.example");
}

#[test]
fn a_quiet_server_is_well_and_a_server_alone_has_no_settings() {
    let fixture = Fixture::new();
    let (status, _, health) = fixture.get("/api/v1/health");
    assert_eq!(
        (status, &health["status"], &health["findings"]),
        (200, &json!("ok"), &json!([]))
    );
    for path in ["settings", "log", "storm"] {
        assert_eq!(fixture.get(&format!("/api/v1/{path}")).0, 404, "{path}");
    }
}

#[test]
fn the_dashboard_and_the_description_are_there() {
    let fixture = Fixture::new();
    let (status, _, page) = fixture.get("/");
    assert!(status == 200 && page.as_str().unwrap().contains("/assets/app.js"));
    let (status, _, script) = fixture.get("/assets/app.js");
    assert!(status == 200 && script.as_str().unwrap().contains("import"));
    let (status, _, document) = fixture.get("/api/v1/openapi.json");
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let (status, _, page) = fixture.get("/api/v1/");
    assert!(status == 200 && page.as_str().unwrap().contains("/api/v1/devices"));
}
