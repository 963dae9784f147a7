//! Peers: what each right grants, where calls go, and what happens when an address is gone.

use crate::{
    exchange::digest_config,
    world::{ALICE, BOB, CAROL, Phone, World, ack_of_refusal, header, phone, respond, within},
};
use busyhour_server::server::{CredentialsConfig, PeerConfig, ServerConfig};
use std::time::Duration;

pub const GATEWAY: Phone = at("192.0.2.10:5060");
/// Another address of the gateway.
pub const SPARE: Phone = at("192.0.2.11:5060");
const PBX: Phone = at("192.0.2.12:5080");
const CHEAP: Phone = at("192.0.2.13:5060");
const REST: Phone = at("192.0.2.14:5060");

const fn at(address: &'static str) -> Phone {
    phone("trunk", address)
}

fn peer(name: &str, addresses: &[&str]) -> PeerConfig {
    PeerConfig {
        name: name.into(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        probe_interval: Duration::ZERO,
        ..PeerConfig::default()
    }
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn config() -> ServerConfig {
    let gateway = PeerConfig {
        may_call: true,
        prefixes: texts(&["0", "+"]),
        ..peer("gateway", &["192.0.2.10", "192.0.2.11"])
    };
    let pbx = PeerConfig {
        may_publish: true,
        domains: texts(&["pbx.example.net"]),
        ..peer("pbx", &["192.0.2.12:5080"])
    };
    let cheap = PeerConfig {
        prefixes: texts(&["00"]),
        host: Some("cheap.example.net".into()),
        ..peer("cheap", &["192.0.2.13"])
    };
    let rest = PeerConfig {
        is_default: true,
        ..peer("rest", &["192.0.2.14"])
    };
    ServerConfig {
        peers: vec![gateway, pbx, cheap, rest],
        ..digest_config()
    }
}

pub fn world() -> World {
    let mut world = World::with(config());
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    world
}

/// An INVITE for a user of ours, in the name of somebody elsewhere.
fn invite_from(world: &mut World, phone: Phone, user: &str, call_id: &str) -> String {
    let invite = world.invite(phone, user, call_id);
    let elsewhere = "From: \"Boss\" <sip:+4930@world.example>";
    let invite = invite.replace("From: <sip:trunk@example.com>", elsewhere);
    let asserted = "P-Asserted-Identity: <tel:+4930123>\r\nContact:";
    invite.replace("Contact:", asserted)
}

/// The gateway calls bob, who answers; the 200 as the gateway received it.
fn call_of_gateway(world: &mut World, call_id: &str) -> String {
    let invite = invite_from(world, GATEWAY, "bob", call_id);
    world.send(GATEWAY, &invite);
    world.read_status(GATEWAY, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "200 OK"));
    let answer = world.read_status(GATEWAY, "200");
    let ack = within(world, GATEWAY, "ACK", 1, &answer, true);
    world.send(GATEWAY, &ack);
    world.read_request(BOB, "ACK");
    answer
}

/// Alice calls a number; the INVITE as it goes to `phone`.
#[track_caller]
pub fn call_to(world: &mut World, phone: Phone, number: &str, call_id: &str) -> String {
    world.call(ALICE, number, call_id);
    world.read_status(ALICE, "100");
    world.read_request(phone, "INVITE")
}

#[test]
fn a_peer_calls_our_users_and_is_believed() {
    let mut world = world();
    world.watch(CAROL, "bob");
    let invite = invite_from(&mut world, GATEWAY, "bob", "in");
    world.send(GATEWAY, &invite);
    world.read_status(GATEWAY, "100");
    let invite = world.read_request(BOB, "INVITE");
    assert_eq!(header(&invite, "P-Asserted-Identity"), "<tel:+4930123>");
    world.send(BOB, &respond(BOB, &invite, "180 Ringing"));
    world.read_status(GATEWAY, "180");
    assert_eq!(world.lamp(CAROL), "early");
    world.send(BOB, &respond(BOB, &invite, "486 Busy Here"));
    world.read_request(BOB, "ACK");
    world.read_status(GATEWAY, "486");
    assert_eq!(world.lamp(CAROL), "");
    assert_eq!(world.stats().peers.calls_from, 1);

    // Who is not there is not sent elsewhere, and no other domain is served.
    for (user, domain, status) in [
        ("nobody", "example.com", "404"),
        ("0301", "example.com", "404"),
        ("carol", "example.com", "480"),
        ("x", "pbx.example.net", "403 Domain Not Served Here"),
        ("x", "world.example", "403 Domain Not Served Here"),
    ] {
        let invite = invite_from(&mut world, GATEWAY, user, &format!("{user}-{domain}"));
        let invite = invite.replace(
            &format!("INVITE sip:{user}@example.com"),
            &format!("INVITE sip:{user}@{domain}"),
        );
        world.send(GATEWAY, &invite);
        world.read_status(GATEWAY, status);
    }
    assert_eq!(world.stats().peers.calls_to, 0);
}

#[test]
fn who_may_not_call_has_to_prove_who_he_is() {
    let mut world = world();
    // Another address, another port, and a peer without the right.
    for phone in [at("192.0.2.99:5060"), at("192.0.2.12:5081"), PBX, CHEAP] {
        let invite = invite_from(&mut world, phone, "bob", phone.address);
        world.send(phone, &invite);
        world.read_status(phone, "403 Not Your Address");
        let own = world.invite(phone, "bob", &format!("own-{}", phone.address));
        world.send(phone, &own);
        world.read_status(phone, "407");
    }
    // The log says why, once a minute.
    let mut config = config();
    config.peers[1].may_call = true;
    let lines = crate::log_lines::LogLines::default();
    let _logged = lines.keep();
    let mut other = World::with(config);
    let wrong_port = at("192.0.2.12:5081");
    for call in ["first", "second"] {
        let invite = other.invite(wrong_port, "bob", call);
        other.send(wrong_port, &invite);
        other.read_status(wrong_port, "407");
    }
    let logged = "a request from the address of a peer is not of the peer";
    lines.has(&[
        logged,
        "peer=pbx",
        "source=192.0.2.12",
        "port=5081",
        "the peer is 192.0.2.12:5080 alone",
    ]);
    assert_eq!(lines.take().matches(logged).count(), 1);
    let counted = other.server.peers().into_iter();
    let counted = counted.filter(|peer| peer.not_from_peer > 0);
    let counted: Vec<_> = counted.map(|it| (it.name, it.not_from_peer)).collect();
    assert_eq!(counted, [("pbx".to_owned(), 2)]);
    // A source port says nothing of a peer without a port.
    let other_port = at("192.0.2.10:33333");
    let invite = invite_from(&mut world, other_port, "bob", "other-port");
    world.send(other_port, &invite);
    world.read_status(other_port, "100");
    world.read_request(BOB, "INVITE");
}

/// RFC 3325 §5: what others assert is removed, and who is not trusted is not told what is
/// private.
#[test]
fn only_peers_assert_an_identity_and_it_stays_private() {
    let mut world = world();
    let invite = world.invite(ALICE, "bob", "asserted");
    let asserted = "P-Asserted-Identity: <sip:ceo@example.com>\r\nContact:";
    let invite = invite.replace("Contact:", asserted);
    world.send(ALICE, &invite);
    let challenge = world.read_status(ALICE, "407");
    let proven = world.proven(ALICE, &invite, &challenge);
    world.send(ALICE, &proven);
    let forwarded = world.read_request(BOB, "INVITE");
    assert!(!forwarded.contains("P-Asserted-Identity"), "{forwarded}");
    let ringing = respond(BOB, &forwarded, "180 Ringing");
    let asserted = "P-Asserted-Identity: <sip:ceo@example.com>\r\nContact:";
    world.send(BOB, &ringing.replace("Contact:", asserted));
    world.read_status(ALICE, "100");
    let ringing = world.read_status(ALICE, "180");
    assert!(!ringing.contains("P-Asserted-Identity"), "{ringing}");

    let invite = invite_from(&mut world, GATEWAY, "bob", "private");
    let invite = invite.replace("Contact:", "Privacy: user; id\r\nContact:");
    world.send(GATEWAY, &invite);
    world.read_status(GATEWAY, "100");
    let forwarded = world.read_request(BOB, "INVITE");
    assert!(!forwarded.contains("P-Asserted-Identity"), "{forwarded}");

    // The gateway answers, and says who has.
    let forwarded = call_to(&mut world, GATEWAY, "030", "answered");
    let ringing = respond(GATEWAY, &forwarded, "180 Ringing");
    world.send(GATEWAY, &ringing.replace("Contact:", asserted));
    let ringing = world.read_status(ALICE, "180");
    assert!(ringing.contains("P-Asserted-Identity"), "{ringing}");
}

#[test]
fn calls_go_by_prefix_by_domain_or_by_default() {
    let mut world = world();
    for (number, phone, uri) in [
        ("0301234", GATEWAY, "sip:0301234@example.com"),
        ("+49301", GATEWAY, "sip:+49301@example.com"),
        ("0033", CHEAP, "sip:0033@cheap.example.net"),
        ("100", REST, "sip:100@example.com"),
    ] {
        let invite = call_to(&mut world, phone, number, number);
        assert!(
            invite.starts_with(&format!("INVITE {uri} SIP/2.0\r\n")),
            "{invite}"
        );
        assert!(!invite.contains("Proxy-Authorization"), "{invite}");
        world.send(phone, &respond(phone, &invite, "404 Not Found"));
        world.read_request(phone, "ACK");
        world.read_status(ALICE, "404");
    }
    // An account is called here, even if it is not there.
    world.call(ALICE, "carol", "not-there");
    world.read_status(ALICE, "480 Not Registered");

    let abroad = |world: &mut World, domain: &str| {
        let invite = world.invite(ALICE, "42", domain);
        invite.replace("42@example.com", &format!("42@{domain}"))
    };
    let invite = abroad(&mut world, "PBX.example.net");
    world.send(ALICE, &invite);
    let challenge = world.read_status(ALICE, "407");
    let proven = world.proven(ALICE, &invite, &challenge);
    world.send(ALICE, &proven);
    let invite = world.read_request(PBX, "INVITE");
    assert!(
        invite.starts_with("INVITE sip:42@PBX.example.net "),
        "{invite}"
    );
    let invite = abroad(&mut world, "elsewhere.example");
    world.send(ALICE, &invite);
    world.read_status(ALICE, "100");
    world.read_status(ALICE, "403 Domain Not Served Here");
    assert_eq!(world.stats().peers.calls_to, 5);
}

/// Any user may have an account at the service, which is not asked who is called.
#[test]
fn calls_go_to_peers_also_where_a_service_has_accounts() {
    let mut config = config();
    config.credentials = Some(CredentialsConfig::new("http://127.0.0.1:9/").unwrap());
    let mut world = World::with(config);
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    for (user, phone) in [("0301", GATEWAY), ("00421", CHEAP), ("nobody", REST)] {
        call_to(&mut world, phone, user, user);
    }
    // Who has registered is called, and who has an account here is not elsewhere.
    call_to(&mut world, BOB, "bob", "registered");
    world.call(ALICE, "carol", "account");
    world.read_status(ALICE, "480 Not Registered");
}

#[test]
fn no_call_goes_to_a_peer_unless_its_caller_is_authenticated() {
    let mut world = world();
    let stranger = at("192.0.2.99:5060");
    for (user, domain) in [("0301", "example.com"), ("42", "pbx.example.net")] {
        let invite = world.invite(stranger, user, user);
        let invite = invite.replace("@example.com SIP", &format!("@{domain} SIP"));
        world.send(stranger, &invite);
        world.read_status(stranger, "407");
        let anonymous = invite.replace("sip:trunk@example.com", "sip:a@anonymous.invalid");
        world.send(stranger, &anonymous.replace("branch=", "branch=z9hG4bKan"));
        world.read_status(stranger, "407");
    }
    assert_eq!(world.stats().peers.calls_to, 0);
}

#[test]
fn requests_within_a_dialog_go_both_ways_also_after_a_restart() {
    let mut world = world();
    world.watch(CAROL, "bob");
    let answer = call_of_gateway(&mut world, "both-ways");
    assert_eq!(world.lamp(CAROL), "confirmed");
    world.pass(1000);
    world.restart();
    // Bob's INFO goes to the gateway, and the gateway's BYE, from another port, to bob.
    let contact = "INFO sip:trunk@192.0.2.10:5060";
    let info = within(&mut world, BOB, "INFO", 1, &answer, false);
    let info = info.replace("INFO sip:alice@192.0.2.7:5060", contact);
    world.send(BOB, &info);
    let info = world.read_request(GATEWAY, "INFO");
    world.send(GATEWAY, &respond(GATEWAY, &info, "200 OK"));
    world.read_status(BOB, "200");
    let other_port = at("192.0.2.10:41000");
    let bye = within(&mut world, other_port, "BYE", 3, &answer, true);
    world.send(other_port, &bye);
    let bye = world.read_request(BOB, "BYE");
    world.send(BOB, &respond(BOB, &bye, "200 OK"));
    world.read_status(other_port, "200");
}

/// A request's source may be a port that nobody listens to; Contact says where the peer does.
#[test]
fn a_peer_is_reached_where_its_contact_says() {
    let mut world = world();
    // A Contact elsewhere is not the peer: nothing is sent there.
    let answer = call_of_gateway(&mut world, "elsewhere");
    let bye = within(&mut world, BOB, "BYE", 1, &answer, false);
    world.send(
        BOB,
        &bye.replace("sip:alice@192.0.2.7:5060", "sip:trunk@198.51.100.9"),
    );
    world.read_request(GATEWAY, "BYE");
    assert_eq!(world.try_read(at("198.51.100.9:5060")), None);

    let other_port = at("192.0.2.10:41000");
    let invite = invite_from(&mut world, other_port, "bob", "by-contact");
    world.send(
        other_port,
        &invite.replace("@192.0.2.10:41000>", "@192.0.2.10:5070>"),
    );
    world.read_status(other_port, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "200 OK"));
    let answer = world.read_status(other_port, "200");
    let bye = within(&mut world, BOB, "BYE", 1, &answer, false);
    let at_contact = bye.replace("sip:alice@192.0.2.7:5060", "sip:trunk@192.0.2.10:5070");
    world.send(BOB, &at_contact);
    world.read_request(at("192.0.2.10:5070"), "BYE");
    // If that is silent, where its request came from, and then its other addresses.
    world.pass(33_000);
    let tried = at("192.0.2.10:5070");
    while let Some(again) = world.try_read(tried) {
        assert!(again.starts_with("BYE "), "{again}");
    }
    world.read_request(other_port, "BYE");
}

