//! The server, from received to sent datagrams, in virtual time; each test is
//! one situation.

#[path = "server/counts.rs"]
mod counts;
#[path = "server/credentials.rs"]
mod credentials;
#[path = "server/device_pages.rs"]
mod device_pages;
#[path = "support/exchange.rs"]
mod exchange;
#[path = "server/hints.rs"]
mod hints;
#[path = "server/lists.rs"]
mod lists;
#[path = "server/loading.rs"]
mod loading;
#[path = "support/log_lines.rs"]
mod log_lines;
#[path = "server/nat.rs"]
mod nat;
#[path = "server/probes.rs"]
mod probes;
#[path = "server/queues.rs"]
mod queues;
#[path = "support/random.rs"]
mod random;
#[path = "server/registrars.rs"]
mod registrars;
#[path = "server/revocation.rs"]
mod revocation;
#[path = "server/survival.rs"]
mod survival;

use busyhour::{
    clock::Instant,
    runtime::{Runtime, Simulation},
};
use busyhour_server::server::{HintConfig, Limits, Server, ServerConfig, ServerStats};
use busyhour_sip::Message;
use busyhour_store::{DiskBehaviour, SimulatedDisk};
use exchange::{Sent, digest_config, ok, open_config};
use std::{net::SocketAddr, sync::Arc, time::Duration};

#[test]
fn a_registration_is_answered_when_it_is_durable_and_not_before() {
    let mut server = Fixture::open();
    server.receive(&register(1, "Contact: <sip:a@192.0.2.7>"));
    assert_eq!(server.sent(), [""; 0], "the disk has not answered");
    server.settle();
    let answers = server.sent();
    assert!(answers[0].starts_with("SIP/2.0 200 OK\r\n"), "{answers:?}");
    assert_eq!(server.disk.contents().bindings.len(), 1);
    let stats = server.stats();
    assert_eq!(
        (stats.registrar.accepted, stats.registrar.binding_count),
        (1, 1)
    );
}

#[test]
fn retransmissions_are_absorbed_while_in_progress_and_answered_afterwards() {
    let mut server = Fixture::open();
    let request = register(1, "Contact: <sip:a@192.0.2.7>");
    server.receive(&request);
    server.receive(&request);
    server.settle();
    let first = server.sent();
    assert_eq!(first.len(), 1);
    server.receive(&request);
    assert_eq!(server.sent(), first, "the very same bytes");
    let traffic = server.stats().traffic;
    assert_eq!(traffic.retransmissions_absorbed, 1);
    assert_eq!(traffic.retransmissions_answered, 1);
    server.pass(33);
    assert_eq!(server.stats().traffic.transaction_count, 0);
    assert_eq!(server.stats().runtime.buffers.live_count, 0);
}

#[test]
fn a_stun_binding_request_is_answered_with_its_source_address() {
    let mut server = Fixture::open();
    server.receive_bytes(b"\x00\x01\x00\x00\x21\x12\xa4\x42twelve bytes");
    let answer = server.sent.take_last();
    assert_eq!(&answer[..8], b"\x01\x01\x00\x0c\x21\x12\xa4\x42");
    server.receive_bytes(b"\x01\x01\x00\x00\x21\x12\xa4\x42twelve bytes");
    assert_eq!(server.sent(), [""; 0], "a response gets no response");
    let traffic = server.stats().traffic;
    assert_eq!((traffic.keepalives, traffic.malformed_silent), (1, 1));
}

#[test]
fn registrations_of_one_device_wait_for_each_other() {
    let mut server = Fixture::open();
    for cseq in 1..=4 {
        let contact = format!("Contact: <sip:a{cseq}@192.0.2.7>");
        server.receive(&register(cseq, &contact));
    }
    server.settle();
    let count = |answer: &String| answer.matches("Contact:").count();
    let listed: Vec<_> = server.sent().iter().map(count).collect();
    assert_eq!(listed, [1, 2, 3, 4]);
}

