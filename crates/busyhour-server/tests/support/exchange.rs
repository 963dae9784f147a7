//! What tests exchange with a server in virtual time: its accounts, the
//! messages that it sends, and the answers to them.
#![allow(dead_code)] // each test file uses its own part

use busyhour::buffer::Buffer;
use busyhour_server::server::{
    Accounts, Authentication, CredentialJudgement, Network, SendError, ServerConfig,
};
use busyhour_sip::{
    DigestChallenge, Flow, HeaderName, Message, Transport,
    auth::{Answer, Secret},
};
use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

/// A network that keeps what is sent, and what it is told of credentials.
#[derive(Default)]
pub struct Sent(Mutex<Vec<(Flow, Buffer)>>, Mutex<Vec<CredentialJudgement>>);

impl Network for Sent {
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        self.0.lock().unwrap().push((flow, datagram));
        Ok(())
    }

    fn note_credentials(&self, _flow: Flow, judgement: CredentialJudgement) {
        self.1.lock().unwrap().push(judgement);
    }

    fn local_to(&self, _transport: Transport, _remote: SocketAddr) -> Option<SocketAddr> {
        Some(([192, 0, 2, 1], 5060).into())
    }
}

impl Sent {
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    /// What was sent since the last call, with the flow of each message.
    pub fn take_all(&self) -> Vec<(Flow, Buffer)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The same as text.
    pub fn take(&self) -> Vec<String> {
        let sent = self.take_all();
        sent.iter().map(|(_, datagram)| text(datagram)).collect()
    }

    /// What was said of credentials since the last call.
    pub fn take_judged(&self) -> Vec<CredentialJudgement> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }

    /// Removes and returns the last message, which need not be text; the others
    /// stay.
    #[track_caller]
    pub fn take_last(&self) -> Buffer {
        let (_, datagram) = self.0.lock().unwrap().pop().expect("a message was sent");
        datagram
    }

    /// Removes the messages and returns where they were sent.
    pub fn take_remotes(&self) -> Vec<SocketAddr> {
        let sent = self.take_all();
        sent.iter().map(|(flow, _)| flow.remote).collect()
    }

    /// Removes and returns the first response; the others stay.
    #[track_caller]
    pub fn take_response(&self) -> String {
        let mut sent = self.0.lock().unwrap();
        let is_response = |(_, bytes): &(Flow, Buffer)| bytes.starts_with(b"SIP/2.0 ");
        let place = sent.iter().position(is_response).expect("a response");
        text(&sent.remove(place).1)
    }
}

/// A network without receivers.
pub struct Silent;

impl Network for Silent {
    fn send(&self, _flow: Flow, _datagram: Buffer) -> Result<(), SendError> {
        Ok(())
    }
}

/// Alice, bob and carol, whose passwords are their names; bob shares alice's mailbox.
struct Users;

impl Accounts for Users {
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        let is_known = ["alice", "bob", "carol"].contains(&username);
        is_known.then(|| Cow::Owned(Secret::plaintext(username)))
    }

    fn mailbox(&self, username: &str) -> Option<String> {
        (username == "bob").then(|| "alice".to_owned())
    }
}

pub fn open_config() -> ServerConfig {
    ServerConfig {
        domains: vec!["example.com".to_owned()],
        authentication: Authentication::Open,
        ..ServerConfig::default()
    }
}

/// A configuration with the accounts of alice, bob and carol.
pub fn digest_config() -> ServerConfig {
    ServerConfig {
        authentication: Authentication::default(),
        accounts: Arc::new(Users),
        ..open_config()
    }
}

/// The 200 to a request.
pub fn ok(request: &str) -> String {
    answer(request, "200 OK")
}

pub fn answer(request: &str, status: &str) -> String {
    let head = request.split("\r\n\r\n").next().unwrap();
    let wanted = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let kept = head
        .lines()
        .filter(|line| wanted.iter().any(|name| line.starts_with(name)));
    let lines: Vec<_> = kept.collect();
    format!(
        "SIP/2.0 {status}\r\n{}\r\nContent-Length: 0\r\n\r\n",
        lines.join("\r\n")
    )
}

/// The request with credentials for the first challenge, which are used for the
/// `count`th time.
pub fn proven(request: &str, challenge: &str, user: &str, password: &str, count: u32) -> String {
    let proof = proof(request, challenge, user, password).counted(count, "cnonce");
    with_proof(request, &proof.to_string())
}

/// Credentials for the first challenge.
pub fn proof<'a>(
    request: &'a str,
    challenge: &'a str,
    user: &'a str,
    password: &str,
) -> Answer<'a> {
    let (method, rest) = request.split_once(' ').unwrap();
    let (uri, _) = rest.split_once(' ').unwrap();
    let message = Message::parse(challenge.as_bytes()).unwrap();
    let value = message.header(HeaderName::WwwAuthenticate).unwrap();
    let challenge = DigestChallenge::parse(value).flatten().unwrap();
    Answer::new(&challenge, user, password, method, uri).unwrap()
}

pub fn with_proof(request: &str, proof: &str) -> String {
    let line = format!("Authorization: {proof}\r\nContent-Length");
    request.replace("Content-Length", &line)
}

fn text(datagram: &Buffer) -> String {
    String::from_utf8(datagram.to_vec()).unwrap()
}
