//! What devices and watchers share: time, client transactions, answers to
//! challenges.

use crate::random::Random;
use busyhour_sip::{DigestChallenge, HeaderName, Message, auth::Answer};
use std::net::SocketAddr;

pub const SECOND: u64 = 1_000_000_000;
pub const MILLISECOND: u64 = 1_000_000;
pub const NEVER: u64 = u64::MAX;
pub const REALM: &str = "example.com";
pub const PASSWORD: &str = "secret";
/// A client gives up after 64 × T1; after this time no copy of its request
/// to one server exists any more.
pub const DEAD_AFTER: u64 = 32 * SECOND + DELAY_MAX + STALL_MAX;
/// The longest delay of a datagram.
pub const DELAY_MAX: u64 = 3 * SECOND;
/// The longest time of two transactions of the disk, and a margin.
pub const STALL_MAX: u64 = 5 * SECOND;

/// What a device or watcher knows of the world, and what it sends.
pub struct Context<'w> {
    pub now: u64,
    pub random: &'w mut Random,
    pub sent: &'w mut Vec<Vec<u8>>,
    /// The faults have ended: nothing new is begun.
    pub is_quiet: bool,
    /// After this time no copy of a request exists any more.
    pub dead_after: u64,
}

/// Where clients are: they act at an address, and what they send goes out from it.
pub trait ClientNetwork {
    fn now(&self) -> u64;
    fn random(&mut self) -> &mut Random;
    fn act<R>(&mut self, from: SocketAddr, act: impl FnOnce(&mut Context<'_>) -> R) -> R;
    /// Who sends something of its own may do so to another server than before.
    fn perhaps_change_server(&mut self, client: SocketAddr);
}

/// A request that is retransmitted until it is answered or given up.
pub struct Transaction {
    pub branch: String,
    pub first_sent_at: u64,
    request: Vec<u8>,
    interval: u64,
    resend_at: u64,
}

impl Transaction {
    pub fn send(branch: String, request: String, context: &mut Context<'_>) -> Self {
        let request = request.into_bytes();
        context.sent.push(request.clone());
        Self {
            branch,
            first_sent_at: context.now,
            request,
            interval: SECOND / 2,
            resend_at: context.now + SECOND / 2,
        }
    }

    pub fn next_wake(&self) -> u64 {
        self.resend_at.min(self.gives_up_at())
    }

    pub fn is_hopeless(&self, now: u64) -> bool {
        now >= self.gives_up_at()
    }

    pub fn resend(&mut self, context: &mut Context<'_>) {
        if context.now >= self.resend_at {
            context.sent.push(self.request.clone());
            self.interval = (2 * self.interval).min(4 * SECOND);
            self.resend_at = context.now + self.interval;
        }
    }

    pub fn is_answered_by(&self, response: &Message<'_>) -> bool {
        let branch = response.via().ok().and_then(|via| via.branch());
        branch == Some(&self.branch)
    }

    fn gives_up_at(&self) -> u64 {
        self.first_sent_at + 32 * SECOND
    }
}

/// The last challenge; the next request already contains the answer to it.
#[derive(Default)]
pub struct Credentials {
    challenge: Option<String>,
    /// The header of the answer.
    header: &'static str,
    count: u32,
}

impl Credentials {
    pub fn challenged(&mut self, response: &Message<'_>) {
        let (name, header) = match response.status() {
            Some(407) => (HeaderName::ProxyAuthenticate, "Proxy-Authorization"),
            _ => (HeaderName::WwwAuthenticate, "Authorization"),
        };
        self.challenge = response.header(name).map(str::to_owned);
        (self.header, self.count) = (header, 0);
    }

    /// The line with the answer, or nothing before the first challenge.
    pub fn line(&mut self, user: &str, method: &str, uri: &str) -> String {
        let Some(challenge) = &self.challenge else {
            return String::new();
        };
        let challenge = DigestChallenge::parse(challenge).flatten().unwrap();
        self.count += 1;
        let answer = Answer::new(&challenge, user, PASSWORD, method, uri)
            .unwrap()
            .counted(self.count, "cnonce");
        format!("{}: {answer}\r\n", self.header)
    }
}

/// A response to a request of the server.
pub fn response(request: &Message<'_>, status: &str) -> Vec<u8> {
    let line = |name: HeaderName| {
        let value = request.header(name).unwrap();
        format!("{}: {value}\r\n", name.as_str())
    };
    let head: String = [
        HeaderName::Via,
        HeaderName::From,
        HeaderName::To,
        HeaderName::CallId,
        HeaderName::CSeq,
    ]
    .map(line)
    .concat();
    format!("SIP/2.0 {status}\r\n{head}Content-Length: 0\r\n\r\n").into_bytes()
}

pub fn address(network: u8, number: usize) -> SocketAddr {
    SocketAddr::from(([10, network, (number >> 8) as u8, number as u8], 5060))
}