#[test]
fn a_change_that_the_disk_refuses_is_503_and_stays_503() {
    let mut server = Fixture::open();
    server.disk.set_behaviour(DiskBehaviour {
        failures_per_mille: 1000,
        ..DiskBehaviour::default()
    });
    let request = register(1, "Contact: <sip:a@192.0.2.7>");
    server.receive(&request);
    server.settle();
    let answers = server.sent();
    assert!(answers[0].starts_with("SIP/2.0 503 "), "{answers:?}");
    assert!(answers[0].contains("Retry-After: "), "{answers:?}");
    server.disk.set_behaviour(DiskBehaviour::default());
    server.receive(&request);
    assert_eq!(server.sent(), answers, "a late duplicate has no effect");
    let stats = server.stats().registrar;
    assert_eq!((stats.store_failures, stats.binding_count), (1, 0));
    server.receive(&register(2, "Contact: <sip:a@192.0.2.7>"));
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 "));
}

#[test]
fn a_full_store_queue_and_a_full_table_are_503() {
    let mut server = Fixture::with(ServerConfig {
        limits: Limits {
            devices_max: 1,
            ..Limits::default()
        },
        ..open_config()
    });
    server.receive(&register_as("alice", 1, "Contact: <sip:a@192.0.2.7>"));
    server.receive(&register_as("bob", 1, "Contact: <sip:b@192.0.2.7>"));
    let answers = server.sent();
    assert!(answers[0].starts_with("SIP/2.0 503 "), "{answers:?}");
    assert_eq!(server.stats().traffic.refused_table_full, 1);
    assert_eq!(
        server.server.failures_of("bob"),
        [],
        "bob did nothing wrong"
    );

    let mut server = Fixture::open();
    server.disk.set_behaviour(DiskBehaviour {
        queue_capacity: 0,
        ..DiskBehaviour::default()
    });
    server.receive(&register(1, "Contact: <sip:a@192.0.2.7>"));
    assert!(server.sent()[0].starts_with("SIP/2.0 503 "));
    assert_eq!(server.stats().store.refused, 1);
}

/// While the disk is busy, devices of one source wait in the source's share of the
/// queue, and a registration from another source finds room.
#[test]
fn one_source_has_a_share_of_the_changes_that_wait_for_the_disk() {
    let mut server = Fixture::on_disk(DiskBehaviour {
        queue_capacity: 2000,
        ..DiskBehaviour::default()
    });
    let greedy = |number: u32| register_as(&format!("d{number}"), 1, "Contact: <sip:a@192.0.2.7>");
    (0..1100).for_each(|number| server.receive(&greedy(number)));
    let refused = server.sent();
    assert!(
        refused
            .iter()
            .all(|answer| answer.starts_with("SIP/2.0 503 "))
    );
    assert_eq!(
        refused.len(),
        1100 - 1024,
        "a source may have 1,024 of anything"
    );
    assert_eq!(server.stats().traffic.refused_share, 1100 - 1024);

    let other = SocketAddr::from(([192, 0, 2, 10], 5070));
    let request = register_as("alice", 1, "Contact: <sip:alice@192.0.2.10>");
    server.receive_from(other, request.as_bytes());
    assert_eq!(
        server.sent(),
        [""; 0],
        "the registration waits for the disk"
    );
    server.settle();
    assert_eq!(server.stats().registrar.binding_count, 1025);
    server.sent();
    server.ask(&greedy(2000));
    assert!(
        server.sent()[0].starts_with("SIP/2.0 200 "),
        "the whole share is given back"
    );
}

#[test]
fn one_device_cannot_fill_the_memory() {
    let mut server = Fixture::with(ServerConfig {
        limits: Limits {
            device_queue_max: 4,
            ..Limits::default()
        },
        ..open_config()
    });
    for cseq in 1..=100 {
        let contact = format!("Contact: <sip:a@192.0.2.7:{cseq}>");
        server.receive(&register(cseq, &contact));
    }
    let dropped = server.stats().traffic.dropped_device_queue;
    assert!(dropped >= 90, "{dropped}");
    server.settle();
    assert_eq!(server.sent().len() as u64, 100 - dropped);
}

#[test]
fn datagrams_that_are_not_sip_are_counted_and_not_answered() {
    let mut server = Fixture::open();
    for silent in [
        &b"\x00\xff\x80binary"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 65_000],
    ] {
        server.receive_bytes(silent);
    }
    for alive in [&b""[..], b"\r\n\r\n"] {
        server.receive_bytes(alive);
    }
    assert_eq!(server.sent(), [""; 0]);
    let traffic = server.stats().traffic;
    assert_eq!((traffic.malformed_silent, traffic.keepalives), (3, 2));
}

