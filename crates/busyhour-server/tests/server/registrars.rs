//! Registrars behind the server, in virtual time.

use crate::{
    Fixture,
    exchange::{Sent, ok, open_config, proof},
    register, register_as,
};
use busyhour::runtime::Runtime;
use busyhour_server::server::{Limits, RegistrarConfig, Server, ServerConfig};
use busyhour_sip::Transport;
use busyhour_store::{DiskBehaviour, SettingKind, SimulatedDisk};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

#[test]
fn telephones_are_refused_when_a_registrar_could_not_be_told_for_keep_seconds() {
    let mut server = Fixture::with(behind(vec![RegistrarConfig {
        keep: Duration::from_secs(100),
        ..pbx()
    }]));
    server.ask(&register(1, CONTACT));
    let (told, answers) = split(&server);
    assert_eq!((told.len(), first_line(&answers[0])), (1, OK));
    server.pass(90);
    server.ask(&register(2, CONTACT));
    let (told, answers) = split(&server);
    assert!(told.len() > 5, "it is asked again and again: {told:?}");
    assert_eq!(first_line(answers.last().unwrap()), OK, "for 100 s");

    server.pass(15);
    server.ask(&register(3, CONTACT));
    let (told, answers) = split(&server);
    let refused = answers.last().unwrap();
    assert!(refused.starts_with("SIP/2.0 503 "), "{refused}");
    assert!(refused.contains("\r\nRetry-After: "), "{refused}");
    let upstream = server.stats().upstream;
    assert_eq!((upstream.telephones_refused, upstream.refused_full), (1, 0));
    // Who goes is let go, and who stays is served once it was told.
    server.ask(&register(4, "Contact: <sip:other@192.0.2.7>;expires=0"));
    assert_eq!(first_line(&split(&server).1[0]), OK);
    server.receive_from(PBX, accepted(told.last().unwrap()).as_bytes());
    server.ask(&register(5, CONTACT));
    assert_eq!(first_line(split(&server).1.last().unwrap()), OK);
}

#[test]
fn the_credentials_of_a_registrar_answer_its_challenges_for_every_address() {
    let mut server = Fixture::with(behind(vec![RegistrarConfig {
        credentials: Some(("trunk".to_owned(), "secret".to_owned())),
        ..pbx()
    }]));
    for user in ["alice", "bob"] {
        server.ask(&register_as(user, 1, CONTACT));
        let (told, _) = split(&server);
        assert!(!told[0].contains("\r\nAuthorization: "), "{told:?}");
        let challenge = ok(&told[0]).replace("200 OK", "401 Unauthorized").replace(
            "Content-Length",
            "WWW-Authenticate: Digest realm=\"pbx\", nonce=\"n1\", qop=\"auth\"\r\nContent-Length",
        );
        server.receive_from(PBX, challenge.as_bytes());
        let (again, _) = split(&server);
        let given = header(&again[0], "Authorization");
        let (_, nonce) = given.split_once("cnonce=\"").unwrap();
        let (nonce, _) = nonce.split_once('"').unwrap();
        let expected = proof(&told[0], &challenge, "trunk", "secret").counted(1, nonce);
        assert_eq!(given, expected.to_string());
        assert!(given.contains("username=\"trunk\""), "{given}");
        server.receive_from(PBX, accepted(&again[0]).as_bytes());
    }
    let upstream = server.stats().upstream;
    assert_eq!((upstream.challenged, upstream.told_count), (2, 2));
    assert_eq!((upstream.failing_count, upstream.pending_count), (0, 0));
}

#[test]
fn each_domain_goes_to_the_registrar_that_has_it() {
    let other: SocketAddr = ([192, 0, 2, 13], 5060).into();
    let mut config = behind(vec![
        RegistrarConfig {
            domains: vec!["One.example".to_owned()],
            ..pbx()
        },
        RegistrarConfig {
            name: "other".to_owned(),
            address: other,
            domains: vec!["two.example".to_owned()],
            ..pbx()
        },
    ]);
    config.domains = ["one.example", "two.example", "three.example"]
        .map(str::to_owned)
        .to_vec();
    let mut server = Fixture::with(config);
    for (domain, expected) in [
        ("one.example", vec![PBX]),
        ("two.example", vec![other]),
        ("three.example", vec![]),
    ] {
        server.ask(&register(1, CONTACT).replace("example.com", domain));
        let sent = server.sent.take_all();
        let told = sent
            .iter()
            .filter(|(_, bytes)| bytes.starts_with(b"REGISTER "));
        let told: Vec<_> = told.map(|(flow, _)| flow.remote).collect();
        assert_eq!(told, expected, "{domain}");
    }
}

