//! Several times as many calls as there is time for, in virtual time: most of them are not even
//! refused, so that there is time left for calls.

use crate::{
    exchange::{Sent, digest_config, proven},
    world::{ALICE, BOB, Phone, ack_of_refusal, header, in_dialog, respond},
};
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_server::server::{Network, SendError, Server, Unread};
use busyhour_sip::{Flow, Transport};
use busyhour_store::MemoryStore;
use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A server that has time for [`CEILING`] calls in a second, and what comes to it.
struct Storm {
    runtime: Runtime,
    server: Server,
    kernel: Arc<Kernel>,
    /// What nobody has read yet, and who sent it.
    queue: VecDeque<(Phone, String)>,
    /// What alice has sent and got no answer to.
    invites: HashMap<String, String>,
    last_call: u64,
    counts: Counts,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// INVITEs that reached bob.
    calls: u64,
    /// Calls that were hung up.
    ended: u64,
    /// INVITEs that got 503.
    refused: u64,
}

/// A network whose sockets say how much waits in them.
#[derive(Default)]
struct Kernel {
    sent: Sent,
    waiting: AtomicU64,
    read: AtomicU64,
}

impl Network for Kernel {
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        self.sent.send(flow, datagram)
    }

    fn local_to(&self, transport: Transport, remote: SocketAddr) -> Option<SocketAddr> {
        self.sent.local_to(transport, remote)
    }

    fn unread(&self) -> Unread {
        let waiting = self.waiting.load(Ordering::Relaxed);
        Unread {
            waiting,
            read: self.read.load(Ordering::Relaxed),
            filled_permille: (waiting * 1_000 / ROOM) as u16,
        }
    }
}

/// Each INVITE is challenged first, which lets no call in.
#[test]
fn at_three_to_ten_times_the_ceiling_two_are_refused_for_each_call_and_no_call_is_lost() {
    for times in [3, 10] {
        let mut storm = Storm::new();
        storm.offer(times * CEILING, SPAN);
        let Counts { calls, refused, .. } = storm.counts;
        let unanswered = storm.server.stats().calls.unanswered;
        let told = format!("{times}: {:?}, {unanswered} unanswered", storm.counts);
        assert!(refused <= 2 * calls + 100 * SPAN.as_secs() + PEAK, "{told}");
        assert!(unanswered > 0, "{told}");
        // What is not even refused takes time as well.
        assert!(calls * 10 > CEILING * SPAN.as_secs(), "{told}");
        storm.drain();
        assert_eq!(storm.counts.calls, storm.counts.ended, "{told}");
    }
}