#[test]
fn malformed_sip_is_answered_with_400() {
    let mut server = Fixture::open();
    let whole = register(1, "Contact: <sip:a@192.0.2.7>");
    let truncated = &whole[..whole.len() - 2];
    for broken in [
        truncated.to_owned(),
        whole.replace("CSeq: 1", "CSeq: x"),
        whole.replace("Contact: <sip:a@192.0.2.7>", "Contact: <sip:a@"),
        whole.replace("To: ", "Subject: "),
    ] {
        server.receive(&broken);
        let answers = server.sent();
        assert!(
            answers[0].starts_with("SIP/2.0 400 "),
            "{broken}\n{answers:?}"
        );
    }
    assert_eq!(server.stats().traffic.malformed_answered, 4);
    assert_eq!(server.stats().registrar.device_count, 0);
}

#[test]
fn an_ack_is_never_answered() {
    let mut server = Fixture::open();
    let ack = register(1, "User-Agent: x").replace("REGISTER", "ACK");
    server.receive(&ack);
    server.receive(&ack.replace("CSeq: 1", "CSeq: x"));
    assert_eq!(server.sent(), [""; 0]);
}

#[test]
fn requests_for_nobody_are_refused_and_options_names_the_methods() {
    let mut server = Fixture::open();
    let cases = [
        ("OPTIONS", "200 OK"),
        ("INVITE", "404 Not Found"),
        ("MESSAGE", "404 Not Found"),
        ("CANCEL", "481 Call/Transaction Does Not Exist"),
        ("BYE", "404 Not Found"),
        ("FROBNICATE", "404 Not Found"),
    ];
    for (method, status) in cases {
        server.receive(&register(1, "User-Agent: x").replace("REGISTER", method));
        let answer = server.sent().remove(0);
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status}\r\n")),
            "{answer}"
        );
        assert_eq!(
            answer.contains("Allow: REGISTER, SUBSCRIBE, PUBLISH, OPTIONS, INVITE, ACK, "),
            method == "OPTIONS",
            "{answer}"
        );
    }
    let stats = server.stats();
    assert_eq!((stats.traffic.options, stats.calls.refused), (1, 4));
}

#[test]
fn options_that_require_an_unknown_extension_are_420() {
    let mut server = Fixture::open();
    let require = "Require: path, timer\r\nUser-Agent: x";
    server.receive(&register(1, require).replace("REGISTER", "OPTIONS"));
    let answer = server.sent().remove(0);
    assert!(
        answer.starts_with("SIP/2.0 420 Bad Extension\r\n"),
        "{answer}"
    );
    assert!(answer.contains("Unsupported: timer\r\n"), "{answer}");
}

#[test]
fn other_domains_are_not_served() {
    let lines = log_lines::LogLines::default();
    let _logged = lines.keep();
    let mut server = Fixture::open();
    let request = register(1, "Contact: <sip:a@192.0.2.7>");
    server.receive(&request.replace("sip:example.com SIP", "sip:example.org SIP"));
    assert!(server.sent()[0].starts_with("SIP/2.0 403 Domain Not Served Here\r\n"));
    server.receive(&request.replace("To: <sip:alice@example.com>", "To: <sip:alice@example.org>"));
    assert!(server.sent()[0].starts_with("SIP/2.0 404 Domain example.org Not Served Here\r\n"));
    lines.has(&[
        "registration refused",
        "Domain example.org Not Served Here; sip.domains lists the domains of this server",
    ]);
    server.receive(&request.replace("To: <sip:alice@example.com>", "To: <tel:+15550100>"));
    assert!(server.sent()[0].starts_with("SIP/2.0 416 Unsupported URI Scheme\r\n"));
}

#[test]
fn a_response_is_sent_where_via_says() {
    let mut server = Fixture::open();
    let request = register(1, "User-Agent: x");
    server.receive(&request);
    assert_eq!(server.sent_to(), [client()]);
    server.receive(&request.replace(";rport", "").replace("9:5070;", "9:5555;"));
    assert_eq!(server.sent_to(), [SocketAddr::new(client().ip(), 5555)]);
}