/// Addresses that end take their place until the registrar has confirmed it.
#[test]
fn an_address_without_room_at_its_registrar_is_refused() {
    let mut server = Fixture::with(ServerConfig {
        limits: Limits {
            devices_max: 1,
            ..Limits::default()
        },
        ..behind(vec![pbx()])
    });
    for user in ["alice", "bob"] {
        server.ask(&register_as(user, 1, &format!("{CONTACT};expires=60")));
        assert_eq!(first_line(split(&server).1.last().unwrap()), OK);
        // The device makes room for another when its lease has run out.
        server.pass(70);
        split(&server);
    }
    server.ask(&register_as("carol", 1, CONTACT));
    let refused = split(&server).1.remove(0);
    assert!(refused.starts_with("SIP/2.0 503 "), "{refused}");
    let upstream = server.stats().upstream;
    assert_eq!((upstream.refused_full, upstream.told_count), (1, 2));
}

#[test]
fn what_a_registrar_was_told_that_is_no_more_leaves_the_store_when_it_is_over() {
    let mut server = Fixture::with(behind(vec![pbx()]));
    server.ask(&register(1, "Contact: <sip:a@192.0.2.7>;expires=60"));
    let told = split(&server).0;
    server.receive_from(PBX, accepted(&told[0]).as_bytes());
    server.settle();
    assert_eq!(rows(&server.disk), 1);

    // It may be missing by mistake.
    server.restart(open_config());
    server.settle();
    assert_eq!(rows(&server.disk), 1);
    server.restart(behind(vec![pbx()]));
    assert_eq!(server.stats().upstream.told_count, 1);
    server.restart(open_config());
    // Two minutes more than was asked for: the request may have been late.
    server.pass(3600 + 130);
    server.restart(open_config());
    server.settle();
    assert_eq!(rows(&server.disk), 0);
}

#[test]
fn a_server_does_not_start_with_registrars_that_exclude_each_other() {
    let disk = SimulatedDisk::new(1, DiskBehaviour::default());
    let runtime = Runtime::simulated(1);
    let store = Box::new(disk.open(runtime.clock().clone()));
    let config = behind(vec![pbx(), pbx()]);
    let started = Server::start(runtime, config, Arc::new(Sent::default()), store);
    let problem = started.err().map(|error| error.to_string());
    assert_eq!(
        problem.as_deref(),
        Some("registrar pbx: name: there are two registrars `pbx`")
    );
}

fn behind(registrars: Vec<RegistrarConfig>) -> ServerConfig {
    ServerConfig {
        registrars,
        ..open_config()
    }
}

fn pbx() -> RegistrarConfig {
    RegistrarConfig {
        name: "pbx".to_owned(),
        address: PBX,
        transport: Transport::Udp,
        domains: Vec::new(),
        expires: Duration::from_secs(3600),
        credentials: None,
        keep: Duration::from_secs(3600),
        rate: 100,
    }
}

/// What went to registrars, and the rest.
fn split(server: &Fixture) -> (Vec<String>, Vec<String>) {
    let sent = server.sent().into_iter();
    sent.partition(|message| message.starts_with("REGISTER "))
}

/// The 200 of a registrar that takes what it was asked.
fn accepted(request: &str) -> String {
    let contact = header(request, "Contact");
    ok(request).replace(
        "Content-Length",
        &format!("Contact: {contact}\r\nContent-Length"),
    )
}

fn header<'m>(message: &'m str, name: &str) -> &'m str {
    let mut lines = message.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("no {name} in {message}"))
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

fn rows(disk: &SimulatedDisk) -> usize {
    let contents = disk.contents();
    let kinds = contents.settings.iter().map(|((kind, _), _)| *kind);
    kinds
        .filter(|kind| *kind == SettingKind::Registration)
        .count()
}

const PBX: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 12)), 5060);
const CONTACT: &str = "Contact: <sip:a@192.0.2.7>";
const OK: &str = "SIP/2.0 200 OK";