fn probed() -> World {
    let mut config = config();
    config.peers[0].probe_interval = Duration::from_secs(30);
    let mut world = World::with(config);
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    world
}

/// Answers what waits at an address with this status, as long as something does.
fn answer_options(world: &mut World, phone: Phone, status: &str) -> usize {
    let mut count = 0;
    while let Some(options) = world.try_read(phone) {
        assert!(options.starts_with("OPTIONS sip:192.0.2."), "{options}");
        world.send(phone, &respond(phone, &options, status));
        count += 1;
    }
    count
}

fn states(world: &World) -> Vec<Option<&'static str>> {
    let peers = world.server.peers().into_iter();
    let gateway = peers.filter(|peer| peer.name == "gateway");
    let addresses = gateway.flat_map(|peer| peer.addresses);
    addresses.map(|address| address.state).collect()
}

#[test]
fn calls_go_to_the_addresses_that_answer_options() {
    let lines = crate::log_lines::LogLines::default();
    let _logged = lines.keep();
    let mut world = probed();
    assert_eq!(answer_options(&mut world, GATEWAY, "200 OK"), 1);
    assert_eq!(states(&world), [Some("up"), Some("unknown")]);
    // The spare one does not answer: it is sent OPTIONS five times, and is down after 8 s.
    world.pass(8_100);
    assert_eq!(states(&world), [Some("up"), Some("down")]);
    let sent = std::iter::from_fn(|| world.try_read(SPARE)).count();
    assert_eq!(sent, 5);
    lines.has(&[
        "WARN",
        "peer is down",
        "peer=gateway",
        "address=192.0.2.11:5060",
        "no answer to OPTIONS within 8 s",
        "calls_go_to=\"192.0.2.10:5060\"",
    ]);

    // After 30 s: now the first one is overloaded, and the spare one is there.
    world.pass(22_500);
    assert!(answer_options(&mut world, GATEWAY, "503 Service Unavailable") >= 1);
    lines.has(&["peer is down", "address=192.0.2.10:5060", "503", "nowhere"]);
    world.call(ALICE, "030", "all-down");
    world.read_status(ALICE, "480 Peer Is Down");
    lines.has(&["call refused", "Peer Is Down"]);
    assert!(answer_options(&mut world, SPARE, "404 Not Found") >= 1);
    lines.has(&[
        "INFO",
        "peer is up again",
        "address=192.0.2.11:5060",
        "down_for_s=22",
    ]);
    let invite = call_to(&mut world, SPARE, "030", "to-spare");
    world.send(SPARE, &respond(SPARE, &invite, "486 Busy Here"));
    world.read_request(SPARE, "ACK");
    let stats = world.stats().peers;
    assert_eq!((stats.peer_count, stats.target_count), (4, 5));
    assert_eq!(
        (stats.down_count, stats.went_down, stats.went_up),
        (1, 2, 1)
    );
    assert_eq!((stats.refused_down, stats.probes_sent), (1, 4));
    // The others are not asked.
    assert_eq!(world.try_read(PBX), None);
    let listed = world.server.peers();
    let rest = listed.iter().find(|peer| peer.name == "rest").unwrap();
    assert_eq!(
        (rest.addresses[0].state, rest.takes.as_str()),
        (Some("unknown"), "default")
    );
}

