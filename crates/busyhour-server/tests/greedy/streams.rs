//! SIP connections: their memory, their number, and answers that are not read.

use crate::{
    ACCOUNTS, bystander,
    support::{Place, ServerProcess},
};
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

#[test]
fn announced_bodies_use_no_memory_and_received_ones_only_a_share() {
    let place = Place::new();
    let server = place.server(&format!("{ACCOUNTS}[limits]\n{MEMORY}"));
    let announcing: Vec<_> = (0..200)
        .map(|number| opened(&server, 2 + number % 2, &incomplete(4400)))
        .collect();
    server.wait_for("/network/streams/received_bytes", |bytes| bytes >= 880_000);
    assert_eq!(server.stat("/network/streams/closed_no_buffer"), 0);
    bystander::is_served(&server, 4, "user1");
    drop(announcing);
    let bringing: Vec<_> = (0..60)
        .map(|_| opened(&server, 5, &incomplete(60_000)))
        .collect();
    server.wait_for("/network/streams/closed_source_memory", |closed| closed > 0);
    server.wait_for_log("limits.connection_memory_per_source_kib");
    is_answered(&server, 6);
    bystander::is_served(&server, 4, "user2");
    drop(bringing);
}

#[test]
fn the_connections_of_one_source_are_limited_and_its_oldest_ones_are_closed() {
    let place = Place::new();
    let limits = "[limits]\nconnections = 100\nconnections_per_source = 10\n";
    let server = place.server(&format!("{ACCOUNTS}{limits}"));
    let held: Vec<_> = (0..50).map(|_| opened(&server, 2, "")).collect();
    server.wait_for("/network/streams/displaced_source", |count| count == 40);
    is_answered(&server, 2);
    is_answered(&server, 3);
    bystander::is_served(&server, 4, "user1");
    drop(held);
}

#[test]
fn websockets_that_bring_no_message_take_neither_places_nor_memory_of_others() {
    let place = Place::new();
    let limits = format!("[limits]\nconnections = 100\nconnections_per_source = 60\n{MEMORY}");
    let server = place.server(&format!("{ACCOUNTS}[sip]\nws = \"127.0.0.1:0\"\n{limits}"));
    let here = server.address("sip-ws");
    // The request is never complete, or no message comes.
    let half = &UPGRADE[..UPGRADE.len() - 2];
    let held: Vec<_> = (0..80)
        .map(|number| {
            opened_at(
                here,
                2,
                if number % 2 == 0 { half } else { UPGRADE }.as_bytes(),
            )
        })
        .collect();
    server.wait_for("/network/streams/displaced_source", |count| count == 20);
    bystander::is_served(&server, 4, "user1");
    drop(held);
    // A message in fragments whose last one never comes.
    let mut bytes = UPGRADE.as_bytes().to_vec();
    for number in 0..60 {
        let kind = if number == 0 { 1 } else { 0 };
        bytes.extend([kind, 0xfe, 0x03, 0xe8, 0, 0, 0, 0]);
        bytes.extend([b'x'; 1000]);
    }
    let bringing: Vec<_> = (0..55).map(|_| opened_at(here, 5, &bytes)).collect();
    server.wait_for("/network/streams/closed_source_memory", |closed| closed > 0);
    server.wait_for_log("limits.connection_memory_per_source_kib");
    is_answered(&server, 6);
    bystander::is_served(&server, 4, "user2");
    drop(bringing);
}

#[test]
fn a_websocket_that_pings_and_reads_nothing_gets_no_more_than_the_kernel_keeps() {
    let place = Place::new();
    let server = place.server(&format!("{ACCOUNTS}[sip]\nws = \"127.0.0.1:0\"\n"));
    let mut greedy = opened_at(server.address("sip-ws"), 2, UPGRADE.as_bytes());
    let mut ping = vec![0x89, 0xfd, 0, 0, 0, 0];
    ping.extend([b'x'; 125]);
    let pings = ping.repeat(1000);
    for _ in 0..200 {
        greedy.write_all(&pings).expect("pings are read");
    }
    server.wait_for("/network/streams/pings", |count| count == 200_000);
    let most = server.stat("/network/streams/sent_bytes");
    assert!(most < 16 << 20, "{most} bytes");
    bystander::is_served(&server, 4, "user1");
}

#[test]
fn a_client_that_reads_no_answers_is_closed() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut greedy = opened(&server, 2, "");
    greedy
        .set_write_timeout(Some(Duration::from_secs(1)))
        .expect("a time");
    let requests = options().repeat(1000);
    while greedy.write_all(requests.as_bytes()).is_ok() {}
    server.wait_for("/network/streams/closed_unread", |closed| closed > 0);
    is_answered(&server, 3);
    bystander::is_served(&server, 4, "user1");
}

/// A client at 127.0.0.`host` connects, sends a request and is answered.
fn is_answered(server: &ServerProcess, host: u8) {
    let mut stream = opened(server, host, &options());
    let mut begin = [0; 11];
    stream.read_exact(&mut begin).expect("an answer");
    assert_eq!(&begin, b"SIP/2.0 200");
}

fn opened(server: &ServerProcess, host: u8, message: &str) -> TcpStream {
    opened_at(server.tcp, host, message.as_bytes())
}

fn opened_at(server: SocketAddr, host: u8, bytes: &[u8]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let address = SocketAddr::from(([127, 0, 0, host], 0));
    socket
        .bind(&address.into())
        .expect("an address of loopback");
    socket.connect(&server.into()).expect("a server");
    let mut stream = TcpStream::from(socket);
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a time");
    // The server may have closed it already.
    let _ = stream.write_all(bytes);
    stream
}

fn options() -> String {
    "OPTIONS sip:example.com SIP/2.0\r\n\
     Via: SIP/2.0/TCP 127.0.0.2;branch=z9hG4bK1\r\n\
     From: <sip:a@example.com>;tag=1\r\nTo: <sip:example.com>\r\n\
     Call-ID: 1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        .to_owned()
}

/// A message that announces a body of 64,000 bytes, cut off at this length.
fn incomplete(len: usize) -> String {
    let head = options().replace("Content-Length: 0", "Content-Length: 64000");
    let body = "x".repeat(len - head.len());
    head + &body
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Protocol: sip\r\n\r\n";
const MEMORY: &str = "connection_memory_mib = 8\nconnection_memory_per_source_kib = 2048\n";
