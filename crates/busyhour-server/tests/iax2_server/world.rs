//! Devices, a network that loses, doubles and reorders, a disk that is slow and
//! fails, and a plug that is pulled; all in virtual time, from one seed.
//!
//! What must hold, whatever the seed:
//!
//! - every frame of the server is sound;
//! - a REGACK leaves only when what it says is durable;
//! - when quiet has returned, the registrar has what each device was told last;
//! - in the end there is no call, no record, and no pinned buffer.

use crate::device::{Belief, Device, GIVE_UP};
use crate::faults::{DELAY_MAX, Faults, SECOND};
use crate::host::{Host, config, local};
use crate::random::Random;
use crate::wire::*;
use busyhour_registrar::{Lease, RegistrationPolicy};
use busyhour_server::server::ServerConfig;
use busyhour_store::{DiskBehaviour, SimulatedDisk};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    net::SocketAddr,
    time::Duration,
};

#[test]
fn every_seed_keeps_what_was_acknowledged() {
    let first = number("BUSYHOUR_SIM_FIRST").unwrap_or(0);
    let count = number("BUSYHOUR_SIM_SEEDS").unwrap_or(SEEDS);
    let mut accepted = 0;
    for seed in first..first + count {
        let run = std::panic::AssertUnwindSafe(|| World::new(seed).run());
        match std::panic::catch_unwind(run) {
            Ok((of_seed, _)) => accepted += of_seed,
            Err(panic) => {
                eprintln!("seed {seed} failed; BUSYHOUR_SIM_FIRST={seed} begins with it");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(accepted > 2 * count, "{accepted} registrations are too few");
}

#[test]
fn one_seed_is_one_trace() {
    for seed in [3, 14, 159] {
        assert_eq!(
            World::new(seed).run(),
            World::new(seed).run(),
            "seed {seed}"
        );
    }
    assert_ne!(World::new(3).run().1, World::new(4).run().1);
}

struct World {
    seed: u64,
    random: Random,
    faults: Faults,
    disk: SimulatedDisk,
    host: Host,
    devices: Vec<Device>,
    packets: BinaryHeap<Reverse<Packet>>,
    packet_count: u64,
    crashes: Vec<u64>,
    /// The calls whose REGACK was sent at least once.
    acknowledged: HashSet<(SocketAddr, u16, u16)>,
    accepted: u64,
    trace: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    at: u64,
    number: u64,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let disk = SimulatedDisk::new(random.next(), behaviour(&mut random));
        let count = random.within(1, 6) as usize;
        let crash = |_| random.within(5, 100) * SECOND;
        let mut crashes: Vec<u64> = (0..seed % 3).map(crash).collect();
        crashes.sort_unstable();
        Self {
            seed,
            faults: Faults::draw(&mut random),
            host: Host::on(seed, disk.clone(), small(), Duration::ZERO),
            devices: (0..count).map(|n| Device::new(n, &mut random)).collect(),
            disk,
            packets: BinaryHeap::new(),
            packet_count: 0,
            crashes,
            acknowledged: HashSet::new(),
            accepted: 0,
            trace: seed,
            random,
        }
    }

    /// Runs to the end and checks; returns the number of registrations, and a
    /// hash of all that happened.
    fn run(mut self) -> (u64, u64) {
        self.run_until(120 * SECOND);
        self.faults = Faults::NONE;
        self.disk.set_behaviour(DiskBehaviour::default());
        // Until the last copy of an old frame is gone.
        let quiet = 120 * SECOND + 2 * GIVE_UP + DELAY_MAX + 30 * SECOND;
        self.devices.iter_mut().for_each(|d| d.call_at(u64::MAX));
        self.run_until_idle(quiet);
        self.devices.iter_mut().for_each(|d| d.call_at(quiet));
        self.run_until_idle(quiet + 5 * SECOND);
        self.check_beliefs();
        self.end(quiet + 5 * SECOND)
    }

    /// Devices end their calls, and begin no others.
    fn run_until_idle(&mut self, end: u64) {
        while let Some(next) = self.next_event().filter(|next| *next <= end) {
            self.advance(next);
            for device in self.devices.iter_mut().filter(|device| device.is_idle()) {
                if device.next_wake() > next {
                    device.call_at(u64::MAX);
                }
            }
        }
        self.advance(end);
    }

    fn run_until(&mut self, end: u64) {
        while let Some(next) = self.next_event().filter(|next| *next <= end) {
            self.advance(next);
        }
        self.advance(end);
    }

    fn next_event(&self) -> Option<u64> {
        let lived = self.begun_at();
        let timer = self.host.runtime.timers().next_deadline();
        let disk = self.disk.next_due();
        let [timer, disk] = [timer, disk].map(|at| at.map(|at| lived + at.as_nanos()));
        let packet = self.packets.peek().map(|Reverse(packet)| packet.at);
        let device = self.devices.iter().map(Device::next_wake).min();
        let crash = self.crashes.first().copied();
        let next = [timer, disk, packet, device, crash];
        next.into_iter().flatten().min()
    }

    /// Does everything that is due at `now`, always in the same order.
    fn advance(&mut self, now: u64) {
        self.run_host(now);
        if self.crashes.first().is_some_and(|at| *at <= now) {
            self.crash();
        }
        while let Some(packet) = self.next_packet(now) {
            self.deliver(now, &packet);
        }
        for index in 0..self.devices.len() {
            if self.devices[index].next_wake() <= now {
                let mut out = Vec::new();
                self.devices[index].wake(now, &mut self.random, &mut out);
                self.transmit_of(index, now, &out);
            }
        }
        self.run_host(now);
    }

    fn run_host(&mut self, now: u64) {
        let lived = self.begun_at();
        let end = busyhour::clock::Instant::from_nanos(now - lived);
        self.host.simulation().run_until(end);
        while self.disk.run_due() > 0 {
            self.host.simulation().run_until_idle();
        }
        for (to, bytes) in self.host.sent() {
            self.check_acknowledgement(to, &Wire::decode(&bytes));
            self.transmit(now, local(), to, bytes);
        }
    }

    /// A server starts at a whole second, since the calendar has steps of a
    /// second.
    fn crash(&mut self) {
        let at = self.crashes.remove(0);
        self.accepted += self.host.stats().iax2.accepted;
        self.disk.crash();
        let lived = Duration::from_secs(at / SECOND);
        let seed = self.seed ^ at;
        self.host = Host::on(seed, self.disk.clone(), small(), lived);
    }

    fn begun_at(&self) -> u64 {
        let clock = self.host.runtime.clock().now().as_nanos();
        self.host.now().as_nanos() as u64 - clock
    }

    fn next_packet(&mut self, now: u64) -> Option<Packet> {
        let is_due = |packet: &Reverse<Packet>| packet.0.at <= now;
        self.packets.peek().filter(|packet| is_due(packet))?;
        self.packets.pop().map(|Reverse(packet)| packet)
    }

    fn deliver(&mut self, now: u64, packet: &Packet) {
        self.trace = packet
            .bytes
            .iter()
            .fold(mix(self.trace, packet.at), |trace, byte| {
                mix(trace, u64::from(*byte))
            });
        if packet.to == local() {
            return self.host.receive(packet.from, &packet.bytes);
        }
        let frame = Wire::decode(&packet.bytes);
        let is_it = |device: &Device| device.address == packet.to;
        let index = self.devices.iter().position(is_it).expect("a device");
        let mut out = Vec::new();
        self.devices[index].receive(now, &frame, &mut self.random, &mut out);
        self.transmit_of(index, now, &out);
    }

    fn transmit_of(&mut self, index: usize, now: u64, frames: &[Wire]) {
        let from = self.devices[index].address;
        for frame in frames {
            self.transmit(now, from, local(), frame.encode());
        }
    }

    fn transmit(&mut self, now: u64, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        for at in self.faults.arrivals(now, &mut self.random) {
            self.packet_count += 1;
            let (number, bytes) = (self.packet_count, bytes.clone());
            self.packets.push(Reverse(Packet {
                at,
                number,
                from,
                to,
                bytes,
            }));
        }
    }

    /// What the first REGACK of a call acknowledges must be on disk.
    fn check_acknowledgement(&mut self, to: SocketAddr, frame: &Wire) {
        let call = (to, frame.scall, frame.dcall);
        if frame.subclass != REGACK || !self.acknowledged.insert(call) {
            return;
        }
        let uri = format!("iax:{}@{to}", frame.text(IE_USERNAME));
        let durable = self.disk.contents();
        let mut rows = durable.bindings.iter();
        // The row of an expired binding may stay if its removal failed; no start
        // loads it.
        let unix = self.host.runtime.clock().unix_time();
        let is_valid = |lease: &Lease| !lease.removed && !lease.remaining(unix).is_zero();
        let is_there = rows.any(|row| row.contact.uri() == uri && is_valid(&row.lease));
        let is_registered = frame.element(IE_REFRESH).is_some();
        assert_eq!(is_there, is_registered, "{uri} was acknowledged: {frame:?}");
    }

    fn check_beliefs(&self) {
        let contacts = self.host.contacts();
        for device in &self.devices {
            let is_there = contacts.contains(&device.contact());
            match device.belief {
                Belief::Registered { .. } => assert!(is_there, "{} is lost", device.user),
                Belief::Released => assert!(!is_there, "{} is still there", device.user),
                Belief::Unknown => panic!("{} got no answer to its last request", device.user),
            }
        }
    }

    fn end(mut self, now: u64) -> (u64, u64) {
        self.run_until_idle(now + 200 * SECOND);
        let stats = self.host.stats();
        assert_eq!((stats.iax2.call_count, stats.iax2.record_count), (0, 0));
        assert_eq!(
            stats.registrar.binding_count, 0,
            "all bindings have expired"
        );
        assert_eq!(
            stats.runtime.buffers.live_count, 0,
            "a buffer is still pinned"
        );
        assert_eq!(stats.runtime.pool.panicked, 0, "a task panicked");
        let trace = mix(self.trace, self.host.simulation().trace_hash());
        (self.accepted + stats.iax2.accepted, trace)
    }
}

fn small() -> ServerConfig {
    ServerConfig {
        registration: RegistrationPolicy {
            expires_min: Duration::from_secs(5),
            ..RegistrationPolicy::default()
        },
        ..config()
    }
}

fn behaviour(random: &mut Random) -> DiskBehaviour {
    DiskBehaviour {
        transaction_max: Duration::from_millis(random.pick(&[1, 20, 20, 2000])),
        failures_per_mille: random.pick(&[0, 0, 50, 300]),
        ..DiskBehaviour::default()
    }
}

/// One step of FNV-1a, with a word instead of a byte.
fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

const SEEDS: u64 = 25;
