//! Real connections on loopback: answers, keep-alives, limits, ends.

use crate::client::{Client, ok, pause, register, subscribe};
use busyhour::runtime::Runtime;
use busyhour_server::{
    net::{StreamMessage, StreamOptions, StreamPolicy, Streams},
    server::{Authentication, Network, SendError, Server, ServerConfig, StreamStats},
};
use busyhour_sip::{Flow, Transport};
use busyhour_store::MemoryStore;
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

/// A server with real connections.
pub struct Fixture {
    pub streams: Arc<Streams>,
    /// The flow of each message.
    flows: Arc<Mutex<Vec<Flow>>>,
    pub server: Server,
    runtime: Runtime,
}

impl Fixture {
    pub fn new(policy: StreamPolicy) -> Self {
        Self::with(StreamOptions {
            tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            policy,
            ..StreamOptions::default()
        })
    }

    pub fn with(options: StreamOptions) -> Self {
        Self::over(options, |streams| streams)
    }

    /// As [`new`](Self::new), with connections that `wrap` wraps.
    pub fn over(
        options: StreamOptions,
        wrap: impl FnOnce(Arc<Streams>) -> Arc<dyn Network>,
    ) -> Self {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let streams = Arc::new(Streams::bind(options).unwrap());
        let config = ServerConfig {
            authentication: Authentication::Open,
            ..ServerConfig::default()
        };
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, wrap(streams.clone()), store).unwrap();
        let deliver = server.clone();
        let flows = Arc::<Mutex<Vec<Flow>>>::default();
        let came = flows.clone();
        let deliver = move |flow, arrival| {
            if !matches!(arrival, StreamMessage::Ended) {
                came.lock().unwrap().push(flow);
            }
            match arrival {
                StreamMessage::Message(message) => deliver.message(flow, &message),
                StreamMessage::Broken(bytes, error) => deliver.broken_stream(flow, &bytes, error),
                StreamMessage::Ended => deliver.flow_failed(flow),
            }
        };
        streams.start(runtime.clock(), deliver).unwrap();
        Self {
            streams,
            flows,
            server,
            runtime,
        }
    }

    pub fn address(&self, transport: Transport) -> SocketAddr {
        self.streams.addresses(transport).next().expect("served")
    }

    pub fn client(&self) -> Client<std::net::TcpStream> {
        Client::new(self.address(Transport::Tcp))
    }

    /// Waits until the counters satisfy `wanted`.
    pub fn wait_for(&self, wanted: impl Fn(&StreamStats) -> bool) -> StreamStats {
        loop {
            let stats = self.streams.stream_stats();
            if wanted(&stats) {
                return stats;
            }
            pause();
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.streams.stop();
        self.runtime.shutdown(Duration::from_secs(10));
    }
}

#[test]
fn registrations_in_one_segment_and_byte_by_byte_are_answered_in_place() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut client = fixture.client();
    let both = [register("alice", "TCP", 1), register("bob", "TCP", 1)].concat();
    client.send(both.as_bytes());
    let mut answers = [client.message(), client.message()];
    answers.sort();
    assert!(
        answers
            .iter()
            .all(|answer| answer.starts_with("SIP/2.0 200 OK\r\n"))
    );
    assert!(answers[0].contains("To: <sip:alice@"), "{}", answers[0]);
    for byte in register("carol", "TCP", 1).as_bytes() {
        client.send(std::slice::from_ref(byte));
    }
    assert!(client.message().contains("To: <sip:carol@"));
    let stats = fixture.wait_for(|stats| stats.sent == 3);
    assert_eq!((stats.accepted, stats.received), (1, 3));
    // An answer is sent before it is counted.
    while fixture.server.stats().registrar.binding_count < 3 {
        pause();
    }
}

#[test]
fn a_ping_is_answered_with_a_pong() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut client = fixture.client();
    client.send(b"\r\n\r\n");
    assert_eq!(client.bytes(2), b"\r\n");
    client.send(b"\r");
    client.send(b"\n\r\n");
    assert_eq!(client.bytes(2), b"\r\n");
    assert_eq!(fixture.streams.stream_stats().pings, 2);
}

