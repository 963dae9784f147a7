//! How the server is seen from outside, as a STUN server (RFC 5389) that the operator names tells.
//!
//! The question leaves from the SIP port, unless a running server has that, and then from another
//! one of the same address. What nobody can tell from inside is whether a firewall lets in who was
//! not asked first.

use super::Finding;
use crate::config::Config;
use busyhour_sip::stun;
use std::{
    hash::{BuildHasher, RandomState},
    net::{SocketAddr, ToSocketAddrs, UdpSocket},
    time::{Duration, Instant},
};

/// What the servers say, each of which is a host with or without a port.
pub(super) fn finding(config: &Config, servers: &[String]) -> Option<Finding> {
    if servers.is_empty() {
        return None;
    }
    let mut view = match OutsideView::new(config) {
        Ok(view) => view,
        Err(error) => return Some(Finding::warning(CHECK, error, ADVICE_SOCKET)),
    };
    for server in servers {
        if let Err(error) = view.ask(server) {
            return Some(Finding::warning(CHECK, error, ADVICE_SILENT));
        }
    }
    Some(view.judge(config))
}

/// One socket, and by which addresses it was seen.
struct OutsideView {
    socket: UdpSocket,
    /// Ours towards the server that was asked last.
    local: SocketAddr,
    has_sip_port: bool,
    seen_as: Vec<SocketAddr>,
}

impl OutsideView {
    fn new(config: &Config) -> Result<Self, String> {
        let listen = config.sip.listen.first().ok_or("SIP is not served")?;
        let other_port = SocketAddr::new(listen.ip(), 0);
        let socket = UdpSocket::bind(listen).map(|socket| (socket, true));
        let socket = socket.or_else(|_| Ok((UdpSocket::bind(other_port)?, false)));
        let (socket, has_sip_port) = socket.map_err(|error: std::io::Error| error.to_string())?;
        Ok(Self {
            local: socket.local_addr().map_err(|error| error.to_string())?,
            socket,
            has_sip_port: has_sip_port && listen.port() != 0,
            seen_as: Vec::new(),
        })
    }

    fn ask(&mut self, server: &str) -> Result<(), String> {
        let silent = |error: std::io::Error| format!("{server} does not answer: {error}");
        let address = self.resolve(server)?;
        let transaction = random_transaction();
        let mut request = Vec::new();
        stun::write_request(transaction, &mut request);
        self.socket.connect(address).map_err(silent)?;
        self.local = self.socket.local_addr().map_err(silent)?;
        for wait in WAITS {
            self.socket.send(&request).map_err(silent)?;
            if let Some(seen_as) = self.hear(transaction, wait) {
                self.seen_as.push(seen_as);
                return Ok(());
            }
        }
        Err(format!("{server} does not answer"))
    }

    /// The first address of the family of ours.
    fn resolve(&self, server: &str) -> Result<SocketAddr, String> {
        let found = match server.parse::<SocketAddr>() {
            Ok(address) => vec![address],
            Err(_) => resolve_name(server)?,
        };
        let mut found = found.into_iter();
        let is_of_family = |address: &SocketAddr| address.is_ipv4() == self.local.is_ipv4();
        let found = found.find(is_of_family);
        found.ok_or_else(|| format!("{server} has no address of the family of sip.listen"))
    }

    fn hear(&self, transaction: [u8; 12], wait: Duration) -> Option<SocketAddr> {
        let until = Instant::now() + wait;
        let mut answer = [0; 1500];
        loop {
            let left = until.checked_duration_since(Instant::now())?;
            self.socket
                .set_read_timeout(Some(left.max(Duration::from_millis(1))))
                .ok()?;
            let length = self.socket.recv(&mut answer).ok()?;
            let seen_as = stun::mapped_address(&answer[..length], transaction);
            if seen_as.is_some() {
                return seen_as;
            }
        }
    }

    fn judge(&self, config: &Config) -> Finding {
        let (Some(first), local) = (self.seen_as.first(), self.local) else {
            return Finding::good(CHECK, "nobody was asked");
        };
        let seen = format!("seen from outside as {first}");
        if *first == local {
            return Finding::good(CHECK, format!("{seen}, as it is: nothing translates it"));
        }
        if self.seen_as.iter().any(|other| other != first) {
            let others: Vec<_> = self.seen_as.iter().map(ToString::to_string).collect();
            return Finding::warning(
                CHECK,
                format!("each server sees another address: {}", others.join(", ")),
                "the translation gives each destination its own port: forward the SIP ports to this machine, \
                 and set sip.advertised",
            );
        }
        let port = match (self.has_sip_port, first.port() == local.port()) {
            (true, true) => ", with the port of SIP",
            (true, false) => ", with another port than that of SIP",
            (false, _) => ", asked from another port than that of SIP, which is in use",
        };
        let translated = format!("{seen}{port}; this machine calls itself {local}");
        match config.sip.advertised.to(first.ip()) {
            Some(named) if named.ip() == first.ip() => Finding::good(
                CHECK,
                format!("{translated}, and sip.advertised says {named}"),
            ),
            Some(named) => Finding::warning(
                CHECK,
                format!("{translated}, and sip.advertised says {named}"),
                "telephones outside are told an address that does not lead here: set sip.advertised",
            ),
            None => Finding::warning(
                CHECK,
                translated,
                format!(
                    "for telephones outside forward the SIP ports to this machine, and set sip.advertised = \
                     \"{}:{}\"",
                    bracketed(*first),
                    config.sip.listen.first().map_or(5060, SocketAddr::port)
                ),
            ),
        }
    }
}

fn resolve_name(server: &str) -> Result<Vec<SocketAddr>, String> {
    let unknown = |error: std::io::Error| format!("{server} cannot be resolved: {error}");
    let has_port = server
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let found = match has_port {
        true => server.to_socket_addrs(),
        false => (server, STUN_PORT).to_socket_addrs(),
    };
    Ok(found.map_err(unknown)?.collect())
}

fn bracketed(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// The keys of hash tables come from the operating system.
fn random_transaction() -> [u8; 12] {
    let random = [0, 1].map(|part| RandomState::new().hash_one(part).to_be_bytes());
    let mut transaction = [0; 12];
    for (byte, random) in transaction.iter_mut().zip(random.as_flattened()) {
        *byte = *random;
    }
    transaction
}

const CHECK: &str = "outside";
const ADVICE_SOCKET: &str = "mend what is said of the sockets";
const ADVICE_SILENT: &str =
    "name another STUN server, or let datagrams to it through the firewall and back";
const STUN_PORT: u16 = 3478;
/// RFC 5389 §7.2.1, but not to the end: who does not answer the third one is not waited for.
const WAITS: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
];
