//! The simulated world: time, the network, the disk, power failures, and the
//! devices and watchers.

use crate::{
    client::{Context, DELAY_MAX, MILLISECOND, NEVER, SECOND, address},
    device::{Device, listed},
    life::{Life, Machine},
    random::Random,
    watcher::{Belief, Watcher},
};
use busyhour_sip::{Message, Method};
use busyhour_store::{DiskBehaviour, SimulatedDisk};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    net::SocketAddr,
    time::Duration,
};

pub struct World {
    seed: u64,
    now: u64,
    random: Random,
    faults: Faults,
    disk: SimulatedDisk,
    machine: Machine,
    life: Option<Life>,
    life_count: u64,
    plan: Vec<(u64, Step)>,
    packets: BinaryHeap<Reverse<Packet>>,
    packet_count: u64,
    devices: Vec<Device>,
    watchers: Vec<Watcher>,
    /// The branches of 200s that were sent at least once.
    acknowledged: HashSet<String>,
    trace: u64,
    is_quiet: bool,
    is_open: bool,
    is_logged: bool,
}

/// How bad the network is.
struct Faults {
    loss_permille: u64,
    duplicate_permille: u64,
    slow_permille: u64,
    garbage_permille: u64,
}

/// What happens to the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Start,
    /// The clock is set to a time that is wrong by this many seconds.
    SetClock(i64),
    /// The machine is restarted; no server runs at that time.
    Reboot,
    Crash,
    ShutDown,
    Quiet,
    LastQuestion,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    at: u64,
    /// In the order of sending, so that equal times have an order.
    number: u64,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let disk = SimulatedDisk::new(random.next(), disk_behaviour(&mut random));
        let mut world = Self {
            seed,
            now: 0,
            faults: Faults::draw(&mut random),
            is_open: random.permille(500),
            disk,
            machine: Machine::default(),
            life: None,
            life_count: 0,
            plan: plan(&mut random),
            packets: BinaryHeap::new(),
            packet_count: 0,
            devices: Vec::new(),
            watchers: Vec::new(),
            acknowledged: HashSet::new(),
            trace: seed,
            is_quiet: false,
            is_logged: false,
            random,
        };
        world.populate();
        world
    }

    /// Makes the run print every datagram.
    pub fn logged(mut self) -> Self {
        self.is_logged = true;
        self
    }

    /// Runs to the end and checks; returns a hash of all that happened.
    pub fn run(mut self) -> u64 {
        let last_question = self.plan.last().map_or(0, |(at, _)| *at);
        let end = last_question + self.random.within(20 * SECOND, 200 * SECOND);
        self.run_until(end);
        self.check_beliefs();
        self.devices.iter_mut().for_each(Device::stop);
        self.watchers.iter_mut().for_each(Watcher::stop);
        // A subscription without refreshes ends after at most 120 s, its
        // NOTIFYs stay unanswered for 32 s, and answers are kept for 32 s.
        self.packets.clear();
        self.deafen();
        self.run_until(end + 260 * SECOND);
        let life = self.life.take().expect("a server");
        life.assert_nothing_pinned();
        mix(self.trace, life.end())
    }

    fn populate(&mut self) {
        let device_count = self.random.within(1, 7) as usize;
        let watcher_count = self.random.within(0, 6) as usize;
        for number in 0..device_count {
            let device = self.with(|context| Device::new(number, address(0, number), context));
            self.devices.push(device);
        }
        for number in 0..watcher_count {
            let device = self.random.within(0, device_count as u64) as usize;
            // A patient watcher refreshes seldom, so it learns changes only by
            // NOTIFY. The network must not be so bad that the server gives it up.
            let is_patient = self.faults.loss_permille == 0 && self.random.permille(500);
            let watcher = self.with(|context| {
                Watcher::new(number, address(1, number), device, is_patient, context)
            });
            self.watchers.push(watcher);
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Context<'_>) -> R) -> R {
        act(&mut Context {
            now: self.now,
            random: &mut self.random,
            sent: &mut Vec::new(),
            is_quiet: self.is_quiet,
        })
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let next = self.next_event();
            if next > end {
                break;
            }
            self.now = next;
            self.advance();
        }
        self.now = end;
        self.run_server();
    }

    fn next_event(&self) -> u64 {
        let life = self.life.as_ref();
        let timer = life.and_then(Life::next_timer);
        let disk = life.and_then(|life| Some(life.in_world(self.disk.next_due()?)));
        let packet = self.packets.peek().map(|Reverse(packet)| packet.at);
        let step = self.plan.first().map(|(at, _)| *at);
        let devices = self.devices.iter().map(Device::next_wake).min();
        let watchers = self.watchers.iter().map(Watcher::next_wake).min();
        [timer, disk, packet, step, devices, watchers]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(NEVER)
    }

    /// Does everything that is due now, always in the same order.
    fn advance(&mut self) {
        self.run_server();
        while self.plan.first().is_some_and(|(at, _)| *at <= self.now) {
            let (_, step) = self.plan.remove(0);
            self.take_step(step);
        }
        while self
            .packets
            .peek()
            .is_some_and(|Reverse(p)| p.at <= self.now)
        {
            if let Some(Reverse(packet)) = self.packets.pop() {
                self.deliver(&packet);
            }
        }
        self.wake_actors();
        self.run_server();
    }

    fn run_server(&mut self) {
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

    fn take_step(&mut self, step: Step) {
        self.log(|| format!("--- {step:?}"));
        match step {
            Step::Start => self.start(),
            Step::SetClock(wrong_by_s) => self.set_clock(wrong_by_s),
            Step::Reboot => self.machine.reboot(self.now),
            Step::Crash => {
                self.disk.crash();
                self.end_life();
            }
            Step::ShutDown => self.shut_down(),
            Step::Quiet => self.quiet(),
            Step::LastQuestion => {
                let now = self.now;
                let ask = |device: &mut Device| device.ask_a_last_time(now);
                self.devices.iter_mut().for_each(ask);
            }
        }
    }

    fn start(&mut self) {
        let seed = mix(self.seed, self.life_count);
        self.life_count += 1;
        self.life = Some(Life::begin(
            seed,
            &self.disk,
            self.is_open,
            self.now,
            &self.machine,
        ));
        self.run_server();
    }

    fn set_clock(&mut self, wrong_by_s: i64) {
        if let Some(life) = &self.life {
            life.step_clock(wrong_by_s - self.machine.wrong_by_s);
        }
        self.machine.wrong_by_s = wrong_by_s;
    }

    fn shut_down(&mut self) {
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

    fn end_life(&mut self) {
        if let Some(life) = self.life.take() {
            self.trace = mix(self.trace, life.end());
        }
    }

    fn quiet(&mut self) {
        self.is_quiet = true;
        self.faults = Faults::NONE;
        self.disk.set_behaviour(DiskBehaviour::default());
    }

    fn wake_actors(&mut self) {
        for index in 0..self.devices.len() {
            let from = self.devices[index].address;
            if self.devices[index].next_wake() <= self.now {
                self.act(from, |world, context| world.0[index].wake(context));
            }
        }
        for index in 0..self.watchers.len() {
            let from = self.watchers[index].address;
            if self.watchers[index].next_wake() <= self.now {
                self.act(from, |world, context| world.1[index].wake(context));
            }
        }
    }

    /// Lets a device or watcher act, and transmits what it sends.
    fn act(
        &mut self,
        from: SocketAddr,
        act: impl FnOnce((&mut [Device], &mut [Watcher]), &mut Context<'_>),
    ) {
        let mut sent = Vec::new();
        let mut context = Context {
            now: self.now,
            random: &mut self.random,
            sent: &mut sent,
            is_quiet: self.is_quiet,
        };
        act((&mut self.devices, &mut self.watchers), &mut context);
        for bytes in sent {
            self.transmit(from, server_address(), bytes);
        }
    }

    /// Transmits a datagram: no copy, one or two, each with its own delay.
    fn transmit(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        if self.random.permille(self.faults.garbage_permille) {
            let garbage = self.spoil(&bytes);
            self.enqueue(address(9, 9), server_address(), garbage);
        }
        if self.random.permille(self.faults.loss_permille) {
            return self.log(|| format!("lost {}", summary(from, to, &bytes)));
        }
        if self.random.permille(self.faults.duplicate_permille) {
            self.enqueue(from, to, bytes.clone());
        }
        self.enqueue(from, to, bytes);
    }

    fn enqueue(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let delay = match self.random.permille(self.faults.slow_permille) {
            true => self.random.within(MILLISECOND, DELAY_MAX),
            false => self.random.within(MILLISECOND / 10, 5 * MILLISECOND),
        };
        self.packet_count += 1;
        self.packets.push(Reverse(Packet {
            at: self.now + delay,
            number: self.packet_count,
            from,
            to,
            bytes,
        }));
    }

    /// A truncated datagram, or bytes that are no SIP.
    fn spoil(&mut self, bytes: &[u8]) -> Vec<u8> {
        let length = self.random.within(0, bytes.len() as u64) as usize;
        match self.random.permille(500) {
            true => bytes[..length].to_vec(),
            false => (0..length).map(|_| self.random.next() as u8).collect(),
        }
    }

    fn deliver(&mut self, packet: &Packet) {
        self.trace_packet(packet);
        self.log(|| summary(packet.from, packet.to, &packet.bytes));
        if packet.to == server_address() {
            if let Some(life) = &self.life {
                life.deliver(packet.from, packet.to, &packet.bytes);
                // Sometimes several datagrams arrive before the server
                // processes the first.
                if self.random.permille(500) {
                    self.run_server();
                }
            }
            return;
        }
        self.deliver_to_actor(packet);
    }

    fn deliver_to_actor(&mut self, packet: &Packet) {
        let message = Message::parse(&packet.bytes).expect("the server sends complete messages");
        let to = packet.to;
        let device = self.devices.iter().position(|device| device.address == to);
        let watcher = self
            .watchers
            .iter()
            .position(|watcher| watcher.address == to);
        self.act(to, |world, context| {
            if let Some(device) = device {
                world.0[device].receive(&message, context);
            }
            if let Some(watcher) = watcher {
                world.1[watcher].receive(&message, context);
            }
        });
    }

    /// From now on nothing that the server sends is received.
    fn deafen(&mut self) {
        self.faults.loss_permille = 1000;
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

    fn check_beliefs(&self) {
        for device in &self.devices {
            assert!(
                device.is_done(),
                "{} got no answer to its last request",
                device.user
            );
        }
        for watcher in &self.watchers {
            let device = &self.devices[watcher.device];
            let agreement = match watcher.belief() {
                Belief::Priorities(told) => {
                    let contacts: Vec<_> = told.iter().map(|q| device.contact_of(q)).collect();
                    device.knowledge.agrees(&contacts, self.now, MARGIN)
                }
                Belief::Count(count) => {
                    let (least, most) = device.knowledge.count(self.now, MARGIN);
                    let fits = (least..=most).contains(count);
                    fits.then_some(())
                        .ok_or(format!("{count} of {least}..{most}"))
                }
                Belief::Nothing => Err("it was told nothing".to_owned()),
            };
            if let Err(error) = agreement {
                panic!("a watcher of {} has a wrong state: {error}", device.user);
            }
        }
    }

    fn trace_packet(&mut self, packet: &Packet) {
        let mut trace = mix(self.trace, packet.at);
        for byte in &packet.bytes {
            trace = mix(trace, u64::from(*byte));
        }
        self.trace = trace;
    }

    fn log(&self, line: impl FnOnce() -> String) {
        if self.is_logged {
            println!("{:>12.6} {}", self.now as f64 / SECOND as f64, line());
        }
    }
}

impl Faults {
    const NONE: Self = Self {
        loss_permille: 0,
        duplicate_permille: 0,
        slow_permille: 0,
        garbage_permille: 0,
    };

    fn draw(random: &mut Random) -> Self {
        Self {
            loss_permille: random.pick(&[0, 20, 100, 300]),
            duplicate_permille: random.pick(&[0, 20, 100, 300]),
            slow_permille: random.pick(&[0, 20, 100, 500]),
            garbage_permille: random.pick(&[0, 0, 20, 100]),
        }
    }
}

/// The runs of the server, then a time without faults, then a last request of
/// each device.
fn plan(random: &mut Random) -> Vec<(u64, Step)> {
    let mut plan = vec![(0, set_clock(random)), (0, Step::Start)];
    let mut now = 0;
    for _ in 0..random.within(0, 4) {
        let is_set = random.permille(400);
        if is_set {
            now += random.within(SECOND, 60 * SECOND);
            plan.push((now, set_clock(random)));
        }
        let begun = now;
        now += random.within(5 * SECOND, 90 * SECOND);
        let is_settled = now - begun > SETTLING;
        let end = random.pick(&[Step::Crash, Step::Crash, Step::ShutDown]);
        plan.push((now, end));
        // A shutdown takes as long as the disk needs.
        now = (now / SECOND + random.within(6, 15)) * SECOND;
        match random.within(0, 3) {
            // Only after that time does the disk certainly have the new time.
            0 if is_settled => plan.push((now, Step::Reboot)),
            1 => plan.push((now, set_clock(random))),
            _ => {}
        }
        plan.push((now, Step::Start));
    }
    now += random.within(20 * SECOND, 120 * SECOND);
    plan.push((now, Step::Quiet));
    // In this time old requests end, and every watcher refreshes or learns that
    // its subscription has ended.
    now += 220 * SECOND;
    plan.push((now, Step::LastQuestion));
    plan
}

fn set_clock(random: &mut Random) -> Step {
    Step::SetClock(random.pick(&[0, -86_400, 86_400, -7, 7]))
}

fn disk_behaviour(random: &mut Random) -> DiskBehaviour {
    DiskBehaviour {
        transaction_max: Duration::from_millis(random.pick(&[1, 20, 20, 2000])),
        removal_delay_max: Duration::from_secs(random.pick(&[0, 1, 10, 60])),
        failures_per_mille: random.pick(&[0, 0, 50, 300]),
        ..DiskBehaviour::default()
    }
}

fn summary(from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = |name: &str| text.lines().find(|line| line.starts_with(name));
    let first = text.lines().next().unwrap_or_default();
    let cseq = line("CSeq").unwrap_or_default();
    let rest: Vec<_> = ["Contact", "Expires", "Subscription-State"]
        .into_iter()
        .filter_map(line)
        .collect();
    format!("{from} -> {to} {first} | {cseq} | {}", rest.join(" | "))
}

/// One step of FNV-1a, with a word instead of a byte.
fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3)
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 5060))
}

/// The server checks its clock every second. Within this time even the worst
/// disk, which fails nine of ten transactions, has stored the change.
const SETTLING: u64 = 60 * SECOND;
/// If a binding ends so close to the check, the server may report it or not.
const MARGIN: u64 = 3 * SECOND;
