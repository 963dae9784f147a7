//! A server without a disk or a network, and telephones that call through it, in virtual
//! time.

use crate::exchange::{Sent, digest_config, proof};
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_server::server::{Network, SendError, Server, ServerConfig, ServerStats};
use busyhour_sip::{Flow, HeaderName, Message, Transport};
use busyhour_store::{DiskBehaviour, SimulatedDisk};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, Weak, mpsc},
    time::Duration,
};

pub struct World {
    pub runtime: Runtime,
    pub server: Arc<Server>,
    pub disk: SimulatedDisk,
    sent: Arc<Outlet>,
    /// What was sent and not read yet.
    unread: Vec<(SocketAddr, String)>,
    last_branch: u32,
    config: ServerConfig,
}

/// A telephone: a user and where it is. Its password is its name.
#[derive(Clone, Copy)]
pub struct Phone {
    pub user: &'static str,
    pub address: &'static str,
    /// The address of the server that it knows.
    pub server: &'static str,
}

pub const ALICE: Phone = phone("alice", "192.0.2.7:5060");
pub const BOB: Phone = phone("bob", "192.0.2.8:5060");
/// Another one of bob's.
pub const BOB_AT_HOME: Phone = phone("bob", "192.0.2.18:5060");
/// In another network, where the server has another address.
pub const BOB_ABROAD: Phone = Phone {
    server: "198.51.100.1:5060",
    ..phone("bob", "198.51.100.8:5060")
};
pub const CAROL: Phone = phone("carol", "192.0.2.9:5060");

pub const fn phone(user: &'static str, address: &'static str) -> Phone {
    Phone {
        user,
        address,
        server: "192.0.2.1:5060",
    }
}

/// A network that keeps what is sent, and may look at the calls with each message.
#[derive(Default)]
struct Outlet {
    sent: Sent,
    server: Mutex<Weak<Server>>,
}

