//! A server on one thread in virtual time. Tests give it frames and take its
//! answers.

use crate::{exchange::Sent, wire::Wire};
use busyhour::{
    clock::Instant,
    runtime::{Runtime, Simulation},
};
use busyhour_server::server::{Accounts, Server, ServerConfig, ServerStats};
use busyhour_sip::auth::{Algorithm, HexDigest, Secret};
use busyhour_store::{DiskBehaviour, SimulatedDisk};
use std::{borrow::Cow, net::SocketAddr, sync::Arc, time::Duration};

pub const PASSWORD: &str = "wonder";

pub struct Host {
    pub runtime: Runtime,
    pub server: Server,
    pub disk: SimulatedDisk,
    /// Every datagram with its source and destination, in order.
    pub capture: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    sent: Arc<Sent>,
    lived: Duration,
}

/// Every user but `nobody` has an account; for `hashed` only hashes are known.
struct Users;

impl Accounts for Users {
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        let digest = HexDigest::from_hex(Algorithm::Md5, &"0".repeat(32)).unwrap();
        let secret = match username {
            "nobody" => return None,
            "hashed" => Secret::hashed([(Algorithm::Md5, digest)]),
            _ => Secret::plaintext(PASSWORD),
        };
        Some(Cow::Owned(secret))
    }
}

pub fn config() -> ServerConfig {
    ServerConfig {
        domains: vec!["example.com".to_owned()],
        accounts: Arc::new(Users),
        ..ServerConfig::default()
    }
}

impl Host {
    pub fn new() -> Self {
        Self::with(config())
    }

    pub fn with(config: ServerConfig) -> Self {
        let disk = SimulatedDisk::new(1, DiskBehaviour::default());
        Self::on(1, disk, config, Duration::ZERO)
    }

    /// A server that starts when `lived` has passed since the start of the first
    /// one.
    pub fn on(seed: u64, disk: SimulatedDisk, config: ServerConfig, lived: Duration) -> Self {
        let runtime = Runtime::simulated(seed);
        let clock = runtime.clock().clone();
        let calendar = clock.as_virtual().unwrap();
        calendar.step_calendar(lived.as_secs() as i64);
        let sent = Arc::new(Sent::default());
        let store = Box::new(disk.open(clock));
        let server = Server::start(runtime.clone(), config, sent.clone(), store).unwrap();
        Self {
            runtime,
            server,
            disk,
            capture: Vec::new(),
            sent,
            lived,
        }
    }

    /// The time since the start of the first server.
    pub fn now(&self) -> Duration {
        self.lived + (self.runtime.clock().now() - Instant::ZERO)
    }

    pub fn receive(&mut self, from: SocketAddr, bytes: &[u8]) {
        let datagram = self.runtime.buffers().copy_from(bytes).unwrap();
        self.capture.push((from, local(), bytes.to_vec()));
        self.server
            .iax2_datagram(busyhour_sip::Flow::udp(local(), from), &datagram);
        self.simulation().run_until_idle();
    }

    /// Gives the server a frame, lets the disk finish, and returns the answers.
    pub fn ask(&mut self, from: SocketAddr, frame: &Wire) -> Vec<Wire> {
        self.receive(from, &frame.encode());
        self.settle();
        self.answers(from)
    }

    /// As [`ask`](Self::ask), for exactly one answer.
    pub fn ask_one(&mut self, from: SocketAddr, frame: &Wire) -> Wire {
        let mut answers = self.ask(from, frame);
        assert_eq!(answers.len(), 1, "to {frame:?}: {answers:?}");
        answers.remove(0)
    }

    /// Lets the disk finish its work.
    pub fn settle(&mut self) {
        while let Some(due) = self.disk.next_due() {
            self.simulation().run_until(due);
            self.disk.run_due();
            self.simulation().run_until_idle();
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.simulation().run_for(time);
    }

    /// Returns what was sent; all of it must be to `to`.
    pub fn answers(&mut self, to: SocketAddr) -> Vec<Wire> {
        let sent = self.sent();
        assert!(sent.iter().all(|(remote, _)| *remote == to), "{sent:?}");
        sent.iter().map(|(_, bytes)| Wire::decode(bytes)).collect()
    }

    pub fn sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let sent = self.sent.take_all();
        let sent: Vec<_> = sent
            .iter()
            .map(|(flow, bytes)| (flow.remote, bytes.to_vec()))
            .collect();
        let captured = sent.iter().map(|(to, bytes)| (local(), *to, bytes.clone()));
        self.capture.extend(captured);
        sent
    }

    pub fn stats(&self) -> ServerStats {
        self.server.stats()
    }

    /// The contacts of every device, in the order of their addresses of record.
    pub fn contacts(&self) -> Vec<String> {
        let bindings = self.server.bindings(None, usize::MAX, None).bindings;
        let uris = bindings
            .iter()
            .map(|listed| listed.binding.contact.uri().to_owned());
        uris.collect()
    }

    pub fn simulation(&self) -> &Simulation {
        self.runtime.simulation().unwrap()
    }
}

pub fn local() -> SocketAddr {
    "192.0.2.1:4569".parse().unwrap()
}

pub fn device() -> SocketAddr {
    "192.0.2.7:4569".parse().unwrap()
}