#[test]
fn a_watcher_is_notified_on_its_own_connection() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut lamp = fixture.client();
    lamp.send(subscribe("alice").as_bytes());
    assert!(lamp.message().starts_with("SIP/2.0 200 "));
    let notify = lamp.message();
    assert!(
        notify.starts_with("NOTIFY sip:lamp@192.0.2.8;transport=tcp "),
        "{notify}"
    );
    lamp.send(ok(&notify).as_bytes());
    let mut phone = fixture.client();
    phone.send(register("alice", "TCP", 1).as_bytes());
    assert!(phone.message().starts_with("SIP/2.0 200 "));
    assert!(lamp.message().contains("<basic>open</basic>"));
}

#[test]
fn bytes_that_are_no_message_are_answered_and_the_connection_ends() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut client = fixture.client();
    let broken = register("alice", "TCP", 1).replace("Content-Length: 0\r\n", "");
    client.send(broken.as_bytes());
    assert!(
        client
            .message()
            .starts_with("SIP/2.0 400 Missing Content-Length\r\n")
    );
    assert_eq!(
        client.next(),
        None,
        "the beginning of the next message is unknown"
    );
    drop(client);
    let stats = fixture.wait_for(|stats| stats.connection_count == 0);
    assert_eq!((stats.closed_broken, stats.closed_by_peer), (1, 0));
}

#[test]
fn connections_are_limited_in_total_and_from_one_source() {
    let policy = StreamPolicy {
        connections_max: 3,
        connections_per_source_max: 2,
        ..StreamPolicy::default()
    };
    let fixture = Fixture::new(policy);
    let mut held = [fixture.client(), fixture.client()];
    for client in &mut held {
        client.send(b"\r\n\r\n");
        client.bytes(2);
    }
    let mut third = fixture.client();
    third.send(b"\r\n\r\n");
    assert_eq!(third.bytes(2), b"\r\n");
    assert_eq!(
        held[0].next(),
        None,
        "the oldest connection of the source is closed"
    );
    let stats = fixture.wait_for(|stats| stats.displaced_source == 1);
    assert_eq!((stats.refused_source, stats.connection_count), (0, 2));
    for (client, user) in [(&mut held[1], "alice"), (&mut third, "bob")] {
        client.send(register(user, "TCP", 1).as_bytes());
        assert!(client.message().starts_with("SIP/2.0 200 "));
    }
    assert_eq!(fixture.client().next(), None, "a trusted connection stays");
    fixture.wait_for(|stats| stats.refused_source == 1);
    drop((held, third));
    fixture.wait_for(|stats| stats.connection_count == 0);
    let mut again = fixture.client();
    again.send(b"\r\n\r\n");
    assert_eq!(again.bytes(2), b"\r\n", "there is room again");
}

#[test]
fn the_oldest_untrusted_connection_is_closed_and_a_trusted_one_never() {
    let policy = StreamPolicy {
        connections_max: 2,
        ..StreamPolicy::default()
    };
    let fixture = Fixture::new(policy);
    let mut phone = fixture.client();
    phone.send(register("alice", "TCP", 1).as_bytes());
    assert!(phone.message().starts_with("SIP/2.0 200 "));
    let mut stranger = fixture.client();
    stranger.send(b"\r\n\r\n");
    stranger.bytes(2);
    let mut next = fixture.client();
    next.send(register("bob", "TCP", 1).as_bytes());
    assert!(next.message().starts_with("SIP/2.0 200 "));
    assert_eq!(stranger.next(), None);
    assert_eq!(fixture.client().next(), None);
    let stats = fixture.wait_for(|stats| stats.refused_full == 1);
    assert_eq!((stats.displaced, stats.connection_count), (1, 2));
    phone.send(register("alice", "TCP", 2).as_bytes());
    assert!(phone.message().starts_with("SIP/2.0 200 "));
}

