//! What a server under overload refuses, and whose requests wait, in virtual time.

use crate::exchange::{Sent, digest_config, open_config, proven};
use busyhour::runtime::Runtime;
use busyhour_server::server::{ReadMode, Server, ServerConfig};
use busyhour_sip::{HeaderName, Message};
use busyhour_store::{DiskBehaviour, MemoryStore, SimulatedDisk, Store};
use std::{sync::Arc, time::Duration};

#[test]
fn a_standing_queue_refuses_new_devices_and_serves_known_ones() {
    let world = World::open();
    let tag = world.begin();
    world.let_queue_stand(1200);
    assert_shed(&world.ask(&register("newcomer", 1)));
    assert_shed(&world.ask(&subscribe("another", 1, "")));
    assert_eq!(world.server.stats().traffic.shed, 2);

    world.receive(&register("alice", 2));
    world.receive(&subscribe("watch", 2, &tag));
    world.run();
    let sent = world.sent();
    let accepted = |method: &str| {
        let is_it = |text: &&String| text.starts_with("SIP/2.0 200 ") && text.contains(method);
        sent.iter().any(|text| is_it(&text))
    };
    assert!(accepted("CSeq: 2 REGISTER"), "{sent:?}");
    assert!(accepted("CSeq: 2 SUBSCRIBE"), "{sent:?}");
    assert_eq!(world.server.stats().traffic.shed, 2);
}

