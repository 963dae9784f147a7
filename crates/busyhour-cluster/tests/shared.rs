//! Devices watched on other nodes than their own, while owners change, nodes die, and the broker
//! loses, repeats and delays: in the end each watcher is told what the owner says, and the owner
//! knows each dialog that somebody carries.

#[path = "support/seeds.rs"]
mod seeds;

use busyhour::clock::Instant;
use busyhour_cluster::{
    Grant, Incarnation, LiveMessage, LiveOutbox, Member, NodeNumber, Partition, Report,
    SharedAction, SharedStates, Tables, Timing, Value,
};
use seeds::{Random, seeds};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

#[test]
fn every_watcher_is_told_what_the_owner_says() {
    for seed in seeds(500) {
        let mut cluster = Cluster::new(seed);
        for _ in 0..300 {
            cluster.step();
        }
        cluster.become_quiet();
        cluster.check();
    }
}

/// What a device was told to do last stays until its next owner has spoken: a lamp does not go
/// out because a node died.
#[test]
fn the_last_state_stays_until_the_next_owner_speaks() {
    let mut cluster = Cluster::new(3);
    cluster.faults = 0;
    let aor = AORS[0];
    let owner = cluster.owner(aor);
    let [watcher, next] = [(owner + 1) % 3, (owner + 2) % 3];
    cluster.want(watcher, aor, true);
    cluster.change(aor, 7);
    cluster.pass(1000);
    assert_eq!(cluster.nodes[watcher].told[aor], Some(7));
    cluster.die(owner);
    cluster.pass(1000);
    assert_eq!(cluster.nodes[watcher].told[aor], Some(7));
    cluster.states.remove(aor);
    cluster.grant(next, Partition::of(aor));
    cluster.pass(1000);
    assert_eq!(cluster.nodes[watcher].told[aor], None);
}

/// A hand-over is in the database before the old owner acts on it. What the new owner says until
/// then is said once, so it must not be lost on the old owner's watchers.
#[test]
fn the_old_owner_tells_what_the_next_one_said_before_it_left() {
    let mut cluster = Cluster::new(3);
    cluster.faults = 0;
    let aor = AORS[0];
    let old = cluster.owner(aor);
    let [next, third] = [(old + 1) % 3, (old + 2) % 3];
    cluster.want(old, aor, true);
    cluster.want(third, aor, true);
    cluster.change(aor, 7);
    cluster.pass(1000);
    cluster.grant(next, Partition::of(aor));
    cluster.change(aor, 8);
    cluster.pass(1000);
    cluster.lose(old, Partition::of(aor));
    assert_eq!(cluster.nodes[old].told[aor], Some(8));
    assert_eq!(cluster.nodes[third].told[aor], Some(8));
    cluster.pass(3000);
    cluster.check();
}

/// Only an end that was heard is certain. A new life of a node may be heard before the view says
/// that the old one is over; and what was missed is not in the next part.
#[test]
fn a_dialog_whose_end_was_not_heard_is_withdrawn() {
    let now = Instant::from_nanos(0);
    let (aor, dialog) = (AORS[0], || Some(Value::from([7])));
    let life = |epoch| {
        let (node, patience) = (NodeNumber(2), Duration::from_millis(300));
        SharedStates::new(Incarnation::new(Member { node, epoch }, 7), patience)
    };
    let (mut carrier, mut owner) = (life(1), owner_of(aor));
    let mut ends = |actions: Vec<SharedAction>, carrier: &SharedStates| {
        let mut ends = Vec::new();
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                SharedAction::Send(message) => actions.extend(owner.on_message(now, message)),
                SharedAction::Ask(request) => {
                    let part = carrier.part(&request, 48).expect("its own life is asked");
                    actions.extend(owner.on_part(now, part));
                }
                SharedAction::Report(report) if report.value.is_none() => {
                    ends.push((report.id, report.is_withdrawn));
                }
                _ => {}
            }
        }
        ends
    };
    for id in 1..=3 {
        let begun = carrier.report(aor, id, dialog());
        assert_eq!(ends(begun, &carrier), []);
    }
    let heard = carrier.report(aor, 1, None);
    assert_eq!(ends(heard, &carrier), [(1, false)]);
    drop(carrier.report(aor, 2, None));
    let missed = vec![SharedAction::Send(carrier.beacon())];
    assert_eq!(ends(missed, &carrier), [(2, true)]);
    let next_life = life(2);
    let early = vec![SharedAction::Send(next_life.beacon())];
    assert_eq!(ends(early, &next_life), [(3, true)]);
}

