//! What a cluster does as it grows, in virtual time: the real ownership of partitions by 3 to 64
//! nodes, a million devices that refresh, and the death of one node.
//!
//! `cargo run --release -p busyhour-cluster --example capacity [DEVICES] [REFRESH-SECONDS] [DATABASE-CORES]`
//!
//! What each step costs is a constant at the end of this file; docs/capacity.md says where it was measured.

use busyhour::clock::Instant;
use busyhour_cluster::{
    Action, Grant, Member, Node, PARTITION_COUNT, Partition, Reply, Route, Tables, Timing,
};
use std::{collections::BTreeMap, env, error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Result<Vec<u64>, _> = env::args().skip(1).map(|it| it.parse()).collect();
    let numbers = numbers?;
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default).max(1);
    let site = Site {
        devices: number(0, 1_000_000),
        refresh: Duration::from_secs(number(1, 300)),
        database_cores: number(2, 8) as usize,
    };
    println!(
        "{} devices that refresh each {} s: {:.0} a second; a database of {} cores",
        site.devices,
        site.refresh.as_secs(),
        site.per_second(),
        site.database_cores
    );
    println!("{HEAD}");
    for nodes in [3, 8, 16, 32, 64] {
        println!("{}", World::new(site, nodes).run());
    }
    Ok(())
}

const HEAD: &str = "nodes  spread s  node %  database %  beats/s  messages/s  p50 ms  p99 ms  served again s  worst ms";

/// What is simulated.
#[derive(Clone, Copy)]
struct Site {
    devices: u64,
    refresh: Duration,
    database_cores: usize,
}

impl Site {
    fn per_second(&self) -> f64 {
        self.devices as f64 / self.refresh.as_secs_f64()
    }
}

/// A REGISTER on its way.
#[derive(Clone, Copy)]
struct Refresh {
    device: u64,
    first_sent: Instant,
    /// How often it was sent before.
    retries: u32,
}

/// One that is decided; with whether another node has its flow.
type Decided = (Refresh, bool);

enum Event {
    /// The next refresh of some device.
    Offer,
    /// A datagram reaches the node of its flow.
    Arrive(Refresh),
    /// It reaches the node that has its address, from another one.
    HandedOn(usize, Refresh),
    Commit(usize),
    Committed(usize, Vec<Decided>),
    Tick(usize),
    /// The database does what a node asked for.
    Ask(usize, Action),
    Loaded(usize, Grant),
    Settled(usize, Vec<Grant>),
    Announced(usize),
    Served(usize, Grant),
}

/// A node and its processor.
struct Server {
    /// `None` once it was killed.
    node: Option<Node>,
    cores: Cores,
    decided: Vec<Decided>,
    /// A transaction is on its way, or about to be.
    commits: bool,
    /// When the database has done what it was asked for, one after the other.
    asked_until: Instant,
    /// The same for partitions to be read, over another connection.
    loaded_until: Instant,
}

/// Processors that work through what comes, in order.
struct Cores {
    free_at: Vec<Instant>,
    busy: Duration,
}

impl Cores {
    fn new(count: usize) -> Self {
        let (free_at, busy) = (vec![Instant::ZERO; count], Duration::ZERO);
        Self { free_at, busy }
    }

    /// Works for `cost` as soon as one is free; returns when that is done.
    fn work(&mut self, now: Instant, cost: Duration) -> Instant {
        self.busy += cost;
        let Some(core) = self.free_at.iter_mut().min() else {
            return now;
        };
        *core = now.max(*core) + cost;
        *core
    }
}

struct World {
    site: Site,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    event_count: u64,
    random: u64,
    tables: Tables,
    servers: Vec<Server>,
    members: BTreeMap<Member, usize>,
    database: Cores,
    /// The half of the database's cores that reads partitions, since transactions have their turns
    /// meanwhile.
    loading: Cores,
    /// Which server serves each partition.
    served: [Option<usize>; PARTITION_COUNT],
    seen: Seen,
}

/// What is counted since the last phase began.
#[derive(Default)]
struct Seen {
    latencies: Vec<Duration>,
    beats: u64,
    messages: u64,
}

/// The processor time of all nodes, and of the database.
#[derive(Clone, Copy)]
struct Busy {
    nodes: Duration,
    database: Duration,
}

