//! The nodes, the telephones and watchers around them, and what goes wrong.

use super::{
    broker::SharedBroker,
    database::Database,
    node::{Node, Surroundings, direct_address, sip_address},
    place::{Held, Place},
};
use crate::{
    client::{Context, DEAD_AFTER, NEVER, SECOND, address},
    device::{Device, listed},
    life,
    network::{Faults, Network, Packet},
    random::Random,
    site::{mix, summary},
    watcher::Watcher,
    world::check_beliefs,
};
use busyhour_server::server::ServerConfig;
use busyhour_sip::{Contacts, Message, Method};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::SocketAddr,
};

pub struct ClusterWorld {
    seed: u64,
    now: u64,
    random: Random,
    config: ServerConfig,
    database: Database,
    broker: SharedBroker,
    /// Between clients and nodes.
    network: Network,
    /// Between nodes.
    direct: Network,
    /// From the one place to the other nothing arrives.
    cut: BTreeSet<(usize, usize)>,
    places: Vec<Place>,
    process_count: u64,
    plan: Vec<(u64, Step)>,
    devices: Vec<Device>,
    watchers: Vec<Watcher>,
    /// The place that a client sends to.
    targets: BTreeMap<SocketAddr, usize>,
    /// The contacts that each REGISTER names, by its branch.
    asked: BTreeMap<String, Vec<String>>,
    /// The branches of 200s that were sent at least once.
    acknowledged: HashSet<String>,
    is_quiet: bool,
    is_logged: bool,
    trace: u64,
}

/// What happens to the cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The program is killed, and started again after so long.
    Kill(usize, u64),
    /// The program gives its partitions away and ends, and is started again after so long.
    Leave(usize, u64),
    /// The program stands still for so long.
    Freeze(usize, u64),
    /// Nothing gets from the one node to the other.
    Cut(usize, usize),
    CutBroker(usize),
    CutDatabase(usize),
    /// All ways are there again.
    Mend,
    Drain(usize),
    Quiet,
    LastQuestion,
}