impl Network for Outlet {
    fn local_to(&self, transport: Transport, remote: SocketAddr) -> Option<SocketAddr> {
        self.sent.local_to(transport, remote)
    }

    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        if let Some(server) = self.server.lock().unwrap().upgrade() {
            let (tell, told) = mpsc::channel();
            let look = move || tell.send(server.calls(1).len());
            std::thread::spawn(look);
            let count = told.recv_timeout(Duration::from_secs(20));
            count.expect("the calls can be looked at");
        }
        self.sent.send(flow, datagram)
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(digest_config())
    }

    pub fn with(config: ServerConfig) -> Self {
        let runtime = Runtime::simulated(1);
        let sent = Arc::new(Outlet::default());
        let disk = SimulatedDisk::new(1, DiskBehaviour::default());
        let store = Box::new(disk.open(runtime.clock().clone()));
        let own = config.clone();
        let server = Server::start(runtime.clone(), own, sent.clone(), store).unwrap();
        let server = Arc::new(server);
        Self {
            runtime,
            server,
            disk,
            sent,
            unread: Vec::new(),
            last_branch: 0,
            config,
        }
    }

    /// The server ends without a word, and begins again.
    pub fn restart(&mut self) {
        self.disk.crash();
        self.sent.sent.take_all();
        let store = Box::new(self.disk.open(self.runtime.clock().clone()));
        let config = self.config.clone();
        let server = Server::start(self.runtime.clone(), config, self.sent.clone(), store);
        self.server = Arc::new(server.unwrap());
    }

    /// From now on the network looks at the calls whenever something is sent.
    pub fn look_at_calls_when_sending(&self) {
        *self.sent.server.lock().unwrap() = Arc::downgrade(&self.server);
    }

    /// A new branch.
    pub fn branch(&mut self) -> String {
        self.last_branch += 1;
        format!("z9hG4bKt{}", self.last_branch)
    }

    pub fn register(&mut self, phone: Phone) {
        self.register_with(phone, "");
    }

    pub fn register_with(&mut self, phone: Phone, parameters: &str) {
        let Phone { user, address, .. } = phone;
        let request = self.request(
            phone,
            "REGISTER",
            "sip:example.com",
            &format!("<sip:{user}@example.com>"),
            &format!("register-{address}"),
            &format!("Contact: <sip:{user}@{address}>{parameters}\r\n"),
        );
        let answer = self.ask(phone, &request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }

    /// A request of a telephone.
    pub fn request(
        &mut self,
        phone: Phone,
        method: &str,
        uri: &str,
        to: &str,
        call_id: &str,
        headers: &str,
    ) -> String {
        let Phone { user, address, .. } = phone;
        let branch = self.branch();
        format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch={branch};rport\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{user}@example.com>;tag={user}\r\n\
             To: {to}\r\nCall-ID: {call_id}\r\nCSeq: 1 {method}\r\n\
             {headers}Content-Length: 0\r\n\r\n"
        )
    }

    /// The INVITE of a telephone for a user.
    pub fn invite(&mut self, phone: Phone, user: &str, call_id: &str) -> String {
        let uri = format!("sip:{user}@example.com");
        let contact = format!("Contact: <sip:{}@{}>\r\n", phone.user, phone.address);
        self.request(
            phone,
            "INVITE",
            &uri,
            &format!("<{uri}>"),
            call_id,
            &contact,
        )
    }

    /// Sends a request, answers a challenge, and returns the final response.
    pub fn ask(&mut self, phone: Phone, request: &str) -> String {
        self.send(phone, request);
        let answer = self.read(phone);
        if !answer.starts_with("SIP/2.0 401 ") && !answer.starts_with("SIP/2.0 407 ") {
            return answer;
        }
        let proven = self.proven(phone, request, &answer);
        self.send(phone, &proven);
        self.read(phone)
    }

    /// The request once more, with credentials for this challenge.
    pub fn proven(&mut self, phone: Phone, request: &str, challenge: &str) -> String {
        let branch = self.branch();
        let (head, old) = request.split_once("branch=").unwrap();
        let (_, tail) = old.split_once(';').unwrap();
        let request = format!("{head}branch={branch};{tail}").replace("CSeq: 1 ", "CSeq: 2 ");
        let (name, challenge) = match challenge.contains("Proxy-Authenticate: ") {
            true => (
                "Proxy-Authorization",
                challenge.replace("Proxy-Authenticate: ", "WWW-Authenticate: "),
            ),
            false => ("Authorization", challenge.to_owned()),
        };
        let proof = proof(&request, &challenge, phone.user, phone.user).counted(1, "cnonce");
        request.replace(
            "Content-Length",
            &format!("{name}: {proof}\r\nContent-Length"),
        )
    }

    /// Calls; returns the INVITE that was forwarded to nobody's address in particular: the
    /// caller has answered the challenge and been told 100.
    pub fn call(&mut self, phone: Phone, user: &str, call_id: &str) -> String {
        let invite = self.invite(phone, user, call_id);
        self.send(phone, &invite);
        let challenge = self.read(phone);
        assert!(challenge.starts_with("SIP/2.0 407 "), "{challenge}");
        self.send(phone, &ack_of_refusal(&invite, &challenge));
        let proven = self.proven(phone, &invite, &challenge);
        self.send(phone, &proven);
        proven
    }

    /// A telephone sends.
    pub fn send(&mut self, phone: Phone, text: &str) {
        self.send_at_once(phone, &[text.to_owned()]);
    }

    /// A telephone sends several messages without a pause.
    pub fn send_at_once(&mut self, phone: Phone, texts: &[String]) {
        for text in texts {
            self.deliver(phone, text);
        }
        self.pass(20);
    }

    fn deliver(&mut self, phone: Phone, text: &str) {
        let datagram = self.runtime.buffers().copy_from(text.as_bytes()).unwrap();
        let [local, remote] = [phone.server, phone.address].map(|it| it.parse().unwrap());
        let flow = Flow::udp(local, remote);
        self.server.message(flow, &datagram);
    }

    pub fn pass(&mut self, milliseconds: u64) {
        let simulation = self.runtime.simulation().unwrap();
        let end = self.runtime.clock().now() + Duration::from_millis(milliseconds);
        while self.runtime.clock().now() < end {
            simulation.run_until_idle();
            let step = self.runtime.clock().now() + Duration::from_millis(10);
            let due = self.disk.next_due().unwrap_or(end);
            simulation.run_until(due.min(step).min(end));
            self.disk.run_due();
        }
        simulation.run_until_idle();
        let sent = self.sent.sent.take_all();
        let texts = sent
            .into_iter()
            .map(|(flow, text)| (flow.remote, String::from_utf8(text.to_vec()).unwrap()));
        self.unread.extend(texts);
    }

    /// The next message for a telephone.
    #[track_caller]
    pub fn read(&mut self, phone: Phone) -> String {
        match self.try_read(phone) {
            Some(text) => text,
            None => panic!("nothing was sent to {}: {:#?}", phone.address, self.unread),
        }
    }

    pub fn try_read(&mut self, phone: Phone) -> Option<String> {
        let address: SocketAddr = phone.address.parse().unwrap();
        let place = self.unread.iter().position(|(to, _)| *to == address)?;
        Some(self.unread.remove(place).1)
    }

    #[track_caller]
    pub fn read_status(&mut self, phone: Phone, status: &str) -> String {
        let text = self.read(phone);
        assert!(text.starts_with(&format!("SIP/2.0 {status}")), "{text}");
        text
    }

    #[track_caller]
    pub fn read_request(&mut self, phone: Phone, method: &str) -> String {
        let text = self.read(phone);
        assert!(text.starts_with(&format!("{method} ")), "{text}");
        text
    }

    pub fn stats(&self) -> ServerStats {
        self.server.stats()
    }

    /// Watches the dialogs of a user, with a telephone that is only there for that; reads
    /// the first NOTIFY.
    pub fn watch(&mut self, phone: Phone, user: &str) {
        let uri = format!("sip:{user}@example.com");
        let headers = format!(
            "Event: dialog\r\nContact: <sip:{}@{}>\r\n",
            phone.user, phone.address
        );
        let call_id = format!("watch-{user}-{}", phone.address);
        let request = self.request(
            phone,
            "SUBSCRIBE",
            &uri,
            &format!("<{uri}>"),
            &call_id,
            &headers,
        );
        let answer = self.ask(phone, &request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        self.lamp(phone);
    }

    /// The states in the dialogs of the last NOTIFY, as `early`, `confirmed confirmed`, or
    /// empty without a dialog.
    #[track_caller]
    pub fn lamp(&mut self, phone: Phone) -> String {
        let mut last = None;
        while let Some(notify) = self.try_read(phone) {
            assert!(notify.starts_with("NOTIFY "), "{notify}");
            self.send(phone, &crate::exchange::ok(&notify));
            last = Some(notify);
        }
        let notify = last.expect("a NOTIFY");
        let mut states: Vec<_> = notify
            .split("<state")
            .skip(1)
            .filter_map(|part| part.split_once('>')?.1.split_once('<'))
            .map(|(state, _)| state.to_owned())
            .collect();
        states.sort();
        states.join(" ")
    }
}

