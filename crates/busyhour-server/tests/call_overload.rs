//! More calls than the server can carry, through its real sockets.

#[path = "streams/client.rs"]
#[allow(dead_code, reason = "only its connection is used here")]
mod client;
#[path = "support/waiting.rs"]
mod waiting;

use crate::client::Client;
use busyhour::runtime::Runtime;
use busyhour_server::{
    net::{Certificate, Sockets, StreamOptions, Streams, Udp, UdpOptions},
    server::{Authentication, CallConfig, Server, ServerConfig},
};
use busyhour_sip::{HeaderName, Message, Transport};
use busyhour_store::MemoryStore;
use rcgen::generate_simple_self_signed;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring,
    pki_types::CertificateDer,
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Calls that last when the storm comes.
const CALLS: usize = 12;
/// INVITEs of the storm that wait for a response: far more than are carried in 100 ms.
const WAITING: usize = 1_500;
/// The same on one connection, and how many are sent before responses are read.
const ON_CONNECTION: usize = 12_000;
const CHUNK: usize = 500;

#[test]
fn calls_that_exist_and_emergency_calls_go_on_and_others_are_told_when_to_try_again() {
    let site = Site::new();
    let over = Arc::new(AtomicBool::new(false));
    let callee = Telephone::new(&site, 2, "bob");
    callee.register("bob");
    callee.register("113");
    let answering = {
        let over = over.clone();
        thread::spawn(move || callee.answer(&over))
    };
    let mut caller = Telephone::new(&site, 3, "alice");
    let invites: Vec<_> = (0..CALLS).map(|_| caller.invite("bob")).collect();
    let calls: Vec<_> = invites.iter().map(|invite| caller.begin(invite)).collect();
    for call in &calls {
        assert!(call.starts_with("SIP/2.0 200 "), "{call}");
    }

    let storm = {
        let (storm, over) = (Telephone::new(&site, 4, "mallory"), over.clone());
        thread::spawn(move || storm.flood(&over))
    };
    let calls_now = || site.server.stats().calls;
    waiting::wait_until(|| calls_now().shed > 100, || format!("{:?}", calls_now()));
    // Whoever is not heard sends again, as over any network.
    let emergency = caller.call("113");
    assert!(emergency.starts_with("SIP/2.0 200 "), "{emergency}");
    // One that comes again is of a call that exists: it is not refused.
    invites.iter().for_each(|invite| caller.send(invite));
    for call in &calls {
        let answer = caller.hang_up(call);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    let carried = site.server.stats().calls;
    over.store(true, Ordering::Relaxed);
    let refused = storm.join().expect("the storm");
    answering.join().expect("the callee");

    let reported = site.server.stats();
    assert!(carried.shed > 100);
    assert_eq!(reported.calls.untrusted_routes, 0);
    let alerts = reported.limits_reached();
    let alert = alerts
        .iter()
        .find(|(_, count)| *count == reported.calls.shed);
    assert!(alert.is_some(), "{alerts:?}");
    assert!(refused.starts_with("SIP/2.0 503 "), "{refused}");
    let after = header(&refused, HeaderName::RetryAfter);
    assert!(
        (1..=4).contains(&after.parse().expect("seconds")),
        "{after}"
    );
    site.end();
}

/// Over a connection, as a trunk or a proxy in front has it: what is within a call, and emergency
/// calls, pass among the others.
fn a_connection_that_brings_too_much_is_told_so<S: Read + Write>(
    site: &Site,
    (stream, socket): (S, TcpStream),
) {
    let over = Arc::new(AtomicBool::new(false));
    let callee = Telephone::new(site, 2, "bob");
    callee.register("bob");
    callee.register("113");
    let answering = {
        let over = over.clone();
        thread::spawn(move || callee.answer(&over))
    };
    let mut writer = Telephone::new(site, 3, "alice");
    let mut client = Client::over(stream);
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        client.send(over_stream(&writer.invite("bob")).as_bytes());
        let answer = client.final_response();
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        client.send(over_stream(&writer.within("ACK", &answer)).as_bytes());
        calls.push(answer);
    }
    // It writes faster than the server reads, until the first one is refused.
    let mut heard = Heard::default();
    let patience = |time| socket.set_read_timeout(Some(time)).expect("a time");
    patience(Duration::from_millis(1));
    let shed = || site.server.stats().calls.shed;
    while shed() == 0 || heard.refused == 0 {
        if heard.waiting < ON_CONNECTION {
            let flood = (0..CHUNK).map(|_| over_stream(&writer.invite("bob")));
            client.send(flood.collect::<String>().as_bytes());
            heard.waiting += CHUNK;
        }
        while let Some(message) = client.next() {
            heard.note(&message);
        }
    }
    patience(Duration::from_secs(60));
    let emergency = over_stream(&writer.invite("113"));
    let byes = calls
        .iter()
        .map(|call| over_stream(&writer.within("BYE", call)));
    let wanted: Vec<_> = byes.chain([emergency]).collect();
    let behind = (0..ON_CONNECTION / 2).map(|_| over_stream(&writer.invite("bob")));
    let all = wanted.concat() + &behind.collect::<String>();
    client.send(all.as_bytes());
    let mut branches: Vec<_> = wanted.iter().map(|it| branch(it)).collect();
    while !branches.is_empty() {
        let response = client.final_response();
        if let Some(place) = branches.iter().position(|it| *it == branch(&response)) {
            assert!(response.starts_with("SIP/2.0 200 "), "{response}");
            branches.swap_remove(place);
        }
    }
    // Another connection has its turn as before.
    let mut other = Telephone::new(site, 4, "carol");
    let mut bystander = Client::over(connect_tcp(site));
    bystander.send(over_stream(&other.invite("bob")).as_bytes());
    let answer = bystander.final_response();
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    over.store(true, Ordering::Relaxed);
    drop(client);
    answering.join().expect("the callee");
}

