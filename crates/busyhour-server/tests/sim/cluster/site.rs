//! The machines of a cluster: its nodes, the database, the broker and the networks, and what goes wrong there. Who is at the other end
//! of the network is the business of a world.

use super::{
    broker::SharedBroker,
    database::Database,
    node::{Node, Surroundings, direct_address, sip_address},
    place::{Held, Place},
};
use crate::{
    client::{ClientNetwork, Context, DEAD_AFTER, NEVER, SECOND},
    device::listed,
    network::{Faults, Network, Packet},
    random::Random,
    site::{mix, summary},
};
use busyhour_server::server::ServerConfig;
use busyhour_sip::{Contacts, HeaderName, Message, Method};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::SocketAddr,
};

pub struct ClusterSite {
    pub now: u64,
    pub random: Random,
    /// Between clients and nodes.
    pub network: Network,
    pub database: Database,
    pub is_quiet: bool,
    pub is_logged: bool,
    seed: u64,
    config: ServerConfig,
    broker: SharedBroker,
    /// Between nodes.
    direct: Network,
    /// From the one place to the other nothing arrives.
    cut: BTreeSet<(usize, usize)>,
    places: Vec<Place>,
    process_count: u64,
    plan: Vec<(u64, Step)>,
    /// The place that a client sends to.
    targets: BTreeMap<SocketAddr, usize>,
    /// Where the request with each branch came from.
    sources: HashMap<String, SocketAddr>,
    /// Where the INVITE with each branch went.
    invited: HashMap<String, SocketAddr>,
    /// The contacts that each REGISTER names, by its branch.
    asked: BTreeMap<String, Vec<String>>,
    /// The branches of 200s that were sent at least once.
    acknowledged: HashSet<String>,
    /// Dialogs that a node has adopted and another one has kept.
    pub handed_over: u64,
    /// Requests that have waited for their partitions.
    pub kept: u64,
    /// Nodes that an operator has had drained in this life.
    drained: BTreeSet<String>,
    trace: u64,
}

/// How bad the networks are: between clients and nodes, and between nodes.
pub struct Ways {
    pub clients: Faults,
    pub nodes: Faults,
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
}

impl ClusterSite {
    pub fn new(seed: u64, mut random: Random, ways: Ways, config: ServerConfig) -> Self {
        let place_count = random.pick(&[3, 3, 3, 4, 5]);
        let plan = plan(&mut random, place_count);
        let places = (0..place_count).map(|place| Place {
            start_at: Some(place as u64 * random.within(0, 3) * SECOND),
            ..Place::default()
        });
        Self {
            places: places.collect(),
            now: 0,
            database: Database::new(&mut random),
            broker: SharedBroker::new(&mut random),
            network: Network::new(ways.clients),
            direct: Network::new(ways.nodes),
            is_quiet: false,
            is_logged: false,
            seed,
            config,
            cut: BTreeSet::new(),
            process_count: 0,
            plan,
            targets: BTreeMap::new(),
            sources: HashMap::new(),
            invited: HashMap::new(),
            asked: BTreeMap::new(),
            acknowledged: HashSet::new(),
            handed_over: 0,
            kept: 0,
            drained: BTreeSet::new(),
            trace: seed,
            random,
        }
    }

    /// One node after the other is killed, and nothing else happens.
    pub fn killing_each_in_turn(mut self) -> Self {
        let count = self.places.len();
        let at = |number: usize| (20 + 30 * number as u64) * SECOND;
        let kill = |number: usize| (at(number), Step::Kill(number % count, 20 * SECOND));
        self.plan = (0..KILLS).map(kill).collect();
        self.plan.push((at(KILLS), Step::Quiet));
        self
    }

    /// When the faults end.
    pub fn quiet_at(&self) -> u64 {
        self.plan.last().map_or(self.now, |(at, _)| *at)
    }

    /// Whether no datagram is lost, but for those to a node that is away.
    pub fn is_lossless(&self) -> bool {
        [&self.network, &self.direct].map(|it| it.faults.loss_permille == 0) == [true; 2]
    }

    /// When something happens to the nodes or in the networks.
    pub fn next_event(&self) -> u64 {
        let step = self.plan.first().map_or(NEVER, |(at, _)| *at);
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
        next.min(step).max(self.now)
    }

    /// Does everything that is due now between the nodes, always in the same order.
    pub fn advance(&mut self) {
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
    }

    /// The next datagram for somebody else than a node; those for nodes arrive.
    pub fn take_packet(&mut self) -> Option<Packet> {
        while let Some(packet) = self.network.take(self.now) {
            self.trace_packet(&packet);
            self.log(|| summary(packet.from, packet.to, &packet.bytes));
            let Some(place) = self.place_of(packet.to, sip_address) else {
                self.note_source(&packet);
                return Some(packet);
            };
            // What comes to a frozen program is too old when it goes on.
            if let Some(node) = self.places[place].awake(self.now) {
                node.deliver(packet.from, packet.to, &packet.bytes);
                if self.random.permille(500) {
                    self.run_node(place);
                }
            }
        }
        None
    }