#[test]
fn a_queue_that_stands_too_long_refuses_all_but_requests_of_subscriptions_and_ends() {
    let world = World::open();
    let tag = world.begin();
    world.let_queue_stand(2200);
    assert_shed(&world.ask(&register("alice", 2)));
    assert_shed(&world.ask(&register("newcomer", 1)));
    world.receive(&subscribe("watch", 2, &tag));
    world.run();
    let sent = world.sent().concat();
    assert!(sent.contains("CSeq: 2 SUBSCRIBE"), "{sent}");
    assert!(!sent.contains("SIP/2.0 503 "), "{sent}");

    // The waiting requests are done. The overload ends after two intervals in
    // which none waited.
    for cseq in 3..6 {
        world.advance(500);
        world.ask(&register("alice", cseq));
    }
    let answer = world.ask(&register("newcomer", 2));
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

#[test]
fn receivers_pause_while_many_requests_wait_and_a_second_pause_refuses_new_devices() {
    let world = World::open();
    world.begin();
    let shed = || world.server.stats().traffic.shed;
    let mut flood = Flood::default();
    for _ in 0..2 {
        flood.fill(&world);
        world.advance(400);
        world.run();
        world.advance(101);
    }
    assert_eq!(shed(), 0, "two short bursts are no overload");
    flood.fill(&world);
    let refused = shed();
    assert!((150..225).contains(&refused), "{refused}");

    let proves = "Authorization: Digest realm=\"r\"\r\nContent-Length";
    world.receive(&register("challenged", 1).replace("Content-Length", proves));
    world.receive(&register("alice", 2));
    assert_eq!(shed(), refused);
    world.run();
    assert_eq!(world.server.read_mode(), ReadMode::Fresh);
    let accepted = world.server.stats().registrar.accepted;
    assert_eq!(
        accepted,
        flood.count - refused + 3,
        "alice has sent two requests"
    );
    let answer = world.ask(&register("newcomer", 2));
    assert!(
        answer.starts_with("SIP/2.0 200 "),
        "no request waits: {answer}"
    );
}

/// Devices that register as long as there is room.
#[derive(Default)]
struct Flood {
    count: u64,
}

impl Flood {
    fn fill(&mut self, world: &World) {
        while world.server.read_mode() != ReadMode::Nothing {
            self.count += 1;
            world.receive(&register(&format!("flood{}", self.count), 1));
        }
    }
}

#[test]
fn a_slow_disk_refuses_no_request() {
    let slow = DiskBehaviour {
        transaction_min: Duration::from_secs(3),
        transaction_max: Duration::from_secs(3),
        ..DiskBehaviour::default()
    };
    let disk = SimulatedDisk::new(1, slow);
    let world = World::with(open_config(), |runtime| {
        Box::new(disk.open(runtime.clock().clone()))
    });
    for number in 0..100 {
        world.receive(&register(&format!("device{number}"), 1));
        // So few that they fit into the queue of this device; they wait long
        // for its own commits.
        if number % 10 == 0 {
            world.receive(&register("impatient", number + 1));
        }
        world.run_for(100);
        disk.run_due();
        world.run();
    }
    while let Some(due) = disk.next_due() {
        world.runtime.simulation().unwrap().run_until(due);
        disk.run_due();
        world.run();
    }
    let stats = world.server.stats();
    assert_eq!((stats.traffic.shed, stats.registrar.accepted), (0, 110));
}

#[test]
fn only_the_sender_of_wrong_passwords_has_to_wait() {
    let world = World::with(digest_config(), |_| Box::new(MemoryStore::new()));
    let challenge = world.ask(&register("alice", 1));
    let mut tries = 1;
    let mut ask = |user: &str, password: &str| {
        tries += 1;
        let request = register(user, tries);
        world.ask(&proven(&request, &challenge, user, password, tries))
    };
    for _ in 0..5 {
        assert!(ask("alice", "wrong").starts_with("SIP/2.0 403 Wrong User Or Password\r\n"));
    }
    assert!(ask("alice", "alice").starts_with("SIP/2.0 503 Too Many Wrong Passwords\r\n"));
    assert!(
        ask("bob", "bob").starts_with("SIP/2.0 200 "),
        "another user is not made to wait"
    );
    world.advance(1000);
    assert!(ask("alice", "alice").starts_with("SIP/2.0 200 "));
    assert!(ask("alice", "wrong").starts_with("SIP/2.0 403 Wrong User Or Password\r\n"));
    assert!(
        ask("alice", "alice").starts_with("SIP/2.0 200 "),
        "forgiven"
    );
    assert_eq!(world.server.stats().registrar.logins_paused, 1);
}

#[test]
fn overheard_credentials_do_not_reset_the_count_of_wrong_passwords() {
    let world = World::with(digest_config(), |_| Box::new(MemoryStore::new()));
    let challenge = world.ask(&register("alice", 1));
    let good = |cseq| proven(&register("alice", cseq), &challenge, "alice", "alice", 1);
    let wrong = |cseq| proven(&register("alice", cseq), &challenge, "alice", "wrong", cseq);
    assert!(world.ask(&good(2)).starts_with("SIP/2.0 200 "));
    for cseq in 3..7 {
        world.ask(&wrong(cseq));
    }
    assert!(world.ask(&good(7)).contains("stale=true"));
    world.ask(&wrong(8));
    assert!(world.ask(&wrong(9)).contains("Too Many Wrong Passwords"));
}

#[test]
fn a_refusal_says_how_long_to_wait() {
    let world = World::with(digest_config(), |_| Box::new(MemoryStore::new()));
    let challenge = world.ask(&register("alice", 1));
    let mut ask = |cseq| {
        world.ask(&proven(
            &register("alice", cseq),
            &challenge,
            "alice",
            "wrong",
            cseq,
        ))
    };
    let answers: Vec<_> = (2..8).map(&mut ask).collect();
    let paused = answers.last().unwrap();
    assert!(paused.contains("\r\nRetry-After: 1\r\n"), "{paused}");
}

#[test]
fn an_answer_to_a_foreign_nonce_is_no_wrong_password() {
    let world = World::with(digest_config(), |_| Box::new(MemoryStore::new()));
    let challenge = world.ask(&register("alice", 1));
    let nonce = {
        let (_, rest) = challenge.split_once("nonce=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let wrong = |cseq| proven(&register("alice", cseq), &challenge, "alice", "wrong", cseq);
    let elsewhere = "192.0.2.10:5070";
    for cseq in 2..20 {
        let forged = world.ask(&wrong(cseq).replace(&nonce, "00"));
        assert!(forged.starts_with("SIP/2.0 401 "), "{forged}");
        assert!(forged.contains("stale=true"), "{forged}");
        // A nonce that was sent to another address is not valid.
        world.receive_from(elsewhere, &wrong(cseq));
        let stolen = world.sent().remove(0);
        assert!(stolen.starts_with("SIP/2.0 401 "), "{stolen}");
    }
    let right = proven(&register("alice", 30), &challenge, "alice", "alice", 30);
    let answer = world.ask(&right);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert_eq!(world.server.stats().traffic.login_failure_count, 0);
}

#[test]
fn credentials_for_another_address_do_not_count() {
    let world = World::with(digest_config(), |_| Box::new(MemoryStore::new()));
    let challenge = world.ask(&register("alice", 1));
    let ask = |cseq, asked: &str, signed: &str| {
        let line = |uri: &str| {
            register("alice", cseq).replace("sip:example.com SIP", &format!("{uri} SIP"))
        };
        let request = proven(&line(signed), &challenge, "alice", "alice", cseq);
        world.ask(&request.replacen(
            &format!("REGISTER {signed}"),
            &format!("REGISTER {asked}"),
            1,
        ))
    };
    let other = ask(2, "sip:example.com", "sip:example.org");
    let wanted = "SIP/2.0 400 Digest Uri Is Not The Request-URI\r\n";
    assert!(other.starts_with(wanted), "{other}");
    let other = ask(3, "sip:bob@example.com", "sip:alice@example.com");
    assert!(other.starts_with(wanted), "{other}");
    let ported = ask(4, "sip:example.com:5060;transport=udp", "sip:EXAMPLE.com");
    assert!(ported.starts_with("SIP/2.0 200 "), "{ported}");
}

/// Each task takes 0.4 ms here. Time jumps only when nothing is to be done.
#[test]
fn registrations_that_end_at_one_instant_all_end_with_rests_in_between() {
    const DEVICES: u64 = 500;
    let world = World::open();
    for number in 0..DEVICES {
        let lasting = register(&format!("device{number}"), 1);
        let brief = lasting.replace("Content-Length", "Expires: 600\r\nContent-Length");
        world.receive_from(&format!("198.51.100.{}:5070", number % 250), &brief);
        world.run();
    }
    let registrar = || world.server.stats().registrar;
    assert_eq!(registrar().accepted, DEVICES);
    world.advance(600_000);
    let simulation = world.runtime.simulation().unwrap();
    let clock = world.runtime.clock().as_virtual().unwrap();
    let mut rests = 0;
    while registrar().expired < DEVICES {
        let before = clock.now();
        assert!(simulation.step(), "{} have ended", registrar().expired);
        rests += u32::from(clock.now() > before);
        clock.advance(Duration::from_micros(400));
    }
    assert!(rests > 100, "{rests} rests");
    assert_eq!(registrar().binding_count, 0);
}

/// A server in virtual time, and what it sent.
struct World {
    runtime: Runtime,
    server: Server,
    sent: Arc<Sent>,
}

impl World {
    fn open() -> Self {
        Self::with(open_config(), |_| Box::new(MemoryStore::new()))
    }

    fn with(config: ServerConfig, store: impl FnOnce(&Runtime) -> Box<dyn Store>) -> Self {
        let runtime = Runtime::simulated(1);
        let (sent, store) = (Arc::new(Sent::default()), store(&runtime));
        let server = Server::start(runtime.clone(), config, sent.clone(), store).unwrap();
        Self {
            runtime,
            server,
            sent,
        }
    }

    /// Registers alice and watches her; returns the tag of the subscription.
    fn begin(&self) -> String {
        let answer = self.ask(&register("alice", 1));
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        let accepted = self.ask(&subscribe("watch", 1, ""));
        let message = Message::parse(accepted.as_bytes()).unwrap();
        message.to().unwrap().tag().unwrap().to_owned()
    }

    /// Lets many requests wait for `millis` milliseconds, and then begins one
    /// every 250 ms until two intervals are over.
    fn let_queue_stand(&self, millis: u64) {
        for number in 0..20 {
            self.receive(&register(&format!("waiting{number}"), 1));
        }
        self.advance(millis);
        for _ in 0..5 {
            self.step();
            self.advance(250);
        }
        self.sent();
    }

    /// Begins one of the waiting requests.
    fn step(&self) {
        let before = self.server.stats().registrar.requests;
        while self.server.stats().registrar.requests == before {
            assert!(self.runtime.simulation().unwrap().step(), "a request waits");
        }
    }

    fn receive(&self, text: &str) {
        self.receive_from("192.0.2.9:5070", text);
    }

    fn receive_from(&self, from: &str, text: &str) {
        let datagram = self.runtime.buffers().copy_from(text.as_bytes()).unwrap();
        let local = "192.0.2.1:5060".parse().unwrap();
        let flow = busyhour_sip::Flow::udp(local, from.parse().unwrap());
        self.server.message(flow, &datagram);
    }

    /// The first message that is sent after a request: at once, or when all
    /// work is done.
    fn ask(&self, request: &str) -> String {
        self.sent();
        self.receive(request);
        if self.sent.is_empty() {
            self.run();
        }
        self.sent().remove(0)
    }

    /// Advances the time, without doing any work.
    fn advance(&self, millis: u64) {
        let clock = self.runtime.clock().as_virtual().unwrap();
        clock.advance(Duration::from_millis(millis));
    }

    fn run(&self) {
        self.runtime.simulation().unwrap().run_until_idle();
    }

    fn run_for(&self, millis: u64) {
        let simulation = self.runtime.simulation().unwrap();
        simulation.run_for(Duration::from_millis(millis));
    }

    fn sent(&self) -> Vec<String> {
        self.sent.take()
    }
}

fn assert_shed(answer: &str) {
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    let message = Message::parse(answer.as_bytes()).unwrap();
    let after = message.header(HeaderName::RetryAfter).unwrap();
    assert!((1..=4).contains(&after.parse().unwrap()), "{answer}");
}

fn register(user: &str, cseq: u32) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bK{user}{cseq};rport\r\n\
         From: <sip:{user}@example.com>;tag=f1\r\n\
         To: <sip:{user}@example.com>\r\n\
         Call-ID: {user}\r\n\
         CSeq: {cseq} REGISTER\r\n\
         Contact: <sip:{user}@192.0.2.9>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn subscribe(call_id: &str, cseq: u32, tag: &str) -> String {
    let tag = match tag {
        "" => String::new(),
        tag => format!(";tag={tag}"),
    };
    format!(
        "SUBSCRIBE sip:alice@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bK{call_id}{cseq};rport\r\n\
         From: <sip:bob@example.com>;tag=f2\r\n\
         To: <sip:alice@example.com>{tag}\r\n\
         Call-ID: {call_id}\r\n\
         CSeq: {cseq} SUBSCRIBE\r\n\
         Contact: <sip:bob@192.0.2.9:5070>\r\n\
         Event: presence\r\n\
         Content-Length: 0\r\n\r\n"
    )
}