#[test]
fn over_tcp_too_much_is_refused_and_what_exists_goes_on() {
    let site = Site::new();
    let stream = connect_tcp(&site);
    let socket = stream.try_clone().expect("a handle");
    a_connection_that_brings_too_much_is_told_so(&site, (stream, socket));
    site.end();
}

#[test]
fn over_tls_too_much_is_refused_and_what_exists_goes_on() {
    let site = Site::new();
    let mut roots = RootCertStore::empty();
    roots.add(site.certificate.clone()).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let stream = client::connect(address_over(&site, Transport::Tls));
    let socket = stream.try_clone().expect("a handle");
    let stream = StreamOwned::new(session, stream);
    a_connection_that_brings_too_much_is_told_so(&site, (stream, socket));
    site.end();
}

/// What came on a connection that brings too much.
#[derive(Default)]
struct Heard {
    /// INVITEs without a final response.
    waiting: usize,
    refused: usize,
}

impl Heard {
    fn note(&mut self, message: &str) {
        if message.starts_with("SIP/2.0 1") {
            return;
        }
        self.waiting = self.waiting.saturating_sub(1);
        if message.starts_with("SIP/2.0 503 ") {
            let after = header(message, HeaderName::RetryAfter);
            let after: u32 = after.parse().expect("seconds");
            assert!((1..=4).contains(&after), "{after}");
            self.refused += 1;
        }
    }
}

fn connect_tcp(site: &Site) -> TcpStream {
    client::connect(address_over(site, Transport::Tcp))
}

fn address_over(site: &Site, transport: Transport) -> SocketAddr {
    let mut addresses = site.network.streams.addresses(transport);
    addresses.next().expect("one")
}

/// A request that was written for datagrams.
fn over_stream(request: &str) -> String {
    request.replacen("SIP/2.0/UDP", "SIP/2.0/TCP", 1)
}

impl<S: Read + Write> Client<S> {
    /// The next response that is not provisional.
    fn final_response(&mut self) -> String {
        loop {
            let message = self.message();
            if message.starts_with("SIP/2.0 ") && !message.starts_with("SIP/2.0 1") {
                return message;
            }
        }
    }
}