/// What was heard of the owner before it is older than what its own watchers know.
#[test]
fn the_old_owner_does_not_tell_what_an_earlier_one_said() {
    let mut cluster = Cluster::new(3);
    cluster.faults = 0;
    let aor = AORS[0];
    let earlier = cluster.owner(aor);
    let old = (earlier + 1) % 3;
    cluster.want(old, aor, true);
    cluster.change(aor, 7);
    cluster.pass(1000);
    assert_eq!(cluster.nodes[old].told[aor], Some(7));
    // It is not heard that the earlier owner removes its state.
    cluster.faults = 100;
    cluster.hand_over(Partition::of(aor), old);
    cluster.nodes[old].told.clear();
    cluster.lose(old, Partition::of(aor));
    assert_eq!(cluster.nodes[old].told.get(aor), None);
}

/// Who had no room to ask for one device asks for all.
#[test]
fn what_was_heard_of_all_watched_devices_is_recalled_together() {
    let mut cluster = Cluster::new(3);
    cluster.faults = 0;
    let aors = [AORS[0], AORS[1]];
    let watcher = (0..3).find(|node| aors.iter().all(|aor| cluster.owner(aor) != *node));
    let watcher = watcher.expect("two devices have two owners at most");
    for aor in aors {
        cluster.want(watcher, aor, true);
        cluster.change(aor, 7);
    }
    cluster.pass(1000);
    let recalled = cluster.nodes[watcher].shared.recall_all();
    let told: BTreeSet<&str> = (recalled.iter())
        .map(|action| match action {
            SharedAction::State(aor, Some(state)) if **state == [7] => &**aor,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, BTreeSet::from(aors));
}

struct Cluster {
    seed: u64,
    random: Random,
    now: Instant,
    tables: Tables,
    nodes: Vec<Node>,
    /// Of a hundred messages, how many are lost, and repeated, and late.
    faults: u64,
    on_way: BTreeMap<(Instant, u64), (usize, Letter)>,
    sent: u64,
    next_beat: Instant,
    /// What each device does: its owner has it in memory.
    states: BTreeMap<&'static str, u8>,
    epochs: BTreeMap<Partition, u64>,
    begun_dialogs: u64,
    /// Of which their node has said that they are over, or its own alone.
    said_over: BTreeSet<(Box<str>, Member, u64)>,
}

struct Node {
    member: Member,
    shared: SharedStates,
    /// What was said and has not left.
    outbox: LiveOutbox,
    /// With the epochs of its grants.
    speaks_for: BTreeMap<Partition, u64>,
    begun: BTreeSet<Box<str>>,
    wants: BTreeSet<&'static str>,
    /// What its watchers were told last.
    told: BTreeMap<Box<str>, Option<u8>>,
    /// The dialogs that it carries, by device and number.
    carries: BTreeMap<(&'static str, u64), u8>,
    /// Those of its devices, by who carries them.
    dialogs: BTreeMap<(Box<str>, Member, u64), Value>,
}

enum Letter {
    Said(Vec<u8>),
    Asked(usize, Vec<u8>),
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let mut cluster = Self {
            seed,
            random: Random(seed),
            now: Instant::from_nanos(0),
            tables: Tables::new(Timing::default()),
            nodes: Vec::new(),
            faults: 15,
            on_way: BTreeMap::new(),
            sent: 0,
            next_beat: Instant::from_nanos(0),
            states: BTreeMap::new(),
            epochs: BTreeMap::new(),
            begun_dialogs: 0,
            said_over: BTreeSet::new(),
        };
        for name in NAMES {
            let member = cluster.tables.join(cluster.now, name).unwrap();
            cluster.nodes.push(Node::new(member));
        }
        for node in 0..3 {
            cluster.connect(node);
        }
        for (number, aor) in AORS.into_iter().enumerate() {
            let partition = Partition::of(aor);
            if !cluster.epochs.contains_key(&partition) {
                cluster.grant(number % 3, partition);
            }
        }
        cluster
    }

    fn step(&mut self) {
        let (node, aor) = (self.below(3) as usize, AORS[self.below(4) as usize]);
        let partition = Partition::of(aor);
        match self.below(100) {
            0..40 => {
                let state = self.below(4) as u8;
                self.change(aor, state);
            }
            40..60 => {
                let is_wanted = self.below(2) == 0;
                self.want(node, aor, is_wanted);
            }
            60..85 => self.carry(node, aor),
            85..93 => self.hand_over(partition, node),
            93..95 => {
                self.die(node);
                self.take_over();
            }
            _ => self.connect(node),
        }
        let pause = self.below(60);
        self.pass(pause);
    }

    fn become_quiet(&mut self) {
        self.faults = 0;
        self.pass(3000);
    }

    fn check(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            let seed = self.seed;
            assert!(node.shared.is_whole(), "seed {seed}: {number}");
            for aor in node.wants.iter().filter(|aor| self.owner(aor) != number) {
                let expected = self.states.get(aor).copied();
                let told = node.told.get(*aor).copied().flatten();
                assert_eq!(told, expected, "seed {seed}: {aor} at {number}");
            }
            let expected: BTreeMap<_, _> = self.carried_of(number).collect();
            assert_eq!(node.dialogs, expected, "seed {seed}: {number}");
            let is_needed = |aor: &str| {
                let mut others = self.nodes.iter().enumerate();
                others.any(|(other, it)| other != number && it.wants.contains(aor))
            };
            assert!(node.begun.iter().all(|aor| is_needed(aor)), "seed {seed}");
        }
    }

    /// The dialogs of the devices of a node, whoever carries them.
    fn carried_of(&self, owner: usize) -> impl Iterator<Item = ((Box<str>, Member, u64), Value)> {
        self.nodes.iter().flat_map(move |node| {
            let carried = node.carries.iter();
            let of_owner = carried.filter(move |((aor, _), _)| self.owner(aor) == owner);
            of_owner.map(|((aor, id), value)| {
                ((Box::from(*aor), node.member, *id), Box::from([*value]))
            })
        })
    }

    /// Who has the newest grant. The one before may not know yet that its own is over.
    fn owner(&self, aor: &str) -> usize {
        let epoch = |node: &usize| self.nodes[*node].speaks_for.get(&Partition::of(aor));
        let speakers = (0..3).filter(|node| epoch(node).is_some());
        speakers.max_by_key(epoch).unwrap_or(usize::MAX)
    }

    /// 0 is nothing.
    fn change(&mut self, aor: &'static str, state: u8) {
        match state {
            0 => drop(self.states.remove(aor)),
            _ => drop(self.states.insert(aor, state)),
        }
        let owner = self.owner(aor);
        if owner < 3 && self.nodes[owner].begun.contains(aor) {
            self.say(owner, aor);
        }
    }

    fn say(&mut self, owner: usize, aor: &str) {
        let state = self.states.get(aor).map(|state| [*state]);
        let state = state.as_ref().map(|state| &state[..]);
        let actions = self.nodes[owner].shared.state_is(aor, state);
        self.follow(owner, actions);
    }

    fn want(&mut self, node: usize, aor: &'static str, is_wanted: bool) {
        match is_wanted {
            true => drop(self.nodes[node].wants.insert(aor)),
            false => drop(self.nodes[node].wants.remove(aor)),
        }
        self.follow_wants(node, aor);
    }

    fn follow_wants(&mut self, node: usize, aor: &'static str) {
        let it = &mut self.nodes[node];
        let actions = match it.wants.contains(aor) {
            true => {
                let mut actions = it.shared.want(aor);
                actions.extend(it.shared.recall(aor));
                actions
            }
            false => it.shared.unwant(aor),
        };
        self.follow(node, actions);
    }

    /// A dialog of a device begins, goes on or ends at a node.
    fn carry(&mut self, node: usize, aor: &'static str) {
        let (number, value) = (self.below(3) as usize, self.below(4) as u8);
        let carried = self.nodes[node].carries.keys();
        let mut of_device = carried.filter(|(of, _)| *of == aor);
        let known = of_device.nth(number).map(|(_, id)| *id);
        let id = known.unwrap_or(self.begun_dialogs);
        self.begun_dialogs += u64::from(known.is_none());
        let it = &mut self.nodes[node];
        if value == 0 {
            it.carries.remove(&(aor, id));
            self.said_over.insert((aor.into(), it.member, id));
        } else {
            it.carries.insert((aor, id), value);
        }
        self.report(node, aor, id);
    }

    fn report(&mut self, node: usize, aor: &'static str, id: u64) {
        let it = &mut self.nodes[node];
        let value = it
            .carries
            .get(&(aor, id))
            .map(|value| Value::from([*value]));
        if it.speaks_for.contains_key(&Partition::of(aor)) {
            let key = (Box::from(aor), it.member, id);
            match value {
                Some(value) => drop(it.dialogs.insert(key, value)),
                None => drop(it.dialogs.remove(&key)),
            }
            return;
        }
        let actions = it.shared.report(aor, id, value);
        self.follow(node, actions);
    }

    /// The old owner learns of it before the new one speaks, or after that.
    fn hand_over(&mut self, partition: Partition, to: usize) {
        let speaks = |node: &usize| self.nodes[*node].speaks_for.contains_key(&partition);
        let from = (0..3).find(speaks);
        let is_late = from != Some(to) && self.below(2) == 0;
        if is_late {
            self.grant(to, partition);
        } else if let Some(from) = from {
            self.lose(from, partition);
        }
        let pause = self.below(50);
        self.pass(pause);
        if !is_late {
            self.grant(to, partition);
        } else if let Some(from) = from {
            let aor = AORS.into_iter().find(|aor| Partition::of(aor) == partition);
            let state = self.below(4) as u8;
            self.change(aor.expect("one of ours"), state);
            let pause = self.below(50);
            self.pass(pause);
            self.lose(from, partition);
        }
    }

    fn grant(&mut self, node: usize, partition: Partition) {
        let epoch = self.epochs.entry(partition).or_default();
        *epoch += 1;
        let grant = Grant {
            partition,
            epoch: *epoch,
        };
        let it = &mut self.nodes[node];
        it.speaks_for.insert(partition, grant.epoch);
        let carried = it.carries.keys();
        let of_it = carried.filter(|(aor, _)| Partition::of(aor) == partition);
        let taken_back = of_it.map(|(aor, id)| (Box::from(*aor), it.member, *id));
        self.said_over.extend(taken_back);
        let actions = self.nodes[node].shared.granted(grant);
        self.follow(node, actions);
    }

    fn lose(&mut self, node: usize, partition: Partition) {
        let it = &mut self.nodes[node];
        it.speaks_for.remove(&partition);
        it.dialogs
            .retain(|(aor, ..), _| Partition::of(aor) != partition);
        let actions = it.shared.lost(partition);
        let of_it = |aor: &&str| Partition::of(aor) == partition;
        self.follow(node, actions);
        let carried = self.nodes[node].carries.keys().copied();
        let carried: Vec<_> = carried.filter(|(aor, _)| of_it(aor)).collect();
        for (aor, id) in carried {
            self.report(node, aor, id);
        }
    }

    /// It comes back as another life that has nothing. The others learn of it by their view, or
    /// when they hear the new life.
    fn die(&mut self, node: usize) {
        self.tables.leave(self.nodes[node].member).unwrap();
        if self.below(2) == 0 {
            self.show_view();
        }
        let member = self.tables.join(self.now, NAMES[node]).unwrap();
        self.nodes[node] = Node::new(member);
        self.connect(node);
        let beacon = self.nodes[node].shared.beacon();
        self.follow(node, vec![SharedAction::Send(beacon)]);
    }

    fn take_over(&mut self) {
        for aor in AORS {
            if self.owner(aor) == usize::MAX {
                let node = self.below(3) as usize;
                self.grant(node, Partition::of(aor));
            }
        }
    }

    /// Its connection breaks, and is there again.
    fn connect(&mut self, node: usize) {
        for is_connected in [false, true] {
            let now = self.now;
            let actions = self.nodes[node].shared.on_connected(now, is_connected);
            self.follow(node, actions);
        }
    }

    fn show_view(&mut self) {
        let view = self.tables.view(self.now);
        for node in 0..3 {
            let actions = self.nodes[node].shared.on_view(self.now, self.now, &view);
            self.follow(node, actions);
        }
    }

    fn pass(&mut self, milliseconds: u64) {
        let end = self.now + Duration::from_millis(milliseconds);
        while self.now < end {
            self.now = end.min(self.now + Duration::from_millis(20));
            (0..3).for_each(|node| self.flush(node));
            while let Some(entry) = self.on_way.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, letter) = entry.remove();
                self.arrive(to, letter);
            }
            if self.now >= self.next_beat {
                self.next_beat = self.now + BEAT;
                self.beat();
            }
        }
    }

    fn beat(&mut self) {
        self.show_view();
        for node in 0..3 {
            let beacon = self.nodes[node].shared.beacon();
            let mut actions = self.nodes[node].shared.on_time(self.now);
            actions.push(SharedAction::Send(beacon));
            self.follow(node, actions);
        }
    }

    fn arrive(&mut self, to: usize, letter: Letter) {
        match letter {
            Letter::Said(bytes) => {
                let message = LiveMessage::from_bytes(&bytes).expect("as it was sent");
                let actions = self.nodes[to].shared.on_message(self.now, message);
                self.follow(to, actions);
            }
            Letter::Asked(from, bytes) => {
                let Some(LiveMessage::Ask(request)) = LiveMessage::from_bytes(&bytes) else {
                    panic!("as it was sent");
                };
                if let Some(part) = self.nodes[to].shared.part(&request, 48) {
                    self.send(from, || {
                        Letter::Said(LiveMessage::Part(part.clone()).to_bytes())
                    });
                }
            }
        }
    }

    /// What waits leaves, several changes in one message.
    fn flush(&mut self, node: usize) {
        for message in self.nodes[node].outbox.take() {
            self.send_to_others(node, &message);
        }
    }

    fn send_to_others(&mut self, node: usize, message: &LiveMessage) {
        for to in (0..3).filter(|to| *to != node) {
            self.send(to, || Letter::Said(message.to_bytes()));
        }
    }

    fn follow(&mut self, node: usize, actions: Vec<SharedAction>) {
        for action in actions {
            match action {
                SharedAction::Send(LiveMessage::Change(change)) => {
                    self.nodes[node].outbox.push(change);
                    if self.below(3) == 0 {
                        self.flush(node);
                    }
                }
                SharedAction::Send(message) => {
                    self.flush(node);
                    self.send_to_others(node, &message);
                }
                SharedAction::Ask(request) => {
                    let to = usize::from(request.origin.member.node.0) - 1;
                    let bytes = LiveMessage::Ask(request).to_bytes();
                    self.send(to, || Letter::Asked(node, bytes.clone()));
                }
                SharedAction::Begin(aor) => {
                    assert!(
                        self.nodes[node]
                            .speaks_for
                            .contains_key(&Partition::of(&aor))
                    );
                    self.nodes[node].begun.insert(aor.clone());
                    self.say(node, &aor);
                }
                SharedAction::Ours(aor) => assert!(self.nodes[node].wants.contains(&*aor)),
                SharedAction::Stop(aor) => drop(self.nodes[node].begun.remove(&aor)),
                SharedAction::State(aor, state) => {
                    let it = &mut self.nodes[node];
                    assert!(it.wants.contains(&*aor), "nobody watches {aor}");
                    it.told.insert(aor, state.map(|state| state[0]));
                }
                SharedAction::Report(report) => self.take(node, report),
            }
        }
    }

    fn take(&mut self, node: usize, report: Report) {
        let it = &mut self.nodes[node];
        assert!(it.speaks_for.contains_key(&Partition::of(&report.aor)));
        let key = (report.aor, report.by, report.id);
        let is_heard = report.value.is_none() && !report.is_withdrawn;
        let (seed, was_said) = (self.seed, self.said_over.contains(&key));
        assert!(
            !is_heard || was_said,
            "seed {seed}: nobody said the end of {key:?}"
        );
        match report.value {
            Some(value) => drop(it.dialogs.insert(key, value)),
            None => drop(it.dialogs.remove(&key)),
        }
    }

    fn send(&mut self, to: usize, letter: impl Fn() -> Letter) {
        if self.below(100) < self.faults {
            return;
        }
        let copies = 1 + u64::from(self.below(100) < self.faults);
        for _ in 0..copies {
            let is_late = self.below(100) < self.faults;
            let delay = if is_late { self.below(600) } else { 2 };
            self.sent += 1;
            let at = self.now + Duration::from_millis(delay);
            self.on_way.insert((at, self.sent), (to, letter()));
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }
}

impl Node {
    fn new(member: Member) -> Self {
        Self {
            member,
            shared: SharedStates::new(Incarnation::new(member, 7), Duration::from_millis(300)),
            outbox: LiveOutbox::default(),
            speaks_for: BTreeMap::new(),
            begun: BTreeSet::new(),
            wants: BTreeSet::new(),
            told: BTreeMap::new(),
            carries: BTreeMap::new(),
            dialogs: BTreeMap::new(),
        }
    }
}

/// A node that speaks for a device.
fn owner_of(aor: &str) -> SharedStates {
    let (node, partition) = (NodeNumber(1), Partition::of(aor));
    let incarnation = Incarnation::new(Member { node, epoch: 1 }, 7);
    let mut owner = SharedStates::new(incarnation, Duration::from_millis(300));
    assert_eq!(
        owner.granted(Grant {
            partition,
            epoch: 1
        }),
        []
    );
    owner
}

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];
const AORS: [&str; 4] = [
    "sip:ada@example.com",
    "sip:bob@example.com",
    "sip:carl@example.com",
    "sip:dora@example.com",
];
const BEAT: Duration = Duration::from_millis(500);
