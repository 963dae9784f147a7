//! What a collector is told: each part that a registration and a call pass through.

use crate::{
    exchange::digest_config,
    log_lines::LogLines,
    scripted::ScriptedClient,
    world::{ALICE, BOB, BOB_AT_HOME, World, header, respond},
};
use busyhour_server::server::{HttpFailure, ServerConfig, SpanExportConfig};
use serde_json::Value;
use std::sync::Arc;

const COLLECTOR: &str = "http://collector.example:4318/v1/traces";

struct Collected {
    world: World,
    client: Arc<ScriptedClient>,
}

impl Collected {
    fn new(one_in: u64) -> Self {
        let client = Arc::new(ScriptedClient::default());
        let spans = SpanExportConfig::new("http://collector.example:4318", one_in).unwrap();
        let spans = spans
            .with_headers("Authorization: Bearer secret\n")
            .unwrap();
        let world = World::with(ServerConfig {
            spans: Some(spans),
            http: client.clone(),
            ..digest_config()
        });
        Self { world, client }
    }

    /// All spans that there are for the collector, which takes them.
    fn take(&mut self) -> Vec<Value> {
        let mut spans = Vec::new();
        self.world.pass(1500);
        while !self.client.waiting().is_empty() {
            let request = self.client.end(COLLECTOR, Ok(200));
            assert_eq!(request.headers["content-type"], "application/json");
            assert_eq!(request.headers["authorization"], "Bearer secret");
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let scope = &body["resourceSpans"][0]["scopeSpans"][0];
            assert_eq!(scope["scope"]["name"], "busyhour");
            spans.extend(scope["spans"].as_array().unwrap().clone());
            self.world.pass(1500);
        }
        spans
    }

    /// So many requests of a stranger, without a pause.
    fn flood(&mut self, count: usize) {
        let requests: Vec<_> = (0..count)
            .map(|number| self.world.invite(ALICE, "bob", &format!("flood-{number}")))
            .collect();
        self.world.send_at_once(ALICE, &requests);
        while self.world.try_read(ALICE).is_some() {}
    }
}

fn attribute<'v>(span: &'v Value, key: &str) -> &'v Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|one| one["key"] == key);
    let value = found.map_or(&Value::Null, |one| &one["value"]);
    let kinds = ["stringValue", "intValue", "boolValue"];
    let mut values = kinds.into_iter().map(|kind| &value[kind]);
    values.find(|one| !one.is_null()).unwrap_or(&Value::Null)
}

/// Each request as its method, its status and its parts; branches with their status.
fn told(spans: &[Value]) -> Vec<String> {
    let is_root = |span: &&Value| span["parentSpanId"].is_null();
    let tell = |root: &Value| {
        let parts = spans.iter().filter(|span| {
            let is_part = span["parentSpanId"] == root["spanId"];
            assert!(!is_part || span["traceId"] == root["traceId"], "{span}");
            is_part
        });
        let name_of = |part: &Value| match part["kind"] == 3 {
            true if attribute(part, "sip.cancelled") == true => " branch=cancelled".to_owned(),
            true => format!(
                " branch={}",
                attribute(part, "sip.status_code").as_str().unwrap()
            ),
            false => format!(" {}", part["name"].as_str().unwrap()),
        };
        let (mut branches, others): (Vec<_>, Vec<_>) = parts
            .map(name_of)
            .partition(|name| name.starts_with(" branch"));
        // Which of them leaves first does not matter.
        branches.sort();
        let status = attribute(root, "sip.status_code").as_str().unwrap();
        let name = root["name"].as_str().unwrap();
        format!("{name} {status}:{}{}", others.concat(), branches.concat())
    };
    spans.iter().filter(is_root).map(tell).collect()
}

fn told_count(spans: &[Value]) -> usize {
    let roots = spans.iter().filter(|span| span["parentSpanId"].is_null());
    roots.count()
}

fn times(span: &Value) -> [u64; 2] {
    ["startTimeUnixNano", "endTimeUnixNano"].map(|key| span[key].as_str().unwrap().parse().unwrap())
}

#[test]
fn a_registration_is_told_part_by_part() {
    let mut collected = Collected::new(1);
    collected.world.register(ALICE);
    let spans = collected.take();
    assert_eq!(
        told(&spans),
        [
            "REGISTER 401: receive digest",
            "REGISTER 200: receive digest queue registrar store answer",
        ]
    );
    let root = &spans[spans.len() - 7];
    assert_eq!(attribute(root, "sip.call_id"), "register-192.0.2.7:5060");
    assert_eq!(
        attribute(root, "sip.address_of_record"),
        "sip:alice@example.com"
    );
    assert_eq!(attribute(root, "network.peer.address"), "192.0.2.7");
    assert_eq!(attribute(root, "network.peer.port"), "5060");
    assert_eq!(attribute(root, "network.transport"), "udp");
    let [began, ended] = times(root);
    let mut before = began;
    for part in &spans[spans.len() - 6..] {
        let [part_began, part_ended] = times(part);
        assert!(before <= part_began && part_began <= part_ended, "{part}");
        assert!(part_ended <= ended, "{part} is within {root}");
        before = part_ended;
    }
    let [store_began, store_ended] = times(&spans[spans.len() - 2]);
    assert!(store_ended > store_began, "the disk takes time");
    let stats = collected.world.stats().spans;
    assert_eq!(
        (stats.followed, stats.exported, stats.waiting_count),
        (2, 2, 0)
    );
}

