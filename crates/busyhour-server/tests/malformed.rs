//! Malformed datagrams: the server answers 400 or nothing, counts them, and
//! continues.

mod support;

use std::{collections::BTreeMap, net::UdpSocket, time::Duration};
use support::{Place, ServerProcess, random::Random};

const OPEN: &str = "[sip]\nauth = \"open\"\n";

const REGISTER: &str = "REGISTER sip:busyhour.test SIP/2.0\r\n\
    Via: SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK-m-1;rport\r\n\
    Max-Forwards: 70\r\n\
    From: \"A \\\" B\" <sip:alice@busyhour.test>;tag=1\r\n\
    To: <sip:alice@busyhour.test>\r\n\
    Call-ID: m1@127.0.0.1\r\n\
    CSeq: 1 REGISTER\r\n\
    Contact: <sip:alice@127.0.0.1:9;transport=udp>;q=0.5;expires=600\r\n\
    Content-Length: 0\r\n\r\n";

/// A client that sends any bytes, and counts the answers by their status.
struct Sender {
    socket: UdpSocket,
    server: ServerProcess,
    statuses: BTreeMap<u16, u64>,
    sent: u64,
    probes: u64,
}

impl Sender {
    fn new(place: &Place) -> Self {
        let server = place.server(OPEN);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.sip).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self {
            socket,
            server,
            statuses: BTreeMap::new(),
            sent: 0,
            probes: 0,
        }
    }

    /// Sends the datagrams in batches, so that no queue on the way overflows.
    fn send_all<B: AsRef<[u8]>>(&mut self, datagrams: impl IntoIterator<Item = B>) {
        for datagram in datagrams {
            self.socket.send(datagram.as_ref()).unwrap();
            self.sent += 1;
            if self.sent.is_multiple_of(PORTION) {
                self.probe();
            }
        }
        self.probe();
    }

    /// Sends an OPTIONS and waits for its answer, which shows that the server has read
    /// everything before it.
    fn probe(&mut self) {
        self.probes += 1;
        let call_id = format!("probe-{}@127.0.0.1", self.probes);
        let options = format!(
            "OPTIONS sip:busyhour.test SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK-{call_id};rport\r\n\
             From: <sip:p@busyhour.test>;tag=p\r\nTo: <sip:busyhour.test>\r\nCall-ID: {call_id}\r\n\
             CSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        self.socket.send(options.as_bytes()).unwrap();
        while !self.read_reply().contains(&call_id) {}
    }

    fn read_reply(&mut self) -> String {
        let mut buffer = [0; 65_536];
        let len = self.socket.recv(&mut buffer).expect("the server answers");
        let reply = String::from_utf8_lossy(&buffer[..len]).into_owned();
        let status = reply
            .strip_prefix("SIP/2.0 ")
            .and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no response: {reply}"));
        *self.statuses.entry(status).or_default() += 1;
        reply
    }

    fn stat(&self, name: &str) -> u64 {
        self.server.stat(&format!("/traffic/{name}"))
    }

    /// The number of datagrams that were counted as malformed, for any reason.
    fn malformed(&self) -> u64 {
        self.stat("malformed_silent") + self.stat("malformed_answered") + self.stat("keepalives")
    }

    /// Checks that everything was received, that nothing panicked, and that the
    /// server ends normally.
    fn finish(self) {
        assert_eq!(self.stat("received"), self.sent + self.probes);
        assert_eq!(self.server.stat("/runtime/pool/panicked"), 0);
        let log = self.server.log();
        assert!(!log.contains("panicked"), "{log}");
        assert!(self.server.stop().success(), "{log}");
    }
}

#[test]
fn truncated_requests_get_400_or_no_answer() {
    let place = Place::new();
    let mut sender = Sender::new(&place);
    // From its empty line on, the request is complete and no longer truncated.
    let whole = REGISTER.len();
    sender.send_all((0..whole).map(|len| &REGISTER.as_bytes()[..len]));
    assert_eq!(sender.malformed(), whole as u64);
    let answered: Vec<u16> = sender.statuses.keys().copied().collect();
    assert!(
        answered.iter().all(|status| [200, 400].contains(status)),
        "{answered:?}"
    );
    assert_eq!(
        sender.statuses[&200], sender.probes,
        "only the probes are answered with 200"
    );
    assert_eq!(sender.server.stat("/registrar/binding_count"), 0);
    sender.finish();
}

#[test]
fn too_large_requests_get_400_or_no_answer() {
    let place = Place::new();
    let mut sender = Sender::new(&place);
    let junk = vec![b'x'; 65_507];
    let endless_header = format!("REGISTER sip:a SIP/2.0\r\nVia: {}", "y".repeat(65_000));
    let many_headers = format!(
        "REGISTER sip:a SIP/2.0\r\n{}\r\n",
        "A: b\r\n".repeat(10_000)
    );
    let nothing_but_ends = "\r\n".repeat(32_000);
    let deep_quotes = format!(
        "REGISTER sip:a SIP/2.0\r\nFrom: {}\r\n\r\n",
        "\"<".repeat(30_000)
    );
    let giants = [
        junk,
        endless_header.into(),
        many_headers.into(),
        nothing_but_ends.into(),
        deep_quotes.into(),
    ];
    let count = giants.len() as u64;
    sender.send_all(giants);
    assert_eq!(sender.malformed(), count);
    sender.finish();
}

#[test]
fn random_bytes_get_no_answer() {
    let place = Place::new();
    let mut sender = Sender::new(&place);
    let mut random = Random::new();
    let noise: Vec<Vec<u8>> = (0..2000)
        .map(|_| {
            (0..random.below(1500))
                .map(|_| random.below(256) as u8)
                .collect()
        })
        .collect();
    sender.send_all(&noise);
    assert_eq!(sender.malformed(), noise.len() as u64);
    assert_eq!(
        sender.statuses.len(),
        1,
        "only the probes are answered: {:?}",
        sender.statuses
    );
    sender.finish();
}

#[test]
fn fuzzed_requests_crash_nothing() {
    let place = Place::new();
    let mut sender = Sender::new(&place);
    let mut random = Random::new();
    let fuzzed: Vec<Vec<u8>> = (0..10_000).map(|_| fuzz(REGISTER, &mut random)).collect();
    sender.send_all(&fuzzed);
    sender.finish();
}

/// The request with a few bytes changed, removed, doubled or moved.
fn fuzz(text: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(4) {
        let place = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[place] = random.below(256) as u8,
            1 => bytes.truncate(place.max(1)),
            2 => drop(bytes.remove(place)),
            3 => bytes.insert(place, b"\r\n\"<>:;,=\0 "[random.below(11)]),
            _ => bytes.extend_from_within(place..),
        }
        bytes.push(b'\n');
    }
    bytes
}

/// The number of datagrams between two probes.
const PORTION: u64 = 50;
