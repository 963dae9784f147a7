//! Connections that end, and what watchers are told of the devices behind them.

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
fn watchers_are_told_when_a_connection_ends_and_when_its_device_comes_again() {
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
    let page = fixture.server.bindings(None, 10);
    assert_eq!(page.bindings.len(), 1, "its lease goes on");
    assert!(!is_reachable(&page.bindings[0]));

    let mut phone = fixture.client();
    phone.send(register("alice", "TCP", 2).as_bytes());
    assert!(phone.message().starts_with("SIP/2.0 200 OK\r\n"));
    assert!(told(&mut lamp).contains("<basic>open</basic>"));
    let stats = fixture.server.stats().registrar;
    assert_eq!((stats.unreachable, stats.binding_count), (1, 1));
}

#[test]
fn a_device_that_has_moved_to_another_connection_is_not_lost_with_the_first() {
    let fixture = Fixture::new(StreamPolicy::default());
    let (mut old, mut new) = (fixture.client(), fixture.client());
    for (cseq, phone) in [(1, &mut old), (2, &mut new)] {
        phone.send(register("alice", "TCP", cseq).as_bytes());
        assert!(phone.message().starts_with("SIP/2.0 200 OK\r\n"));
    }
    // Bob shows when the end of the old one has been dealt with.
    old.send(register("bob", "TCP", 1).as_bytes());
    assert!(old.message().starts_with("SIP/2.0 200 OK\r\n"));
    drop(old);
    wait_until(&fixture, |page| page.iter().any(|one| !is_reachable(one)));
    let page = fixture.server.bindings(None, 10).bindings;
    let reachable: Vec<_> = page.iter().filter(|one| is_reachable(one)).collect();
    assert_eq!(reachable.len(), 1);
    assert_eq!(&*reachable[0].aor, "sip:alice@example.com");
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
    wait_until(&fixture, |page| {
        page.iter().filter(|one| !is_reachable(one)).count() == DEVICES
    });
    let page = fixture.server.bindings(None, 2 * DEVICES).bindings;
    let behind = page
        .iter()
        .find(|one| &*one.aor == "sip:behind@example.com");
    assert!(is_reachable(behind.expect("bound")));
}

/// A phone that listens, and closes its connection when it has registered, is no
/// phone that has gone: whoever calls it connects to it.
#[test]
fn a_device_that_listens_where_it_comes_from_does_not_go_with_its_connection() {
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
    wait_until(&fixture, |page| {
        page.iter().filter(|one| !is_reachable(one)).count() == 2
    });
    let page = fixture.server.bindings(None, 10).bindings;
    let reachable: Vec<_> = page.iter().filter(|one| is_reachable(one)).collect();
    assert_eq!(&*reachable[0].aor, "sip:alice@example.com");
}

/// RFC 5626 §4.4.1: one that was told a Flow-Timer and brings nothing has gone.
#[test]
fn a_device_that_was_told_to_keep_its_flow_alive_and_is_silent_is_lost() {
    // After that long a connection is looked at first.
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
    let outbound = |user: &str| {
        let key = ";+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-000A95A0E128>\";reg-id=1";
        let register = register(user, "TCP", 1);
        let register = register.replace("transport=tcp>", &format!("transport=tcp;ob>{key}"));
        register.replace(
            "Content-Length",
            "Supported: outbound, path\r\nContent-Length",
        )
    };
    let (mut silent, mut pings, mut plain) = (fixture.client(), fixture.client(), fixture.client());
    for (phone, request) in [
        (&mut silent, outbound("alice")),
        (&mut pings, outbound("bob")),
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
    let page = fixture.server.bindings(None, 10).bindings;
    let lost: Vec<_> = page.iter().filter(|one| !is_reachable(one)).collect();
    assert_eq!(lost.len(), 1);
    assert_eq!(&*lost[0].aor, "sip:alice@example.com");
    assert_eq!(silent.next(), None, "its connection has ended");
    assert_eq!(fixture.streams.stream_stats().closed_idle, 1);
}

/// Connections whose peers have two seconds where they were told more.
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
            "120 s, and some for the way"
        );
        self.0.expect_keepalives(flow, Duration::from_secs(2));
    }
}

/// The next NOTIFY, which is answered.
fn told(lamp: &mut Client<TcpStream>) -> String {
    let notify = lamp.message();
    assert!(notify.starts_with("NOTIFY "), "{notify}");
    lamp.send(ok(&notify).as_bytes());
    notify
}

fn wait_until(fixture: &Fixture, mut wanted: impl FnMut(&[Listed]) -> bool) {
    while !wanted(&fixture.server.bindings(None, 10_000).bindings) {
        thread::yield_now();
    }
}

fn is_reachable(listed: &Listed) -> bool {
    listed.binding.contact.is_reachable()
}