impl World {
    fn new(site: Site, node_count: usize) -> Self {
        let (timing, now) = (Timing::default(), Instant::ZERO);
        let mut tables = Tables::new(timing);
        let join = |index| {
            let member = tables.join(now, &format!("node{index}"));
            member.expect("each has a name of its own")
        };
        let members: Vec<Member> = (0..node_count).map(join).collect();
        let server = |member: &Member| Server {
            node: Some(Node::new(*member, timing, now)),
            cores: Cores::new(NODE_CORES),
            decided: Vec::new(),
            commits: false,
            asked_until: now,
            loaded_until: now,
        };
        let mut world = Self {
            site,
            now,
            events: BTreeMap::new(),
            event_count: 0,
            random: SEED,
            servers: members.iter().map(server).collect(),
            tables,
            members: members.into_iter().zip(0..).collect(),
            database: Cores::new(site.database_cores),
            loading: Cores::new(site.database_cores.div_ceil(2)),
            served: [None; PARTITION_COUNT],
            seen: Seen::default(),
        };
        for index in 0..node_count {
            // Nobody starts a whole site within a millisecond.
            let at = now + Duration::from_micros(world.below(1_000_000));
            world.at(at, Event::Tick(index));
        }
        world
    }

    /// A line of the table.
    fn run(&mut self) -> String {
        while !self.is_spread() {
            self.step();
        }
        let spread = self.now - Instant::ZERO;
        self.at(self.now, Event::Offer);
        self.run_for(WARM_UP);
        let before = self.busy();
        self.seen = Seen::default();
        self.run_for(STEADY);
        let shares = self.shares_since(before);
        let steady = std::mem::take(&mut self.seen);
        let served_again = self.kill_one();
        self.run_for(STEADY);
        let worst = self.seen.latencies.iter().max().copied();
        let per_second = |count: u64| count as f64 / STEADY.as_secs_f64();
        format!(
            "{:>5} {:>9.1} {:>7.1} {:>11.1} {:>8.0} {:>11.0} {:>7.1} {:>7.1} {:>15.2} {:>9.0}",
            self.servers.len(),
            spread.as_secs_f64(),
            shares.0,
            shares.1,
            per_second(steady.beats),
            per_second(steady.messages),
            ms(steady.percentile(50)),
            ms(steady.percentile(99)),
            served_again.as_secs_f64(),
            ms(worst.unwrap_or_default()),
        )
    }

    /// Kills the first node; returns how long it takes until all partitions are served again.
    fn kill_one(&mut self) -> Duration {
        let killed_at = self.now;
        self.kill(0);
        while self.served.iter().any(Option::is_none) {
            self.step();
        }
        self.now - killed_at
    }

    /// Whether each node has its part.
    fn is_spread(&self) -> bool {
        let count = |index| self.served.iter().filter(|it| **it == Some(index)).count();
        let part = PARTITION_COUNT / self.servers.len();
        self.served.iter().all(Option::is_some)
            && (0..self.servers.len()).all(|index| (part..=part + 1).contains(&count(index)))
    }

    fn busy(&self) -> Busy {
        Busy {
            nodes: self.servers.iter().map(|server| server.cores.busy).sum(),
            database: self.database.busy,
        }
    }

    /// The parts of the time in which the nodes' processors and the database's worked, in percent.
    fn shares_since(&self, before: Busy) -> (f64, f64) {
        let now = self.busy();
        let share = |worked: Duration, cores: usize| {
            100.0 * worked.as_secs_f64() / STEADY.as_secs_f64() / cores as f64
        };
        (
            share(now.nodes - before.nodes, self.servers.len() * NODE_CORES),
            share(now.database - before.database, self.site.database_cores),
        )
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self
            .events
            .keys()
            .next()
            .is_some_and(|(at, _)| *at <= until)
        {
            self.step();
        }
        self.now = until;
    }

    fn step(&mut self) {
        let Some(((at, _), event)) = self.events.pop_first() else {
            unreachable!("nodes beat for ever");
        };
        self.now = at;
        self.handle(event);
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.events.insert((at, self.event_count), event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Offer => self.offer(),
            Event::Arrive(refresh) => self.arrive(refresh),
            Event::HandedOn(index, refresh) => self.take(index, refresh, true),
            Event::Commit(index) => self.commit(index),
            Event::Committed(index, group) => self.committed(index, group),
            Event::Tick(index) => self.tick(index),
            Event::Ask(index, action) => self.ask(index, action),
            Event::Loaded(index, grant) => self.loaded(index, grant),
            Event::Settled(index, grants) => self.drive(index, |node, _| node.on_settled(grants)),
            Event::Announced(index) => self.announced(index),
            Event::Served(index, grant) => {
                self.drive(index, |node, now| node.on_served(now, [grant]));
                // A rest may have begun.
                self.tick(index);
            }
        }
    }

