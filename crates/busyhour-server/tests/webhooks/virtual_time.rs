use crate::scripted::ScriptedClient;
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_registrar::watch::{MessageCounts, MessageSummary};
use busyhour_server::server::{
    Authentication, HttpFailure, HttpRequest, Network, SendError, Server, ServerConfig,
    WebhookEntry, WebhookView,
};
use busyhour_sip::Flow;
use busyhour_store::MemoryStore;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

struct Nowhere;

impl Network for Nowhere {
    fn send(&self, _flow: Flow, _datagram: Buffer) -> Result<(), SendError> {
        Ok(())
    }
}

struct World {
    runtime: Runtime,
    server: Server,
    client: Arc<ScriptedClient>,
}

const CRM: &str = "http://crm.example/hook";
const SLOW: &str = "http://slow.example/hook";

fn entry(url: &str) -> WebhookEntry {
    WebhookEntry {
        url: url.to_owned(),
        kinds: vec!["mailbox".to_owned()],
        ..WebhookEntry::default()
    }
}

impl World {
    fn new(webhooks: &[(&str, WebhookEntry)]) -> Self {
        let runtime = Runtime::simulated(7);
        let client = Arc::new(ScriptedClient::default());
        let config = ServerConfig {
            domains: vec!["example.com".to_owned()],
            authentication: Authentication::Open,
            http: client.clone(),
            webhooks: (webhooks.iter())
                .map(|(name, entry)| ((*name).to_owned(), entry.clone().check(name).unwrap()))
                .collect(),
            ..ServerConfig::default()
        };
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, Arc::new(Nowhere), store).unwrap();
        let world = Self {
            runtime,
            server,
            client,
        };
        world.pass(Duration::ZERO);
        world
    }

    fn pass(&self, span: Duration) {
        let simulation = self.runtime.simulation().unwrap();
        simulation.run_for(span);
        simulation.run_until_idle();
    }

    /// Sets the new messages of a mailbox, and lets its webhooks gather.
    fn set(&self, id: &str, new: u32) {
        let counts = MessageCounts {
            new,
            ..MessageCounts::default()
        };
        let summary = MessageSummary {
            voice: Some(counts),
            ..MessageSummary::default()
        };
        self.server
            .set_mailbox(id, summary, Box::new(|_| ()))
            .unwrap();
        self.pass(Duration::ZERO);
    }

    fn gather(&self) {
        self.pass(Duration::from_millis(60));
    }

    #[track_caller]
    fn end(&self, url: &str, outcome: Result<u16, HttpFailure>) -> Vec<String> {
        let request = self.client.end(url, outcome);
        self.pass(Duration::ZERO);
        told(&request)
    }

    #[track_caller]
    fn view(&self, name: &str) -> WebhookView {
        let views = self.server.webhooks();
        views.into_iter().find(|view| view.name == name).unwrap()
    }
}

/// Each event in a word: what changed to how many, or its type.
fn told(request: &HttpRequest) -> Vec<String> {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let events = body["events"].as_array().unwrap();
    let word = |event: &Value| {
        let data = &event["data"];
        match event["type"].as_str().unwrap() {
            kind @ ("change" | "state") => {
                let (id, new) = (data["mailbox"].as_str().unwrap(), &data["voice_new"]);
                let mark = if kind == "state" { "=" } else { "" };
                format!("{mark}{id}{new}")
            }
            "lost" => format!("lost {}", event["count"]),
            other => other.to_owned(),
        }
    };
    events.iter().map(word).collect()
}

#[test]
fn events_come_in_order_in_batches_and_only_when_the_last_batch_was_taken() {
    let limited = WebhookEntry {
        batch: 3,
        ..entry(CRM)
    };
    let world = World::new(&[("crm", limited)]);
    for new in 1..=4 {
        world.set("alice", new);
    }
    assert_eq!(
        world.client.waiting(),
        [CRM],
        "a full batch waits for nothing"
    );
    world.set("alice", 5);
    world.gather();
    assert_eq!(world.client.waiting(), [CRM], "one at a time");
    assert_eq!(world.view("crm").state, "delivering");
    assert_eq!(world.end(CRM, Ok(200)), ["alice1", "alice2", "alice3"]);
    world.gather();
    assert_eq!(world.end(CRM, Ok(204)), ["alice4", "alice5"]);
    let view = world.view("crm");
    assert_eq!((view.delivered, view.batches, view.lost), (5, 2, 0));
    assert_eq!(
        (view.state, view.behind, view.last_status),
        ("idle", 0, Some(204))
    );
}