impl ClusterWorld {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x00c1_0573);
        let mut faults = Faults::draw(&mut random);
        if random.permille(500) {
            // Only then some watchers are patient.
            faults.loss_permille = 0;
        }
        // A long message goes in pieces, so a network of which each third datagram is lost gives up too many NOTIFYs.
        let between = Faults {
            loss_permille: random.pick(&[0, 0, 20, 100]),
            duplicate_permille: random.pick(&[0, 20, 300]),
            slow_permille: random.pick(&[0, 20, 100]),
            garbage_permille: 0,
        };
        let config = life::config(random.permille(500));
        let place_count = random.pick(&[3, 3, 3, 4, 5]);
        let plan = plan(&mut random, place_count);
        let places = (0..place_count).map(|place| Place {
            start_at: Some(place as u64 * random.within(0, 3) * SECOND),
            ..Place::default()
        });
        let mut world = Self {
            places: places.collect(),
            seed,
            now: 0,
            database: Database::new(&mut random),
            broker: SharedBroker::new(&mut random),
            network: Network::new(faults),
            direct: Network::new(between),
            cut: BTreeSet::new(),
            config,
            process_count: 0,
            plan,
            devices: Vec::new(),
            watchers: Vec::new(),
            targets: BTreeMap::new(),
            asked: BTreeMap::new(),
            acknowledged: HashSet::new(),
            is_quiet: false,
            is_logged: false,
            trace: seed,
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
        let end = last_question + self.random.within(10 * SECOND, 60 * SECOND);
        self.run_until(end);
        check_beliefs(&self.devices, &self.watchers, self.now);
        self.devices.iter_mut().for_each(Device::stop);
        self.watchers.iter_mut().for_each(Watcher::stop);
        // A subscription without refreshes ends after at most 60 s, its
        // NOTIFYs stay unanswered for 32 s, and answers are kept for 32 s.
        self.network.clear();
        self.network.faults.loss_permille = 1000;
        self.run_until(end + 150 * SECOND);
        for place in 0..self.places.len() {
            let node = self.places[place].node.as_ref().expect("it lives");
            assert_eq!(
                node.live_buffers(),
                0,
                "buffers of {place} are still pinned"
            );
            self.end_life(place);
        }
        self.trace
    }

    fn populate(&mut self) {
        let device_count = self.random.within(1, 7) as usize;
        let watcher_count = self.random.within(1, 6) as usize;
        for number in 0..device_count {
            let address = address(0, number);
            let device = self.act(address, |context| {
                Device::new(number, address, context).resting_briefly()
            });
            self.devices.push(device);
        }
        for number in 0..watcher_count {
            let device = self.random.within(0, device_count as u64) as usize;
            // A patient watcher refreshes seldom, so it learns changes only by NOTIFY. The networks must not be so bad that
            // the server gives it up.
            let are_lossless = [&self.network, &self.direct].map(|it| it.faults.loss_permille == 0);
            let is_patient = are_lossless == [true; 2] && self.random.permille(500);
            let address = address(1, number);
            let watcher = self.act(address, |context| {
                Watcher::new(number, address, device, is_patient, context).refreshing_often()
            });
            self.watchers.push(watcher);
        }
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let next = self.next_event();
            if next > end {
                break;
            }
            self.set_now(next);
            self.advance();
        }
        self.set_now(end);
        self.run_nodes();
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
        self.database.set_now(now);
        self.broker.set_now(now);
    }

    fn next_event(&self) -> u64 {
        let step = self.plan.first().map_or(NEVER, |(at, _)| *at);
        let devices = self.devices.iter().map(Device::next_wake);
        let watchers = self.watchers.iter().map(Watcher::next_wake);
        let actors = devices.chain(watchers).fold(NEVER, u64::min);
        let places = self.places.iter().map(|it| it.next_event(self.now));
        let is_awake = |process| {
            let awake = self.places.iter().filter_map(|it| it.awake(self.now));
            awake.into_iter().any(|node| node.process == process)
        };
        let others = [
            self.network.next_at(),
            self.direct.next_at(),
            self.broker.next_event(),
            self.database.next_event(is_awake),
        ];
        let others = others.into_iter().flatten().fold(NEVER, u64::min);
        let next = places.fold(NEVER, u64::min).min(others);
        next.min(step).min(actors).max(self.now)
    }

    /// Does everything that is due now, always in the same order.
    fn advance(&mut self) {
        self.database.run_due();
        self.run_nodes();
        while self.plan.first().is_some_and(|(at, _)| *at <= self.now) {
            let (_, step) = self.plan.remove(0);
            self.take_step(step);
        }
        self.start_and_stop();
        for (process, place, arrival) in self.broker.take_due() {
            self.hear(place, Held::FromBroker(process, arrival));
        }
        while let Some(packet) = self.direct.take(self.now) {
            if let Some(place) = self.place_of(packet.to, direct_address) {
                self.hear(place, Held::FromNode(packet));
            }
        }
        while let Some(packet) = self.network.take(self.now) {
            self.deliver(&packet);
        }
        self.wake_actors();
        self.run_nodes();
    }

    fn run_nodes(&mut self) {
        for place in 0..self.places.len() {
            if !self.places[place].is_frozen(self.now) {
                for held in std::mem::take(&mut self.places[place].held) {
                    self.hear(place, held);
                }
            }
            self.run_node(place);
        }
    }

    fn run_node(&mut self, place: usize) {
        let Some(node) = self.places[place].awake(self.now) else {
            return;
        };
        node.run_until(self.now);
        let is_over = node.is_over();
        let (sip, direct) = node.take_sent();
        for (flow, bytes) in sip {
            self.check_acknowledgement(&bytes);
            self.transmit([flow.local, flow.remote], bytes);
        }
        for (flow, bytes) in direct {
            let to = self.place_of(flow.remote, direct_address);
            if to.is_none_or(|to| !self.cut.contains(&(place, to))) {
                let way = [flow.local, flow.remote];
                (self.direct).transmit(self.now, &mut self.random, way, bytes);
            }
        }
        if is_over {
            self.log(|| format!("--- the life of {place} is over"));
            self.end_life(place);
            self.start_after(place, SECOND);
        }
    }

    fn hear(&mut self, place: usize, held: Held) {
        if self.places[place].is_frozen(self.now) {
            return self.places[place].held.push(held);
        }
        let Some(node) = &self.places[place].node else {
            return;
        };
        match held {
            Held::FromBroker(process, arrival) if process == node.process => node.hear(arrival),
            Held::FromBroker(..) => {}
            Held::FromNode(packet) => node.deliver(packet.from, packet.to, &packet.bytes),
        }
        self.run_node(place);
    }

    fn deliver(&mut self, packet: &Packet) {
        self.trace_packet(packet);
        self.log(|| summary(packet.from, packet.to, &packet.bytes));
        if let Some(place) = self.place_of(packet.to, sip_address) {
            // What comes to a frozen program is too old when it goes on.
            if let Some(node) = self.places[place].awake(self.now) {
                node.deliver(packet.from, packet.to, &packet.bytes);
                if self.random.permille(500) {
                    self.run_node(place);
                }
            }
            return;
        }
        let message = Message::parse(&packet.bytes).expect("nodes send complete messages");
        let to = packet.to;
        if let Some(number) = self.devices.iter().position(|it| it.address == to) {
            let mut device = self.devices.remove(number);
            self.answer(to, packet.from, |context| device.receive(&message, context));
            self.devices.insert(number, device);
        }
        if let Some(number) = self.watchers.iter().position(|it| it.address == to) {
            let mut watcher = self.watchers.remove(number);
            self.answer(to, packet.from, |context| {
                watcher.receive(&message, context)
            });
            self.watchers.insert(number, watcher);
        }
    }

    fn wake_actors(&mut self) {
        let now = self.now;
        for number in 0..self.devices.len() {
            if self.devices[number].next_wake() <= now {
                let mut device = self.devices.remove(number);
                self.perhaps_change_place(device.address);
                self.act(device.address, |context| device.wake(context));
                self.devices.insert(number, device);
            }
        }
        for number in 0..self.watchers.len() {
            if self.watchers[number].next_wake() <= now {
                let mut watcher = self.watchers.remove(number);
                self.perhaps_change_place(watcher.address);
                self.act(watcher.address, |context| watcher.wake(context));
                self.watchers.insert(number, watcher);
            }
        }
    }

    /// Clients stay with a node mostly, and find another one at times, also for a request that was sent before.
    fn perhaps_change_place(&mut self, client: SocketAddr) {
        if self.random.permille(200) {
            self.choose_place(client);
        }
    }

    fn choose_place(&mut self, client: SocketAddr) -> usize {
        let place = self.random.within(0, self.places.len() as u64) as usize;
        self.targets.insert(client, place);
        place
    }

    /// Lets somebody at this address act, and transmits what it sends to its node.
    fn act<R>(&mut self, from: SocketAddr, act: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let (result, sent) = self.let_act(act);
        for bytes in sent {
            self.note_asked(&bytes);
            let place = match self.targets.get(&from) {
                Some(place) => *place,
                None => self.choose_place(from),
            };
            self.transmit([from, sip_address(place)], bytes);
        }
        result
    }

    /// As `act`, for somebody who has received something: a response goes to where the request came from.
    fn answer(&mut self, from: SocketAddr, to: SocketAddr, act: impl FnOnce(&mut Context<'_>)) {
        let ((), sent) = self.let_act(act);
        for bytes in sent {
            if bytes.starts_with(b"SIP/2.0 ") {
                self.transmit([from, to], bytes);
            } else {
                self.act(from, |context| context.sent.push(bytes));
            }
        }
    }

    fn let_act<R>(&mut self, act: impl FnOnce(&mut Context<'_>) -> R) -> (R, Vec<Vec<u8>>) {
        let mut sent = Vec::new();
        let mut context = Context {
            now: self.now,
            random: &mut self.random,
            sent: &mut sent,
            is_quiet: self.is_quiet,
            dead_after: DEAD_AFTER + OUTAGE_MAX,
        };
        let result = act(&mut context);
        (result, sent)
    }

    fn transmit(&mut self, way: [SocketAddr; 2], bytes: Vec<u8>) {
        let line = self.is_logged.then(|| summary(way[0], way[1], &bytes));
        let (now, random) = (self.now, &mut self.random);
        if !self.network.transmit(now, random, way, bytes) {
            self.log(|| format!("lost {}", line.unwrap_or_default()));
        }
    }

    fn take_step(&mut self, step: Step) {
        self.log(|| format!("--- {step:?}"));
        match step {
            Step::Kill(place, pause) => {
                self.end_life(place);
                self.start_after(place, pause);
            }
            Step::Leave(place, pause) => {
                let now = self.now;
                let place = &mut self.places[place];
                if let Some(node) = place.awake(now) {
                    node.server.leave_cluster(std::time::Duration::ZERO);
                    place.stop_at = Some(now + LEAVING);
                    place.start_at = Some((now + LEAVING + pause).next_multiple_of(SECOND));
                }
            }
            Step::Freeze(place, pause) => {
                self.places[place].frozen_until = self.now + pause;
            }
            Step::Cut(from, to) => drop(self.cut.insert((from, to))),
            Step::CutBroker(place) => self.broker.reach(place, false),
            Step::CutDatabase(place) => self.database.reach(place, false),
            Step::Mend => self.mend(),
            Step::Drain(place) => {
                let name = name_of(place);
                let asked = self.places.iter().find_map(|it| it.awake(self.now));
                if let Some(node) = asked {
                    // Whoever is too many is refused, and nobody waits.
                    let _ = node.server.drain_node(&name, Box::new(|_| ()));
                }
            }
            Step::Quiet => {
                self.mend();
                self.is_quiet = true;
                self.network.faults = Faults::NONE;
                self.direct.faults = Faults::NONE;
                self.broker.quiet();
                self.database.quiet();
                for place in &mut self.places {
                    place.frozen_until = 0;
                }
            }
            Step::LastQuestion => {
                let now = self.now;
                let ask = |device: &mut Device| device.ask_a_last_time(now);
                self.devices.iter_mut().for_each(ask);
            }
        }
    }

    fn mend(&mut self) {
        self.cut.clear();
        for place in 0..self.places.len() {
            self.broker.reach(place, true);
            self.database.reach(place, true);
        }
    }

    fn start_and_stop(&mut self) {
        for place in 0..self.places.len() {
            let now = self.now;
            let is_due = |at: &mut u64| *at <= now;
            if self.places[place].stop_at.take_if(is_due).is_some() {
                if let Some(node) = &self.places[place].node {
                    node.server.shutdown(std::time::Duration::ZERO);
                }
                self.run_node(place);
                self.end_life(place);
            }
            if self.places[place].start_at.take_if(is_due).is_some() {
                self.start(place);
            }
        }
    }

    fn start_after(&mut self, place: usize, pause: u64) {
        self.places[place].start_at = Some((self.now + pause).next_multiple_of(SECOND));
    }

    fn start(&mut self, place: usize) {
        if self.places[place].node.is_some() {
            return;
        }
        let is_away = self.database.is_away(place);
        let joined = (!is_away).then(|| self.database.join(&name_of(place)));
        let Some(Ok(member)) = joined else {
            // The last life may still have its lease.
            return self.start_after(place, SECOND / 2);
        };
        self.log(|| format!("--- start {place} as {member:?}"));
        self.process_count += 1;
        let around = Surroundings {
            place,
            process: self.process_count,
            database: &self.database,
            broker: &self.broker,
        };
        let fast_ppm = self.random.within(0, 2001) as i64 - 1000;
        let seed = mix(self.seed, self.process_count);
        let config = self.config.clone();
        let node = Node::begin(seed, config, member, &around, (self.now, fast_ppm));
        self.places[place].node = Some(node);
        self.run_node(place);
    }

    fn end_life(&mut self, place: usize) {
        let place = &mut self.places[place];
        (place.frozen_until, place.stop_at) = (0, None);
        place.held.clear();
        if let Some(node) = place.node.take() {
            self.trace = mix(self.trace, node.end());
        }
    }

    /// What a 200 to a REGISTER or SUBSCRIBE acknowledges must have been durable when it is sent for the first time. By then it may
    /// have been changed again: the answer came over another node.
    fn check_acknowledgement(&mut self, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else {
            panic!("a node sent {:?}", String::from_utf8_lossy(bytes));
        };
        let Ok(cseq) = message.cseq() else {
            panic!("no CSeq in {:?}", String::from_utf8_lossy(bytes));
        };
        let is_subscribe = cseq.method == Method::Subscribe && message.expires() != Ok(Some(0));
        if message.status() != Some(200) || !(is_subscribe || cseq.method == Method::Register) {
            return;
        }
        let branch = message.via().unwrap().branch().unwrap_or("").to_owned();
        if !self.acknowledged.insert(branch.clone()) {
            return;
        }
        if is_subscribe {
            let tag = message.to().unwrap().tag().unwrap();
            let is_durable = self.database.was_subscribed(tag);
            return assert!(is_durable, "{tag} was acknowledged and is not durable");
        }
        let named = self.asked.get(&branch);
        for (contact, _) in listed(&message) {
            let is_named = named.is_some_and(|named| named.contains(&contact));
            // The others were bound by earlier requests.
            let from = if is_named { cseq.number } else { 0 };
            let is_durable = self.database.was_bound(&contact, from..=cseq.number);
            assert!(is_durable, "{contact} was acknowledged and is not durable");
        }
    }

    fn note_asked(&mut self, request: &[u8]) {
        if !request.starts_with(b"REGISTER ") {
            return;
        }
        let message = Message::parse(request).expect("clients send complete messages");
        let branch = message.via().unwrap().branch().unwrap_or("").to_owned();
        let Ok(Contacts::List(contacts)) = message.contacts() else {
            return;
        };
        let contacts = contacts.map(|it| it.expect("a contact").address.uri_text.to_owned());
        self.asked.insert(branch, contacts.collect());
    }

    fn place_of(&self, address: SocketAddr, of: fn(usize) -> SocketAddr) -> Option<usize> {
        (0..self.places.len()).find(|place| of(*place) == address)
    }

    fn trace_packet(&mut self, packet: &Packet) {
        let bytes = packet.bytes.iter().map(|byte| u64::from(*byte));
        self.trace = bytes.fold(mix(self.trace, packet.at), mix);
    }

    fn log(&self, line: impl FnOnce() -> String) {
        if self.is_logged {
            println!("{:>12.6} {}", self.now as f64 / SECOND as f64, line());
        }
    }
}

/// What happens to the nodes, then a time without faults, then a last request of each device.
fn plan(random: &mut Random, place_count: usize) -> Vec<(u64, Step)> {
    let mut plan = Vec::new();
    let mut now = 10 * SECOND;
    for _ in 0..random.within(1, 10) {
        now += random.within(SECOND, 40 * SECOND);
        let place = random.within(0, place_count as u64) as usize;
        let distance = random.within(1, place_count as u64) as usize;
        let other = (place + distance) % place_count;
        let pause = random.within(SECOND, 20 * SECOND);
        let is_two = random.permille(200);
        let step = match random.within(0, 8) {
            0 | 1 => Step::Kill(place, pause),
            2 => Step::Leave(place, pause),
            3 => Step::Freeze(place, random.pick(&[SECOND, 4 * SECOND, 30 * SECOND])),
            4 => Step::Cut(place, other),
            5 => Step::CutBroker(place),
            6 => Step::CutDatabase(place),
            _ => Step::Drain(place),
        };
        plan.push((now, step));
        if is_two && matches!(step, Step::Kill(..)) {
            plan.push((now, Step::Kill(other, pause)));
        }
        if matches!(
            step,
            Step::Cut(..) | Step::CutBroker(_) | Step::CutDatabase(_)
        ) {
            plan.push((now + random.within(SECOND, OUTAGE_MAX), Step::Mend));
        }
    }
    plan.sort_by_key(|(at, _)| *at);
    now = now.max(plan.last().map_or(0, |(at, _)| *at)) + random.within(SECOND, 30 * SECOND);
    plan.push((now, Step::Quiet));
    // In this time old requests end, and every watcher refreshes or learns that
    // its subscription has ended.
    now += 150 * SECOND;
    plan.push((now, Step::LastQuestion));
    plan
}

fn name_of(place: usize) -> String {
    format!("node{place}")
}

/// No way fails for longer.
const OUTAGE_MAX: u64 = 20 * SECOND;
/// How long a program that leaves may take to give its partitions away.
const LEAVING: u64 = 4 * SECOND;