impl Storm {
    /// Bob is registered.
    fn new() -> Self {
        let runtime = Runtime::simulated(1);
        let kernel = Arc::new(Kernel::default());
        let mut config = digest_config();
        config.limits.source_percent = 100;
        config.limits.account_percent = 100;
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, kernel.clone(), store).unwrap();
        let mut storm = Self {
            runtime,
            server,
            kernel,
            queue: VecDeque::new(),
            invites: HashMap::new(),
            last_call: 0,
            counts: Counts::default(),
        };
        storm.register();
        storm
    }

    fn register(&mut self) {
        let request = "REGISTER sip:example.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP 192.0.2.8:5060;branch=z9hG4bKregister;rport\r\nMax-Forwards: 70\r\n\
             From: <sip:bob@example.com>;tag=bob\r\nTo: <sip:bob@example.com>\r\nCall-ID: bob\r\n\
             CSeq: 1 REGISTER\r\nContact: <sip:bob@192.0.2.8:5060>\r\nContent-Length: 0\r\n\r\n";
        self.deliver(BOB, request);
        let challenge = self.kernel.sent.take_response();
        let again = request.replace("branch=z9hG4bKregister", "branch=z9hG4bKagain");
        self.deliver(BOB, &proven(&again, &challenge, "bob", "bob", 1));
        self.runtime.simulation().unwrap().run_until_idle();
        let answer = self.kernel.sent.take_response();
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }

    /// So many calls in a second come for a while.
    fn offer(&mut self, per_second: u64, span: Duration) {
        let begun = self.runtime.clock().now();
        let mut offered = 0;
        loop {
            let passed = self.runtime.clock().now() - begun;
            let due = (passed.min(span).as_nanos() * u128::from(per_second) / 1_000_000_000) as u64;
            (offered..due).for_each(|_| self.call());
            offered = due;
            if passed >= span {
                return;
            }
            if !self.read_one() {
                self.pass(Duration::from_secs(1) / per_second as u32);
            }
        }
    }

    /// Everything that waits is read.
    fn drain(&mut self) {
        while self.read_one() {}
    }

    fn call(&mut self) {
        self.last_call += 1;
        let number = self.last_call;
        self.ask(format!(
            "INVITE sip:bob@example.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bKasked{number};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag={number}\r\n\
             To: <sip:bob@example.com>\r\nCall-ID: {number}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:alice@192.0.2.7:5060>\r\nContent-Length: 0\r\n\r\n"
        ));
    }

    /// Alice sends an INVITE, if there is room for it.
    fn ask(&mut self, invite: String) {
        if (self.queue.len() as u64) < ROOM {
            self.invites.insert(transaction(&invite), invite.clone());
            self.queue.push_back((ALICE, invite));
        }
    }

    /// `false` if nothing waits.
    fn read_one(&mut self) -> bool {
        let Some((phone, text)) = self.queue.pop_front() else {
            return false;
        };
        self.kernel.read.fetch_add(1, Ordering::Relaxed);
        let waiting = (self.queue.len() as u64).min(ROOM);
        self.kernel.waiting.store(waiting, Ordering::Relaxed);
        self.deliver(phone, &text);
        let sent = self.kernel.sent.take_all();
        self.pass(CALL.mul_f64(cost(&text, &sent)));
        let late = self.kernel.sent.take_all();
        for (flow, datagram) in sent.into_iter().chain(late) {
            let text = String::from_utf8(datagram.to_vec()).unwrap();
            match flow.remote.to_string() == BOB.address {
                true => self.bob_hears(&text),
                false => self.alice_hears(&text),
            }
        }
        true
    }

    fn bob_hears(&mut self, text: &str) {
        let method = text.split(' ').next().unwrap();
        self.counts.calls += u64::from(method == "INVITE");
        if method != "ACK" {
            let answer = respond(BOB, text, "200 OK");
            self.queue.push_back((BOB, answer));
        }
    }

    fn alice_hears(&mut self, text: &str) {
        let (status, cseq) = (&text[8..11], header(text, "CSeq"));
        if status == "100" {
            return;
        }
        if cseq.ends_with("BYE") {
            assert_eq!(status, "200", "{text}");
            self.counts.ended += 1;
            return;
        }
        let invite = self.invites.remove(&transaction(text)).expect("one answer");
        let call = header(text, "Call-ID");
        if status == "200" {
            for (method, cseq) in [("ACK", 2), ("BYE", 3)] {
                let branch = format!("z9hG4bK{method}{call}");
                let request = in_dialog(&branch, ALICE, method, cseq, text, true);
                self.queue.push_back((ALICE, request));
            }
            return;
        }
        self.queue.push_back((ALICE, ack_of_refusal(&invite, text)));
        if status == "407" {
            return self.ask(with_credentials(&invite, text));
        }
        assert_eq!(status, "503", "{text}");
        self.counts.refused += 1;
    }

    fn deliver(&self, phone: Phone, text: &str) {
        let datagram = self.runtime.buffers().copy_from(text.as_bytes()).unwrap();
        let [local, remote] = [phone.server, phone.address].map(|it| it.parse().unwrap());
        self.server.message(Flow::udp(local, remote), &datagram);
    }

    fn pass(&self, time: Duration) {
        self.runtime.simulation().unwrap().run_for(time);
    }
}

/// What a message takes, as a part of a call: bench/README.md says what was measured.
fn cost(text: &str, sent: &[(Flow, Buffer)]) -> f64 {
    let is_sent = |start: &[u8]| sent.iter().any(|(_, it)| it.starts_with(start));
    match text.split(' ').next().unwrap() {
        "INVITE" if sent.is_empty() => 0.05,
        "INVITE" if is_sent(b"SIP/2.0 503 ") => 0.18,
        "INVITE" if is_sent(b"SIP/2.0 407 ") => 0.1,
        "INVITE" => 0.3,
        "ACK" if sent.is_empty() => 0.04,
        _ => 0.14,
    }
}

/// Call-ID and CSeq.
fn transaction(message: &str) -> String {
    ["Call-ID", "CSeq"]
        .map(|name| header(message, name))
        .join(" ")
}

fn with_credentials(invite: &str, challenge: &str) -> String {
    let challenge = challenge.replace("Proxy-Authenticate: ", "WWW-Authenticate: ");
    let again = invite
        .replace("z9hG4bKasked", "z9hG4bKproven")
        .replace("CSeq: 1 ", "CSeq: 2 ");
    proven(&again, &challenge, "alice", "alice", 1)
        .replace("Authorization: ", "Proxy-Authorization: ")
}

/// So many calls are carried in a second if nothing else is done.
const CEILING: u64 = 500;
/// What a call takes.
const CALL: Duration = Duration::from_millis(2);
/// How many datagrams wait at most; those of calls that exist find room beyond it.
const ROOM: u64 = 1_000;
const SPAN: Duration = Duration::from_secs(4);
/// What a peak may take at once.
const PEAK: u64 = 1_000;
