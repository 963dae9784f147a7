//! Everything that happens, in the order of its time, and the faults.

mod calls;
mod clients;
mod telephones;

use self::clients::{Panel, Publisher};
use crate::{
    database::{Database, PARTITIONS},
    device::{Device, register},
    letter::{Answer, Asked, Bye, Letter, Query},
    node::{Life, Out},
    seeds::Random,
};
use busyhour::clock::{Instant, UnixTime};
use busyhour_cluster::{Action, NodeNumber, Partition, Reply, Route};
use busyhour_registrar::Now;
use busyhour_sip::Flow;
use std::{collections::BTreeMap, time::Duration};

pub struct World {
    seed: u64,
    random: Random,
    now: Duration,
    /// How far the database's clock is ahead; never back beyond its start.
    database_ahead: Duration,
    database: Database,
    is_database_away: bool,
    is_broker_away: bool,
    machines: Vec<Machine>,
    devices: Vec<Device>,
    publishers: Vec<Publisher>,
    panels: Vec<Panel>,
    /// Whether nodes reach each other without the broker.
    is_direct: bool,
    /// Directions in which the broker carries nothing.
    cuts: Vec<(usize, usize)>,
    events: BTreeMap<(Duration, u64), Event>,
    sent: u64,
    /// Whether there are faults.
    is_rough: bool,
    /// Whether telephones register.
    is_busy: bool,
    clock_set_at: Duration,
    dialogs: u64,
    /// Dialogs whose BYE was answered, and by which process.
    over: BTreeMap<(Box<str>, u64), (usize, u64)>,
    /// Says what happens, for a replay.
    pub is_told: bool,
}

/// What a node runs on.
struct Machine {
    name: String,
    life: Option<Life>,
    /// Counts the processes, so that one does not hear its predecessor's answers.
    process: u64,
    rate: f64,
    /// When the process asked to join.
    asked_at: Instant,
    is_stopped: bool,
    /// What came while it stood still.
    kept: Vec<Event>,
    has_database: bool,
    has_broker: bool,
}

