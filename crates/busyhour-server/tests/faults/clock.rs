//! The calendar is wrong while a binding is made, and right after the next start
//! of the server.

use crate::{
    call::{Credentials, REALM},
    host::{Host, Store},
    support::{postgres::Postgres, wait_until},
};
use busyhour_sip::{HeaderName, Message};
use std::{
    net::UdpSocket,
    time::{Duration, Instant},
};

#[test]
fn a_binding_made_with_a_wrong_clock_is_kept_with_the_right_one() {
    survive(Store::Sqlite);
}

#[test]
fn a_binding_made_with_a_wrong_clock_is_kept_in_postgresql() {
    let postgres = Postgres::start();
    postgres.database("busyhour");
    survive(Store::Postgres(postgres));
}

fn survive(store: Store) {
    let mut host = Host::start_at(store, 9, -DAY_S);
    let mut bound = vec![Phone::new(&host, 1).register()];
    host.kill();
    host.set_clock(0);
    host.begin();
    compare(&host, &bound);

    // The clock is set ahead and back while a server runs, and is wrong again
    // between two.
    for (number, offset_s) in [(2, DAY_S), (3, -DAY_S), (4, 0), (5, DAY_S)] {
        set_clock(&host, offset_s);
        bound.push(Phone::new(&host, number).register());
    }
    host.kill();
    host.set_clock(-DAY_S);
    host.begin();
    compare(&host, &bound);
}

/// A device that registers once.
struct Phone {
    socket: UdpSocket,
    number: u32,
    cseq: u32,
    credentials: Credentials,
}

/// A binding that began not before the first time and not after the second one.
struct Bound {
    number: u32,
    begun: [Instant; 2],
}

impl Phone {
    fn new(host: &Host, number: u32) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.connect(host.sip).expect("loopback");
        let patience = Some(Duration::from_secs(60));
        socket.set_read_timeout(patience).expect("a time");
        Self {
            socket,
            number,
            cseq: 0,
            credentials: Credentials::default(),
        }
    }

    fn register(mut self) -> Bound {
        loop {
            let before = Instant::now();
            match self.ask().status() {
                Some(401) => {}
                Some(200) => {
                    let (number, begun) = (self.number, [before, Instant::now()]);
                    return Bound { number, begun };
                }
                status => panic!("device{}: {status:?}", self.number),
            }
        }
    }

    /// Registers; returns the response, and keeps the challenge if it is one.
    fn ask(&mut self) -> Message<'static> {
        self.cseq += 1;
        let request = self.request();
        self.socket.send(request.as_bytes()).expect("loopback");
        let mut room = vec![0; 65_536];
        let len = self.socket.recv(&mut room).expect("an answer");
        room.truncate(len);
        let answer = Message::parse(room.leak()).expect("a message");
        if answer.header(HeaderName::WwwAuthenticate).is_some() {
            self.credentials.challenged(&answer);
        }
        answer
    }

    fn request(&mut self) -> String {
        let (user, uri) = (format!("device{}", self.number), format!("sip:{REALM}"));
        let (cseq, here) = (self.cseq, self.socket.local_addr().expect("bound"));
        let authorization = self.credentials.line(&user, "REGISTER", &uri);
        format!(
            "REGISTER {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {here};branch=z9hG4bK{user}x{cseq};rport\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{user}@{REALM}>;tag={user}\r\n\
             To: <sip:{user}@{REALM}>\r\n\
             Call-ID: {user}\r\n\
             CSeq: {cseq} REGISTER\r\n\
             Contact: <sip:{user}@{here}>;expires={}\r\n\
             {authorization}Content-Length: 0\r\n\r\n",
            LIFE.as_secs()
        )
    }
}

/// Sets the clock, and waits until the running server has seen and stored the
/// change.
fn set_clock(host: &Host, offset_s: i64) {
    let committed = host.server().stat("/store/committed");
    host.set_clock(offset_s);
    let is_noted = || host.server().stat("/store/committed") > committed;
    wait_until(is_noted, || "the server has not noted the clock".to_owned());
}

/// Checks that each binding is there with its remaining time.
fn compare(host: &Host, bound: &[Bound]) {
    let asked = Instant::now();
    let page = host.server().get("/api/bindings?limit=100");
    let told = Instant::now();
    let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
    let bindings = page["bindings"].as_array().expect("a list");
    for one in bound {
        let aor = format!("sip:device{}@{REALM}", one.number);
        let found = bindings
            .iter()
            .find(|binding| binding["aor"] == aor.as_str());
        let found = found.unwrap_or_else(|| panic!("{aor} was acknowledged and is lost: {page}"));
        let left = found["expires_in_seconds"].as_u64().expect("a number");
        let least = LIFE.saturating_sub(told - one.begun[0]).as_secs();
        let most = LIFE.saturating_sub(asked - one.begun[1]).as_secs();
        assert!(
            (least..=most).contains(&left),
            "{aor} has {left} s of {least}..={most}"
        );
    }
}

/// A day, in seconds.
const DAY_S: i64 = 86_400;
const LIFE: Duration = Duration::from_secs(3600);