struct Site {
    runtime: Runtime,
    network: Arc<Sockets>,
    server: Server,
    address: SocketAddr,
    certificate: CertificateDer<'static>,
}

impl Site {
    fn new() -> Self {
        let here = ["127.0.0.1:0".parse().expect("an address")];
        let made = generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let folder = TempDir::new().expect("a folder");
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|it| folder.path().join(it));
        fs::write(&certificate, made.cert.pem()).expect("room");
        fs::write(&key, made.signing_key.serialize_pem()).expect("room");
        let streams = StreamOptions {
            tcp: here.into(),
            tls: here.into(),
            certificate: Some(Certificate::read(&certificate, &key).expect("sound")),
            ..StreamOptions::default()
        };
        let network = Arc::new(Sockets {
            sip: Udp::bind(&UdpOptions::new(here)).expect("a port"),
            streams: Streams::bind(streams).expect("ports"),
            iax2: Udp::bind(&UdpOptions::new([])).expect("no port"),
            capture: Udp::bind(&UdpOptions::new([])).expect("no port"),
            media: Udp::bind(&UdpOptions::new([])).expect("no port"),
        });
        let runtime = Runtime::builder().workers(1).build().expect("a runtime");
        let config = ServerConfig {
            domains: vec!["example.com".to_owned()],
            authentication: Authentication::Open,
            calls: CallConfig {
                emergency: vec!["113".to_owned()],
                ..CallConfig::default()
            },
            ..ServerConfig::default()
        };
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, network.clone(), store);
        let server = server.expect("a server");
        network.attach(&server, &runtime).expect("threads");
        Self {
            address: network.sip.addresses()[0],
            certificate: made.cert.der().clone(),
            runtime,
            network,
            server,
        }
    }

    fn end(self) {
        self.network.stop_receiving();
        self.server.shutdown(Duration::from_secs(10));
        self.runtime.shutdown(Duration::from_secs(10));
    }
}

struct Telephone {
    socket: UdpSocket,
    server: SocketAddr,
    user: &'static str,
    calls: usize,
}

impl Telephone {
    /// Each has an address of its own.
    fn new(site: &Site, host: u8, user: &'static str) -> Self {
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("a port");
        let patience = Some(Duration::from_millis(100));
        socket.set_read_timeout(patience).expect("a time");
        Self {
            socket,
            server: site.address,
            user,
            calls: 0,
        }
    }