#[test]
fn a_watcher_is_notified_of_registration_and_expiry() {
    let mut server = Fixture::open();
    server.ask(&subscribe(1, "", "Event: presence"));
    let sent = server.sent();
    assert!(
        sent[0].starts_with("SIP/2.0 200 OK\r\n"),
        "the response is sent first"
    );
    assert!(sent[1].contains("<basic>closed</basic>"), "{}", sent[1]);
    server.receive(&ok(&sent[1]));
    server.receive(&register(1, "Contact: <sip:a@192.0.2.7>;expires=60"));
    server.settle();
    let sent = server.sent();
    assert!(sent[0].starts_with("SIP/2.0 200 OK\r\n"));
    assert!(sent[1].contains("<basic>open</basic>"), "{}", sent[1]);
    server.receive(&ok(&sent[1]));
    server.receive(&register(2, "Contact: <sip:a@192.0.2.7>;expires=60"));
    server.settle();
    assert_eq!(
        server.sent().len(),
        1,
        "a refresh changes nothing for watchers"
    );
    server.pass(60);
    let notify = server.sent().remove(0);
    assert!(notify.contains("<basic>closed</basic>"), "{notify}");
    let stats = server.stats();
    assert_eq!(
        (stats.registrar.expired, stats.registrar.device_count),
        (1, 0)
    );
    assert_eq!((stats.watch.notified, stats.watch.confirmed), (3, 2));
}

#[test]
fn a_watcher_refreshes_and_unsubscribes_in_its_dialog() {
    let mut server = Fixture::open();
    server.ask(&subscribe(1, "", "Event: dialog"));
    let sent = server.sent();
    let tag = to_tag(&sent[0]);
    server.receive(&ok(&sent[1]));
    server.ask(&subscribe(2, &tag, "Event: dialog\r\nExpires: 60"));
    let sent = server.sent();
    assert!(sent[0].contains("Expires: 60\r\n"), "{}", sent[0]);
    server.receive(&ok(&sent[1]));
    server.ask(&subscribe(3, &tag, "Event: dialog\r\nExpires: 0"));
    let sent = server.sent();
    assert!(
        sent[1].contains("Subscription-State: terminated;"),
        "{}",
        sent[1]
    );
    server.receive(&ok(&sent[1]));
    server.ask(&subscribe(4, &tag, "Event: dialog"));
    let gone = server.sent().remove(0);
    assert!(
        gone.starts_with("SIP/2.0 481 Subscription Does Not Exist\r\n"),
        "{gone}"
    );
    let stats = server.stats().watch;
    assert_eq!((stats.watcher_count, stats.unsubscribed), (0, 1));
}

#[test]
fn a_subscription_to_something_that_cannot_be_watched_is_refused() {
    let mut server = Fixture::open();
    server.ask(&subscribe(1, "", "Event: presence.winfo.winfo"));
    let answer = server.sent().remove(0);
    assert!(answer.starts_with("SIP/2.0 489 Bad Event\r\n"), "{answer}");
    assert!(
        answer.contains(
            "Allow-Events: presence, dialog, message-summary, reg, presence.winfo, \
             dialog.winfo, message-summary.winfo\r\n"
        ),
        "{answer}"
    );
    server.ask(&subscribe(2, "1-00", "Event: presence"));
    assert!(server.sent()[0].starts_with("SIP/2.0 481 "));
    assert_eq!(server.stats().watch.rejected, 2);

    let mut server = Fixture::with(digest_config());
    server.ask(&subscribe(1, "", "Event: presence"));
    assert!(server.sent()[0].starts_with("SIP/2.0 401 "));
}

#[test]
fn a_watcher_that_does_not_answer_ends() {
    let mut server = Fixture::open();
    server.ask(&subscribe(1, "", "Event: presence"));
    server.pass(40);
    let stats = server.stats().watch;
    assert_eq!((stats.given_up, stats.watcher_count), (1, 0));
    assert_eq!((stats.notified, stats.retransmitted), (1, 3));
}

