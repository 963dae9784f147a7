//! Real WebSockets on loopback, with a client's library at the other end.

use crate::{
    client::{connect, ok, register, subscribe},
    sockets::Fixture,
};
use busyhour_server::net::{StreamOptions, StreamPolicy};
use busyhour_sip::Transport;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};
use tungstenite::{
    ClientRequestBuilder, Error, Message, WebSocket, client::client,
    protocol::frame::coding::CloseCode,
};

type Browser = WebSocket<TcpStream>;

fn fixture(policy: StreamPolicy) -> Fixture {
    Fixture::with(StreamOptions {
        ws: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        policy,
        ..StreamOptions::default()
    })
}

/// A page of this origin opens a WebSocket for this subprotocol.
fn try_open(fixture: &Fixture, origin: &str, protocol: &str) -> Result<Browser, Error> {
    let address = fixture.address(Transport::Ws);
    let request = ClientRequestBuilder::new(format!("ws://{address}/").parse().unwrap())
        .with_header("Origin", origin)
        .with_sub_protocol(protocol);
    let opened = client(request, connect(address));
    opened
        .map(|(socket, _)| socket)
        .map_err(|error| match error {
            tungstenite::HandshakeError::Failure(error) => error,
            other => panic!("{other}"),
        })
}

fn open(fixture: &Fixture) -> Browser {
    try_open(fixture, "http://127.0.0.1:8080", "sip").unwrap()
}