    fn register(&self, user: &str) {
        let address = self.address();
        let contact = format!("Contact: <sip:{user}@{address}>\r\n");
        let request = self.request("REGISTER", "example.com", user, "", &contact);
        let answer = self.ask(&request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }

    /// Calls, and returns the final response.
    fn call(&mut self, user: &str) -> String {
        let invite = self.invite(user);
        self.begin(&invite)
    }

    fn begin(&self, invite: &str) -> String {
        let answer = self.ask(invite);
        if answer.starts_with("SIP/2.0 200 ") {
            self.send(&self.within("ACK", &answer));
        }
        answer
    }

    fn invite(&mut self, user: &str) -> String {
        self.calls += 1;
        let contact = format!("Contact: <sip:{}@{}>\r\n", self.user, self.address());
        let called = format!("{user}@example.com");
        self.request("INVITE", &called, user, &self.calls.to_string(), &contact)
    }

    fn hang_up(&self, answer: &str) -> String {
        self.ask(&self.within("BYE", answer))
    }

    fn request(&self, method: &str, uri: &str, to: &str, id: &str, headers: &str) -> String {
        let (user, address) = (self.user, self.address());
        let from = if method == "REGISTER" { to } else { user };
        format!(
            "{method} sip:{uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK{method}{to}{id};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{from}@example.com>;tag={user}\r\n\
             To: <sip:{to}@example.com>\r\nCall-ID: {to}{id}@{address}\r\nCSeq: 1 {method}\r\n\
             {headers}Content-Length: 0\r\n\r\n"
        )
    }

    /// A request of the caller in the dialog that a 200 made.
    fn within(&self, method: &str, answer: &str) -> String {
        let message = Message::parse(answer.as_bytes()).expect("a response");
        let mut routes: Vec<_> = message
            .headers(HeaderName::RecordRoute)
            .flat_map(|value| value.split(", "))
            .collect();
        routes.reverse();
        let of = |name| header(answer, name);
        let (call_id, contact) = (of(HeaderName::CallId), of(HeaderName::Contact));
        format!(
            "{method} {} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {};branch=z9hG4bK{method}{call_id};rport\r\n\
             Max-Forwards: 70\r\nRoute: {}\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {call_id}\r\n\
             CSeq: {} {method}\r\nContent-Length: 0\r\n\r\n",
            contact.trim_matches(['<', '>']),
            self.address(),
            routes.join(", "),
            of(HeaderName::From),
            of(HeaderName::To),
            if method == "ACK" { 1 } else { 2 },
        )
    }

    /// The final response to a request that is sent each half second until it comes. Nothing is
    /// refused for lack of time meanwhile.
    fn ask(&self, request: &str) -> String {
        let branch = branch(request);
        let begun = Instant::now();
        loop {
            self.send(request);
            let sent = Instant::now();
            while sent.elapsed() < Duration::from_millis(500) {
                let heard = self.hear().unwrap_or_default();
                assert!(!heard.starts_with("SIP/2.0 503 "), "{heard}");
                let is_final = heard.starts_with("SIP/2.0 ") && !heard.starts_with("SIP/2.0 1");
                if is_final && self::branch(&heard) == branch {
                    return heard;
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(32), "{request}");
        }
    }

    /// Answers each request but ACK with 200.
    fn answer(&self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            let Some(request) = self.hear() else {
                continue;
            };
            if request.starts_with("ACK ") || request.starts_with("SIP/2.0 ") {
                continue;
            }
            let kept = ["Via", "From", "To", "Call-ID", "CSeq", "Record-Route"];
            let lines = request.lines().filter(|line| {
                let name = line.split(':').next();
                name.is_some_and(|name| kept.contains(&name))
            });
            let lines: Vec<_> = lines
                .map(
                    |line| match line.starts_with("To:") && !line.contains("tag=") {
                        true => format!("{line};tag=b"),
                        false => line.to_owned(),
                    },
                )
                .collect();
            let (lines, address) = (lines.join("\r\n"), self.address());
            self.send(&format!(
                "SIP/2.0 200 OK\r\n{lines}\r\nContact: <sip:{}@{address}>\r\nContent-Length: 0\r\n\r\n",
                self.user
            ));
        }
    }

    /// Keeps many INVITEs waiting; returns a 503.
    fn flood(mut self, over: &AtomicBool) -> String {
        let (mut waiting, mut refusal) = (0, String::new());
        while !over.load(Ordering::Relaxed) {
            while waiting < WAITING {
                let invite = self.invite("bob");
                self.send(&invite);
                waiting += 1;
            }
            match self.hear() {
                Some(response) if response.starts_with("SIP/2.0 503 ") => {
                    waiting -= 1;
                    refusal = response;
                }
                Some(response) if response.starts_with("SIP/2.0 100 ") => waiting -= 1,
                Some(_) => {}
                // The kernel had no room for the others.
                None => waiting = 0,
            }
        }
        refusal
    }

    fn send(&self, text: &str) {
        let sent = self.socket.send_to(text.as_bytes(), self.server);
        sent.expect("room to send");
    }

    fn hear(&self) -> Option<String> {
        let mut room = [0; 4096];
        let len = self.socket.recv(&mut room).ok()?;
        Some(String::from_utf8(room[..len].to_vec()).expect("text"))
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }
}

fn header(message: &str, name: HeaderName) -> String {
    let message = Message::parse(message.as_bytes()).expect("a message");
    message.header(name).expect("the header").to_owned()
}

fn branch(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("branch=")?;
    rest.split([';', '\r']).next()
}