#[test]
fn a_batch_is_sent_again_as_it_was_with_longer_and_longer_delays() {
    let world = World::new(&[("crm", entry(CRM))]);
    world.set("alice", 1);
    world.gather();
    let mut ids = Vec::new();
    let mut delays = Vec::new();
    for _ in 0..4 {
        let request = world.client.end(CRM, Ok(503));
        ids.push(request.headers["webhook-id"].clone());
        world.pass(Duration::ZERO);
        let view = world.view("crm");
        assert_eq!(view.state, "waiting");
        assert_eq!(
            view.last_error.as_deref(),
            Some("answered 503 Service Unavailable")
        );
        let delay = Duration::from_nanos(view.next_attempt_in_ns.unwrap());
        delays.push(delay.as_millis());
        world.pass(delay);
    }
    // What comes meanwhile waits behind it.
    world.set("alice", 2);
    for (delay, longest) in delays.iter().zip([1000, 2000, 4000, 8000]) {
        assert!((longest / 2..=longest).contains(delay), "{delays:?}");
    }
    let request = world.client.end(CRM, Ok(200));
    assert_eq!(told(&request), ["alice1"]);
    ids.push(request.headers["webhook-id"].clone());
    ids.dedup();
    assert_eq!(ids.len(), 1, "the receiver knows it by its id");
    world.pass(Duration::from_millis(60));
    assert_eq!(world.end(CRM, Ok(200)), ["alice2"]);
    assert_eq!(world.view("crm").last_error, None);
}

#[test]
fn a_receiver_that_never_answers_holds_up_nobody_and_loses_what_is_not_kept() {
    let world = World::new(&[("crm", entry(CRM)), ("slow", entry(SLOW))]);
    world.set("bob", 0);
    world.gather();
    const COUNT: u32 = 17_500;
    let mut of_crm = world.end(CRM, Ok(200));
    for new in 1..=COUNT {
        world.set("alice", new);
        if world.client.waiting().contains(&CRM.to_owned()) {
            of_crm.extend(world.end(CRM, Ok(200)));
        }
    }
    world.gather();
    if world.client.waiting().contains(&CRM.to_owned()) {
        of_crm.extend(world.end(CRM, Ok(200)));
    }
    assert_eq!(of_crm.len(), 1 + COUNT as usize, "each exactly once");
    assert_eq!(*of_crm.last().unwrap(), format!("alice{COUNT}"));
    let view = world.view("slow");
    assert_eq!((view.state, view.delivered), ("delivering", 0));
    // It is back.
    let mut of_slow = world.end(SLOW, Ok(200));
    for _ in 0..1000 {
        world.gather();
        if world.client.waiting().is_empty() {
            break;
        }
        of_slow.extend(world.end(SLOW, Ok(200)));
    }
    let lost: Vec<_> = of_slow
        .iter()
        .filter(|it| it.starts_with("lost "))
        .collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    let lost: u32 = lost[0]["lost ".len()..].parse().unwrap();
    assert_eq!(
        of_slow.len() as u32 - 1 + lost,
        1 + COUNT,
        "what is lost is counted"
    );
    assert_eq!(*of_slow.last().unwrap(), format!("alice{COUNT}"));
    assert_eq!(world.view("slow").lost, u64::from(lost));
}

#[test]
fn an_outage_is_made_up_for_from_what_is_kept() {
    let world = World::new(&[("crm", entry(CRM))]);
    world.set("alice", 0);
    world.gather();
    // More than wait for a reader, and less than are kept.
    for new in 1..=5000 {
        world.set("alice", new);
    }
    let mut told = world.end(CRM, Ok(200));
    for _ in 0..100 {
        world.gather();
        if world.client.waiting().is_empty() {
            break;
        }
        told.extend(world.end(CRM, Ok(200)));
    }
    let expected: Vec<_> = (0..=5000).map(|new| format!("alice{new}")).collect();
    assert_eq!(told, expected);
    assert_eq!(world.view("crm").lost, 0);
}

