//! Connections that end, and what watchers of their devices are sent.

use crate::{
    client::{Client, ok, register, subscribe},
    sockets::Fixture,
};
use busyhour::buffer::Buffer;
use busyhour_server::{
    net::{StreamOptions, StreamPolicy, Streams},
    server::{Listed, Network, SendError},
};
use busyhour_sip::Flow;
use std::{
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

#[test]
fn watchers_are_notified_when_a_connection_ends_and_when_its_device_registers_again() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut phone = fixture.client();
    phone.send(register("alice", "TCP", 1).as_bytes());
    assert!(phone.message().starts_with("SIP/2.0 200 OK\r\n"));
    let mut lamp = fixture.client();
    lamp.send(subscribe("alice").as_bytes());
    assert!(lamp.message().starts_with("SIP/2.0 200 OK\r\n"));
    assert!(told(&mut lamp).contains("<basic>open</basic>"));

    drop(phone);
    assert!(told(&mut lamp).contains("<basic>closed</basic>"));
    wait_until(&fixture, <[_]>::is_empty);

    let mut phone = fixture.client();
    phone.send(register("alice", "TCP", 2).as_bytes());
    assert!(phone.message().starts_with("SIP/2.0 200 OK\r\n"));
    assert!(told(&mut lamp).contains("<basic>open</basic>"));
    let stats = fixture.server.stats().registrar;
    assert_eq!((stats.unreachable, stats.binding_count), (1, 1));
    assert_eq!((stats.cut_off, stats.removed), (1, 1));
}

/// RFC 5626 §4.5: it registers its flow again, under the same key.
#[test]
fn a_flow_of_an_instance_outlives_its_connection() {
    let fixture = Fixture::new(StreamPolicy::default());
    for cseq in 1..=3 {
        let mut phone = fixture.client();
        phone.send(outbound("alice", cseq).as_bytes());
        assert!(phone.message().starts_with("SIP/2.0 200 OK\r\n"));
        drop(phone);
        wait_until(&fixture, |page| page.iter().all(|one| !is_reachable(one)));
        assert_eq!(fixture.server.bindings(None, 10, None).bindings.len(), 1);
    }
    let stats = fixture.server.stats().registrar;
    assert_eq!((stats.unreachable, stats.cut_off, stats.added), (3, 0, 1));
}

/// A page in a browser has another contact each time that it is loaded.
#[test]
fn a_device_that_comes_back_with_other_contacts_does_not_use_up_its_room() {
    let fixture = Fixture::new(StreamPolicy::default());
    for load in 1..=15 {
        let mut phone = fixture.client();
        let contact = format!("Contact: <sip:load{load}@");
        let register = register("alice", "TCP", load).replace("Contact: <sip:alice@", &contact);
        phone.send(register.as_bytes());
        let answer = phone.message();
        assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{answer}");
        drop(phone);
        wait_until(&fixture, <[_]>::is_empty);
    }
}

#[test]
fn a_device_that_has_moved_to_another_connection_survives_the_end_of_the_first() {
    let fixture = Fixture::new(StreamPolicy::default());
    let (mut old, mut new) = (fixture.client(), fixture.client());
    for (cseq, phone) in [(1, &mut old), (2, &mut new)] {
        phone.send(register("alice", "TCP", cseq).as_bytes());
        assert!(phone.message().starts_with("SIP/2.0 200 OK\r\n"));
    }
    // Bob's registration shows that the server has processed the end of the old
    // connection.
    old.send(register("bob", "TCP", 1).as_bytes());
    assert!(old.message().starts_with("SIP/2.0 200 OK\r\n"));
    drop(old);
    wait_until(&fixture, |page| page.len() == 1);
    let page = fixture.server.bindings(None, 10, None).bindings;
    assert!(is_reachable(&page[0]));
    assert_eq!(&*page[0].aor, "sip:alice@example.com");
}

#[test]
fn all_devices_of_a_connection_are_lost_with_it_but_not_those_behind_a_path() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut proxy = fixture.client();
    const DEVICES: usize = 1000;
    for number in 0..DEVICES {
        let register = register(&format!("device{number}"), "TCP", 1);
        proxy.send(register.as_bytes());
        assert!(proxy.message().starts_with("SIP/2.0 200 OK\r\n"));
    }
    let path = "Path: <sip:edge.example.com;lr>\r\nContent-Length";
    let behind = register("behind", "TCP", 1).replace("Content-Length", path);
    proxy.send(behind.as_bytes());
    assert!(proxy.message().starts_with("SIP/2.0 200 OK\r\n"));
    drop(proxy);
    wait_until(&fixture, |page| page.len() == 1);
    let page = fixture.server.bindings(None, 10, None).bindings;
    assert_eq!(&*page[0].aor, "sip:behind@example.com");
    assert!(is_reachable(&page[0]));
    assert_eq!(fixture.server.stats().registrar.cut_off, DEVICES as u64);
}

