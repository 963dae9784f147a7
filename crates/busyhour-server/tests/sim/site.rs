//! Where servers run, one after the other: time, the machine with its disk, and the network
//! to it. Who is at the other end of the network is the business of a world.

use crate::{
    client::{ClientNetwork, Context, DEAD_AFTER, NEVER, SECOND, address},
    device::listed,
    life::{Life, Machine},
    network::{Faults, Network, Packet},
    random::Random,
};
use busyhour_server::server::ServerConfig;
use busyhour_sip::{Message, Method};
use busyhour_store::{DiskBehaviour, SimulatedDisk};
use std::{collections::HashSet, net::SocketAddr, time::Duration};

pub struct Site {
    pub now: u64,
    pub random: Random,
    pub network: Network,
    pub disk: SimulatedDisk,
    pub is_quiet: bool,
    pub is_logged: bool,
    /// When each server was started.
    pub starts: Vec<u64>,
    seed: u64,
    config: ServerConfig,
    machine: Machine,
    life: Option<Life>,
    life_count: u64,
    /// The branches of 200s that were sent at least once.
    acknowledged: HashSet<String>,
    trace: u64,
}

impl Site {
    pub fn new(seed: u64, mut random: Random, faults: Faults, config: ServerConfig) -> Self {
        let disk = SimulatedDisk::new(random.next(), disk_behaviour(&mut random));
        Self {
            now: 0,
            network: Network::new(faults),
            disk,
            is_quiet: false,
            is_logged: false,
            starts: Vec::new(),
            seed,
            config,
            machine: Machine::default(),
            life: None,
            life_count: 0,
            acknowledged: HashSet::new(),
            trace: seed,
            random,
        }
    }

    /// When something happens to the server or in the network.
    pub fn next_event(&self) -> u64 {
        let life = self.life.as_ref();
        let timer = life.and_then(Life::next_timer);
        let disk = life.and_then(|life| Some(life.in_world(self.disk.next_due()?)));
        let events = [timer, disk, self.network.next_at()];
        events.into_iter().flatten().min().unwrap_or(NEVER)
    }

    pub fn run_server(&mut self) {
        let Some(life) = &self.life else {
            return;
        };
        life.run_until(self.now);
        while self.disk.run_due() > 0 {
            life.run_until_idle();
        }
        for (flow, bytes) in life.sent() {
            self.check_acknowledgement(&bytes);
            self.transmit(flow.local, flow.remote, bytes);
        }
    }

    /// The next datagram for somebody else than the server; those for the server arrive.
    pub fn take_packet(&mut self) -> Option<Packet> {
        while let Some(packet) = self.network.take(self.now) {
            self.trace_packet(&packet);
            self.log(|| summary(packet.from, packet.to, &packet.bytes));
            if packet.to != server_address() {
                return Some(packet);
            }
            if let Some(life) = &self.life {
                life.deliver(packet.from, packet.to, &packet.bytes);
                // Sometimes several datagrams arrive before the server
                // processes the first.
                if self.random.permille(500) {
                    self.run_server();
                }
            }
        }
        None
    }

    fn transmit(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let (now, random) = (self.now, &mut self.random);
        let stranger = [address(9, 9), server_address()];
        self.network.spoil(now, random, stranger, &bytes);
        let line = self.is_logged.then(|| summary(from, to, &bytes));
        if !self.network.transmit(now, random, [from, to], bytes) {
            self.log(|| format!("lost {}", line.unwrap_or_default()));
        }
    }

    /// From now on nothing arrives.
    pub fn deafen(&mut self) {
        self.network.clear();
        self.network.faults.loss_permille = 1000;
    }

    pub fn start(&mut self) {
        let seed = mix(self.seed, self.life_count);
        self.life_count += 1;
        self.starts.push(self.now);
        let config = self.config.clone();
        let life = Life::begin(seed, &self.disk, config, self.now, &self.machine);
        self.life = Some(life);
        self.run_server();
    }

    pub fn set_clock(&mut self, wrong_by_s: i64) {
        if let Some(life) = &self.life {
            life.step_clock(wrong_by_s - self.machine.wrong_by_s);
        }
        self.machine.wrong_by_s = wrong_by_s;
    }

    pub fn reboot(&mut self) {
        self.machine.reboot(self.now);
    }

    pub fn crash(&mut self) {
        self.disk.crash();
        self.end_life();
    }