#[test]
fn a_call_is_told_with_each_of_its_branches() {
    let mut collected = Collected::new(1);
    for phone in [ALICE, BOB, BOB_AT_HOME] {
        collected.world.register(phone);
    }
    collected.take();
    let world = &mut collected.world;
    world.call(ALICE, "bob", "call-1");
    world.read_status(ALICE, "100");
    let [here, home] = [BOB, BOB_AT_HOME].map(|phone| world.read_request(phone, "INVITE"));
    // A branch that has not answered at all cannot be cancelled yet.
    for (phone, invite) in [(BOB, &here), (BOB_AT_HOME, &home)] {
        world.send(phone, &respond(phone, invite, "180 Ringing"));
    }
    world.pass(200);
    world.send(BOB, &respond(BOB, &here, "200 OK"));
    world.read_request(BOB_AT_HOME, "CANCEL");
    let spans = collected.take();
    assert_eq!(
        told(&spans),
        [
            "INVITE 407: receive digest",
            "INVITE 200: receive digest location branch=200 branch=cancelled",
        ]
    );
    let branch_to = |address: &str| {
        let is_it =
            |span: &&Value| span["kind"] == 3 && attribute(span, "network.peer.address") == address;
        spans.iter().find(is_it).unwrap()
    };
    let [here, home] = ["192.0.2.8", "192.0.2.18"].map(branch_to);
    for branch in [here, home] {
        let ringing = &branch["events"][0];
        assert_eq!(attribute(ringing, "sip.status_code"), "180");
    }
    let call = spans
        .iter()
        .find(|span| span["spanId"] == here["parentSpanId"]);
    let [_, answered] = times(call.unwrap());
    assert_eq!(times(here)[1], answered, "the caller hears the answer");
    assert_eq!(times(home)[1], answered, "and the other one rings no more");
}

#[test]
fn a_subscription_and_its_notify_are_told_part_by_part() {
    let mut collected = Collected::new(1);
    let world = &mut collected.world;
    let subscribe = watching(world, "Expires: 600\r\n");
    let accepted = world.ask(ALICE, &subscribe);
    assert!(accepted.starts_with("SIP/2.0 200 "), "{accepted}");
    world.lamp(ALICE);
    // Within the dialog, where the credentials count on.
    let to = header(&accepted, "To");
    let tag = to.rsplit_once(";tag=").unwrap().1;
    let challenged = watching(world, "Expires: 600\r\n")
        .replace(
            "To: <sip:bob@example.com>",
            &format!("To: <sip:bob@example.com>;tag={tag}"),
        )
        .replace("CSeq: 1 ", "CSeq: 9 ");
    world.send(ALICE, &challenged);
    let challenge = world.read(ALICE);
    let refresh = world
        .proven(ALICE, &challenged, &challenge)
        .replace("CSeq: 9 ", "CSeq: 10 ");
    world.send(ALICE, &refresh);
    let refreshed = world.read(ALICE);
    assert!(refreshed.starts_with("SIP/2.0 200 "), "{refreshed}");
    world.lamp(ALICE);
    let spans = collected.take();
    assert_eq!(
        told(&spans),
        [
            "SUBSCRIBE 401: receive digest",
            "SUBSCRIBE 200: receive digest queue watcher store answer",
            "NOTIFY 200:",
            "SUBSCRIBE 401: receive digest",
            "SUBSCRIBE 200: receive digest queue watcher store answer",
            "NOTIFY 200:",
        ]
    );
    let notify = spans.iter().find(|span| span["name"] == "NOTIFY").unwrap();
    assert_eq!(notify["kind"], 3, "it is a request of ours");
    assert_eq!(attribute(notify, "sip.call_id"), "watching");
    assert_eq!(
        attribute(notify, "sip.address_of_record"),
        "sip:bob@example.com"
    );
    assert_eq!(attribute(notify, "network.peer.address"), "192.0.2.7");
}

/// Who does not answer a NOTIFY is given up after 32 s, and so is the span.
#[test]
fn a_notify_without_an_answer_has_no_status() {
    let mut collected = Collected::new(1);
    let world = &mut collected.world;
    let subscribe = watching(world, "");
    world.ask(ALICE, &subscribe);
    world.pass(40_000);
    let spans = collected.take();
    let notify = spans.iter().find(|span| span["name"] == "NOTIFY").unwrap();
    assert!(attribute(notify, "sip.status_code").is_null(), "{notify}");
    let [began, ended] = times(notify);
    let seconds = (ended - began) / 1_000_000_000;
    assert!((32..40).contains(&seconds), "{seconds} s");
}

