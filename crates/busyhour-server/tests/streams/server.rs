//! The server on a simulated network of connections: virtual time, random
//! segments and breaks; the same seed gives the same run.

use crate::client::{ok, register, subscribe};
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_server::{
    net::{Connection, Heard, StreamPolicy},
    server::{Authentication, Limits, Network, SendError, Server, ServerConfig},
};
use busyhour_sip::{Flow, Transport};
use busyhour_store::MemoryStore;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Byte streams to peers, by their addresses; one that was closed accepts
/// nothing. While room is short, none accepts data that can wait.
#[derive(Default)]
struct Wire(Mutex<HashMap<SocketAddr, Vec<u8>>>, AtomicBool);

impl Network for Wire {
    fn send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        assert_eq!(flow.transport, Transport::Tcp, "nothing is sent by UDP");
        let mut wire = self.0.lock().unwrap();
        let stream = wire.get_mut(&flow.remote).ok_or(SendError::FlowFailed)?;
        stream.extend_from_slice(&message);
        Ok(())
    }

    fn mark_trusted(&self, flow: Flow) -> bool {
        self.0.lock().unwrap().contains_key(&flow.remote)
    }

    fn try_send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(SendError::Full),
            false => self.send(flow, message),
        }
    }
}

struct World {
    runtime: Runtime,
    wire: Arc<Wire>,
    server: Server,
    connections: HashMap<SocketAddr, Connection>,
    random: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self::with(seed, Limits::default())
    }

    fn with(seed: u64, limits: Limits) -> Self {
        let runtime = Runtime::simulated(seed);
        let wire = Arc::new(Wire::default());
        let config = ServerConfig {
            authentication: Authentication::Open,
            limits,
            ..ServerConfig::default()
        };
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, wire.clone(), store).unwrap();
        Self {
            runtime,
            wire,
            server,
            connections: HashMap::new(),
            random: seed | 1,
        }
    }

    fn connect(&mut self, number: u8) -> SocketAddr {
        let address = SocketAddr::from(([192, 0, 2, number], 40_000));
        let connection = Connection::new(&StreamPolicy::default(), self.runtime.clock().now());
        self.connections.insert(address, connection);
        self.wire.0.lock().unwrap().insert(address, Vec::new());
        address
    }

    fn cut(&mut self, address: SocketAddr) {
        self.connections.remove(&address);
        self.wire.0.lock().unwrap().remove(&address);
    }

    fn next_random(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random as usize
    }

    /// Delivers bytes in pieces of random sizes, with time between them.
    fn send(&mut self, from: SocketAddr, text: &str) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + self.next_random() % rest.len());
            self.bring(from, piece);
            rest = after;
            self.pass(Duration::from_millis(1));
        }
    }

    fn flow(&self, from: SocketAddr) -> Flow {
        Flow {
            transport: Transport::Tcp,
            local: SocketAddr::from(([192, 0, 2, 200], 5060)),
            remote: from,
            connection: 1,
            node: 0,
        }
    }

    fn bring(&mut self, from: SocketAddr, piece: &[u8]) {
        let flow = self.flow(from);
        let buffers = self.runtime.buffers();
        let connection = self.connections.get_mut(&from).expect("connected");
        let room = connection.room(buffers).unwrap();
        room[..piece.len()].copy_from_slice(piece);
        let now = self.runtime.clock().now();
        let server = &self.server;
        let filled = connection.filled(piece.len(), buffers, now, &mut |heard| match heard {
            Heard::Message(message) => server.message(flow, &message),
            Heard::Ping => panic!("no such message was sent"),
            Heard::Broken(bytes, error) => server.broken_stream(flow, &bytes, error),
            Heard::Frame(event) => panic!("no WebSocket: {event:?}"),
        });
        filled.unwrap();
    }

    fn room_is_little(&self, is_little: bool) {
        self.wire.1.store(is_little, Ordering::Relaxed);
    }

    fn pass(&self, time: Duration) {
        self.runtime.simulation().unwrap().run_for(time);
    }

    /// What the peer has received since the last call.
    fn received(&self, peer: SocketAddr) -> String {
        self.pass(Duration::from_millis(100));
        let mut wire = self.wire.0.lock().unwrap();
        String::from_utf8(std::mem::take(wire.get_mut(&peer).unwrap())).unwrap()
    }
}

