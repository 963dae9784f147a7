//! More calls than the server can carry, through its real sockets.

use crate::client::Client;
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_server::{
    net::{Certificate, Sockets, StreamOptions, Streams, Udp, UdpOptions},
    server::{
        Authentication, CallConfig, HolderKey, Network, NetworkStats, SendError, Server,
        ServerConfig, Unread,
    },
};
use busyhour_sip::{Flow, HeaderName, Message, Transport};
use busyhour_store::MemoryStore;
use rcgen::generate_simple_self_signed;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring,
    pki_types::CertificateDer,
};
use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
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
/// Calls on one connection before and after those that must pass: many reads of it.
const ON_CONNECTION: usize = 250;
/// How long a call takes at least where the server is slow.
const SLOW: Duration = Duration::from_millis(3);
/// The last byte of the callee's address.
const CALLEE: u8 = 2;

#[test]
fn calls_that_exist_and_emergency_calls_go_on_and_others_are_told_when_to_try_again() {
    let site = Site::new();
    let over = Arc::new(AtomicBool::new(false));
    let callee_is_over = Arc::new(AtomicBool::new(false));
    let callee = Telephone::new(&site, CALLEE, "bob");
    callee.register("bob");
    callee.register("113");
    let answering = {
        let over = callee_is_over.clone();
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
    crate::waiting::wait_until(|| calls_now().shed > 100, || format!("{:?}", calls_now()));
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
    let (storm, invite, refused) = storm.join().expect("the storm");
    // When there is time again, a late copy of an INVITE that was refused does not ring.
    while !caller.begin_whatever("bob").starts_with("SIP/2.0 200 ") {}
    let answered = site.server.stats().traffic.retransmissions_answered;
    assert_eq!(storm.ask_whatever(&invite), refused);
    let traffic = site.server.stats().traffic;
    assert!(traffic.retransmissions_answered > answered, "{traffic:?}");
    callee_is_over.store(true, Ordering::Relaxed);
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
fn a_connection_that_brings_too_much_is_told_so<S: Read + Write>(site: &Site, stream: S) {
    let over = Arc::new(AtomicBool::new(false));
    let callee = Telephone::new(site, CALLEE, "bob");
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
    // From now on each call takes so long that what comes at once waits for long.
    site.network.is_slow.store(true, Ordering::Relaxed);
    let shed = || site.server.stats().calls.shed;
    while shed() == 0 {
        bring(&mut client, &mut writer, &[]);
    }
    // Among many others, and many behind them.
    let emergency = over_stream(&writer.invite("113"));
    let byes = calls
        .iter()
        .map(|call| over_stream(&writer.within("BYE", call)));
    let wanted: Vec<_> = byes.chain([emergency]).collect();
    bring(&mut client, &mut writer, &wanted);
    // Another connection has its turn meanwhile. A machine that stands still for a while may
    // have it told to try again.
    let mut other = Telephone::new(site, 4, "carol");
    let mut bystander = Client::over(connect_tcp(site));
    loop {
        let refused = bring(&mut client, &mut writer, &[]);
        bystander.send(over_stream(&other.invite("bob")).as_bytes());
        let answer = bystander.final_response();
        if answer.starts_with("SIP/2.0 200 ") && refused > 0 {
            break;
        }
        assert!(
            answer.starts_with("SIP/2.0 200 ") || answer.starts_with("SIP/2.0 503 "),
            "{answer}"
        );
    }
    assert_eq!(site.server.stats().calls.unanswered, 0);
    over.store(true, Ordering::Relaxed);
    drop(client);
    answering.join().expect("the callee");
}

/// Many calls at once on a connection, with these requests in their middle, which all get 200.
/// Returns how many of the calls were refused.
fn bring<S: Read + Write>(
    client: &mut Client<S>,
    writer: &mut Telephone,
    wanted: &[String],
) -> usize {
    let flood = |writer: &mut Telephone| -> String {
        let invites = (0..ON_CONNECTION).map(|_| over_stream(&writer.invite("bob")));
        invites.collect()
    };
    let all = flood(writer) + &wanted.concat() + &flood(writer);
    client.send(all.as_bytes());
    let wanted: Vec<_> = wanted.iter().map(|it| branch(it)).collect();
    let mut refused = 0;
    for _ in 0..2 * ON_CONNECTION + wanted.len() {
        let response = client.final_response();
        let is_wanted = wanted.contains(&branch(&response));
        if response.starts_with("SIP/2.0 503 ") && !is_wanted {
            let after = header(&response, HeaderName::RetryAfter);
            let after: u32 = after.parse().expect("seconds");
            assert!((1..=4).contains(&after), "{after}");
            refused += 1;
            continue;
        }
        assert!(response.starts_with("SIP/2.0 200 "), "{response}");
    }
    refused
}

#[test]
fn over_tcp_too_much_is_refused_and_what_exists_goes_on() {
    let site = Site::new();
    a_connection_that_brings_too_much_is_told_so(&site, connect_tcp(&site));
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
    let stream = crate::client::connect(address_over(&site, Transport::Tls));
    a_connection_that_brings_too_much_is_told_so(&site, StreamOwned::new(session, stream));
    site.end();
}

fn connect_tcp(site: &Site) -> TcpStream {
    crate::client::connect(address_over(site, Transport::Tcp))
}

fn address_over(site: &Site, transport: Transport) -> SocketAddr {
    let mut addresses = site.network.sockets.streams.addresses(transport);
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
    network: Arc<SlowNetwork>,
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
        let sockets = Arc::new(Sockets {
            sip: Udp::bind(&UdpOptions::new(here)).expect("a port"),
            streams: Streams::bind(streams).expect("ports"),
            iax2: Udp::bind(&UdpOptions::new([])).expect("no port"),
            capture: Udp::bind(&UdpOptions::new([])).expect("no port"),
            media: Udp::bind(&UdpOptions::new([])).expect("no port"),
            nodes: Arc::new(Udp::bind(&UdpOptions::new([])).expect("no port")),
        });
        let network = Arc::new(SlowNetwork {
            sockets: sockets.clone(),
            is_slow: AtomicBool::new(false),
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
        sockets.attach(&server, &runtime).expect("threads");
        Self {
            address: sockets.sip.addresses()[0],
            certificate: made.cert.der().clone(),
            runtime,
            network,
            server,
        }
    }

    fn end(self) {
        self.network.sockets.stop_receiving();
        self.server.shutdown(Duration::from_secs(10));
        self.runtime.shutdown(Duration::from_secs(10));
    }
}

/// The machine's sockets, where an INVITE to the callee takes long if that is wanted.
struct SlowNetwork {
    sockets: Arc<Sockets>,
    is_slow: AtomicBool,
}

impl Network for SlowNetwork {
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        let is_slow = self.is_slow.load(Ordering::Relaxed) && datagram.starts_with(b"INVITE");
        if is_slow && flow.remote.ip() == IpAddr::from([127, 0, 0, CALLEE]) {
            thread::sleep(SLOW);
        }
        self.sockets.send(flow, datagram)
    }

    fn try_send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        self.sockets.try_send(flow, datagram)
    }

    fn mark_trusted(&self, flow: Flow) -> bool {
        self.sockets.mark_trusted(flow)
    }

    fn local_to(&self, transport: Transport, remote: SocketAddr) -> Option<SocketAddr> {
        self.sockets.local_to(transport, remote)
    }

    fn speaks(&self, transport: Transport) -> bool {
        self.sockets.speaks(transport)
    }

    fn connect(&self, flow: Flow, holder: Option<HolderKey>) -> Result<Flow, SendError> {
        self.sockets.connect(flow, holder)
    }

    fn wait_on(&self, flow: Flow) -> Duration {
        self.sockets.wait_on(flow)
    }

    fn unread(&self) -> Unread {
        self.sockets.unread()
    }

    fn stats(&self) -> NetworkStats {
        self.sockets.stats()
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

    /// As [`call`](Self::call), also where there may be too little time.
    fn begin_whatever(&mut self, user: &str) -> String {
        let invite = self.invite(user);
        let answer = self.ask_whatever(&invite);
        if answer.starts_with("SIP/2.0 200 ") {
            self.send(&self.within("ACK", &answer));
        }
        answer
    }

    /// The final response to a request that is sent each half second until it comes. Nothing is
    /// refused for lack of time meanwhile.
    fn ask(&self, request: &str) -> String {
        let answer = self.ask_whatever(request);
        assert!(!answer.starts_with("SIP/2.0 503 "), "{answer}");
        answer
    }

    /// The same where it may be refused.
    fn ask_whatever(&self, request: &str) -> String {
        let branch = branch(request);
        let begun = Instant::now();
        loop {
            self.send(request);
            let sent = Instant::now();
            while sent.elapsed() < Duration::from_millis(500) {
                let heard = self.hear().unwrap_or_default();
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

    /// Keeps many INVITEs waiting; returns one that was refused, and its 503.
    fn flood(mut self, over: &AtomicBool) -> (Self, String, String) {
        let (mut waiting, mut refused) = (0_usize, None);
        let mut invites = HashMap::new();
        while !over.load(Ordering::Relaxed) || refused.is_none() {
            while waiting < WAITING {
                let invite = self.invite("bob");
                self.send(&invite);
                waiting += 1;
                if refused.is_none() {
                    invites.insert(branch(&invite).map(str::to_owned), invite);
                }
            }
            match self.hear() {
                Some(response) if response.starts_with("SIP/2.0 503 ") => {
                    waiting = waiting.saturating_sub(1);
                    let invite = invites.remove(&branch(&response).map(str::to_owned));
                    refused = refused.or(invite.map(|invite| (invite, response)));
                }
                Some(response) if response.starts_with("SIP/2.0 100 ") => {
                    waiting = waiting.saturating_sub(1);
                }
                Some(_) => {}
                // The kernel had no room for the others.
                None => waiting = 0,
            }
        }
        let (invite, response) = refused.expect("one that was refused");
        (self, invite, response)
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
