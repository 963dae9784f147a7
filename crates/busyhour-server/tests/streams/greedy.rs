//! Sources that send much and complete nothing, while others are served.

use crate::{
    client::{Client, ok, register, subscribe},
    sockets::{Fixture, connect_from},
};
use busyhour_server::net::StreamPolicy;
use busyhour_sip::Transport;
use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

#[test]
fn a_source_that_announces_much_and_sends_little_uses_little_memory() {
    let fixture = Fixture::new(policy());
    let held: Vec<_> = (0..120)
        .map(|number| greedy(&fixture, 2 + number % 2, 4400))
        .collect();
    let brought = 120 * 4400;
    let stats = fixture.wait_for(|stats| {
        stats.received_bytes >= brought
            && (stats.held_bytes >= brought || stats.closed_source_memory > 0)
    });
    assert!(stats.held_bytes <= 2 * brought, "{stats:?}");
    assert_eq!(stats.closed_no_buffer + stats.closed_source_memory, 0);
    is_served(&fixture, 4);
    drop(held);
}

#[test]
fn one_source_holds_no_more_memory_than_its_share() {
    let fixture = Fixture::new(policy());
    let held: Vec<_> = (0..60).map(|_| greedy(&fixture, 2, 60_000)).collect();
    let stats = fixture.wait_for(|stats| stats.closed_source_memory > 0);
    assert!(stats.held_bytes <= SHARE as u64 / 2 + (128 << 10));
    assert_eq!(stats.displaced_memory, 0);
    is_served(&fixture, 3);
    is_served(&fixture, 2);
    drop(held);
}

#[test]
fn many_sources_together_displace_each_other_and_no_known_device() {
    let fixture = Fixture::new(policy());
    let mut known = from(&fixture, 4);
    known.send(register("alice", "TCP", 1).as_bytes());
    assert!(known.message().starts_with("SIP/2.0 200 "));
    let second = register("alice", "TCP", 2);
    let (begin, end) = second.split_at(100);
    known.send(begin.as_bytes());
    let held: Vec<_> = (0..150)
        .map(|number| greedy(&fixture, 10 + number % 30, 60_000))
        .collect();
    let stats = fixture.wait_for(|stats| stats.displaced_memory > 0);
    assert_eq!(stats.closed_no_buffer, 0);
    known.send(end.as_bytes());
    assert!(known.message().starts_with("SIP/2.0 200 "));
    is_served(&fixture, 5);
    drop(held);
}

/// A client at 127.0.0.`host` registers, subscribes and is notified.
fn is_served(fixture: &Fixture, host: u8) {
    let user = format!("user{host}");
    let mut client = from(fixture, host);
    client.send(register(&user, "TCP", 1).as_bytes());
    assert!(client.message().starts_with("SIP/2.0 200 "));
    client.send(subscribe(&user).as_bytes());
    assert!(client.message().starts_with("SIP/2.0 200 "));
    let notify = client.message();
    assert!(notify.contains("<basic>open</basic>"), "{notify}");
    client.send(ok(&notify).as_bytes());
}

/// Announces a body of 65,000 bytes from 127.0.0.`host`, and sends `bytes` bytes
/// in all.
fn greedy(fixture: &Fixture, host: u8, bytes: usize) -> TcpStream {
    let mut message = register("mallory", "TCP", 1)
        .replace("Content-Length: 0", "Content-Length: 64000")
        .into_bytes();
    message.resize(bytes, b'x');
    let mut stream = from(fixture, host).stream;
    let patience = Some(Duration::from_secs(30));
    stream.set_write_timeout(patience).unwrap();
    // The server may close it meanwhile, so that others have room.
    let _ = stream.write_all(&message);
    stream
}

fn from(fixture: &Fixture, host: u8) -> Client<TcpStream> {
    let address = SocketAddr::from(([127, 0, 0, host], 0));
    let stream = connect_from(address, fixture.address(Transport::Tcp));
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    Client::over(stream)
}

fn policy() -> StreamPolicy {
    StreamPolicy {
        memory_bytes_max: 8 << 20,
        memory_per_source_bytes_max: SHARE,
        ..StreamPolicy::default()
    }
}

const SHARE: usize = 1536 << 10;
