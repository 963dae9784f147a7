//! A telephone of a domain, with a user name and a password of its own, and the HTTP side.
#![allow(dead_code)] // each test program uses its own part

use crate::support::{
    ServerProcess,
    phone::{header, ok, proven},
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use ureq::Agent;

/// A telephone at an address of record, with what it logs in with.
pub struct Telephone {
    socket: UdpSocket,
    server: SocketAddr,
    pub user: String,
    pub domain: String,
    /// The user name of its credentials.
    pub login: String,
    pub password: String,
}

impl Telephone {
    pub fn new(server: &ServerProcess, address: &str, password: &str) -> Self {
        let (user, domain) = address.split_once('@').expect("user@domain");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("an address of loopback");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        Self {
            socket,
            server: server.sip,
            user: user.into(),
            domain: domain.into(),
            login: user.into(),
            password: password.into(),
        }
    }

    pub fn logging_in_as(self, login: &str) -> Self {
        let login = login.to_owned();
        Self { login, ..self }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }

    fn request(&self, method: &str, uri: &str, to: &str, headers: &str) -> String {
        let (user, domain, address) = (&self.user, &self.domain, self.address());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bKt{count};rport\r\n\
             From: <sip:{user}@{domain}>;tag=t{count}\r\n\
             To: <{to}>\r\n\
             Call-ID: {count}@{address}\r\n\
             CSeq: {count} {method}\r\n\
             Max-Forwards: 70\r\n\
             Contact: <sip:{user}@{address}>\r\n\
             {headers}Content-Length: 0\r\n\r\n"
        )
    }

    /// Sends a request, and answers the challenge if there is one; both answers.
    pub fn ask(&self, request: &str) -> (Option<String>, String) {
        let first = self.exchange(request);
        if !first.starts_with("SIP/2.0 401 ") && !first.starts_with("SIP/2.0 407 ") {
            return (None, first);
        }
        let proven = proven(request, &first, &self.login, &self.password, 1);
        let answer = self.exchange(&proven);
        (Some(first), answer)
    }

    /// The challenge and the answer to a REGISTER.
    pub fn register(&self) -> (Option<String>, String) {
        let uri = format!("sip:{}", self.domain);
        let aor = format!("sip:{}@{}", self.user, self.domain);
        self.ask(&self.request("REGISTER", &uri, &aor, ""))
    }

    /// A REGISTER that answers a challenge under a user name.
    pub fn proven_register(&self, login: &str) -> String {
        let (request, challenge) = self.challenged();
        proven(&request, &challenge, login, &self.password, 1)
    }

    /// The same with a nonce that nobody gave.
    pub fn forged_register(&self) -> String {
        let (request, challenge) = self.challenged();
        let (before, behind) = challenge.split_once("nonce=\"").expect("a nonce");
        let (nonce, behind) = behind.split_once('"').expect("its end");
        let forged = "0".repeat(nonce.len());
        let challenge = format!("{before}nonce=\"{forged}\"{behind}");
        proven(&request, &challenge, &self.login, &self.password, 1)
    }

    /// The answer to a REGISTER under the name of somebody else.
    pub fn guess_as(&self, login: &str) -> String {
        self.exchange(&self.proven_register(login))
    }

    fn challenged(&self) -> (String, String) {
        let uri = format!("sip:{}", self.domain);
        let aor = format!("sip:{}@{}", self.user, self.domain);
        let request = self.request("REGISTER", &uri, &aor, "");
        let challenge = self.exchange(&request);
        (request, challenge)
    }

    /// Registers; the status.
    pub fn registers(&self) -> u16 {
        status(&self.register().1)
    }

    /// The answer to a SUBSCRIBE for an address.
    pub fn subscribe(&self, event: &str, address: &str) -> u16 {
        let uri = format!("sip:{address}");
        let event = format!("Event: {event}\r\nExpires: 600\r\n");
        status(&self.ask(&self.request("SUBSCRIBE", &uri, &uri, &event)).1)
    }

    /// The answer to an INVITE for an address: the final one, or 100 if it goes on.
    pub fn call(&self, address: &str) -> u16 {
        let uri = format!("sip:{address}");
        status(&self.ask(&self.request("INVITE", &uri, &uri, "")).1)
    }

    /// The next NOTIFY, which is answered.
    pub fn notified(&self) -> String {
        loop {
            let message = self.hear();
            if message.starts_with("NOTIFY ") {
                self.send(&ok(&message));
                return message;
            }
        }
    }

    /// Whether an INVITE arrives.
    pub fn rings(&self) -> String {
        loop {
            let message = self.hear();
            if message.starts_with("INVITE ") {
                return message;
            }
        }
    }

    fn hear(&self) -> String {
        let mut room = vec![0; 65_536];
        let len = self.socket.recv(&mut room).expect("a message in time");
        room.truncate(len);
        String::from_utf8(room).expect("text")
    }

    pub fn send(&self, message: &str) {
        let sent = self.socket.send_to(message.as_bytes(), self.server);
        sent.expect("room in the kernel's buffer");
    }

    pub fn exchange(&self, request: &str) -> String {
        self.send(request);
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "no answer to:\n{request}");
            let message = self.hear();
            let is_it = header(&message, "CSeq") == header(request, "CSeq");
            if message.starts_with("SIP/2.0 ") && is_it {
                return message;
            }
            if message.starts_with("NOTIFY ") {
                self.send(&ok(&message));
            }
        }
    }
}

pub fn status(answer: &str) -> u16 {
    let code = answer.split(' ').nth(1).expect("a status");
    code.parse().expect("a number")
}

/// The HTTP interface of a server, with a token.
pub struct Api {
    agent: Agent,
    base: String,
    token: String,
}

impl Api {
    pub fn new(server: &ServerProcess, token: &str) -> Self {
        let config = Agent::config_builder().http_status_as_error(false);
        Self {
            agent: config.timeout_global(Some(PATIENCE)).build().into(),
            base: format!("http://{}", server.http),
            token: token.into(),
        }
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        let request = self.agent.get(format!("{}{path}", self.base));
        answer(request.header("authorization", self.bearer()).call())
    }

    /// What a stream of events says until a line has `last`.
    pub fn stream_until(&self, path: &str, last: &str) -> String {
        let request = self.agent.get(format!("{}{path}", self.base));
        let response = request.header("authorization", self.bearer()).call();
        let body = response.expect("an answer").into_body();
        let mut text = String::new();
        for line in BufReader::new(body.into_reader()).lines() {
            text.push_str(&line.expect("text"));
            text.push('\n');
            if text.contains(last) {
                return text;
            }
        }
        panic!("no {last} in {text}");
    }

    pub fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.agent.put(format!("{}{path}", self.base));
        let request = request.header("authorization", self.bearer());
        answer(request.send(&body.to_string()))
    }

    pub fn delete(&self, path: &str) -> u16 {
        let request = self.agent.delete(format!("{}{path}", self.base));
        answer(request.header("authorization", self.bearer()).call()).0
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }
}

fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> (u16, Value) {
    let mut response = response.expect("an answer");
    let text = response.body_mut().read_to_string().expect("text");
    let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (response.status().as_u16(), value)
}

static COUNT: AtomicU32 = AtomicU32::new(1);
const PATIENCE: Duration = Duration::from_secs(60);