/// A phone that listens and closes its connection after registering is still
/// reachable: a caller connects to it.
#[test]
fn a_device_that_listens_on_its_source_address_survives_the_end_of_its_connection() {
    let fixture = Fixture::new(StreamPolicy::default());
    let mut phone = fixture.client();
    let listens = "Contact: <sip:alice@127.0.0.1:5062;transport=tcp>";
    let keeps = "Contact: <sip:carol@127.0.0.1:5062;transport=tcp;ob>";
    let contact = |user: &str| format!("Contact: <sip:{user}@192.0.2.7;transport=tcp>");
    for (user, wanted) in [
        ("alice", listens),
        ("carol", keeps),
        ("bob", &contact("bob")),
    ] {
        let register = register(user, "TCP", 1).replace(&contact(user), wanted);
        phone.send(register.as_bytes());
        assert!(phone.message().starts_with("SIP/2.0 200 OK\r\n"));
    }
    drop(phone);
    wait_until(&fixture, |page| page.len() == 1);
    let page = fixture.server.bindings(None, 10, None).bindings;
    assert!(is_reachable(&page[0]));
    assert_eq!(&*page[0].aor, "sip:alice@example.com");
}

/// RFC 5626 §4.4.1: a device that was given a Flow-Timer and sends nothing is
/// gone.
#[test]
fn a_device_with_a_flow_timer_that_sends_nothing_is_unreachable() {
    // The server checks a connection first after this time.
    let policy = StreamPolicy {
        stalled: Duration::from_secs(1),
        ..StreamPolicy::default()
    };
    let options = StreamOptions {
        tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        policy,
        ..StreamOptions::default()
    };
    let fixture = Fixture::over(options, |streams| Arc::new(Hasty(streams)));
    let (mut silent, mut pings, mut plain) = (fixture.client(), fixture.client(), fixture.client());
    for (phone, request) in [
        (&mut silent, outbound("alice", 1)),
        (&mut pings, outbound("bob", 1)),
        (&mut plain, register("carol", "TCP", 1)),
    ] {
        phone.send(request.as_bytes());
        let answer = phone.message();
        assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{answer}");
        let is_told = answer.contains("Flow-Timer: 120\r\n");
        assert_eq!(is_told, request.contains("reg-id"), "{answer}");
    }
    wait_until(&fixture, |page| {
        pings.send(b"\r\n\r\n");
        assert_eq!(pings.bytes(2), b"\r\n");
        page.iter().any(|one| !is_reachable(one))
    });
    let page = fixture.server.bindings(None, 10, None).bindings;
    let lost: Vec<_> = page.iter().filter(|one| !is_reachable(one)).collect();
    assert_eq!(lost.len(), 1);
    assert_eq!(&*lost[0].aor, "sip:alice@example.com");
    assert_eq!(
        silent.next(),
        None,
        "the connection of the device has ended"
    );
    assert_eq!(fixture.streams.stream_stats().closed_idle, 1);
}

/// Connections that allow peers two seconds instead of the announced time.
struct Hasty(Arc<Streams>);

impl Network for Hasty {
    fn send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        self.0.send(flow, message)
    }

    fn try_send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        self.0.try_send(flow, message)
    }

    fn mark_trusted(&self, flow: Flow) -> bool {
        self.0.mark_trusted(flow)
    }

    fn expect_keepalives(&self, flow: Flow, within: Duration) {
        assert_eq!(
            within,
            Duration::from_secs(130),
            "120 s, and some more for delays"
        );
        self.0.expect_keepalives(flow, Duration::from_secs(2));
    }
}

/// A REGISTER of a flow of an instance.
fn outbound(user: &str, cseq: u32) -> String {
    let key = ";+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-000A95A0E128>\";reg-id=1";
    let register = register(user, "TCP", cseq);
    let register = register.replace("transport=tcp>", &format!("transport=tcp;ob>{key}"));
    register.replace(
        "Content-Length",
        "Supported: outbound, path\r\nContent-Length",
    )
}

/// Returns the next NOTIFY and answers it.
fn told(lamp: &mut Client<TcpStream>) -> String {
    let notify = lamp.message();
    assert!(notify.starts_with("NOTIFY "), "{notify}");
    lamp.send(ok(&notify).as_bytes());
    notify
}

fn wait_until(fixture: &Fixture, mut wanted: impl FnMut(&[Listed]) -> bool) {
    let mut pace = Duration::from_millis(1);
    while !wanted(&fixture.server.bindings(None, 10_000, None).bindings) {
        // Each look reads all shards, which takes longer than the first pause.
        thread::sleep(pace);
        pace = (pace * 2).min(Duration::from_millis(50));
    }
}

fn is_reachable(listed: &Listed) -> bool {
    listed.binding.contact.is_reachable()
}