#[derive(Clone)]
enum Event {
    /// A node looks at its clock.
    Poll(usize),
    Start(usize),
    Query(usize, u64, Query),
    /// It is done, and nobody hears of it.
    LateQuery(Query),
    Answer(usize, u64, Answer),
    Letter(usize, Letter),
    /// A telephone's request arrives at a node.
    Request(usize, Asked),
    /// A client has closed its connection to this process of a node.
    Closed(usize, u64, Flow),
    /// A telephone's BYE arrives at a node.
    Bye(usize, Bye),
    /// It was sent so often.
    ByeSent(Bye, u32),
    /// A message of a client arrives at a node, over a connection of this process.
    FromClient(usize, u64, Flow, String),
    /// A message of this process of a node arrives at a client.
    ToClient(usize, u64, Flow, String),
    /// A publisher, a panel or a telephone looks at its clock.
    Publisher(usize),
    Panel(usize),
    Phone(usize),
    /// A telephone does something.
    Device(usize),
    Fault,
    Heal(Fault),
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Stopped(usize),
    NoDatabase(usize),
    NoBroker(usize),
    Cut(usize, usize),
    DatabaseAway,
    BrokerAway,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let count = 3 + random.below(5) as usize;
        let machines = (0..count)
            .map(|number| Machine {
                name: format!("node {number}"),
                life: None,
                process: 0,
                rate: 0.96 + random.below(9) as f64 / 100.0,
                asked_at: Instant::ZERO,
                is_stopped: false,
                kept: Vec::new(),
                has_database: true,
                has_broker: true,
            })
            .collect();
        let mut world = Self {
            seed,
            random,
            now: BEGIN,
            database_ahead: Duration::from_secs(500),
            database: Database::new(),
            is_database_away: false,
            is_broker_away: false,
            machines,
            devices: Device::some(10, PARTITIONS),
            publishers: Vec::new(),
            panels: Vec::new(),
            is_direct: seed.is_multiple_of(2),
            cuts: Vec::new(),
            events: BTreeMap::new(),
            sent: 0,
            is_rough: true,
            is_busy: true,
            clock_set_at: Duration::ZERO,
            dialogs: 0,
            over: BTreeMap::new(),
            is_told: false,
        };
        // Node numbers are given in the order of joining: so the machine of a number is known.
        for number in 0..count {
            world.push(10 * number as u64, Event::Start(number));
            world.push(10 * number as u64 + 5, Event::Poll(number));
        }
        for device in 0..world.devices.len() {
            let at = 1000 + world.below(2000);
            world.push(at, Event::Device(device));
        }
        world.push(5000, Event::Fault);
        world.add_clients();
        world
    }

    /// Faults, and then quiet.
    pub fn run(&mut self) {
        let begun = self.now;
        self.run_until(begun + ROUGH);
        self.is_rough = false;
        self.heal_all();
        self.run_until(begun + ROUGH + QUIET / 2);
        self.is_busy = false;
        self.run_until(begun + ROUGH + QUIET);
    }

    fn run_until(&mut self, end: Duration) {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= end
        {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.take(event);
        }
        self.now = end;
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Poll(number) => {
                let pause = 40 + self.below(20);
                self.push(pause, Event::Poll(number));
                self.wake(number, Event::Poll(number));
                self.check_answers();
            }
            Event::Start(number) => self.start(number),
            Event::Query(number, process, query) => self.query(number, process, query),
            Event::LateQuery(query) => drop(self.ask_database(&query)),
            Event::Device(device) => self.device(device),
            Event::Fault => self.fault(),
            Event::Heal(fault) => self.heal(fault),
            Event::ByeSent(bye, sent) => self.send_bye(bye, sent),
            Event::ToClient(number, process, flow, text) => {
                self.client_hears(number, process, flow, &text);
            }
            Event::Publisher(number) => self.publisher(number),
            Event::Panel(number) => self.panel(number),
            Event::Phone(number) => self.phone(number),
            Event::Answer(number, ..)
            | Event::Letter(number, _)
            | Event::Request(number, _)
            | Event::FromClient(number, ..)
            | Event::Closed(number, ..)
            | Event::Bye(number, _) => {
                self.wake(number, event);
            }
        }
    }

    /// Lets the process on a machine take something, and does what follows.
    fn wake(&mut self, number: usize, event: Event) {
        let (now, unix) = (self.local(number), self.unix());
        let machine = &mut self.machines[number];
        if machine.is_stopped {
            if !matches!(event, Event::Poll(_)) && machine.kept.len() < KEPT_MAX {
                machine.kept.push(event);
            }
            return;
        }
        let has_broker = machine.has_broker && !self.is_broker_away;
        let process = machine.process;
        if let Event::Answer(_, of, Answer::Joined(joined)) = &event {
            if *of == process && machine.life.is_none() {
                match joined {
                    Ok(member) => {
                        assert_eq!(usize::from(member.node.0), number + 1);
                        let random = (process + 1) << 1;
                        let life = Life::new(number, *member, random, machine.asked_at);
                        machine.life = Some(life);
                    }
                    Err(_) => self.push(100, Event::Start(number)),
                }
            }
            return;
        }
        let Some(life) = &mut machine.life else {
            if matches!(event, Event::Answer(_, of, Answer::Away(Query::Join(_))) if of == process)
            {
                self.push(100, Event::Start(number));
            }
            return;
        };
        match event {
            Event::Poll(_) => life.poll(now, unix, has_broker),
            Event::Answer(_, of, _) if of != process => {}
            Event::Answer(.., answer) => {
                let at = Now {
                    now,
                    unix,
                    steady: unix,
                };
                life.answer(now, at, answer);
            }
            // Its connection has ended with its process.
            Event::Request(_, asked) if asked.connection.is_some_and(|(of, _)| of != process) => {}
            Event::Closed(_, of, _) if of != process => {}
            Event::Closed(_, _, flow) => life.own_connection_ended(now, flow),
            Event::Letter(_, Letter::Handle(asked)) | Event::Request(_, asked) => {
                let aor = self.devices[asked.device].aor.clone();
                life.register(
                    now,
                    unix,
                    asked,
                    &aor,
                    &register(&aor, asked.device, asked.cseq),
                );
            }
            Event::Letter(_, Letter::Sip(verb, from, flow, text)) => {
                life.hear_sip((now, unix), verb, from, flow, text);
            }
            Event::Letter(_, letter) => life.hear(now, letter),
            // The connection has ended with its process.
            Event::FromClient(_, of, flow, _) if flow.transport.is_reliable() && of != process => {}
            Event::FromClient(_, _, flow, text) => life.receive(now, unix, flow, text),
            Event::Bye(_, bye) => life.bye(now, bye),
            _ => {}
        }
        let out = life.take_out();
        self.follow(number, out);
    }

    fn follow(&mut self, number: usize, out: Vec<Out>) {
        for one in out {
            match one {
                Out::ToDatabase(query) => {
                    let (process, delay) = (self.machines[number].process, 1 + self.below(4));
                    self.push(delay, Event::Query(number, process, query));
                }
                Out::ToNode(to, letter) => self.send(number, to, letter),
                Out::ToAll(letter) => {
                    for to in (0..self.machines.len()).filter(|to| *to != number) {
                        self.send(number, to, letter.clone());
                    }
                }
                Out::Acknowledge(asked) => self.acknowledge(asked),
                Out::ToClient(flow, text) => self.send_to_client(number, flow, text),
                Out::Purge(member, row) => {
                    let process = self.machines[number].process;
                    let purge = Query::Purge(member, row);
                    self.push(2, Event::Query(number, process, purge));
                }
                Out::Over(bye) => {
                    let process = self.machines[number].process;
                    self.over.insert((bye.aor, bye.id), (number, process));
                }
                Out::End => {
                    self.end(number);
                    let pause = 500 + self.below(1000);
                    self.push(pause, Event::Start(number));
                }
            }
        }
    }

    fn acknowledge(&mut self, asked: Asked) {
        let (seed, device) = (self.seed, &mut self.devices[asked.device]);
        let aor = &device.aor;
        let committed = self.database.history.get(aor);
        let is_committed = committed.is_some_and(|all| all.contains(&asked.cseq));
        let cseq = asked.cseq;
        assert!(
            is_committed,
            "seed {seed}: {aor} has 200 to {cseq}, and it is not committed"
        );
        // The answer to the telephone may be lost, too; what was said counts all the same.
        device.answered(asked);
        if let Some(life) = &mut self.machines[asked.came_to].life {
            life.note_registered(asked.flow(), Partition::of(&device.aor));
        }
    }

    fn query(&mut self, number: usize, process: u64, query: Query) {
        let machine = &self.machines[number];
        let is_reached = machine.has_database && !self.is_database_away;
        let is_rough = self.is_rough && self.now > BEGIN + CALM;
        let has_trouble = is_rough && self.below(100) < 2;
        let answer = match is_reached {
            // The answer is lost, or the request is late; nobody knows which.
            true if has_trouble => {
                let late = self.below(3000);
                self.push(late, Event::LateQuery(query.clone()));
                Answer::Away(query)
            }
            true => self.ask_database(&query),
            false => Answer::Away(query),
        };
        let delay = match answer {
            Answer::Away(_) => 100 + self.below(900),
            _ => 1 + self.below(4),
        };
        self.push(delay, Event::Answer(number, process, answer));
    }

    fn ask_database(&mut self, query: &Query) -> Answer {
        let now = self.database_now();
        // What it has answered is lost when it fails over, as in one of four cases here.
        let is_lost =
            self.is_rough && matches!(query, Query::Own(_, Action::Undrain)) && self.below(4) == 0;
        let tables = &mut self.database.tables;
        match query {
            // Nothing is assigned to it before it is ready.
            Query::Join(number) => {
                let joined = tables.join(now, &self.machines[*number].name);
                if let Ok(member) = &joined {
                    tables.drain(*member).expect("it has just joined");
                }
                Answer::Joined(joined)
            }
            Query::Own(_, Action::Undrain) if is_lost => Answer::Owned(Reply::Undrained(Ok(()))),
            Query::Own(member, action) => Answer::Owned(match action {
                Action::Beat => Reply::Beaten(tables.beat(now, *member)),
                Action::Fence(other) => Reply::Ended(tables.fence(now, *member, *other)),
                Action::Take(seen) => Reply::Taken(tables.take(now, *member, seen)),
                Action::Give(grants, to) => {
                    Reply::Given(grants.clone(), *to, tables.give(*member, grants, *to))
                }
                Action::Drain => Reply::Drained(tables.drain(*member)),
                Action::Undrain => Reply::Undrained(tables.undrain(*member)),
                Action::Leave => {
                    let _ = tables.leave(*member);
                    Reply::Drained(Ok(()))
                }
                other => panic!("no question to the database: {other:?}"),
            }),
            Query::Load(grant) => {
                let (rows, soft) = self.database.load(grant.partition);
                Answer::Loaded(*grant, rows, soft)
            }
            Query::Purge(member, row) => {
                let view = tables.view(now);
                self.database.purge(*member, *row, &view);
                Answer::Purged
            }
            Query::Commit(group) => Answer::Committed(self.database.commit(self.seed, group)),
        }
    }

    /// A new process; it is done again until it has joined.
    fn start(&mut self, number: usize) {
        let now = self.local(number);
        let machine = &mut self.machines[number];
        if machine.life.is_some() {
            return;
        }
        machine.asked_at = now;
        machine.process += 1;
        let (process, delay) = (machine.process, 1 + self.below(4));
        self.push(delay, Event::Query(number, process, Query::Join(number)));
    }

    fn end(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        machine.life = None;
        machine.process += 1;
        machine.kept.clear();
        machine.is_stopped = false;
    }

    fn send(&mut self, from: usize, to: usize, letter: Letter) {
        let is_cut = self.cuts.contains(&(from, to));
        let machines = [from, to].map(|number| &self.machines[number]);
        let has_broker = !self.is_broker_away && machines.iter().all(|it| it.has_broker);
        let is_carried = has_broker || self.is_direct && letter.is_direct();
        if is_cut || !is_carried {
            return;
        }
        for delay in self.delays() {
            self.push(delay, Event::Letter(to, letter.clone()));
        }
    }

    /// None if it is lost, two if it is doubled.
    fn delays(&mut self) -> Vec<u64> {
        let faults = if self.is_rough { 4 } else { 0 };
        if self.below(100) < faults {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.below(100) < faults);
        let mut delay = || match self.below(100) < faults {
            true => self.below(2000),
            false => 1 + self.below(3),
        };
        (0..copies).map(|_| delay()).collect()
    }

    fn fault(&mut self) {
        if !self.is_rough {
            return;
        }
        let pause = 300 + self.below(2500);
        self.push(pause, Event::Fault);
        let count = self.machines.len() as u64;
        let (number, other) = (self.below(count) as usize, self.below(count) as usize);
        let (choice, lasts) = (self.below(18), 200 + self.below(8000));
        self.tell(|| format!("{choice} at {number}, {other} for {lasts} ms"));
        let fault = match choice {
            0 | 1 => return self.kill(number),
            2..=4 => Fault::Stopped(number),
            5 | 6 => Fault::NoDatabase(number),
            7 | 8 => Fault::NoBroker(number),
            9 | 10 => Fault::Cut(number, other),
            11 => Fault::DatabaseAway,
            12 => {
                // It is set forward, or back by less than that.
                let (by, is_back) = (self.below(20_000), self.below(2) == 0);
                let by = Duration::from_millis(by);
                self.clock_set_at = self.now;
                self.database_ahead = match is_back {
                    true => self.database_ahead.saturating_sub(by),
                    false => self.database_ahead + by,
                };
                return;
            }
            13 => return self.leave(number),
            14 | 15 => Fault::BrokerAway,
            _ => return self.pin(other),
        };
        self.begin(fault);
        self.push(lasts, Event::Heal(fault));
    }

    fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Stopped(number) => self.machines[number].is_stopped = true,
            Fault::NoDatabase(number) => self.machines[number].has_database = false,
            Fault::NoBroker(number) => self.machines[number].has_broker = false,
            Fault::Cut(from, to) => self.cuts.push((from, to)),
            Fault::DatabaseAway => self.is_database_away = true,
            Fault::BrokerAway => self.is_broker_away = true,
        }
    }

    fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::Stopped(number) => self.resume(number),
            Fault::NoDatabase(number) => self.machines[number].has_database = true,
            Fault::NoBroker(number) => self.machines[number].has_broker = true,
            Fault::Cut(from, to) => self.cuts.retain(|cut| *cut != (from, to)),
            Fault::DatabaseAway => self.is_database_away = false,
            Fault::BrokerAway => self.is_broker_away = false,
        }
    }

    fn heal_all(&mut self) {
        self.cuts.clear();
        (self.is_database_away, self.is_broker_away) = (false, false);
        for number in 0..self.machines.len() {
            self.machines[number].has_database = true;
            self.machines[number].has_broker = true;
            self.resume(number);
            self.start(number);
        }
    }

    /// It goes on where it was, with what came meanwhile.
    fn resume(&mut self, number: usize) {
        self.machines[number].is_stopped = false;
        for event in std::mem::take(&mut self.machines[number].kept) {
            self.push(0, event);
        }
    }

    fn kill(&mut self, number: usize) {
        self.end(number);
        let pause = self.below(6000);
        self.push(pause, Event::Start(number));
    }

    fn leave(&mut self, number: usize) {
        let now = self.local(number);
        if let Some(life) = &mut self.machines[number].life {
            life.leave(now);
        }
    }

    fn pin(&mut self, number: usize) {
        let partition = Partition(self.below(PARTITIONS as u64) as u8);
        let to = (self.below(3) > 0).then_some(NodeNumber(number as u16 + 1));
        let lives = self
            .machines
            .iter()
            .filter_map(|machine| machine.life.as_ref());
        let members: Vec<_> = lives.map(|life| life.member).collect();
        for by in members {
            // Whose life goes on.
            let _ = self.database.tables.pin(by, partition, to);
        }
    }

    /// Nobody answers for a partition for which another one answers.
    fn check_answers(&self) {
        if self.now < self.clock_set_at + CLOCK_SETTLES {
            return;
        }
        let alive = self.machines.iter().enumerate();
        let alive = alive.filter_map(|(number, machine)| {
            let life = machine.life.as_ref().filter(|_| !machine.is_stopped)?;
            Some((&life.core, self.local(number)))
        });
        let alive: Vec<_> = alive.collect();
        for partition in partitions() {
            let here = alive
                .iter()
                .filter(|(core, now)| matches!(core.route(*now, partition), Route::Here(_)));
            let count = here.count();
            assert!(
                count <= 1,
                "seed {}: {count} answer for {partition}",
                self.seed
            );
        }
    }

    /// What must be so when all is quiet: how many registrations were acknowledged, and committed.
    pub fn check(&self) -> (u64, u64) {
        let seed = self.seed;
        let lives = || {
            self.machines
                .iter()
                .filter_map(|machine| machine.life.as_ref())
        };
        assert_eq!(
            lives().count(),
            self.machines.len(),
            "seed {seed}: all live"
        );
        for life in lives() {
            assert!(life.shared.is_whole(), "seed {seed}: node {}", life.number);
        }
        let view = self.database.tables.view(self.database_now());
        let is_drained = view.nodes.iter().any(|node| node.is_draining);
        assert!(!is_drained, "seed {seed}: nobody wants that: {view:?}");
        let (mut acknowledged, mut commits) = (0, 0);
        for (number, device) in self.devices.iter().enumerate() {
            let aor = &device.aor;
            let is_owner = |life: &&Life| {
                let route = life.core.route(self.local(life.number), Partition::of(aor));
                matches!(route, Route::Here(_))
            };
            let owners: Vec<&Life> = lives().filter(is_owner).collect();
            let [owner] = owners[..] else {
                panic!("seed {seed}: {} serve {aor}", owners.len());
            };
            let stored = self.database.stored(aor);
            assert!(
                stored.unwrap_or_default() >= device.acknowledged,
                "seed {seed}: {aor}"
            );
            assert_eq!(owner.state(aor), stored, "seed {seed}: {aor}");
            for watcher in lives().filter(|life| life.wants.contains(aor)) {
                let told = watcher.told.get(aor).copied().flatten();
                let is_told = watcher.number == owner.number || told == stored;
                assert!(
                    is_told,
                    "seed {seed}: {aor} at {}: {told:?}",
                    watcher.number
                );
            }
            let carried = lives().flat_map(|life| {
                let of_it = life.carries.iter().filter(|(of, _)| of == aor);
                of_it.map(|(_, id)| (life.member, *id))
            });
            for life in lives() {
                for dialog in &life.carries {
                    // A process that has died has told nobody what it had still to tell.
                    let told_by = self.over.get(dialog).filter(|(number, process)| {
                        *number == life.number || self.machines[*number].process == *process
                    });
                    assert_eq!(told_by, None, "seed {seed}: {dialog:?} at {}", life.number);
                }
            }
            let known = owner.dialogs.iter().filter(|(of, ..)| of == aor);
            let known = known.map(|(_, by, id)| (*by, *id));
            assert!(carried.eq(known), "seed {seed}: dialogs of {aor}");
            self.check_clients(number, owner);
            self.check_telephone(number, owner);
            acknowledged += device.acknowledgements;
            commits += self.database.history.get(aor).map_or(0, Vec::len) as u64;
        }
        (acknowledged, commits)
    }

    fn database_now(&self) -> Instant {
        Instant::from_nanos((self.now + self.database_ahead).as_nanos() as u64)
    }

    /// What a machine's clock shows: it runs at its own speed.
    fn local(&self, number: usize) -> Instant {
        let seconds = self.now.as_secs_f64() * self.machines[number].rate;
        Instant::from_nanos((seconds * 1e9) as u64)
    }

    fn unix(&self) -> UnixTime {
        UnixTime::from_nanos(1_800_000_000_000_000_000 + self.now.as_nanos() as u64)
    }

    fn push(&mut self, after_ms: u64, event: Event) {
        self.sent += 1;
        let at = self.now + Duration::from_millis(after_ms);
        self.events.insert((at, self.sent), event);
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            println!("{:?}: {}", self.now, what());
        }
    }
}

fn partitions() -> impl Iterator<Item = Partition> {
    (0..PARTITIONS as u8).map(Partition)
}

const BEGIN: Duration = Duration::from_secs(1000);
/// With faults.
const ROUGH: Duration = Duration::from_secs(30);
/// Without, until everything must be right: leases, takeovers and loads, and ten seconds for watchers.
const QUIET: Duration = Duration::from_secs(20);
/// The machines join in their order before there is trouble.
const CALM: Duration = Duration::from_secs(2);
/// For so long after the database's clock was set, an answer may be old.
const CLOCK_SETTLES: Duration = Duration::from_secs(5);
/// What a process that stands still finds when it goes on.
const KEPT_MAX: usize = 10_000;