    /// The nodes that live, and what each of them has.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.places.iter().filter_map(|place| place.node.as_ref())
    }

    /// From now on nothing arrives at anybody.
    pub fn deafen(&mut self) {
        self.network.clear();
        self.network.faults.loss_permille = 1000;
    }

    /// Each node counts the bindings that it has, and no others; how many all of them have.
    pub fn count_bindings(&self) -> usize {
        let counts: Vec<_> = self.nodes().map(Node::binding_counts).collect();
        let is_right = |(counted, listed): &(u64, usize)| *counted == *listed as u64;
        assert!(counts.iter().all(is_right), "{counts:?}");
        counts.iter().map(|(_, listed)| listed).sum()
    }

    /// The end of the world, in which nothing is pinned any more: a hash of all that happened, and how many requests have waited.
    pub fn end(mut self) -> (u64, u64) {
        let mut draining = self.database.draining();
        draining.retain(|name| !self.drained.contains(name));
        assert!(draining.is_empty(), "nobody wants that: {draining:?}");
        for place in 0..self.places.len() {
            let node = self.places[place].node.as_ref().expect("it lives");
            assert_eq!(
                node.live_buffers(),
                0,
                "buffers of {place} are still pinned"
            );
            self.end_life(place);
        }
        (self.trace, self.kept)
    }

    pub fn set_now(&mut self, now: u64) {
        self.now = now;
        self.database.set_now(now);
        self.broker.set_now(now);
    }

    pub fn run_nodes(&mut self) {
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

    fn choose_place(&mut self, client: SocketAddr) -> usize {
        let place = self.random.within(0, self.places.len() as u64) as usize;
        self.targets.insert(client, place);
        place
    }

    /// A response goes to where its request came from, a request with a route along that if the node there lives, or
    /// sometimes, and what belongs to an INVITE to where that went; all else to the node that the client has chosen.
    fn destination(&mut self, from: SocketAddr, bytes: &[u8]) -> SocketAddr {
        let message = Message::parse(bytes).expect("clients send complete messages");
        let branch = message.via().unwrap().branch().unwrap_or("");
        let method = message.method();
        if method.is_none() {
            return self.sources[branch];
        }
        if let Some(route) = message.elements(HeaderName::Route).next() {
            let (_, host) = route.split_once('@').unwrap_or(("", route));
            let (host, _) = host.split_once(';').unwrap_or((host, ""));
            let to = host.parse().expect("the address of a node");
            let place = self.place_of(to, sip_address).expect("a node");
            if self.places[place].node.is_some() || self.random.permille(500) {
                return to;
            }
        }
        if let (Some(Method::Cancel | Method::Ack), Some(to)) = (method, self.invited.get(branch)) {
            return *to;
        }
        let place = match self.targets.get(&from) {
            Some(place) => *place,
            None => self.choose_place(from),
        };
        let to = sip_address(place);
        if method == Some(Method::Invite) {
            return *self.invited.entry(branch.to_owned()).or_insert(to);
        }
        to
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
                    self.drained.insert(name);
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
        self.drained.remove(&name_of(place));
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
            let stats = node.server.stats();
            self.handed_over += stats.calls.dialogs.handed_over;
            self.kept += stats.cluster.map_or(0, |cluster| cluster.kept);
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
            // The others were bound by other requests, perhaps of other devices.
            let cseqs = match is_named {
                true => cseq.number..=cseq.number,
                false => 0..=u32::MAX,
            };
            let is_durable = self.database.was_bound(&contact, cseqs);
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

    fn note_source(&mut self, packet: &Packet) {
        let message = Message::parse(&packet.bytes).expect("nodes send complete messages");
        if message.method().is_some() {
            let branch = message.via().unwrap().branch().unwrap_or("");
            self.sources.insert(branch.to_owned(), packet.from);
        }
    }

    fn place_of(&self, address: SocketAddr, of: fn(usize) -> SocketAddr) -> Option<usize> {
        (0..self.places.len()).find(|place| of(*place) == address)
    }

    fn trace_packet(&mut self, packet: &Packet) {
        let bytes = packet.bytes.iter().map(|byte| u64::from(*byte));
        self.trace = bytes.fold(mix(self.trace, packet.at), mix);
    }

    pub fn log(&self, line: impl FnOnce() -> String) {
        if self.is_logged {
            println!("{:>12.6} {}", self.now as f64 / SECOND as f64, line());
        }
    }
}

impl ClientNetwork for ClusterSite {
    /// Clients stay with a node mostly, and find another one at times, also for a request that was sent before.
    fn perhaps_change_server(&mut self, client: SocketAddr) {
        if self.random.permille(200) {
            self.choose_place(client);
        }
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn act<R>(&mut self, from: SocketAddr, act: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let (result, sent) = self.let_act(act);
        for bytes in sent {
            self.note_asked(&bytes);
            let to = self.destination(from, &bytes);
            self.transmit([from, to], bytes);
        }
        result
    }
}

/// What happens to the nodes, then a time without faults.
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
    plan
}

fn name_of(place: usize) -> String {
    format!("node{place}")
}

/// Of nodes that are killed in turn.
const KILLS: usize = 20;
/// No way fails for longer.
const OUTAGE_MAX: u64 = 20 * SECOND;
/// How long a program that leaves may take to give its partitions away.
const LEAVING: u64 = 4 * SECOND;