/// A response of a telephone, with its tag and contact.
pub fn respond(phone: Phone, request: &str, status: &str) -> String {
    let head = request.split("\r\n\r\n").next().unwrap();
    let wanted = ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"];
    let kept = head
        .lines()
        .filter(|line| wanted.iter().any(|name| line.starts_with(name)));
    let kept: Vec<_> = kept.collect();
    let to = header(request, "To");
    let to = match to.contains(";tag=") || status.starts_with("100") {
        true => to,
        false => format!("{to};tag={}", tag_of(phone)),
    };
    format!(
        "SIP/2.0 {status}\r\n{}\r\nTo: {to}\r\nContact: <sip:{}@{}>\r\nContent-Length: 0\r\n\r\n",
        kept.join("\r\n"),
        phone.user,
        phone.address
    )
}

fn tag_of(phone: Phone) -> String {
    phone.address.replace([':', '.'], "-")
}

/// A request within the dialog that a 2xx made; the side that the INVITE came to is the
/// callee.
pub fn within(
    world: &mut World,
    phone: Phone,
    method: &str,
    cseq: u32,
    answer: &str,
    is_caller: bool,
) -> String {
    let branch = world.branch();
    in_dialog(&branch, phone, method, cseq, answer, is_caller)
}

/// The same with a branch of the telephone's choice.
pub fn in_dialog(
    branch: &str,
    phone: Phone,
    method: &str,
    cseq: u32,
    answer: &str,
    is_caller: bool,
) -> String {
    let message = Message::parse(answer.as_bytes()).unwrap();
    let routes: Vec<_> = message
        .headers(HeaderName::RecordRoute)
        .flat_map(|value| value.split(", "))
        .collect();
    let routes: Vec<_> = match is_caller {
        true => routes.into_iter().rev().collect(),
        false => routes,
    };
    let (from, to) = (header(answer, "From"), header(answer, "To"));
    let (from, to) = if is_caller { (from, to) } else { (to, from) };
    let target = match is_caller {
        true => header(answer, "Contact"),
        false => "<sip:alice@192.0.2.7:5060>".to_owned(),
    };
    format!(
        "{method} {} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch={branch};rport\r\nMax-Forwards: 70\r\n\
         Route: {}\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {cseq} {method}\r\n\
         Content-Length: 0\r\n\r\n",
        target.trim_matches(['<', '>']),
        phone.address,
        routes.join(", "),
        header(answer, "Call-ID"),
    )
}

/// The ACK of a refusal, of the same transaction (RFC 3261 §17.1.1.3).
pub fn ack_of_refusal(invite: &str, refusal: &str) -> String {
    let uri = invite.split(' ').nth(1).unwrap();
    let lines =
        ["Via", "From", "Call-ID"].map(|name| format!("{name}: {}\r\n", header(invite, name)));
    let cseq = header(invite, "CSeq").replace("INVITE", "ACK");
    format!(
        "ACK {uri} SIP/2.0\r\n{}To: {}\r\nCSeq: {cseq}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
        lines.concat(),
        header(refusal, "To"),
    )
}

/// The CANCEL of an INVITE (RFC 3261 §9.1).
pub fn cancel(invite: &str) -> String {
    let uri = invite.split(' ').nth(1).unwrap();
    let names = ["Via", "From", "To", "Call-ID"];
    let lines = names.map(|name| format!("{name}: {}\r\n", header(invite, name)));
    let cseq = header(invite, "CSeq").replace("INVITE", "CANCEL");
    format!(
        "CANCEL {uri} SIP/2.0\r\n{}CSeq: {cseq}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
        lines.concat()
    )
}

/// The first value of a header.
#[track_caller]
pub fn header(message: &str, name: &str) -> String {
    let prefix = format!("{name}: ");
    let mut lines = message
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix));
    lines
        .next()
        .unwrap_or_else(|| panic!("no {name} in:\n{message}"))
        .to_owned()
}