#[test]
fn answers_are_sent_on_the_requests_connection_and_notifys_on_the_watchers() {
    for seed in 1..40 {
        let mut world = World::new(seed);
        let (phone, lamp) = (world.connect(7), world.connect(8));
        world.send(lamp, &subscribe("alice"));
        let told = world.received(lamp);
        assert!(told.starts_with("SIP/2.0 200 OK\r\n"), "{told}");
        assert!(
            told.contains("Contact: <sip:192.0.2.200:5060;transport=tcp>\r\n"),
            "{told}"
        );
        let (_, notify) = told.split_once("NOTIFY ").expect("a first NOTIFY");
        assert!(
            notify.contains("Via: SIP/2.0/TCP 192.0.2.200:5060;"),
            "{notify}"
        );
        world.send(lamp, &ok(notify));

        world.send(phone, &register("alice", "TCP", 1));
        let answer = world.received(phone);
        assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{answer}");
        let via = "Via: SIP/2.0/TCP 192.0.2.7:5060;branch=z9hG4bKalice1;received=192.0.2.7;rport=40000\r\n";
        assert!(answer.contains(via), "{answer}");
        let told = world.received(lamp);
        assert!(told.starts_with("NOTIFY "), "{told}");
        assert!(told.contains("<basic>open</basic>"), "{told}");
    }
}

#[test]
fn a_subscription_to_a_public_gruu_watches_its_address_of_record() {
    let mut world = World::new(2);
    let (phone, lamp) = (world.connect(7), world.connect(8));
    let instance = "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let contact =
        format!("<sip:alice@192.0.2.7>;+sip.instance=\"<{instance}>\"\r\nSupported: gruu");
    let register =
        register("alice", "TCP", 1).replace("<sip:alice@192.0.2.7;transport=tcp>", &contact);
    world.send(phone, &register);
    let answer = world.received(phone);
    let gruu = format!("sip:alice@example.com;gr={instance}");
    assert!(answer.contains(&format!("pub-gruu=\"{gruu}\"")), "{answer}");
    world.send(
        lamp,
        &subscribe("alice").replace("sip:alice@example.com", &gruu),
    );
    assert!(world.received(lamp).contains("<basic>open</basic>"));
}

#[test]
fn a_connection_that_ends_during_its_registration_leaves_no_open_presence() {
    let mut world = World::new(10);
    let (phone, lamp) = (world.connect(7), world.connect(8));
    world.send(lamp, &subscribe("alice"));
    let told = world.received(lamp);
    world.send(lamp, &ok(told.split_once("NOTIFY ").expect("a first").1));
    // The phone asks for outbound (RFC 5626), since others cannot connect to
    // it.
    let register = register("alice", "TCP", 1).replace("=tcp>", "=tcp;ob>");
    world.bring(phone, register.as_bytes());
    // The connection ends while the registration still waits for its turn.
    world.cut(phone);
    let flow = world.flow(phone);
    world.server.flow_failed(flow);
    world.pass(Duration::from_secs(1));
    let registrar = world.server.stats().registrar;
    assert_eq!((registrar.binding_count, registrar.flow_count), (1, 0));
    world.received(lamp);
    world.send(
        lamp,
        &subscribe("alice").replace("lamp@192.0.2.8", "again@192.0.2.8"),
    );
    let told = world.received(lamp);
    assert!(told.contains("<basic>closed</basic>"), "{told}");
}

#[test]
fn a_watcher_whose_connection_is_full_gets_the_last_state_later() {
    let mut world = World::new(8);
    let (phone, lamp) = (world.connect(7), world.connect(8));
    world.send(lamp, &subscribe("alice"));
    let told = world.received(lamp);
    let (_, first) = told.split_once("NOTIFY ").expect("a first NOTIFY");
    world.send(lamp, &ok(first));
    world.room_is_little(true);
    world.send(phone, &register("alice", "TCP", 1));
    world.pass(Duration::from_secs(40));
    let gone = register("alice", "TCP", 2).replace("=tcp>", "=tcp>;expires=0");
    world.send(phone, &gone);
    world.pass(Duration::from_secs(40));
    world.send(phone, &register("alice", "TCP", 3));
    assert_eq!(world.received(lamp), "");
    world.room_is_little(false);
    world.pass(Duration::from_secs(4));
    let told = world.received(lamp);
    assert_eq!(told.matches("NOTIFY sip:").count(), 1, "{told}");
    assert!(told.contains("CSeq: 2 NOTIFY\r\n"), "{told}");
    assert!(told.contains("<basic>open</basic>"), "{told}");
    assert_eq!(world.server.stats().watch.notified, 2);
}

#[test]
fn a_last_notify_waits_for_room_no_longer_than_it_would_for_its_answer() {
    let mut world = World::new(9);
    let lamp = world.connect(8);
    world.room_is_little(true);
    let fetch = subscribe("alice").replace("Expires: 600", "Expires: 0");
    world.send(lamp, &fetch);
    assert!(world.received(lamp).starts_with("SIP/2.0 200 OK\r\n"));
    world.pass(Duration::from_secs(30));
    assert_eq!(world.server.stats().watch.watcher_count, 1);
    world.pass(Duration::from_secs(7));
    assert_eq!(world.server.stats().watch.watcher_count, 0);
    assert_eq!(world.received(lamp), "");
}