/// Nobody but the address that was asked knows the number in the branch.
#[test]
fn an_answer_that_nobody_asked_for_says_nothing() {
    let mut world = probed();
    let options = world.read_request(SPARE, "OPTIONS");
    let branch = header(&options, "Via");
    let (_, branch) = branch.split_once("branch=").unwrap();
    let (branch, _) = branch.split_once(';').unwrap();
    let wrong = format!("{}0", &branch[..branch.len() - 1]);
    let other = if wrong == branch {
        format!("{}1", &branch[..branch.len() - 1])
    } else {
        wrong
    };
    world.send(
        SPARE,
        &respond(SPARE, &options.replace(branch, &other), "200 OK"),
    );
    assert_eq!(states(&world)[1], Some("unknown"));
    // Nor does one from elsewhere, though the number is right.
    world.send(CAROL, &respond(SPARE, &options, "503 Service Unavailable"));
    assert_eq!(states(&world)[1], Some("unknown"));
    world.send(SPARE, &respond(SPARE, &options, "200 OK"));
    assert_eq!(states(&world)[1], Some("up"));
}

const DIALOG: &str = "<?xml version=\"1.0\"?>\
    <dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"1\" state=\"full\" \
    entity=\"sip:bob@example.com\"><dialog id=\"d\"><state>early</state></dialog></dialog-info>";