#[test]
fn stray_responses_are_counted() {
    let mut server = Fixture::open();
    server.ask(&subscribe(1, "", "Event: presence"));
    let notify = server.sent().remove(1);
    let answer = ok(&notify);
    server.receive(&answer.replace("z9hG4bK", "z9hG4bKf"));
    server.receive(&answer.replace("CSeq: 1", "CSeq: 7"));
    assert_eq!(server.stats().traffic.stray_responses, 2);
    server.receive(&answer);
    server.receive(&answer);
    assert_eq!(server.stats().traffic.stray_responses, 3);
    assert_eq!(server.stats().watch.confirmed, 1);
}

#[test]
fn a_restart_restores_bindings_with_their_remaining_time() {
    let mut server = Fixture::open();
    server.receive(&register(1, "Contact: <sip:a@192.0.2.7>;expires=600"));
    server.receive(&register_as(
        "bob",
        1,
        "Contact: <sip:b@192.0.2.7>;expires=60",
    ));
    server.settle();
    server.sent();
    server.pass(100);
    server.restart(open_config());
    let stats = server.stats().registrar;
    assert_eq!(
        (stats.restored, stats.binding_count, stats.device_count),
        (1, 1, 1)
    );
    server.receive(&register(2, "User-Agent: x"));
    let answer = server.sent().remove(0);
    assert!(
        answer.contains("<sip:a@192.0.2.7>;expires=500\r\n"),
        "{answer}"
    );
    server.ask(&subscribe(1, "", "Event: presence"));
    assert!(server.sent()[1].contains("<basic>open</basic>"));
    server.pass(500);
    assert_eq!(server.stats().registrar.binding_count, 0);
    server.settle();
    assert!(server.disk.contents().bindings.is_empty());
}

#[test]
fn a_shutdown_notifies_watchers_and_accepts_no_requests() {
    let mut server = Fixture::open();
    server.ask(&subscribe(1, "", "Event: presence"));
    let sent = server.sent();
    server.receive(&ok(&sent[1]));
    server.receive(&register(1, "Contact: <sip:a@192.0.2.7>"));
    server.server.shutdown(Duration::ZERO);
    server.receive(&register(2, "Contact: <sip:a@192.0.2.7>"));
    assert_eq!(server.stats().traffic.dropped_shutdown, 1);
    server.settle();
    let sent = server.sent().join("");
    assert!(sent.contains("terminated;reason=deactivated"), "{sent}");
    assert!(
        sent.contains("CSeq: 1 REGISTER"),
        "the request in progress is answered: {sent}"
    );
}

#[test]
fn dropping_the_last_handle_ends_every_part_of_the_server() {
    let mut server = Fixture::with(ServerConfig {
        hints: vec![HintConfig {
            extension: "100".to_owned(),
            devices: vec!["alice".to_owned()],
        }],
        probe_interval: Duration::from_secs(60),
        ..open_config()
    });
    server.ask(&register(1, "Contact: <sip:a@192.0.2.7>"));
    server.ask(&subscribe(1, "", "Event: presence"));
    server.ask(&subscribe(2, "", "Event: presence").replace("sip:alice@", "sip:100@"));
    // The disk has the callbacks of two changes.
    server.receive(&register(2, "Contact: <sip:b@192.0.2.7>"));
    server.receive(&subscribe(3, "", "Event: dialog").replace("Call-ID: watch", "Call-ID: w2"));
    assert_eq!(server.stats().watch.watcher_count, 3);
    let Fixture {
        runtime,
        server,
        sent,
        disk,
        ..
    } = server;
    sent.take();
    drop(server);
    assert_eq!(Arc::strong_count(&sent), 1, "a part still has the network");
    // What the disk and the timers call now finds no server.
    let simulation = runtime.simulation().unwrap();
    simulation.run_for(Duration::from_secs(10));
    disk.run_due();
    simulation.run_for(Duration::from_secs(3600));
    assert!(sent.is_empty(), "{:?}", sent.take());
}

/// A server in virtual time, its disk, and what it sent.
struct Fixture {
    runtime: Runtime,
    server: Server,
    sent: Arc<Sent>,
    disk: SimulatedDisk,
    /// How much virtual time earlier runs of the server took.
    lived: Duration,
}

impl Fixture {
    fn open() -> Self {
        Self::with(open_config())
    }

    fn with(config: ServerConfig) -> Self {
        let disk = SimulatedDisk::new(1, DiskBehaviour::default());
        Self::on(disk, config, Duration::ZERO)
    }

