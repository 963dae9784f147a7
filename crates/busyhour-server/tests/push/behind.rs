//! Telephones that sleep before a PBX: it keeps their registration, its calls wake them, and their end is handed on.

use crate::{
    exchange::{digest_config, ok},
    scripted::ScriptedClient,
    world::{BOB, Phone, World, phone, respond},
};
use busyhour_server::server::{
    HttpFailure, PeerConfig, PushConfig, PushService, RegistrarConfig, ServerConfig,
};
use busyhour_sip::Transport;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

const PBX: Phone = phone("pbx", "192.0.2.12:5060");
const URL: &str = "http://push.example/wake";
const PN: &str = ";pn-provider=acme;pn-param=p;pn-prid=b0b";

struct Site {
    world: World,
    client: Arc<ScriptedClient>,
    /// The contact of bob at the PBX.
    contact: String,
}

impl Site {
    /// Bob is registered here and at the PBX, and has fallen asleep.
    fn new() -> Self {
        let client = Arc::new(ScriptedClient::default());
        let push = PushConfig::new("acme", PushService::Webhook(None), URL.parse().unwrap());
        let registrar = RegistrarConfig {
            name: "pbx".to_owned(),
            address: PBX.address.parse().unwrap(),
            transport: Transport::Udp,
            domains: Vec::new(),
            expires: Duration::from_secs(3600),
            credentials: None,
            keep: Duration::from_secs(3600),
            rate: 100,
        };
        let peer = PeerConfig {
            name: "pbx".into(),
            addresses: vec!["192.0.2.12".parse().unwrap()],
            probe_interval: Duration::ZERO,
            may_call: true,
            ..PeerConfig::default()
        };
        let mut world = World::with(ServerConfig {
            http: client.clone(),
            push: vec![push],
            registrars: vec![registrar],
            peers: vec![peer],
            ..digest_config()
        });
        register(&mut world, "register");
        // Within moments; not so late that it is sent again.
        let mut told = None;
        for _ in 0..100 {
            told = told.or_else(|| world.try_read(PBX));
            if told.is_none() {
                world.pass(10);
            }
        }
        let told = told.expect("a REGISTER to the PBX");
        assert!(told.starts_with("REGISTER "), "{told}");
        let contact = value(&told, "Contact");
        let accepted = ok(&told).replace(
            "Content-Length",
            &format!("Contact: {contact}\r\nContent-Length"),
        );
        world.send(PBX, &accepted);
        world.pass(11_000);
        let uri = contact.split(['<', '>']).nth(1).unwrap().to_owned();
        let site = Self {
            world,
            client,
            contact: uri,
        };
        assert_eq!(site.world.stats().upstream.told_count, 1);
        site
    }

    /// The PBX calls what it was told; the service is asked to wake bob.
    fn call(&mut self, outcome: Result<u16, HttpFailure>) -> Value {
        let contact = format!("Contact: <sip:pbx@{}>\r\n", PBX.address);
        let uri = self.contact.clone();
        let to = format!("<{uri}>");
        let invite = self.world.request(PBX, "INVITE", &uri, &to, "in", &contact);
        self.world.send(PBX, &invite);
        let request = self.client.end(URL, outcome);
        serde_json::from_slice(&request.body).unwrap()
    }
}

fn register(world: &mut World, call_id: &str) {
    let contact = format!("Contact: <sip:bob@{}{PN}>\r\n", BOB.address);
    let to = "<sip:bob@example.com>";
    let request = world.request(BOB, "REGISTER", "sip:example.com", to, call_id, &contact);
    let answer = world.ask(BOB, &request);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

fn value(message: &str, name: &str) -> String {
    let mut lines = message.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value
        .unwrap_or_else(|| panic!("no {name} in {message}"))
        .to_owned()
}

#[test]
fn a_call_from_the_pbx_wakes_the_telephone_that_it_knows() {
    let mut site = Site::new();
    let asked = site.call(Ok(200));
    assert_eq!(
        (&asked["type"], &asked["aor"]),
        (&"call".into(), &"sip:bob@example.com".into())
    );
    site.world.pass(1_000);
    site.world.read_status(PBX, "100");
    assert_eq!(
        site.world.try_read(PBX),
        None,
        "it is neither refused nor told anew"
    );
    register(&mut site.world, "register-again");
    site.world.pass(100);
    let invite = site.world.read_request(BOB, "INVITE");
    let answer = respond(BOB, &invite, "200 OK");
    site.world.send(BOB, &answer);
    site.world.read_status(PBX, "200");
    let stats = site.world.stats();
    assert_eq!((stats.push.woken, stats.upstream.told_count), (1, 1));
    assert_eq!(stats.upstream.sent, 1, "its refresh ended here");
}

#[test]
fn a_telephone_that_is_gone_for_its_service_is_gone_for_the_pbx() {
    let mut site = Site::new();
    site.call(Ok(410));
    site.world.pass(3_000);
    let mut told = Vec::new();
    while let Some(message) = site.world.try_read(PBX) {
        told.push(message);
    }
    let ended = told.iter().find(|one| one.starts_with("REGISTER "));
    let ended = ended.unwrap_or_else(|| panic!("nothing was handed on: {told:#?}"));
    assert!(
        ended.contains("expires=0") || value(ended, "Expires") == "0",
        "{ended}"
    );
    assert!(
        told.iter().any(|one| one.starts_with("SIP/2.0 480 ")),
        "{told:#?}"
    );
}