#[test]
fn a_later_connection_between_the_same_addresses_is_another_flow() {
    let fixture = Fixture::new(StreamPolicy::default());
    // An address that only this test uses, so that no other takes its port
    // meanwhile.
    let own = SocketAddr::from(([127, 0, 0, 2], 0));
    let mut first = Client::over(connect_from(own, fixture.address(Transport::Tcp)));
    first.send(register("alice", "TCP", 1).as_bytes());
    assert!(first.message().starts_with("SIP/2.0 200 "));
    let address = first.stream.local_addr().unwrap();
    // After a reset, the address is free at once.
    SockRef::from(&first.stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(first);
    fixture.wait_for(|stats| stats.connection_count == 0);
    let mut second = Client::over(connect_from(address, fixture.address(Transport::Tcp)));
    second.send(register("bob", "TCP", 1).as_bytes());
    assert!(second.message().starts_with("SIP/2.0 200 "));

    let flows = fixture.flows.lock().unwrap().clone();
    let [old, new] = flows[..] else {
        panic!("{flows:?}");
    };
    assert_eq!((old.local, old.remote), (new.local, new.remote));
    let message = |text: &[u8]| fixture.runtime.buffers().copy_from(text).unwrap();
    assert_eq!(
        fixture.streams.send(old, message(b"for alice")),
        Err(SendError::FlowFailed)
    );
    fixture
        .streams
        .send(new, message(b"the message for bob"))
        .unwrap();
    assert_eq!(second.bytes(19), b"the message for bob");
}

/// A connection from a given address.
pub fn connect_from(address: SocketAddr, server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.connect(&server.into()).unwrap();
    socket.into()
}

#[test]
fn a_burst_that_does_not_fit_waits_and_ends_no_connection() {
    let policy = StreamPolicy {
        outbox_bytes_max: 256 << 10,
        ..StreamPolicy::default()
    };
    let fixture = Fixture::new(policy);
    let mut proxy = Client::over(connect_narrow(fixture.address(Transport::Tcp)));
    let pad = "x".repeat(2000);
    for number in 0..WATCHERS {
        let request =
            subscribe("alice").replace("lamp@192.0.2.8", &format!("{number}{pad}@192.0.2.8"));
        proxy.send(request.as_bytes());
        assert!(proxy.message().starts_with("SIP/2.0 200 "));
        let notify = proxy.message();
        proxy.send(ok(&notify).as_bytes());
    }
    let mut phone = fixture.client();
    phone.send(register("alice", "TCP", 1).as_bytes());
    assert!(phone.message().starts_with("SIP/2.0 200 "));
    fixture.wait_for(|stats| stats.put_off > 0);
    // Now it reads as fast as others.
    SockRef::from(&proxy.stream)
        .set_recv_buffer_size(1 << 20)
        .unwrap();
    for _ in 0..WATCHERS {
        let notify = proxy.message();
        assert!(notify.contains("<basic>open</basic>"), "{notify}");
        proxy.send(ok(&notify).as_bytes());
    }
    let stats = fixture.streams.stream_stats();
    assert_eq!((stats.closed_unread, stats.connection_count), (0, 2));
}

/// A connection with small buffers in both kernels.
fn connect_narrow(server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.set_tcp_mss(536).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream
}

/// The NOTIFYs of all these watchers are longer than the most that the kernel
/// ever buffers for a connection (4 MiB) and its outbox together.
const WATCHERS: usize = 800;

#[test]
fn a_connection_that_sends_nothing_or_nothing_more_is_closed() {
    let fixture = Fixture::new(StreamPolicy {
        stalled: Duration::from_millis(20),
        ..StreamPolicy::default()
    });
    let mut silent = fixture.client();
    assert_eq!(silent.next(), None);
    fixture.wait_for(|stats| stats.closed_stalled == 1);
    // Long enough for the answer on a busy machine.
    let fixture = Fixture::new(StreamPolicy {
        idle: Duration::from_millis(500),
        ..StreamPolicy::default()
    });
    let mut idle = fixture.client();
    idle.send(register("alice", "TCP", 1).as_bytes());
    assert!(idle.message().starts_with("SIP/2.0 200 "));
    assert_eq!(idle.next(), None);
    fixture.wait_for(|stats| stats.closed_idle == 1 && stats.connection_count == 0);
}

#[test]
fn a_client_that_closes_its_sending_side_at_once_is_answered() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut client = fixture.client();
    client.send(register("alice", "TCP", 1).as_bytes());
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(client.message().starts_with("SIP/2.0 200 "));
    assert_eq!(client.next(), None);
    let stats = fixture.wait_for(|stats| stats.connection_count == 0);
    assert_eq!(stats.closed_by_peer, 1);
}

#[test]
fn a_client_that_pings_without_reading_uses_no_memory() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut client = fixture.client();
    let pings = b"\r\n\r\n".repeat(1 << 16);
    client
        .stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    for _ in 0..64 {
        // No answers are read, so the kernel's buffers may be full.
        if client.stream.write_all(&pings).is_err() {
            break;
        }
    }
    fixture.wait_for(|stats| stats.pings >= 1 << 16);
    let stats = fixture.streams.stream_stats();
    assert_eq!(stats.closed_unread, 0);
    assert!(stats.held_bytes <= 2048, "at most half a ping is kept");
    assert!(fixture.runtime.buffers().live_count() <= 4);
}