#[test]
fn the_breaker_of_a_url_lets_one_request_through_in_thirty_seconds() {
    let world = World::new(&[
        ("one", entry(CRM)),
        ("other", entry(CRM)),
        ("slow", entry(SLOW)),
    ]);
    world.set("alice", 1);
    world.gather();
    assert_eq!(world.client.waiting().len(), 3);
    let mut attempts = 0;
    while world.server.stats().webhooks.breaker_open_count == 0 {
        while world.client.waiting().contains(&CRM.to_owned()) {
            world.end(CRM, Err(HttpFailure::Connect("refused".into())));
            attempts += 1;
        }
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(attempts, 5);
    assert_eq!(
        world.end(SLOW, Ok(200)),
        ["alice1"],
        "another URL is not concerned"
    );
    let mut asked = 0;
    for _ in 0..600 {
        world.pass(Duration::from_millis(500));
        if world.client.waiting().contains(&CRM.to_owned()) {
            asked += 1;
            assert_eq!(world.client.waiting().len(), 1);
            world.end(CRM, Err(HttpFailure::Late));
        }
    }
    assert!((8..=10).contains(&asked), "{asked} in 300 s");
    // The one that is let through closes it for both.
    world.pass(Duration::from_secs(600));
    assert_eq!(world.end(CRM, Ok(200)), ["alice1"]);
    world.pass(Duration::from_secs(300));
    assert_eq!(world.end(CRM, Ok(200)), ["alice1"]);
    assert_eq!(world.server.stats().webhooks.breaker_open_count, 0);
}

#[test]
fn what_the_receiver_dislikes_is_given_up_and_told_as_lost() {
    let with_states = WebhookEntry {
        snapshot: true,
        ..entry(CRM)
    };
    let world = World::new(&[("crm", with_states)]);
    world.gather();
    assert_eq!(world.end(CRM, Ok(200)), ["live"]);
    world.set("alice", 1);
    world.gather();
    for _ in 0..5 {
        assert_eq!(world.end(CRM, Ok(400)), ["alice1"]);
        world.pass(Duration::from_secs(20));
    }
    assert_eq!(world.end(CRM, Ok(200)), ["lost 1", "=alice1", "live"]);
    assert_eq!(world.view("crm").lost, 1);
    world.set("alice", 2);
    world.gather();
    assert_eq!(world.end(CRM, Ok(410)), ["alice2"]);
    world.set("alice", 3);
    world.gather();
    assert!(world.client.waiting().is_empty());
    assert_eq!(world.view("crm").state, "gone");
}

#[test]
fn a_webhook_that_is_set_again_loses_nothing_that_waits() {
    let world = World::new(&[]);
    let set = |entry| world.server.set_webhook("crm", entry, Box::new(|_| ()));
    assert!(set(entry(CRM)).is_ok());
    world.pass(Duration::ZERO);
    world.set("alice", 1);
    world.gather();
    assert_eq!(world.end(CRM, Ok(200)), ["alice1"]);
    for new in 2..=5 {
        world.set("alice", new);
        world.gather();
    }
    world.end(CRM, Ok(503));
    // The same again changes nothing: it goes on waiting.
    assert_eq!(set(entry(CRM)), Ok((false, None)));
    world.gather();
    assert!(
        world.client.waiting().is_empty(),
        "it begins no attempt of its own"
    );
    // Another address gets what the first did not take.
    assert_eq!(set(entry(SLOW)), Ok((false, None)));
    world.gather();
    let mut told = world.end(SLOW, Ok(200));
    world.gather();
    while !world.client.waiting().is_empty() {
        told.extend(world.end(SLOW, Ok(200)));
        world.gather();
    }
    assert_eq!(told, ["alice2", "alice3", "alice4", "alice5"]);
    let view = world.view("crm");
    assert_eq!((view.delivered, view.failed_attempts, view.lost), (5, 1, 0));
}

#[test]
fn a_webhook_that_is_removed_asks_nothing_more() {
    let world = World::new(&[]);
    let set = world
        .server
        .set_webhook("crm", entry(CRM), Box::new(|_| ()));
    assert!(matches!(set, Ok((true, Some(_)))), "{set:?}");
    world.pass(Duration::ZERO);
    world.set("alice", 1);
    world.gather();
    world.end(CRM, Ok(500));
    let removed = world.server.remove_webhook("crm", Box::new(|_| ()));
    assert_eq!(removed, Ok(true));
    world.pass(Duration::from_secs(60));
    assert!(world.client.waiting().is_empty());
    assert!(world.server.webhooks().is_empty());
    assert_eq!(world.server.stats().changes.reader_count, 0);
}