#[test]
fn a_publication_is_told_part_by_part() {
    let mut collected = Collected::new(1);
    let world = &mut collected.world;
    let publish = |world: &mut World, call_id: &str, package: &str| {
        let (uri, to) = ("sip:alice@example.com", "<sip:alice@example.com>");
        let body = "<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"0\" \
            state=\"full\" entity=\"sip:alice@example.com\"></dialog-info>";
        let headers = format!("Event: {package}\r\nContent-Type: application/dialog-info+xml\r\n");
        let request = world.request(ALICE, "PUBLISH", uri, to, call_id, &headers);
        let length = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let request = request.replace("Content-Length: 0\r\n\r\n", &length);
        world.ask(ALICE, &request)
    };
    let accepted = publish(world, "publish-1", "dialog");
    assert!(accepted.starts_with("SIP/2.0 200 "), "{accepted}");
    let refused = publish(world, "publish-2", "nothing");
    assert!(refused.starts_with("SIP/2.0 489 "), "{refused}");
    assert_eq!(
        told(&collected.take()),
        [
            "PUBLISH 401: receive digest",
            "PUBLISH 200: receive digest queue publication store answer",
            "PUBLISH 401: receive digest",
            "PUBLISH 489: receive digest queue publication",
        ]
    );
}

/// Alice asks for bob's dialogs.
fn watching(world: &mut World, headers: &str) -> String {
    let (uri, to) = ("sip:bob@example.com", "<sip:bob@example.com>");
    let headers = format!("Event: dialog\r\nContact: <sip:alice@192.0.2.7>\r\n{headers}");
    world.request(ALICE, "SUBSCRIBE", uri, to, "watching", &headers)
}

#[test]
fn what_is_refused_or_repeated_is_told_once_and_within_a_dialog_nothing() {
    let mut collected = Collected::new(1);
    collected.world.register(ALICE);
    let register = collected.world.request(
        ALICE,
        "REGISTER",
        "sip:example.com",
        "<sip:bob@example.com>",
        "not-mine",
        "Contact: <sip:alice@192.0.2.7>\r\n",
    );
    let refused = collected.world.ask(ALICE, &register);
    assert!(refused.starts_with("SIP/2.0 403 "), "{refused}");
    let options = collected.world.request(
        ALICE,
        "OPTIONS",
        "sip:example.com",
        "<sip:example.com>",
        "options",
        "",
    );
    collected.world.ask(ALICE, &options);
    let invite = collected.world.call(ALICE, "nobody", "call-2");
    collected.world.send(ALICE, &invite);
    assert_eq!(
        told(&collected.take()),
        [
            "REGISTER 401: receive digest",
            "REGISTER 200: receive digest queue registrar store answer",
            "REGISTER 401: receive digest",
            "REGISTER 403: receive digest",
            "INVITE 407: receive digest",
            "INVITE 404: receive digest location",
        ]
    );
}

#[test]
fn without_a_collector_nothing_is_followed_and_a_part_is_followed_by_chance() {
    let mut world = World::new();
    world.register(ALICE);
    assert_eq!(world.stats().spans.followed, 0);
    let mut collected = Collected::new(4);
    collected.flood(1000);
    let followed = collected.world.stats().spans.followed;
    assert!((200..300).contains(&followed), "{followed} of 1000");
    assert_eq!(Collected::new(0).world.stats().spans.followed, 0);
}

#[test]
fn a_collector_that_is_away_costs_room_for_a_while_and_one_line() {
    let lines = LogLines::default();
    let _kept = lines.keep();
    let mut collected = Collected::new(1);
    for _ in 0..5 {
        collected.flood(1);
        collected.world.pass(1500);
        let refused = Err(HttpFailure::Connect("refused".to_owned()));
        collected.client.end(COLLECTOR, refused);
        collected.world.pass(20);
    }
    let stats = collected.world.stats().spans;
    assert_eq!((stats.failed, stats.export_failures), (5, 5));
    assert_eq!(stats.breaker_open_count, 1);
    collected.flood(4200);
    collected.world.pass(2000);
    assert!(collected.client.waiting().is_empty(), "nobody is asked now");
    let stats = collected.world.stats().spans;
    assert_eq!((stats.waiting_count, stats.dropped), (4096, 104));

    collected.world.pass(30_000);
    collected.client.end(COLLECTOR, Ok(200));
    collected.world.pass(20);
    let told = told_count(&collected.take());
    assert_eq!(told, 4096 - 512, "those behind the first request");
    let stats = collected.world.stats().spans;
    assert_eq!((stats.exported, stats.waiting_count), (4096, 0));
    let log = lines.take();
    assert_eq!(
        log.matches("the collector does not take spans").count(),
        1,
        "{log}"
    );
    assert_eq!(
        log.matches("the collector takes spans again").count(),
        1,
        "{log}"
    );
}
