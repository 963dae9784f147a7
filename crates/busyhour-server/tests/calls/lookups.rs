//! Next hops with names (RFC 3263): which servers calls go to, what happens while DNS is silent,
//! and that nobody is led where he may not go.

use crate::{
    exchange::digest_config,
    world::{
        ALICE, BOB, CAROL, Phone, World, ack_of_refusal, cancel, header, phone, respond, within,
    },
};
use busyhour_proxy::dns::{DnsAnswer, Question, Record, RecordKind, Srv};
use busyhour_server::server::{AnswerListener, PeerConfig, Resolver, ServerConfig};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

const FIRST: Phone = phone("trunk", "192.0.2.10:5070");
const SECOND: Phone = phone("trunk", "192.0.2.11:5060");
const PUBLIC: Phone = phone("trunk", "8.8.4.4:5060");

/// DNS as a test wants it.
#[derive(Default)]
struct Dns(Mutex<DnsState>);

#[derive(Default)]
struct DnsState {
    records: HashMap<Question, Vec<Record>>,
    ttl_s: u64,
    is_silent: bool,
    is_held: bool,
    held: Vec<(Question, AnswerListener)>,
    asked: Vec<Question>,
}

impl DnsState {
    fn answer(&self, question: &Question) -> DnsAnswer {
        let ttl = Duration::from_secs(self.ttl_s.max(5));
        match self.records.get(question) {
            _ if self.is_silent => DnsAnswer::Failed,
            Some(records) => DnsAnswer::Found(records.clone().into(), ttl),
            None => DnsAnswer::Nothing(ttl),
        }
    }
}

impl Resolver for Dns {
    fn ask(&self, question: Question, listener: AnswerListener) {
        let mut state = self.0.lock().unwrap();
        state.asked.push(question.clone());
        if state.is_held {
            return state.held.push((question, listener));
        }
        let answer = state.answer(&question);
        drop(state);
        listener(answer);
    }
}

impl Dns {
    fn a(&self, name: &str, ips: &[&str]) {
        let records = ips
            .iter()
            .map(|ip| Record::Address(ip.parse().unwrap()))
            .collect();
        let question = Question::new(name, RecordKind::A);
        self.0.lock().unwrap().records.insert(question, records);
    }

    fn srv(&self, name: &str, hosts: &[(u16, u16, u16, &str)]) {
        let record = |(priority, weight, port, target): &(u16, u16, u16, &str)| {
            Record::Srv(Srv {
                priority: *priority,
                weight: *weight,
                port: *port,
                target: (*target).into(),
            })
        };
        let records = hosts.iter().map(record).collect();
        let question = Question::new(name, RecordKind::Srv);
        self.0.lock().unwrap().records.insert(question, records);
    }

    fn clear(&self) {
        self.0.lock().unwrap().records.clear();
    }

    fn set_ttl(&self, seconds: u64) {
        self.0.lock().unwrap().ttl_s = seconds;
    }

    fn be_silent(&self, is_silent: bool) {
        self.0.lock().unwrap().is_silent = is_silent;
    }

    /// Answers nothing for now.
    fn hold(&self) {
        self.0.lock().unwrap().is_held = true;
    }

    fn release(&self) {
        self.0.lock().unwrap().is_held = false;
        loop {
            let mut state = self.0.lock().unwrap();
            let Some((question, listener)) = state.held.pop() else {
                return;
            };
            let answer = state.answer(&question);
            drop(state);
            listener(answer);
        }
    }

    /// Answers what was asked of this domain, and what that leads to, and nothing else.
    fn release_one(&self, domain: &str) {
        loop {
            let mut state = self.0.lock().unwrap();
            let is_its = |(question, _): &(Question, _)| question.name.ends_with(domain);
            let Some(place) = state.held.iter().position(is_its) else {
                return;
            };
            let (question, listener) = state.held.remove(place);
            let answer = state.answer(&question);
            drop(state);
            listener(answer);
        }
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().asked.len()
    }
}

