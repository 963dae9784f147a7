//! HTTP: connections, bodies that are not sent, answers that are not read, and
//! event streams.

use crate::{
    ACCOUNTS, bystander,
    support::{Place, ServerProcess, wait_until},
};
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

#[test]
fn unfinished_bodies_take_no_connections_from_others_or_from_healthz() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let held: Vec<_> = (0..256).map(|_| opened(&server, 2, UNFINISHED)).collect();
    assert!(ask(&server, 2, "/healthz").starts_with("HTTP/1.1 200 "));
    let stats = ask(&server, 3, "/api/stats");
    assert!(stats.starts_with("HTTP/1.1 200 "), "{stats}");
    server.wait_for("/http/refused_source", |refused| refused >= 156);
    server.wait_for_log("http.max_connections_per_source");
    bystander::is_served(&server, 4, "user1");
    // The connections are free again.
    wait_until(
        || ask(&server, 2, "/api/stats").starts_with("HTTP/1.1 200 "),
        || server.log(),
    );
    assert!(server.stat("/http/late_bodies") > 0);
    drop(held);
}

#[test]
fn healthz_is_reachable_when_all_connections_are_used() {
    let place = Place::new();
    let configuration = format!(
        "{ACCOUNTS}[http]\nmax_connections = 20\n\
        max_connections_per_source = 10\n"
    );
    let server = place.server(&configuration);
    let held: Vec<_> = (0..200)
        .map(|number| opened(&server, 2 + number % 5, UNFINISHED))
        .collect();
    assert!(ask(&server, 9, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(ask(&server, 9, "/api/stats").starts_with("HTTP/1.1 503 "));
    bystander::is_served(&server, 10, "user1");
    drop(held);
}

#[test]
fn the_event_streams_of_one_source_are_limited() {
    let place = Place::new();
    let configuration = format!("{ACCOUNTS}[http]\nmax_connections_per_source = 25\n");
    let server = place.server(&configuration);
    let streams: Vec<_> = (0..20)
        .map(|_| opened(&server, 2, "GET /api/events HTTP/1.1\r\n\r\n"))
        .collect();
    server.wait_for("/http/refused_events", |refused| refused == 7);
    assert!(ask(&server, 2, "/api/stats").starts_with("HTTP/1.1 200 "));
    bystander::is_served(&server, 4, "user1");
    drop(streams);
}

#[test]
fn the_requests_of_one_source_in_a_second_are_limited() {
    let place = Place::new();
    let configuration = format!("{ACCOUNTS}[http]\nrequests_per_second = 5\n");
    let server = place.server(&configuration);
    let answers: Vec<_> = (0..40)
        .map(|_| ask(&server, 2, "/api/v1/session"))
        .collect();
    let refused = answers
        .iter()
        .filter(|answer| answer.starts_with("HTTP/1.1 429 "));
    assert!(refused.clone().count() > 0, "{answers:?}");
    assert!(
        refused
            .clone()
            .all(|answer| answer.contains("retry-after: 1"))
    );
    assert!(ask(&server, 2, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(ask(&server, 3, "/api/v1/session").starts_with("HTTP/1.1 200 "));
    assert!(server.stat("/http/rate_limited") > 0);
    bystander::is_served(&server, 4, "user1");
}

/// A proxy on this machine is one source for all users of a dashboard.
#[test]
fn a_proxy_may_have_a_hundred_connections_half_of_them_event_streams() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let streams: Vec<_> = (0..50)
        .map(|_| opened(&server, 2, "GET /api/events HTTP/1.1\r\n\r\n"))
        .collect();
    let others: Vec<_> = (0..49).map(|_| opened(&server, 2, UNFINISHED)).collect();
    assert!(ask(&server, 2, "/api/stats").starts_with("HTTP/1.1 200 "));
    for refused in ["/http/refused_source", "/http/refused_events"] {
        assert_eq!(server.stat(refused), 0, "{refused}");
    }
    drop((streams, others));
}

/// Bodies that no request may have are refused whether or not there is memory.
#[test]
fn a_body_too_long_is_413_and_a_body_cut_off_is_no_timeout() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut long = opened(
        &server,
        2,
        "POST /render HTTP/1.1\r\nContent-Length: 8388608\r\n\r\n",
    );
    let mut answer = String::new();
    long.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(!answer.to_lowercase().contains("retry-after"), "{answer}");
    let mut chunked = opened(
        &server,
        2,
        "POST /render HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n110000\r\n",
    );
    let _ = chunked.write_all(&vec![b'x'; 0x11_0000]);
    let mut answer = [0; 12];
    chunked.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
    let mut cut_off = opened(&server, 2, UNFINISHED);
    cut_off.shutdown(Shutdown::Write).expect("a connection");
    // With or without an answer, the connection ends at once.
    let _ = cut_off.read_to_end(&mut Vec::new());
    assert_eq!(server.stat("/http/late_bodies"), 0);
    assert_eq!(server.stat("/http/refused_bodies"), 0);
}

#[test]
fn a_client_that_reads_no_answers_is_closed() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut stream = opened(&server, 2, "");
    stream
        .set_write_timeout(Some(Duration::from_secs(1)))
        .expect("a time");
    let requests = "GET /api/stats HTTP/1.1\r\n\r\n".repeat(1000);
    while stream.write_all(requests.as_bytes()).is_ok() {}
    bystander::is_served(&server, 4, "user1");
    server.wait_for("/http/closed_unread", |closed| closed == 1);
}

/// A connection from 127.0.0.`host` on which this request was sent.
fn opened(server: &ServerProcess, host: u8, request: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let address = SocketAddr::from(([127, 0, 0, host], 0));
    socket
        .bind(&address.into())
        .expect("an address of loopback");
    socket.connect(&server.http.into()).expect("a server");
    let mut stream = TcpStream::from(socket);
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a time");
    // The server may have closed it already.
    let _ = stream.write_all(request.as_bytes());
    stream
}

fn ask(server: &ServerProcess, host: u8, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    // The bytes before the end of the connection count.
    let _ = opened(server, host, &request).read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

const UNFINISHED: &str = "POST /render HTTP/1.1\r\nContent-Length: 1000\r\n\
    Content-Type: application/x-www-form-urlencoded\r\n\r\ntarget=";