#[test]
fn a_message_without_room_is_delayed_since_it_is_never_retransmitted() {
    let limits = Limits {
        device_queue_max: 2,
        ..Limits::default()
    };
    let mut world = World::with(6, limits);
    let phone = world.connect(7);
    let requests: String = (1..=7).map(|cseq| register("alice", "TCP", cseq)).collect();
    world.bring(phone, requests.as_bytes());
    let answers = world.received(phone);
    let count = |text: &str| answers.matches(text).count();
    assert_eq!(count("SIP/2.0 200 OK\r\n"), 2, "{answers}");
    assert_eq!(count("SIP/2.0 503 Service Unavailable\r\n"), 5, "{answers}");
    assert_eq!(count("Retry-After: "), 5, "{answers}");
    assert_eq!(world.server.stats().traffic.dropped_device_queue, 5);
}

#[test]
fn the_answer_to_a_refresh_without_room_is_delayed() {
    let limits = Limits {
        device_queue_max: 1,
        ..Limits::default()
    };
    let mut world = World::with(7, limits);
    let lamp = world.connect(8);
    world.send(lamp, &subscribe("alice"));
    let told = world.received(lamp);
    let (accepted, notify) = told.split_once("NOTIFY ").expect("a first NOTIFY");
    let to = accepted
        .lines()
        .find(|line| line.starts_with("To: "))
        .unwrap();
    let refresh = |cseq: u32| {
        let request = subscribe("alice").replace("CSeq: 1 ", &format!("CSeq: {cseq} "));
        let request = request.replace("z9hG4bKw", &format!("z9hG4bKw{cseq}"));
        request.replace("To: <sip:alice@example.com>", to)
    };
    let both = [refresh(2), refresh(3), ok(notify)].concat();
    world.bring(lamp, both.as_bytes());
    let answers = world.received(lamp);
    let (put_off, _) = answers
        .split_once("SIP/2.0 200 OK\r\n")
        .expect("one request is accepted");
    assert!(put_off.starts_with("SIP/2.0 503 "), "{answers}");
    assert!(put_off.contains("CSeq: 3 SUBSCRIBE\r\n"), "{answers}");
    assert_eq!(
        world.server.stats().watch.confirmed,
        1,
        "the answer had room"
    );
}

#[test]
fn nothing_is_retransmitted_over_a_connection_and_a_silent_watcher_ends() {
    let mut world = World::new(3);
    let lamp = world.connect(8);
    world.send(lamp, &subscribe("alice"));
    assert!(world.received(lamp).contains("NOTIFY "));
    world.pass(Duration::from_secs(31));
    assert_eq!(
        world.received(lamp),
        "",
        "RFC 3261 §17.1.2.2: timer E is for datagrams"
    );
    world.pass(Duration::from_secs(2));
    let watch = world.server.stats().watch;
    assert_eq!(
        (watch.retransmitted, watch.given_up, watch.watcher_count),
        (0, 1, 0)
    );
}

#[test]
fn a_watcher_whose_connection_has_ended_ends_and_one_that_reconnects_is_notified() {
    let mut world = World::new(4);
    let (gone, phone) = (world.connect(8), world.connect(7));
    world.send(gone, &subscribe("alice"));
    let told = world.received(gone);
    world.send(gone, &ok(told.split_once("NOTIFY ").unwrap().1));
    world.pass(Duration::from_millis(10));
    world.cut(gone);
    world.send(phone, &register("alice", "TCP", 1));
    world.pass(Duration::from_secs(33));
    let stats = world.server.stats();
    assert_eq!(stats.watch.watcher_count, 0);
    assert!(stats.traffic.undeliverable >= 1);

    let again = world.connect(8);
    let new_call = subscribe("alice").replace("lamp@192.0.2.8", "lamp2@192.0.2.8");
    world.send(again, &new_call);
    assert!(world.received(again).contains("<basic>open</basic>"));
}

#[test]
fn bytes_that_are_no_message_are_answered_with_400() {
    let mut world = World::new(5);
    let peer = world.connect(7);
    let without_length = register("alice", "TCP", 1).replace("Content-Length: 0\r\n", "");
    world.send(peer, &without_length);
    let answer = world.received(peer);
    assert!(answer.starts_with("SIP/2.0 400 "), "{answer}");
    assert_eq!(world.server.stats().traffic.malformed_answered, 1);
    assert_eq!(world.server.stats().registrar.requests, 0);
}