    fn offer(&mut self) {
        let refresh = Refresh {
            device: self.below(self.site.devices),
            first_sent: self.now,
            retries: 0,
        };
        self.at(self.now, Event::Arrive(refresh));
        // Many devices that refresh independently arrive as a Poisson process.
        let wait = -(1.0 - self.fraction()).ln() / self.site.per_second();
        self.at(self.now + Duration::from_secs_f64(wait), Event::Offer);
    }

    fn arrive(&mut self, refresh: Refresh) {
        let front = self.front_of(refresh.device);
        let server = &mut self.servers[front];
        let Some(node) = &server.node else {
            return self.again(refresh);
        };
        match node.route(self.now, partition_of(refresh.device)) {
            Route::Here(_) => self.take(front, refresh, false),
            Route::At(member) => {
                let sent = server.cores.work(self.now, PASS_ON);
                self.seen.messages += 1;
                let owner = self.members[&member];
                self.at(sent + HOP, Event::HandedOn(owner, refresh));
            }
            Route::Wait => self.again(refresh),
        }
    }

    /// The server that a device sends to: its own one, or if that is dead the next.
    fn front_of(&self, device: u64) -> usize {
        let count = self.servers.len();
        let first = (scramble(device ^ SEED) % count as u64) as usize;
        let mut order = (0..count).map(|step| (first + step) % count);
        let living = |index: &usize| self.servers[*index].node.is_some();
        order.find(living).unwrap_or(first)
    }

    /// The owner decides, if it is one.
    fn take(&mut self, index: usize, refresh: Refresh, is_handed_on: bool) {
        let (now, server) = (self.now, &mut self.servers[index]);
        let partition = partition_of(refresh.device);
        let is_its = |node: &Node| matches!(node.route(now, partition), Route::Here(_));
        if !server.node.as_ref().is_some_and(is_its) {
            return self.again(refresh);
        }
        let handing = if is_handed_on {
            PASS_ON
        } else {
            Duration::ZERO
        };
        let decided = server.cores.work(now, DECIDE + handing);
        server.decided.push((refresh, is_handed_on));
        if !server.commits {
            server.commits = true;
            self.at(decided, Event::Commit(index));
        }
    }

    /// All that waits is one transaction, and each server has one at a time.
    fn commit(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let group = std::mem::take(&mut server.decided);
        server.commits = !group.is_empty() && server.node.is_some();
        if server.commits {
            let cost = GROUP + ROW * group.len() as u32;
            let done = self.database.work(self.now, cost) + ROUND_TRIP;
            self.at(done, Event::Committed(index, group));
        }
    }

    fn committed(&mut self, index: usize, group: Vec<Decided>) {
        if self.servers[index].node.is_none() {
            return group
                .into_iter()
                .for_each(|(refresh, _)| self.again(refresh));
        }
        for (refresh, is_handed_on) in group {
            self.seen.messages += u64::from(is_handed_on);
            let way = if is_handed_on { HOP } else { Duration::ZERO };
            let answered = self.now + way;
            self.seen.latencies.push(answered - refresh.first_sent);
        }
        self.commit(index);
    }

    /// A datagram without an answer is sent again (RFC 3261 §17.1.2.1).
    fn again(&mut self, refresh: Refresh) {
        let wait = T2.min(T1 * 2_u32.pow(refresh.retries.min(8)));
        let retries = refresh.retries + 1;
        if retries < SENDS_MAX {
            self.at(
                self.now + wait,
                Event::Arrive(Refresh { retries, ..refresh }),
            );
        }
    }

    fn announced(&mut self, index: usize) {
        if let Some(node) = &mut self.servers[index].node {
            node.on_announced(self.now);
        }
        self.tick(index);
    }

    fn tick(&mut self, index: usize) {
        self.drive(index, |node, now| node.on_time(now));
        let due = self.servers[index].node.as_ref().and_then(Node::next_due);
        if let Some(due) = due {
            self.at(due.max(self.now), Event::Tick(index));
        }
    }

    fn drive(&mut self, index: usize, step: impl FnOnce(&mut Node, Instant) -> Vec<Action>) {
        let now = self.now;
        let Some(node) = &mut self.servers[index].node else {
            return;
        };
        for action in step(node, now) {
            self.follow(index, action);
        }
    }