    pub fn shut_down(&mut self) {
        if let Some(life) = &self.life {
            life.shut_down();
        }
        self.run_server();
        // The disk finishes what it has begun; the process waits for that.
        while let (Some(life), Some(due)) = (&self.life, self.disk.next_due()) {
            let due = life.in_world(due);
            self.now = self.now.max(due);
            self.run_server();
        }
        self.end_life();
    }

    /// The faults have ended.
    pub fn quiet(&mut self) {
        self.is_quiet = true;
        self.network.faults = Faults::NONE;
        self.disk.set_behaviour(DiskBehaviour::default());
    }

    pub fn life(&self) -> &Life {
        self.life.as_ref().expect("a server")
    }

    /// The end of the world: a hash of all that happened.
    pub fn end(mut self) -> u64 {
        self.end_life();
        self.trace
    }

    fn end_life(&mut self) {
        if let Some(life) = self.life.take() {
            self.trace = mix(self.trace, life.end());
        }
    }

    /// What a 200 to a REGISTER or SUBSCRIBE acknowledges must be on disk when it is sent
    /// for the first time.
    fn check_acknowledgement(&mut self, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else {
            panic!("the server sent {:?}", String::from_utf8_lossy(bytes));
        };
        let method = message.cseq().map(|cseq| cseq.method);
        let is_subscribe = method == Ok(Method::Subscribe) && message.expires() != Ok(Some(0));
        if message.status() != Some(200) || !(is_subscribe || method == Ok(Method::Register)) {
            return;
        }
        let branch = message.via().unwrap().branch().unwrap_or("").to_owned();
        if !self.acknowledged.insert(branch) {
            return;
        }
        let durable = self.disk.contents();
        if is_subscribe {
            let tag = message.to().unwrap().tag().unwrap();
            let mut rows = durable.soft_states.iter();
            let is_durable = rows.any(|row| row.value.contains(tag));
            return assert!(is_durable, "{tag} was acknowledged and is not durable");
        }
        for (contact, _) in listed(&message) {
            // Besides it there may be the row of an expired binding whose removal
            // failed.
            let mut rows = durable.bindings.iter();
            let is_durable = rows.any(|row| row.contact.uri() == contact && !row.lease.removed);
            assert!(is_durable, "{contact} was acknowledged and is not durable");
        }
    }

    fn trace_packet(&mut self, packet: &Packet) {
        let mut trace = mix(self.trace, packet.at);
        for byte in &packet.bytes {
            trace = mix(trace, u64::from(*byte));
        }
        self.trace = trace;
    }

    pub fn log(&self, line: impl FnOnce() -> String) {
        if self.is_logged {
            println!("{:>12.6} {}", self.now as f64 / SECOND as f64, line());
        }
    }
}

impl ClientNetwork for Site {
    /// There is one.
    fn perhaps_change_server(&mut self, _client: SocketAddr) {}

    fn now(&self) -> u64 {
        self.now
    }

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn act<R>(&mut self, from: SocketAddr, act: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let mut sent = Vec::new();
        let mut context = Context {
            now: self.now,
            random: &mut self.random,
            sent: &mut sent,
            is_quiet: self.is_quiet,
            dead_after: DEAD_AFTER,
        };
        let result = act(&mut context);
        for bytes in sent {
            self.transmit(from, server_address(), bytes);
        }
        result
    }
}

fn disk_behaviour(random: &mut Random) -> DiskBehaviour {
    DiskBehaviour {
        transaction_max: Duration::from_millis(random.pick(&[1, 20, 20, 2000])),
        removal_delay_max: Duration::from_secs(random.pick(&[0, 1, 10, 60])),
        failures_per_mille: random.pick(&[0, 0, 50, 300]),
        eager_bindings_max: random.pick(&[usize::MAX, 0, 3]),
        ..DiskBehaviour::default()
    }
}

pub fn summary(from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = |name: &str| text.lines().find(|line| line.starts_with(name));
    let first = text.lines().next().unwrap_or_default();
    let cseq = line("CSeq").unwrap_or_default();
    let rest: Vec<_> = ["Call-ID", "Contact", "Expires", "Subscription-State"]
        .into_iter()
        .filter_map(line)
        .collect();
    format!("{from} -> {to} {first} | {cseq} | {}", rest.join(" | "))
}

/// One step of FNV-1a, with a word instead of a byte.
pub fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3)
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 5060))
}