const PRESENCE: &str = "<?xml version=\"1.0\"?>\
    <presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:bob@example.com\">\
    <tuple id=\"t\"><status><basic>open</basic></status><note>At lunch</note></tuple></presence>";

/// A PUBLISH for a user; the status.
fn publish(world: &mut World, phone: Phone, user: &str, event: &str, call_id: &str) -> String {
    let (content_type, body) = match event {
        "dialog" => ("application/dialog-info+xml", DIALOG),
        "presence" => ("application/pidf+xml", PRESENCE),
        _ => (
            "application/simple-message-summary",
            "Messages-Waiting: yes\r\nVoice-Message: 2/0\r\n",
        ),
    };
    let body = body.replace("bob@", &format!("{user}@"));
    let headers = format!("Event: {event}\r\nExpires: 600\r\nContent-Type: {content_type}\r\n");
    let uri = format!("sip:{user}@example.com");
    let request = world.request(
        phone,
        "PUBLISH",
        &uri,
        &format!("<{uri}>"),
        call_id,
        &headers,
    );
    let length = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let request = request.replace("Content-Length: 0\r\n\r\n", &length);
    world.send(phone, &request);
    let answer = world.read(phone);
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_publisher_publishes_for_any_of_our_users() {
    let mut world = world();
    world.watch(CAROL, "bob");
    assert_eq!(publish(&mut world, PBX, "bob", "dialog", "p1"), "200");
    assert_eq!(world.lamp(CAROL), "early");
    assert_eq!(publish(&mut world, PBX, "alice", "presence", "p2"), "200");
    assert_eq!(
        publish(&mut world, PBX, "alice", "message-summary", "p3"),
        "200"
    );
    let mailbox = world.server.mailbox("alice").unwrap();
    assert_eq!(mailbox.summary.voice.unwrap().new, 2);
    assert_eq!(publish(&mut world, PBX, "nobody", "dialog", "p4"), "404");
    // Nobody else may, nor may it register.
    for phone in [GATEWAY, at("192.0.2.12:5081"), at("192.0.2.99:5060")] {
        assert_eq!(
            publish(&mut world, phone, "bob", "dialog", phone.address),
            "401"
        );
    }
    let register = world.request(
        PBX,
        "REGISTER",
        "sip:example.com",
        "<sip:bob@example.com>",
        "register",
        "Contact: <sip:x@192.0.2.12:5080>\r\n",
    );
    world.send(PBX, &register);
    world.read_status(PBX, "401");
    assert_eq!(world.stats().peers.publications, 3);
}

/// Alice calls a number at the PBX, which sends the call back to bob.
#[test]
fn a_call_that_comes_back_by_way_of_a_peer_lights_both_lamps() {
    let mut world = World::with(ServerConfig {
        peers: vec![PeerConfig {
            may_call: true,
            prefixes: texts(&["9"]),
            ..peer("pbx", &["192.0.2.12"])
        }],
        ..digest_config()
    });
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let pbx = at("192.0.2.12:5060");
    world.watch(CAROL, "bob");
    let watcher = Phone {
        address: "192.0.2.19:5060",
        ..CAROL
    };
    world.watch(watcher, "alice");
    let came = call_to(&mut world, pbx, "9", "spiral");
    // As a proxy does it: another Request-URI, its Via and Record-Route above ours.
    let through = |text: &str, from: &str, to: &str, branch: &str| {
        let via = format!("\r\nVia: SIP/2.0/UDP 192.0.2.12:5060;branch=z9hG4bK{branch}\r\n");
        text.replacen(from, to, 1).replacen("\r\n", &via, 1)
    };
    let back = through(&came, "INVITE sip:9@", "INVITE sip:bob@", "pbx1");
    let back = back.replacen(
        "Record-Route:",
        "Record-Route: <sip:192.0.2.12:5060;lr>,",
        1,
    );
    world.send(pbx, &back);
    world.read_status(pbx, "100");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "200 OK"));
    let without_via = |text: &str| {
        let (head, rest) = text
            .split_once("Via: SIP/2.0/UDP 192.0.2.12:5060;")
            .unwrap();
        let (_, rest) = rest.split_once("\r\n").unwrap();
        format!("{head}{rest}")
    };
    let answer = world.read_status(pbx, "200");
    world.send(pbx, &without_via(&answer));
    let answer = world.read_status(ALICE, "200");
    assert_eq!(world.lamp(CAROL), "confirmed");
    assert_eq!(world.lamp(watcher), "confirmed");
    let routes: Vec<_> = answer
        .lines()
        .filter(|it| it.starts_with("Record-Route:"))
        .collect();
    assert!(routes.concat().contains("192.0.2.12"), "{routes:?}");

    // Bob's INFO and alice's BYE pass the PBX, and the server twice.
    for (phone, other, method, is_caller) in
        [(BOB, ALICE, "INFO", false), (ALICE, BOB, "BYE", true)]
    {
        let request = within(&mut world, phone, method, 7, &answer, is_caller);
        world.send(phone, &request);
        let at_pbx = world.read_request(pbx, method);
        let route = header(&at_pbx, "Route");
        let (own, rest) = route.split_once(',').unwrap();
        assert!(own.contains("192.0.2.12"), "{at_pbx}");
        let on = through(&at_pbx, &route, rest.trim(), &format!("pbx{method}"));
        world.send(pbx, &on);
        let arrived = world.read_request(other, method);
        world.send(other, &respond(other, &arrived, "200 OK"));
        let answer = world.read_status(pbx, "200");
        world.send(pbx, &without_via(&answer));
        world.read_status(phone, "200");
    }
    assert_eq!(world.lamp(CAROL), "");
    assert_eq!(world.lamp(watcher), "");
    world.pass(40_000);
    let calls = world.stats().calls;
    assert_eq!(
        (calls.proxy.transaction_count, calls.dialogs.call_count),
        (0, 0)
    );
}