    fn on_disk(behaviour: DiskBehaviour) -> Self {
        let disk = SimulatedDisk::new(1, behaviour);
        Self::on(disk, open_config(), Duration::ZERO)
    }

    fn on(disk: SimulatedDisk, config: ServerConfig, lived: Duration) -> Self {
        // Each run of the server uses other random numbers.
        let seed = 1 + u64::try_from(lived.as_nanos()).unwrap();
        let runtime = Runtime::simulated(seed);
        let clock = runtime.clock().clone();
        let calendar = clock.as_virtual().unwrap();
        calendar.step_calendar(lived.as_secs() as i64);
        let sent = Arc::new(Sent::default());
        let store = Box::new(disk.open(clock));
        let server = Server::start(runtime.clone(), config, sent.clone(), store).unwrap();
        Self {
            runtime,
            server,
            sent,
            disk,
            lived,
        }
    }

    /// Simulates a power failure, and starts the server again at once.
    fn restart(&mut self, config: ServerConfig) {
        let lived = self.lived + (self.runtime.clock().now() - Instant::ZERO);
        self.disk.crash();
        *self = Self::on(self.disk.clone(), config, lived);
    }

    fn receive(&mut self, text: &str) {
        self.receive_bytes(text.as_bytes());
    }

    /// Sends a request and lets the disk finish.
    fn ask(&mut self, text: &str) {
        self.receive(text);
        self.settle();
    }

    fn receive_bytes(&mut self, bytes: &[u8]) {
        self.receive_from(client(), bytes);
    }

    fn receive_from(&mut self, remote: SocketAddr, bytes: &[u8]) {
        let datagram = self.runtime.buffers().copy_from(bytes).unwrap();
        self.server
            .message(busyhour_sip::Flow::udp(local(), remote), &datagram);
        self.simulation().run_until_idle();
    }

    /// Lets the disk finish its work.
    fn settle(&mut self) {
        while let Some(due) = self.disk.next_due() {
            self.simulation().run_until(due);
            self.disk.run_due();
            self.simulation().run_until_idle();
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.simulation().run_for(Duration::from_secs(seconds));
    }

    fn sent(&self) -> Vec<String> {
        self.sent.take()
    }

    fn sent_to(&self) -> Vec<SocketAddr> {
        self.sent.take_remotes()
    }

    fn stats(&self) -> ServerStats {
        self.server.stats()
    }

    fn simulation(&self) -> &Simulation {
        self.runtime.simulation().unwrap()
    }
}

fn register(cseq: u32, headers: &str) -> String {
    register_as("alice", cseq, headers)
}

fn register_as(user: &str, cseq: u32, headers: &str) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bK{cseq};rport\r\n\
         From: <sip:{user}@example.com>;tag=f1\r\n\
         To: <sip:{user}@example.com>\r\n\
         Call-ID: {user}\r\n\
         CSeq: {cseq} REGISTER\r\n\
         {headers}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// All that is sent until nothing is due; each NOTIFY is answered.
fn told(server: &mut Fixture) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        server.simulation().run_until_idle();
        server.settle();
        let sent = server.sent();
        if sent.is_empty() {
            return all;
        }
        for message in sent {
            if message.starts_with("NOTIFY ") {
                server.receive(&ok(&message));
            }
            all.push(message);
        }
    }
}

fn subscribe(cseq: u32, tag: &str, headers: &str) -> String {
    let tag = match tag {
        "" => String::new(),
        tag => format!(";tag={tag}"),
    };
    format!(
        "SUBSCRIBE sip:alice@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bKs{cseq};rport\r\n\
         From: <sip:bob@example.com>;tag=f2\r\n\
         To: <sip:alice@example.com>{tag}\r\n\
         Call-ID: watch\r\n\
         CSeq: {cseq} SUBSCRIBE\r\n\
         Contact: <sip:bob@192.0.2.9:5070>\r\n\
         {headers}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn to_tag(response: &str) -> String {
    let message = Message::parse(response.as_bytes()).unwrap();
    message.to().unwrap().tag().unwrap().to_owned()
}

fn client() -> SocketAddr {
    "192.0.2.9:5070".parse().unwrap()
}

fn local() -> SocketAddr {
    "192.0.2.1:5060".parse().unwrap()
}
