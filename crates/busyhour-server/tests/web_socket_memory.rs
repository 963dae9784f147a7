//! What a browser's telephone costs in the memory of the server: its WebSocket, its binding and
//! its device together.
//!
//! With `BUSYHOUR_TEST_SCALE=10` there are 10,000 of them:
//!
//!     BUSYHOUR_TEST_SCALE=10 cargo test --release -p busyhour-server --test web_socket_memory -- --nocapture

#[path = "support/mod.rs"]
mod support;

use socket2::{Domain, Socket, Type};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};
use support::{Place, ServerProcess, tls_client};

#[test]
fn a_registered_browser_takes_at_most_12_kib() {
    let place = Place::new();
    let server = place.server("[sip]\nauth = \"open\"\nws = \"127.0.0.1:0\"\n");
    let here = server.address("sip-ws");
    browsers_take_at_most_12_kib(&server, "ws", |number| {
        registered(here, number, connected(here, number))
    });
}

/// With the session of TLS.
#[test]
fn a_registered_browser_over_tls_takes_at_most_12_kib() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = place.file("certificate.pem", &made.cert.pem());
    let key = place.file("key.pem", &made.signing_key.serialize_pem());
    let server = place.server(&format!(
        "[sip]\nauth = \"open\"\nwss = \"127.0.0.1:0\"\n\
         tls_certificate = {certificate:?}\ntls_key = {key:?}\n"
    ));
    let here = server.address("sip-wss");
    browsers_take_at_most_12_kib(&server, "wss", |number| {
        registered(
            here,
            number,
            tls_client::over(connected(here, number), "localhost").unwrap(),
        )
    });
}

fn browsers_take_at_most_12_kib<S>(
    server: &ServerProcess,
    over: &str,
    mut browser: impl FnMut(usize) -> S,
) {
    let scale = std::env::var("BUSYHOUR_TEST_SCALE");
    let scale: usize = scale.map_or(1, |scale| scale.parse().expect("a number"));
    let count = 1000 * scale;
    raise_file_limit();
    // What the first ones need and the others share: pages of tables, buffers, the database's cache.
    let mut browsers: Vec<_> = (0..WARM_UP).map(&mut browser).collect();
    let before = resident_bytes(server);
    browsers.extend((WARM_UP..WARM_UP + count).map(&mut browser));
    let each = (resident_bytes(server) - before) / count;
    println!("{count} registered browsers over {over} take {each} bytes each");
    assert_eq!(
        server.stat("/network/streams/connection_count"),
        browsers.len() as u64
    );
    assert!(each <= 12 << 10, "{each} bytes each");
}

fn connected(here: SocketAddr, number: usize) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // A hundred to a source, so that none reaches its share.
    let source = SocketAddr::from((
        [
            127,
            0,
            1 + (number / 25_000) as u8,
            (1 + number / 100 % 250) as u8,
        ],
        0,
    ));
    socket.bind(&source.into()).unwrap();
    socket.connect(&here.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream
}

/// A browser that has opened a WebSocket on its connection and registered over it.
fn registered<S: Read + Write>(here: SocketAddr, number: usize, mut stream: S) -> S {
    let opening = format!(
        "GET / HTTP/1.1\r\nHost: {here}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: sip\r\n\r\n"
    );
    stream.write_all(opening.as_bytes()).unwrap();
    read_until(&mut stream, "\r\n\r\n");
    let register = format!(
        "REGISTER sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/WS x{number}.invalid;branch=z9hG4bK{number}\r\n\
         From: <sip:user{number}@example.com>;tag=1\r\nTo: <sip:user{number}@example.com>\r\n\
         Call-ID: {number}\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n\
         Contact: <sip:user{number}@x{number}.invalid;transport=ws;ob>;reg-id=1;\
         +sip.instance=\"<urn:uuid:00000000-0000-4000-8000-{number:012}>\"\r\n\
         Supported: path, gruu, outbound\r\nUser-Agent: A telephone in a browser 1.0\r\n\
         Content-Length: 0\r\n\r\n"
    );
    // A final text, masked with zeros.
    let len = (register.len() as u16).to_be_bytes();
    let mut frame = vec![0x81, 0xfe, len[0], len[1], 0, 0, 0, 0];
    frame.extend(register.as_bytes());
    stream.write_all(&frame).unwrap();
    let answer = read_until(&mut stream, "Content-Length: 0\r\n\r\n");
    assert!(answer.contains("SIP/2.0 200 OK"), "{answer}");
    stream
}

fn read_until(stream: &mut impl Read, end: &str) -> String {
    let (mut heard, mut room) = (Vec::new(), [0; 2048]);
    loop {
        let count = stream.read(&mut room).unwrap();
        assert_ne!(count, 0, "the server closed it");
        heard.extend_from_slice(&room[..count]);
        let text = String::from_utf8_lossy(&heard);
        if text.ends_with(end) {
            return text.into_owned();
        }
    }
}

fn resident_bytes(server: &ServerProcess) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: usize = line
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .expect("a number of KiB");
    kib << 10
}

/// Each browser is a file to this process, too.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

const WARM_UP: usize = 500;
