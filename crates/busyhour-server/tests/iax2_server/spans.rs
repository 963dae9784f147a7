//! What a collector is told of registrations by IAX2.

use crate::{
    conversation::{register, release},
    host::{Host, config, device},
    scripted::ScriptedClient,
};
use busyhour_server::server::{ServerConfig, SpanExportConfig};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

const COLLECTOR: &str = "http://collector.example:4318/v1/traces";

#[test]
fn a_registration_and_a_release_are_told_part_by_part() {
    let client = Arc::new(ScriptedClient::default());
    let spans = SpanExportConfig::new("http://collector.example:4318", 1).unwrap();
    let mut host = Host::with(ServerConfig {
        spans: Some(spans),
        http: client.clone(),
        ..config()
    });
    register(&mut host, device(), 5, "alice");
    release(&mut host, device(), 6, "alice");
    host.pass(Duration::from_millis(1500));
    assert_eq!(client.waiting(), [COLLECTOR]);
    let request = client.end(COLLECTOR, Ok(200));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].clone();
    let spans = spans.as_array().unwrap();
    let names: Vec<_> = spans
        .iter()
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    let parts = ["queue", "registrar", "store", "answer"];
    let expected: Vec<_> = ["REGREQ", "REGREL"]
        .into_iter()
        .flat_map(|frame| [frame].into_iter().chain(parts))
        .collect();
    assert_eq!(names, expected);
    let root = spans[0].to_string();
    for (key, value) in [
        ("iax2.frame", "REGREQ"),
        ("iax2.answer", "REGACK"),
        ("network.protocol.name", "iax2"),
        ("network.peer.address", "192.0.2.7"),
        ("sip.address_of_record", "sip:alice@example.com"),
    ] {
        let attribute = format!("{{\"key\":\"{key}\",\"value\":{{\"stringValue\":\"{value}\"}}}}");
        assert!(root.contains(&attribute), "{attribute} in {root}");
    }
    assert!(!root.contains("sip.status_code"), "{root}");
}