    fn follow(&mut self, index: usize, action: Action) {
        match action {
            Action::Load(grant) => self.load(index, grant),
            Action::Close(grants) => {
                for grant in &grants {
                    self.served[grant.partition.index()] = None;
                }
                self.at(self.now + SETTLE, Event::Settled(index, grants));
            }
            Action::Announce => {
                for other in (0..self.servers.len()).filter(|other| *other != index) {
                    self.seen.messages += 1;
                    self.at(self.now + HOP, Event::Announced(other));
                }
            }
            Action::SayServed(grant) => {
                for other in (0..self.servers.len()).filter(|other| *other != index) {
                    self.seen.messages += 1;
                    self.at(self.now + HOP, Event::Served(other, grant));
                }
            }
            Action::Unload(_) => {}
            Action::Leave | Action::End => self.kill(index),
            asked => self.ask_database(index, asked),
        }
    }

    fn load(&mut self, index: usize, grant: Grant) {
        let rows = self.site.devices / PARTITION_COUNT as u64;
        let server = &mut self.servers[index];
        let begin = self.now.max(server.loaded_until);
        let loaded = self.loading.work(begin, LOAD_ROW * rows as u32) + ROUND_TRIP;
        server.loaded_until = loaded;
        self.at(loaded, Event::Loaded(index, grant));
    }

    /// Transactions about ownership are short, and wait for no others.
    fn ask_database(&mut self, index: usize, action: Action) {
        let is_beat = matches!(action, Action::Beat);
        self.seen.beats += u64::from(is_beat);
        let server = &mut self.servers[index];
        let begin = self.now.max(server.asked_until);
        let cost = if is_beat { BEAT } else { GROUP };
        self.database.busy += cost;
        let done = begin + cost + ROUND_TRIP;
        server.asked_until = done;
        self.at(done, Event::Ask(index, action));
    }

    /// A transaction of the database, and its answer.
    fn ask(&mut self, index: usize, action: Action) {
        let Some(member) = self.servers[index].node.as_ref().map(Node::member) else {
            return;
        };
        let (now, tables) = (self.now, &mut self.tables);
        let reply = match action {
            Action::Beat => Reply::Beaten(tables.beat(now, member)),
            Action::Fence(other) => Reply::Ended(tables.fence(now, member, other)),
            Action::Take(seen) => Reply::Taken(tables.take(now, member, &seen)),
            Action::Give(grants, to) => {
                let given = tables.give(member, &grants, to);
                Reply::Given(grants, to, given)
            }
            Action::Drain => Reply::Drained(tables.drain(member)),
            Action::Undrain => Reply::Undrained(tables.undrain(member)),
            other => unreachable!("the database is not asked for {other:?}"),
        };
        self.drive(index, |node, now| node.on_reply(now, reply));
        self.tick(index);
    }

    fn loaded(&mut self, index: usize, grant: Grant) {
        self.drive(index, |node, _| node.on_loaded(grant));
        let Some(node) = &self.servers[index].node else {
            return;
        };
        if matches!(node.route(self.now, grant.partition), Route::Here(_)) {
            self.served[grant.partition.index()] = Some(index);
        }
    }

    fn kill(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.node = None;
        let decided = std::mem::take(&mut server.decided);
        decided
            .into_iter()
            .for_each(|(refresh, _)| self.again(refresh));
        for served in &mut self.served {
            served.take_if(|it| *it == index);
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.random) % end
    }

    fn fraction(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }
}

impl Seen {
    fn percentile(&self, percent: usize) -> Duration {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        let index = latencies.len() * percent / 100;
        latencies.get(index).copied().unwrap_or_default()
    }
}

/// The simulation has no names, so a number stands for the hash of one.
fn partition_of(device: u64) -> Partition {
    Partition(scramble(device) as u8)
}

/// The finalizer of splitmix64.
fn scramble(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

const SEED: u64 = 20_261_127;
const WARM_UP: Duration = Duration::from_secs(5);
const STEADY: Duration = Duration::from_secs(20);
/// RFC 3261's timers, and when a client gives up.
const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
const SENDS_MAX: u32 = 11;

const NODE_CORES: usize = 2;
/// To receive, decide and answer a refresh.
const DECIDE: Duration = Duration::from_micros(267);
/// To hand on a refresh and pass on its answer in datagrams, at each of the two nodes.
const PASS_ON: Duration = Duration::from_micros(156);
/// From one node to another.
const HOP: Duration = Duration::from_micros(300);
/// The database's part of a transaction, and of each row in it.
const GROUP: Duration = Duration::from_micros(400);
const ROW: Duration = Duration::from_micros(44);
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// To renew a lease and read the view.
const BEAT: Duration = Duration::from_micros(800);
/// To read a binding of a partition that is taken over.
const LOAD_ROW: Duration = Duration::from_micros(10);
/// Until nothing of a partition that is given away is on its way.
const SETTLE: Duration = Duration::from_millis(5);