fn peer(name: &str) -> PeerConfig {
    PeerConfig {
        name: name.into(),
        probe_interval: Duration::ZERO,
        ..PeerConfig::default()
    }
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn world(dns: &Arc<Dns>, peers: Vec<PeerConfig>) -> World {
    let mut world = World::with(ServerConfig {
        peers,
        resolver: dns.clone(),
        ..digest_config()
    });
    world.pass(100);
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    world
}

/// A gateway that stands in the configuration with its name.
fn gateway() -> PeerConfig {
    PeerConfig {
        addresses: vec!["sip.example.net".parse().unwrap()],
        may_call: true,
        prefixes: texts(&["0"]),
        ..peer("gateway")
    }
}

/// One that takes what is for these domains, wherever they are.
fn federation(domains: &[&str]) -> PeerConfig {
    PeerConfig {
        domains: texts(domains),
        looks_up: true,
        ..peer("federation")
    }
}

fn two_servers(dns: &Dns) {
    let servers = [
        (1, 0, 5070, "one.example.net"),
        (2, 0, 5060, "two.example.net"),
    ];
    dns.srv("_sip._udp.sip.example.net", &servers);
    dns.a("one.example.net", &["192.0.2.10"]);
    dns.a("two.example.net", &["192.0.2.11"]);
}

/// Alice calls a URI and has answered the challenge; the INVITE that she sent last.
fn call_uri(world: &mut World, phone: Phone, uri: &str, call_id: &str) -> String {
    let contact = format!("Contact: <sip:{}@{}>\r\n", phone.user, phone.address);
    let invite = world.request(phone, "INVITE", uri, &format!("<{uri}>"), call_id, &contact);
    world.send(phone, &invite);
    let challenge = world.read_status(phone, "407");
    world.send(phone, &ack_of_refusal(&invite, &challenge));
    let proven = world.proven(phone, &invite, &challenge);
    world.send(phone, &proven);
    proven
}

fn refuse(world: &mut World, phone: Phone, invite: &str, status: &str) {
    world.send(phone, &respond(phone, invite, status));
    world.read_request(phone, "ACK");
}

/// Alice calls a URI in vain; how she was refused.
fn refused(world: &mut World, uri: &str, call_id: &str) -> String {
    let invite = call_uri(world, ALICE, uri, call_id);
    let first = world.read(ALICE);
    let refusal = match first.starts_with("SIP/2.0 100") {
        true => world.read(ALICE),
        false => first,
    };
    world.send(ALICE, &ack_of_refusal(&invite, &refusal));
    refusal
}

/// Alice calls a number that `taker` refuses.
#[track_caller]
fn busy_at(world: &mut World, taker: Phone, call_id: &str) {
    let call = world.call(ALICE, "0301", call_id);
    world.read_status(ALICE, "100");
    let invite = world.read_request(taker, "INVITE");
    refuse(world, taker, &invite, "486 Busy Here");
    let refusal = world.read_status(ALICE, "486");
    world.send(ALICE, &ack_of_refusal(&call, &refusal));
}

#[test]
fn a_peer_is_where_dns_says_and_the_next_server_takes_what_one_does_not() {
    let dns = Arc::new(Dns::default());
    two_servers(&dns);
    let mut world = world(&dns, vec![gateway()]);
    let call = world.call(ALICE, "0301", "busy");
    world.read_status(ALICE, "100");
    let invite = world.read_request(FIRST, "INVITE");
    refuse(&mut world, FIRST, &invite, "503 Service Unavailable");
    let invite = world.read_request(SECOND, "INVITE");
    refuse(&mut world, SECOND, &invite, "486 Busy Here");
    let refusal = world.read_status(ALICE, "486");
    world.send(ALICE, &ack_of_refusal(&call, &refusal));

    world.call(ALICE, "0302", "silent");
    world.read_status(ALICE, "100");
    world.read_request(FIRST, "INVITE");
    world.pass(5_000);
    while world.try_read(FIRST).is_some() {}
    let invite = world.read_request(SECOND, "INVITE");
    world.send(SECOND, &respond(SECOND, &invite, "200 OK"));
    world.read_status(ALICE, "200");

    while world.try_read(SECOND).is_some() {}
    // It is its servers, so it may call from there.
    let invite = world.invite(SECOND, "bob", "in");
    world.send(SECOND, &invite);
    world.read_status(SECOND, "100");
    world.read_request(BOB, "INVITE");
    let views = world.server.peers();
    let addresses = views.iter().flat_map(|view| &view.addresses);
    let shown: Vec<_> = addresses.map(|it| it.address.as_str()).collect();
    assert_eq!(
        shown,
        [
            "192.0.2.10:5070 (sip.example.net)",
            "192.0.2.11:5060 (sip.example.net)"
        ]
    );
}

#[test]
fn servers_of_one_priority_take_their_parts_of_the_calls() {
    let dns = Arc::new(Dns::default());
    let servers = [
        (1, 30, 5070, "one.example.net"),
        (1, 10, 5060, "two.example.net"),
    ];
    dns.srv("_sip._udp.sip.example.net", &servers);
    dns.a("one.example.net", &["192.0.2.10"]);
    dns.a("two.example.net", &["192.0.2.11"]);
    let mut world = world(&dns, vec![gateway()]);
    let mut parts = [0, 0];
    for number in 0..80 {
        let call = world.call(ALICE, "0301", &format!("part-{number}"));
        world.read_status(ALICE, "100");
        for (place, phone) in [FIRST, SECOND].into_iter().enumerate() {
            if let Some(invite) = world.try_read(phone) {
                parts[place] += 1;
                refuse(&mut world, phone, &invite, "486 Busy Here");
            }
        }
        let refusal = world.read_status(ALICE, "486");
        world.send(ALICE, &ack_of_refusal(&call, &refusal));
    }
    assert_eq!(parts[0] + parts[1], 80);
    assert!((48..72).contains(&parts[0]), "{parts:?}");
}

#[test]
fn names_are_asked_again_when_their_time_is_over() {
    let dns = Arc::new(Dns::default());
    dns.set_ttl(60);
    dns.a("sip.example.net", &["192.0.2.11"]);
    let mut world = world(&dns, vec![gateway()]);
    busy_at(&mut world, SECOND, "before");
    let asked = dns.asked();
    world.pass(50_000);
    assert_eq!(dns.asked(), asked, "the answers are valid");

    dns.a("sip.example.net", &["192.0.2.12"]);
    world.pass(20_000);
    busy_at(&mut world, phone("trunk", "192.0.2.12:5060"), "moved");
    // Who was there is nobody now.
    let invite = world.invite(SECOND, "bob", "stranger");
    world.send(SECOND, &invite);
    let refusal = world.read(SECOND);
    assert!(!refusal.starts_with("SIP/2.0 1"), "{refusal}");
    assert_eq!(world.try_read(BOB), None);

    dns.be_silent(true);
    world.pass(120_000);
    busy_at(&mut world, phone("trunk", "192.0.2.12:5060"), "silent");
    dns.be_silent(false);
    dns.clear();
    world.pass(120_000);
    world.call(ALICE, "0301", "gone");
    let refusal = world.read_status(ALICE, "480");
    assert!(
        refusal.starts_with("SIP/2.0 480 DNS Does Not Know Peer"),
        "{refusal}"
    );
    // It comes back by itself.
    dns.a("sip.example.net", &["192.0.2.11"]);
    world.pass(120_000);
    busy_at(&mut world, SECOND, "back");
}

#[test]
fn a_call_for_a_domain_waits_for_dns_and_goes_where_it_says() {
    let dns = Arc::new(Dns::default());
    dns.a("partner.example", &["192.0.2.11"]);
    dns.hold();
    let mut world = world(&dns, vec![federation(&["partner.example"])]);
    call_uri(&mut world, ALICE, "sip:zoe@partner.example", "out");
    world.read_status(ALICE, "100");
    assert_eq!(world.try_read(SECOND), None);
    assert_eq!(world.stats().dns.waiting_count, 1);
    // Calls among our users wait for nothing.
    world.call(BOB, "alice", "inside");
    world.read_status(BOB, "100");
    world.read_request(ALICE, "INVITE");

    dns.release();
    world.pass(20);
    let invite = world.read_request(SECOND, "INVITE");
    assert!(
        invite.starts_with("INVITE sip:zoe@partner.example SIP/2.0"),
        "{invite}"
    );
    world.send(SECOND, &respond(SECOND, &invite, "200 OK"));
    let answer = world.read_status(ALICE, "200");
    let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
    world.send(ALICE, &ack);
    world.read_request(SECOND, "ACK");
    let bye = within(&mut world, ALICE, "BYE", 3, &answer, true);
    world.send(ALICE, &bye);
    let bye = world.read_request(SECOND, "BYE");
    world.send(SECOND, &respond(SECOND, &bye, "200 OK"));
    world.read_status(ALICE, "200");

    // The next call needs no question.
    let asked = dns.asked();
    call_uri(&mut world, ALICE, "sip:zoe@partner.example", "again");
    world.read_status(ALICE, "100");
    world.read_request(SECOND, "INVITE");
    assert_eq!(dns.asked(), asked);
    let stats = world.stats().dns;
    assert_eq!(
        (stats.lookups, stats.from_cache, stats.waiting_count),
        (2, 1, 0)
    );
}

#[test]
fn a_caller_who_hangs_up_while_dns_is_silent_is_not_connected_later() {
    let dns = Arc::new(Dns::default());
    dns.a("partner.example", &["192.0.2.11"]);
    dns.hold();
    let mut world = world(&dns, vec![federation(&["partner.example"])]);
    let invite = call_uri(&mut world, ALICE, "sip:zoe@partner.example", "out");
    world.read_status(ALICE, "100");
    world.send(ALICE, &cancel(&invite));
    world.read_status(ALICE, "200");
    let refusal = world.read_status(ALICE, "487");
    world.send(ALICE, &ack_of_refusal(&invite, &refusal));
    dns.release();
    world.pass(1_000);
    assert_eq!(world.try_read(SECOND), None);
    world.pass(64_000);
    assert_eq!(world.stats().calls.proxy.transaction_count, 0);
}

#[test]
fn what_dns_does_not_say_is_answered_clearly() {
    let dns = Arc::new(Dns::default());
    dns.srv("_sip._udp.none.example", &[(0, 0, 0, "")]);
    let mut world = world(&dns, vec![federation(&["*"])]);
    let ask = |world: &mut World, uri: &str, status: &str| {
        let refusal = refused(world, uri, uri);
        assert!(
            refusal.starts_with(&format!("SIP/2.0 {status}")),
            "{refusal}"
        );
    };
    ask(
        &mut world,
        "sip:zoe@unknown.example",
        "404 Domain Does Not Exist",
    );
    ask(
        &mut world,
        "sip:zoe@none.example",
        "480 Domain Takes No Calls",
    );
    dns.be_silent(true);
    ask(
        &mut world,
        "sip:zoe@silent.example",
        "504 No Answer From DNS",
    );
    ask(
        &mut world,
        "sips:zoe@unknown.example",
        "480 Domain Takes No Calls",
    );
}

/// A stranger's DNS must lead neither into this network nor to a neighbour that trusts us.
#[test]
fn no_domain_leads_where_its_owner_could_not_call_himself() {
    let dns = Arc::new(Dns::default());
    dns.a("loopback.example", &["127.0.0.1", "::1"]);
    dns.a("private.example", &["10.0.0.7"]);
    dns.a("pbx.example", &["8.8.8.8"]);
    dns.a("public.example", &["10.0.0.7", "8.8.4.4"]);
    dns.a("partner.example", &["8.8.8.8"]);
    let pbx = PeerConfig {
        addresses: vec!["8.8.8.8".parse().unwrap()],
        prefixes: texts(&["9"]),
        ..peer("pbx")
    };
    let mut world = world(&dns, vec![pbx, federation(&["*", "partner.example"])]);
    for host in [
        "loopback.example",
        "private.example",
        "pbx.example",
        "partner.example",
    ] {
        let refusal = refused(&mut world, &format!("sip:zoe@{host}"), host);
        assert!(refusal.starts_with("SIP/2.0 403 "), "{host}: {refusal}");
    }
    for host in ["203.0.113.7", "[2a00::7]"] {
        let uri = format!("sip:zoe@{host}");
        let invite = world.request(ALICE, "INVITE", &uri, &format!("<{uri}>"), host, "");
        world.send(ALICE, &invite);
        world.read_status(ALICE, "403");
    }
    // Nor does a URI that names a domain of ours to call, and another host to go to.
    let asked = dns.asked();
    for (parameter, call_id) in [
        ("maddr=loopback.example", "maddr"),
        ("transport=tcp;maddr=127.0.0.1", "maddr-address"),
        ("MADDR=loopback.example", "maddr-upper"),
    ] {
        let uri = format!("sip:zoe@partner.example:6379;{parameter}");
        let refusal = refused(&mut world, &uri, call_id);
        assert!(
            refusal.starts_with("SIP/2.0 403 URI Must Not Have maddr"),
            "{refusal}"
        );
    }
    let uri = "sip:9@example.com;maddr=192.0.2.99";
    let refusal = refused(&mut world, uri, "maddr-of-peer");
    assert!(refusal.starts_with("SIP/2.0 403 "), "{refusal}");
    assert_eq!(dns.asked(), asked, "nothing is looked up for them");
    call_uri(&mut world, ALICE, "sip:zoe@public.example", "public");
    world.read_status(ALICE, "100");
    world.read_request(PUBLIC, "INVITE");

    // Our own domain is not abroad.
    let asked = dns.asked();
    world.call(ALICE, "bob", "inside");
    world.read_status(ALICE, "100");
    world.read_request(BOB, "INVITE");
    assert_eq!(dns.asked(), asked);

    // Nobody calls abroad without an account, and nothing is looked up for him.
    let asked = dns.asked();
    let uri = "sip:zoe@strange.example";
    let invite = world.request(CAROL, "INVITE", uri, &format!("<{uri}>"), "unproven", "");
    world.send(CAROL, &invite);
    world.read_status(CAROL, "407");
    let routed = invite.replace(
        "Max-Forwards",
        "Route: <sip:relay.example;lr>\r\nMax-Forwards",
    );
    world.send(CAROL, &routed.replace("unproven", "routed"));
    let refusal = world.read(CAROL);
    assert!(refusal.starts_with("SIP/2.0 403 "), "{refusal}");
    assert_eq!(dns.asked(), asked);
}

/// He calls ever new domains whose DNS says nothing, and those of the others go on.
#[test]
fn one_user_takes_no_more_than_a_share_of_the_lookups() {
    let dns = Arc::new(Dns::default());
    dns.a("other.example", &["8.8.4.4"]);
    let mut world = world(&dns, vec![federation(&["*"])]);
    dns.hold();
    let mut refused = None;
    for number in 0..200 {
        let uri = format!("sip:zoe@slow{number}.example");
        let contact = format!("Contact: <sip:alice@{}>\r\n", ALICE.address);
        let call_id = format!("slow-{number}");
        let invite = world.request(
            ALICE,
            "INVITE",
            &uri,
            &format!("<{uri}>"),
            &call_id,
            &contact,
        );
        world.send(ALICE, &invite);
        let challenge = world.read_status(ALICE, "407");
        world.send(ALICE, &ack_of_refusal(&invite, &challenge));
        let proven = world.proven(ALICE, &invite, &challenge);
        world.send(ALICE, &proven);
        world.read_status(ALICE, "100");
        if let Some(refusal) = world.try_read(ALICE) {
            refused = Some((number, refusal));
            break;
        }
    }
    let (number, refusal) = refused.expect("a share");
    assert_eq!(number, 102, "a tenth of 1,024");
    assert!(refusal.starts_with("SIP/2.0 503 "), "{refusal}");
    assert_eq!(header(&refusal, "Retry-After"), "5");
    assert_eq!(world.stats().dns.refused, 1);
    call_uri(&mut world, BOB, "sip:zoe@other.example", "other");
    world.read_status(BOB, "100");
    assert_eq!(world.try_read(BOB), None, "his lookup waits");
    assert_eq!(world.stats().dns.refused, 1);
    // Calls among our users need no lookup, whoever has how many.
    world.call(BOB, "alice", "inside");
    world.read_status(BOB, "100");
    world.read_request(ALICE, "INVITE");
    // Bob's goes on as soon as DNS says where, while all of alice's still wait.
    dns.release_one("other.example");
    world.pass(20);
    world.read_request(PUBLIC, "INVITE");
    assert_eq!(world.stats().dns.waiting_count, 102);
}

#[test]
fn within_a_dialog_the_name_of_a_contact_is_looked_up_and_leads_to_its_peer_only() {
    let dns = Arc::new(Dns::default());
    dns.a("sip.example.net", &["192.0.2.11"]);
    dns.a("media.example.net", &["192.0.2.11"]);
    dns.a("elsewhere.example", &["192.0.2.99"]);
    let mut world = world(&dns, vec![gateway()]);
    for (host, call_id) in [
        ("media.example.net:5070", "named"),
        ("elsewhere.example:5070", "strange"),
    ] {
        world.call(ALICE, "0301", call_id);
        world.read_status(ALICE, "100");
        let invite = world.read_request(SECOND, "INVITE");
        let answer = respond(SECOND, &invite, "200 OK");
        let contact = format!("Contact: <sip:trunk@{host}>");
        let answer = answer.replace("Contact: <sip:trunk@192.0.2.11:5060>", &contact);
        world.send(SECOND, &answer);
        let answer = world.read_status(ALICE, "200");
        dns.hold();
        let ack = within(&mut world, ALICE, "ACK", 2, &answer, true);
        world.send(ALICE, &ack);
        let bye = within(&mut world, ALICE, "BYE", 3, &answer, true);
        world.send(ALICE, &bye);
        // What is sent again is no second request.
        world.send(ALICE, &bye);
        dns.release();
        world.pass(20);
        let place = match call_id {
            "named" => phone("trunk", "192.0.2.11:5070"),
            _ => SECOND,
        };
        let (mut acks, mut byes) = (0, 0);
        while let Some(request) = world.try_read(place) {
            acks += usize::from(request.starts_with("ACK "));
            byes += usize::from(request.starts_with("BYE "));
            if request.starts_with("BYE ") {
                world.send(place, &respond(place, &request, "200 OK"));
            }
        }
        assert_eq!((acks, byes), (1, 1), "{call_id}");
        world.read_status(ALICE, "200");
    }
}
