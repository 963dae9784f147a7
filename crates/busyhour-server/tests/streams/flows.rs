//! Connections that end, and what watchers are told of the devices behind them.

use crate::{
    client::{Client, ok, register, subscribe},
    sockets::Fixture,
};
use busyhour_server::{net::StreamPolicy, server::Listed};
use std::{net::TcpStream, thread};

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

/// The next NOTIFY, which is answered.
fn told(lamp: &mut Client<TcpStream>) -> String {
    let notify = lamp.message();
    assert!(notify.starts_with("NOTIFY "), "{notify}");
    lamp.send(ok(&notify).as_bytes());
    notify
}

fn wait_until(fixture: &Fixture, wanted: impl Fn(&[Listed]) -> bool) {
    while !wanted(&fixture.server.bindings(None, 10_000).bindings) {
        thread::yield_now();
    }
}

fn is_reachable(listed: &Listed) -> bool {
    listed.binding.contact.is_reachable()
}