/// The next message, which is one whole message of SIP.
fn message(browser: &mut Browser) -> String {
    loop {
        match browser.read().unwrap() {
            Message::Text(text) => return text.to_string(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// As a browser's telephone writes it (RFC 7118 §5.2).
fn browser_register(user: &str) -> String {
    register(user, "WS", 1)
        .replace("192.0.2.7:5060", "df7jal23ls0d.invalid")
        .replace(
            "192.0.2.7;transport=tcp",
            "df7jal23ls0d.invalid;transport=ws",
        )
}

#[test]
fn a_browser_registers_watches_and_is_notified_message_by_message() {
    let fixture = fixture(StreamPolicy::default());
    let mut browser = open(&fixture);
    browser.send(browser_register("alice").into()).unwrap();
    let answer = message(&mut browser);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert!(
        answer.contains("Via: SIP/2.0/WS df7jal23ls0d.invalid;"),
        "{answer}"
    );
    assert!(
        answer.contains("<sip:alice@df7jal23ls0d.invalid;transport=ws>"),
        "{answer}"
    );
    let watch = subscribe("alice")
        .replace("SIP/2.0/TCP 192.0.2.8:5060", "SIP/2.0/WS x.invalid")
        .replace("192.0.2.8;transport=tcp", "x.invalid;transport=ws");
    browser.send(watch.into()).unwrap();
    let accepted = message(&mut browser);
    let port = fixture.address(Transport::Ws).port();
    let contact = format!("@127.0.0.1:{port};transport=ws>");
    assert!(
        accepted.contains(&contact) || accepted.contains(&contact[1..]),
        "{accepted}"
    );
    let notify = message(&mut browser);
    assert!(notify.contains("<basic>open</basic>"), "{notify}");
    assert!(
        notify.contains(&format!("Via: SIP/2.0/WS 127.0.0.1:{port};")),
        "{notify}"
    );
    browser.send(ok(&notify).into()).unwrap();
    assert_eq!(fixture.streams.stream_stats().web_sockets_opened, 1);
}

#[test]
fn a_contact_ends_with_its_websocket() {
    let fixture = fixture(StreamPolicy::default());
    let (mut phone, mut watcher) = (open(&fixture), open(&fixture));
    // Even if it names an address and port, on which no browser listens.
    let contact = "192.0.2.7;transport=ws";
    let request = register("alice", "WS", 1).replace("192.0.2.7;transport=tcp", contact);
    phone.send(request.into()).unwrap();
    assert!(message(&mut phone).starts_with("SIP/2.0 200 "));
    watcher.send(subscribe("alice").into()).unwrap();
    assert!(message(&mut watcher).starts_with("SIP/2.0 200 "));
    let notify = message(&mut watcher);
    assert!(notify.contains("<basic>open</basic>"), "{notify}");
    watcher.send(ok(&notify).into()).unwrap();
    phone.close(None).unwrap();
    let notify = message(&mut watcher);
    assert!(notify.contains("<basic>closed</basic>"), "{notify}");
    assert!(matches!(
        phone.read(),
        Ok(Message::Close(_)) | Err(Error::ConnectionClosed)
    ));
}

#[test]
fn pings_of_both_kinds_are_answered_and_silence_is_pinged() {
    let fixture = fixture(StreamPolicy {
        web_socket_ping: Some(Duration::from_millis(500)),
        ..StreamPolicy::default()
    });
    let mut browser = open(&fixture);
    browser.send(Message::Ping("here?".into())).unwrap();
    assert_eq!(browser.read().unwrap(), Message::Pong("here?".into()));
    browser.send("\r\n\r\n".into()).unwrap();
    assert_eq!(browser.read().unwrap(), Message::Text("\r\n".into()));
    browser.send(browser_register("alice").into()).unwrap();
    assert!(message(&mut browser).starts_with("SIP/2.0 200 "));
    for _ in 0..3 {
        assert!(matches!(browser.read().unwrap(), Message::Ping(_)));
    }
    assert!(fixture.streams.stream_stats().web_socket_pings >= 3);
    assert_eq!(fixture.streams.stream_stats().connection_count, 1);
}

#[test]
fn a_websocket_that_answers_no_ping_is_closed() {
    let fixture = fixture(StreamPolicy {
        web_socket_ping: Some(Duration::from_millis(100)),
        unanswered: Duration::from_secs(3),
        ..StreamPolicy::default()
    });
    let mut browser = open(&fixture);
    browser.send(browser_register("alice").into()).unwrap();
    // The library answers pings only when it reads.
    fixture.wait_for(|stats| stats.closed_idle == 1);
}

#[test]
fn pages_of_other_origins_and_other_protocols_are_refused() {
    let fixture = fixture(StreamPolicy {
        web_socket_origins: "same,https://phone.example.org".parse().unwrap(),
        ..StreamPolicy::default()
    });
    let status = |origin, protocol| match try_open(&fixture, origin, protocol) {
        Ok(_) => 101,
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(status("https://phone.example.org", "sip"), 101);
    assert_eq!(status("http://127.0.0.1", "sip"), 101);
    assert_eq!(status("https://evil.example", "sip"), 403);
    assert_eq!(status("null", "sip"), 403);
    assert_eq!(status("http://127.0.0.1", "xmpp"), 400);
    assert_eq!(fixture.streams.stream_stats().web_sockets_refused, 3);
}

#[test]
fn what_is_against_the_protocol_is_told_by_its_code() {
    let fixture = fixture(StreamPolicy::default());
    let mut browser = open(&fixture);
    let large = "x".repeat(70_000);
    browser.send(large.into()).unwrap();
    let Message::Close(Some(close)) = browser.read().unwrap() else {
        panic!("a close frame");
    };
    assert_eq!(close.code, CloseCode::Size);
    fixture.wait_for(|stats| stats.closed_broken == 1);
}

#[test]
fn who_does_not_open_it_reads_no_frame() {
    let policy = StreamPolicy {
        stalled: Duration::from_millis(200),
        ..StreamPolicy::default()
    };
    let fixture = fixture(policy);
    let mut slow = connect(fixture.address(Transport::Ws));
    slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut heard = Vec::new();
    slow.read_to_end(&mut heard).unwrap();
    assert_eq!(
        heard, b"",
        "no frame comes before the answer to the request"
    );
}
