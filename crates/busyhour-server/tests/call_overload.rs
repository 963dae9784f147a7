//! More calls than the server can carry, through its real sockets.

#[path = "support/waiting.rs"]
mod waiting;

use busyhour::runtime::Runtime;
use busyhour_server::{
    net::{Sockets, StreamOptions, Streams, Udp, UdpOptions},
    server::{Authentication, CallConfig, Server, ServerConfig},
};
use busyhour_sip::{HeaderName, Message};
use busyhour_store::MemoryStore;
use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Calls that last when the storm comes.
const CALLS: usize = 12;
/// INVITEs of the storm that wait for a response: far more than are carried in 100 ms.
const WAITING: usize = 1_500;

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
    let calls: Vec<_> = (0..CALLS).map(|_| caller.call("bob")).collect();
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

struct Site {
    runtime: Runtime,
    network: Arc<Sockets>,
    server: Server,
    address: SocketAddr,
}

impl Site {
    fn new() -> Self {
        let here = ["127.0.0.1:0".parse().expect("an address")];
        let network = Arc::new(Sockets {
            sip: Udp::bind(&UdpOptions::new(here)).expect("a port"),
            streams: Streams::bind(StreamOptions::default()).expect("no port"),
            iax2: Udp::bind(&UdpOptions::new([])).expect("no port"),
            capture: Udp::bind(&UdpOptions::new([])).expect("no port"),
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
        let answer = self.ask(&invite);
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

    /// The final response to a request that is sent each half second until it comes.
    fn ask(&self, request: &str) -> String {
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