/// How many of 2,000 calls at once there is room for, with this share; then one of alice's.
fn calls_taken(share_percent: u64) -> usize {
    let mut config = config();
    config.limits.calls_max = 500;
    config.peers[0].share_percent = share_percent;
    let mut world = World::with(config);
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let invites: Vec<_> = (0..2_000)
        .map(|number| invite_from(&mut world, GATEWAY, "bob", &format!("many-{number}")))
        .collect();
    world.send_at_once(GATEWAY, &invites);
    let answers = std::iter::from_fn(|| world.try_read(GATEWAY));
    let taken = answers.filter(|it| it.starts_with("SIP/2.0 100 ")).count();
    assert!(world.stats().traffic.refused_share > 0);
    world.call(ALICE, "bob", "alice");
    world.read_status(ALICE, "100");
    taken
}

/// Its calls are charged to it alone, and its share is a setting.
#[test]
fn a_peer_has_its_own_share() {
    // No less than every source: a tenth of the messages' memory.
    assert!((500..1_024).contains(&calls_taken(1)));
    assert_eq!(calls_taken(70), 1_400);
}

/// RFC 3261 §21.3.3; the Route in the URI is that of RFC 3261 §19.1.1.
#[test]
fn a_peer_that_carries_calls_itself_is_told_the_contacts() {
    let mut config = config();
    config.peers[0].redirects = true;
    let mut world = World::with(config);
    world.register_with(BOB, ";q=0.5");
    let invite = invite_from(&mut world, GATEWAY, "bob", "asked");
    world.send(GATEWAY, &invite);
    let answer = world.read_status(GATEWAY, "302");
    let expected = format!("<sip:bob@{}>;q=0.500", BOB.address);
    assert_eq!(header(&answer, "Contact"), expected);
    // The same answer again, and its ACK goes nowhere.
    world.send(GATEWAY, &invite);
    assert_eq!(world.read_status(GATEWAY, "302"), answer);
    world.send(GATEWAY, &ack_of_refusal(&invite, &answer));
    assert_eq!(world.try_read(BOB), None);
    let invite = invite_from(&mut world, GATEWAY, "alice", "gone");
    world.send(GATEWAY, &invite);
    world.read_status(GATEWAY, "480");
    assert_eq!(world.stats().peers.redirected, 2);
    // Other requests are carried.
    let message = world
        .invite(GATEWAY, "bob", "text")
        .replace("INVITE", "MESSAGE");
    world.send(GATEWAY, &message);
    world.read_request(BOB, "MESSAGE");
}

/// Its old contact stays until it expires, and nobody listens there, or nobody knows it.
#[test]
fn a_telephone_that_has_crashed_is_called_where_it_has_registered_since() {
    let mut world = world();
    let instance = ";+sip.instance=\"<urn:uuid:1>\"";
    world.register_with(CAROL, instance);
    world.pass(1_000);
    let later = phone("carol", "192.0.2.19:5060");
    world.register_with(later, instance);
    let invite = invite_from(&mut world, GATEWAY, "carol", "crashed");
    world.send(GATEWAY, &invite);
    world.read_request(later, "INVITE");
    assert_eq!(world.try_read(CAROL), None);
}