#[test]
fn a_peer_that_does_not_read_is_closed_when_its_outbox_is_full() {
    let policy = StreamPolicy {
        outbox_bytes_max: 64 << 10,
        ..StreamPolicy::default()
    };
    let fixture = Fixture::new(policy);
    let mut client = fixture.client();
    // The answers fill the kernel's buffers on both ends, and then the outbox.
    let request = register("alice", "TCP", 1);
    while fixture.streams.stream_stats().closed_unread == 0 {
        if client.stream.write_all(request.as_bytes()).is_err() {
            break;
        }
    }
    let stats = fixture.wait_for(|stats| stats.connection_count == 0);
    assert_eq!(stats.closed_unread, 1);
}

#[test]
fn what_a_peer_does_not_read_is_a_queue_with_its_address() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut client = fixture.client();
    let queues = || fixture.streams.queues();
    assert_eq!((queues().len(), &*queues()[0].name), (1, "all"));
    let request = register("alice", "TCP", 1);
    while queues()[0].queued_len == 0 {
        client.stream.write_all(request.as_bytes()).unwrap();
    }
    while queues()[0].oldest_waiting_ns == Some(0) {
        pause();
    }
    let queues = queues();
    let [all, one] = &queues[..] else {
        panic!("one connection: {queues:?}");
    };
    let peer = client.stream.local_addr().unwrap();
    assert_eq!(one.name, format!("to {peer} over TCP"));
    assert_eq!(one.queued_len, all.queued_len);
    assert!(one.queued_bytes > Some(0) && one.oldest_waiting_ns > Some(0));
    assert!(one.capacity_bytes < all.capacity_bytes);
}

#[test]
fn sending_on_an_ended_flow_is_an_error_and_counted() {
    let fixture = Fixture::new(StreamPolicy::default());
    let flow = Flow {
        transport: Transport::Tcp,
        local: fixture.address(Transport::Tcp),
        remote: SocketAddr::from(([127, 0, 0, 1], 9)),
        connection: 1,
        node: 0,
    };
    let message = fixture.runtime.buffers().copy_from(b"x").unwrap();
    assert_eq!(
        fixture.streams.send(flow, message),
        Err(SendError::FlowFailed)
    );
    assert_eq!(fixture.streams.stream_stats().failed_flows, 1);
}

#[test]
fn a_stop_ends_every_connection_and_releases_every_pin() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut client = fixture.client();
    client.send(b"REGISTER sip:exam");
    fixture.wait_for(|stats| stats.received_bytes > 0);
    fixture.streams.stop();
    assert_eq!(client.next(), None);
    let stats = fixture.streams.stream_stats();
    assert_eq!((stats.connection_count, stats.held_bytes), (0, 0));
    assert_eq!(fixture.runtime.buffers().live_count(), 0);
}

#[test]
fn an_address_in_use_is_reported_with_its_setting() {
    let fixture = Fixture::new(StreamPolicy::default());
    let taken = fixture.address(Transport::Tcp);
    let options = StreamOptions {
        tcp: vec![taken],
        ..StreamOptions::default()
    };
    let error = Streams::bind(options).err().unwrap().to_string();
    assert!(
        error.starts_with(&format!("SIP address {taken} (TCP) cannot be served: ")),
        "{error}"
    );
    assert!(error.contains("sip.tcp"), "{error}");
}

#[test]
fn a_panic_over_one_message_is_counted_and_the_next_is_answered() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let options = StreamOptions {
        tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        ..StreamOptions::default()
    };
    let streams = Arc::new(Streams::bind(options).unwrap());
    let (arrived, arrivals) = mpsc::channel();
    let deliver = move |_, arrival| {
        let StreamMessage::Message(message) = arrival else {
            return;
        };
        let text = String::from_utf8(message.to_vec()).unwrap();
        assert!(!text.contains("deadly"), "a bug in the program");
        arrived.send(text).unwrap();
    };
    streams.start(runtime.clock(), deliver).unwrap();
    let address = streams.addresses(Transport::Tcp).next().unwrap();
    // A message on the same connection, and one on another.
    for users in [["deadly", "alice"], ["deadly", "bob"]] {
        let mut client = TcpStream::connect(address).unwrap();
        for user in users {
            client
                .write_all(register(user, "TCP", 1).as_bytes())
                .unwrap();
        }
        assert!(arrivals.recv().unwrap().contains(users[1]));
    }
    assert_eq!(streams.stats().panicked, 2);
    streams.stop();
}
