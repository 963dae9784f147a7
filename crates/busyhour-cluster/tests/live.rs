//! Live states over a network that loses, repeats, delays and reorders, with nodes that die and
//! brokers that go away: in the end every node has what every other node says, and nothing else.

#[path = "support/seeds.rs"]
mod seeds;

use busyhour::clock::Instant;
use busyhour_cluster::{
    Beacon, Entry, Incarnation, Key, Life, LiveAction, LiveChange, LiveChanges, LiveMessage,
    LiveMirror, LiveOrigin, LiveOutbox, Member, NodeNumber, Part, PartRequest, Tables, Timing,
    Value,
};
use seeds::{Random, seeds};
use std::{collections::BTreeMap, time::Duration};

/// The bytes of version 4, as they are sent by every program that has it. While nodes are replaced one
/// by one, they hear each other: a later program reads these as they are written here.
#[test]
fn messages_of_version_4_are_read_and_written_as_they_ever_were() {
    let (node, epoch) = (NodeNumber(0x0102), 7);
    let origin = Incarnation::new(Member { node, epoch }, 2 * 0x0a0b);
    let life = "0102".to_owned() + "0000000000000007" + "0000000000000a0b";
    let number = |number: u64| format!("{number:016x}");
    let (key, value) = (Box::from(*b"wx"), Box::from(*b"abc"));
    let (key_hex, value_hex) = ("000000027778", "00000003616263");
    let change = |value| LiveChange {
        origin,
        number: 9,
        key: Box::clone(&key),
        value,
    };
    let entry = Entry {
        key: key.clone(),
        number: 9,
        value: Box::clone(&value),
    };
    let part = Part {
        origin,
        after: None,
        at: 12,
        entries: vec![entry],
        is_last: true,
    };
    let ask = |after| LiveMessage::Ask(PartRequest { origin, after });
    let changes = LiveChanges {
        origin,
        first: 9,
        changes: vec![(key.clone(), Some(value.clone())), (key.clone(), None)],
    };
    let (nine, twelve, one, two) = (number(9), number(12), number(1), number(2));
    for (message, hex) in [
        (
            LiveMessage::Beacon(Beacon { origin, number: 12 }),
            format!("0462{life}{twelve}"),
        ),
        (
            LiveMessage::Change(change(Some(value.clone()))),
            format!("0463{life}{nine}{key_hex}01{value_hex}"),
        ),
        (
            LiveMessage::Change(change(None)),
            format!("0463{life}{nine}{key_hex}00"),
        ),
        (
            LiveMessage::Changes(changes),
            format!("046d{life}{nine}{two}{key_hex}01{value_hex}{key_hex}00"),
        ),
        (ask(None), format!("0461{life}00")),
        (ask(Some(key.clone())), format!("0461{life}01{key_hex}")),
        (
            LiveMessage::Part(part),
            format!("0470{life}00{twelve}01{one}{key_hex}{nine}{value_hex}"),
        ),
    ] {
        let written: String = message
            .to_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(written, hex);
        assert_eq!(
            LiveMessage::from_bytes(&message.to_bytes()),
            Some(message.clone())
        );
        // A version that this program does not know is not guessed at.
        let mut later = message.to_bytes();
        later[0] += 1;
        assert_eq!(LiveMessage::from_bytes(&later), None);
    }
}

#[test]
fn every_node_gets_the_states_of_all() {
    let mut known_beacons = 0;
    for seed in seeds(500) {
        let mut network = Network::new(seed);
        network.run(Duration::from_secs(20));
        network.become_quiet();
        network.check(seed);
        known_beacons += network.known_beacons;
    }
    assert!(known_beacons > 0, "none is passed over");
}

/// A database that fails over to a standby without its last commits counts lives again, or from a lower
/// number: the states of the lives that it has lost are not those of the next ones.
#[test]
fn what_lives_said_that_the_database_has_lost_is_forgotten() {
    let mut repeated = 0;
    for seed in seeds(500) {
        let mut network = Network::new(seed);
        for _ in 0..4 {
            network.run(Duration::from_secs(2));
            let before: Vec<Member> = network.members().collect();
            network.fail_over();
            let again = network.members().zip(before);
            repeated += again.filter(|(now, before)| now == before).count();
            let is_standby_new = network.below(2) == 0;
            if is_standby_new {
                network.standby = network.tables.clone();
            }
        }
        network.become_quiet();
        network.check(seed);
    }
    assert!(repeated > 0, "no epoch was given twice");
}

/// Without changes there is nothing to repair.
#[test]
fn a_good_network_needs_no_second_sync() {
    let mut network = Network::new(7);
    network.faults = Faults::default();
    network.run(Duration::from_secs(10));
    network.become_quiet();
    network.check(7);
    assert!(network.nodes.iter().all(|node| node.mirror.resyncs() == 0));
}

/// A joining node has everything, in parts that are each small.
#[test]
fn many_states_come_in_parts() {
    let (origin, joined) = (incarnation(1, 1), Instant::from_nanos(0));
    let mut states = LiveOrigin::new(origin);
    for number in 0..10_000_u32 {
        states.set(Box::from(number.to_be_bytes()), Box::from(*b"state"));
    }
    let mut mirror = LiveMirror::new(NodeNumber(2), PATIENCE);
    mirror.on_connected(joined, true);
    let mut actions = mirror.on_beacon(joined, states.beacon());
    let (mut parts, mut set) = (0, 0);
    while let Some(action) = actions.pop() {
        match action {
            LiveAction::Ask(request) => {
                assert!(!mirror.is_whole());
                let part = states.part(&request, 4096).unwrap();
                assert!(part.entries.len() <= 4096 / 16);
                parts += 1;
                actions.extend(mirror.on_part(joined, part));
            }
            LiveAction::Set(..) => set += 1,
            LiveAction::Withdrawn(..) => panic!("nothing ends"),
        }
    }
    assert!(
        mirror.is_whole() && parts > 50 && set == 10_000,
        "{parts} {set}"
    );
}

#[test]
fn a_message_is_read_as_it_was_written_or_not_at_all() {
    let origin = incarnation(3, 1 << 40);
    let mut states = LiveOrigin::new(origin);
    let change = states.set(Box::from(*b"key"), Box::from(*b"")).unwrap();
    states.set(Box::from(*b"other"), Box::from([0, 255]));
    let request = PartRequest {
        origin,
        after: Some(Box::from(*b"a")),
    };
    let messages = [
        LiveMessage::Part(states.part(&request, 1024).unwrap()),
        LiveMessage::Beacon(states.beacon()),
        LiveMessage::Ask(request),
        LiveMessage::Ask(PartRequest {
            origin,
            after: None,
        }),
        LiveMessage::Change(change),
        LiveMessage::Change(states.remove(b"key").unwrap()),
        LiveMessage::Changes(LiveChanges {
            origin,
            first: 4,
            changes: vec![
                (Box::from(*b"key"), Some(Box::from(*b"value"))),
                (Box::from(*b"other"), None),
            ],
        }),
    ];
    for message in messages {
        let bytes = message.to_bytes();
        assert_eq!(LiveMessage::from_bytes(&bytes), Some(message));
        for len in 0..bytes.len() {
            assert_eq!(LiveMessage::from_bytes(&bytes[..len]), None);
        }
        assert_eq!(LiveMessage::from_bytes(&[&bytes[..], &[0]].concat()), None);
        let newer = [&[bytes[0] + 1], &bytes[1..]].concat();
        assert_eq!(LiveMessage::from_bytes(&newer), None);
    }
}

/// Beside the changes themselves: each is said once, in order, and messages stay small.
#[test]
fn what_waits_leaves_together_in_its_order() {
    let mut states = LiveOrigin::new(incarnation(3, 7));
    let mut outbox = LiveOutbox::default();
    assert_eq!(outbox.take(), []);
    let mut changes: Vec<LiveChange> = (0..5000_u32)
        .filter_map(|number| states.set(number.to_be_bytes().into(), [7; 20].into()))
        .collect();
    // One that was never pushed leaves a gap, as what was said before anybody listened.
    changes.remove(4000);
    for change in &changes {
        outbox.push(change.clone());
    }
    assert!(outbox.is_full() && !outbox.is_empty());
    let messages = outbox.take();
    assert!(outbox.is_empty() && !outbox.is_full());
    assert!(messages.len() < 10, "{}", messages.len());
    let said: Vec<LiveChange> = messages
        .into_iter()
        .flat_map(|message| {
            assert!(message.to_bytes().len() < 33 << 10);
            match message {
                LiveMessage::Change(change) => vec![change],
                LiveMessage::Changes(changes) => changes.into_each().collect(),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(said, changes);
    outbox.push(changes[0].clone());
    assert_eq!(outbox.take(), [LiveMessage::Change(changes[0].clone())]);
}

#[test]
fn an_origin_that_did_not_listen_is_asked_again_when_it_speaks() {
    let (origin, now) = (incarnation(3, 7), Instant::from_nanos(0));
    let mut mirror = LiveMirror::new(NodeNumber(1), Duration::from_secs(1));
    let beacon = Beacon { origin, number: 0 };
    let ask = LiveAction::Ask(PartRequest {
        origin,
        after: None,
    });
    assert_eq!(mirror.on_beacon(now, beacon), std::slice::from_ref(&ask));
    assert_eq!(mirror.on_beacon(now, beacon), [], "the answer is awaited");
    mirror.on_unanswered(incarnation(3, 6));
    assert_eq!(mirror.on_beacon(now, beacon), [], "another life");
    mirror.on_unanswered(origin);
    assert_eq!(mirror.on_beacon(now, beacon), [ask]);
    assert_eq!(mirror.on_beacon(now, beacon), []);
    let part = part_of(origin, 0, None, &[]);
    assert_eq!(mirror.on_part(now, part), []);
    mirror.on_unanswered(origin);
    assert_eq!(mirror.on_beacon(now, beacon), [], "nothing is awaited");
}

#[test]
fn a_number_that_nobody_counts_to_is_malformed() {
    let is_read = |number, epoch| {
        let origin = incarnation(3, epoch);
        let (key, value) = (Box::from(*b"key"), Box::from(*b"value"));
        let change = LiveChange {
            origin,
            number,
            key,
            value: Some(value),
        };
        let beacon = Beacon { origin, number };
        let part = part_of(origin, number, None, &[(b"key", 1)]);
        let entry = part_of(origin, 1, None, &[(b"key", number)]);
        let changes = LiveChanges {
            origin,
            first: number.saturating_sub(1),
            changes: vec![(change.key.clone(), None), (change.key.clone(), None)],
        };
        let messages = [
            LiveMessage::Change(change),
            LiveMessage::Changes(changes),
            LiveMessage::Beacon(beacon),
            LiveMessage::Part(part),
            LiveMessage::Part(entry),
        ];
        messages.map(|message| LiveMessage::from_bytes(&message.to_bytes()).is_some())
    };
    let last = (1 << 63) - 1;
    assert_eq!(is_read(last, last), [true; 5]);
    assert_eq!(is_read(last, last + 1), [false; 5]);
    assert_eq!(is_read(last + 1, 1), [false; 5]);
    assert_eq!(is_read(u64::MAX, 1), [false; 5]);
}

/// A mirror searches a part by halves, and asks for what is behind its last key.
#[test]
fn a_part_that_is_not_in_order_or_leads_nowhere_is_malformed() {
    let is_read = |after, keys: &[&[u8]], is_last| {
        let entries: Vec<_> = keys.iter().map(|key| (*key, 1)).collect();
        let mut part = part_of(incarnation(3, 1), 1, after, &entries);
        part.is_last = is_last;
        LiveMessage::from_bytes(&LiveMessage::Part(part).to_bytes()).is_some()
    };
    assert!(is_read(None, &[b"a", b"ab", b"b"], true));
    assert!(is_read(Some(b"a"), &[b"b"], false));
    assert!(is_read(Some(b"a"), &[], true));
    assert!(is_read(None, &[b""], false));
    for after in [None, Some(&b"a"[..])] {
        assert!(!is_read(after, &[b"c", b"b"], true), "they fall");
        assert!(!is_read(after, &[b"b", b"c", b"c"], true), "one is doubled");
        assert!(!is_read(after, &[], false), "nothing to go on from");
    }
    assert!(!is_read(Some(b"b"), &[b"b"], false), "not behind the key");
    assert!(!is_read(Some(b"b"), &[b"a", b"c"], true), "one is before");
}

/// Several nodes, a broker, and what is on its way between them.
struct Network {
    now: Instant,
    random: Random,
    faults: Faults,
    tables: Tables,
    /// What the asynchronous standby of the database has.
    standby: Tables,
    has_failed_over: bool,
    nodes: Vec<Node>,
    /// By the time at which they arrive.
    on_way: BTreeMap<(Instant, u64), (usize, Message)>,
    sent: u64,
    next_beacon: Instant,
    /// Beacons that said nothing new.
    known_beacons: u64,
}

struct Node {
    incarnation: Incarnation,
    origin: LiveOrigin,
    mirror: LiveMirror,
    /// What the users of the mirror were told.
    told: BTreeMap<(NodeNumber, Key), Value>,
    is_connected: bool,
    is_dead: bool,
}

#[derive(Clone)]
enum Message {
    Change(LiveChange),
    Beacon(Beacon),
    Ask(usize, PartRequest),
    Part(Part),
}

/// Of a hundred, how many.
#[derive(Default)]
struct Faults {
    lost: u64,
    repeated: u64,
    delayed: u64,
    /// Of a thousand steps, how many end a life or a connection.
    deaths: u64,
    disconnections: u64,
}

impl Network {
    fn new(seed: u64) -> Self {
        let mut network = Self {
            now: Instant::from_nanos(0),
            random: Random(seed),
            faults: Faults {
                lost: 10,
                repeated: 10,
                delayed: 20,
                deaths: 5,
                disconnections: 10,
            },
            tables: Tables::new(Timing::default()),
            standby: Tables::new(Timing::default()),
            has_failed_over: false,
            nodes: Vec::new(),
            on_way: BTreeMap::new(),
            sent: 0,
            next_beacon: Instant::from_nanos(0),
            known_beacons: 0,
        };
        for name in NAMES {
            let member = network.tables.join(network.now, name).unwrap();
            let node = network.begin(member);
            network.nodes.push(node);
        }
        network.standby = network.tables.clone();
        (0..network.nodes.len()).for_each(|node| network.connect(node, true));
        network
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let node = self.below(self.nodes.len() as u64) as usize;
            let (deaths, disconnections) = (self.faults.deaths, self.faults.disconnections);
            match self.below(1000) {
                roll if roll < deaths => self.die(node),
                roll if roll < deaths + disconnections => {
                    let is_connected = !self.nodes[node].is_connected;
                    self.connect(node, is_connected);
                }
                _ => self.change(node),
            }
            let pause = self.below(40);
            self.pass(Duration::from_millis(pause));
        }
    }

    /// Faults and changes end; then a beacon and a sync must be enough.
    fn become_quiet(&mut self) {
        self.faults = Faults::default();
        // Who was connected all the time reads nothing again without a reason.
        let away: Vec<usize> = (0..self.nodes.len())
            .filter(|node| !self.nodes[*node].is_connected)
            .collect();
        away.into_iter().for_each(|node| self.connect(node, true));
        if self.below(2) == 0 {
            self.die_for_good(0);
        }
        self.pass(Duration::from_secs(5));
    }

    fn members(&self) -> impl Iterator<Item = Member> {
        self.nodes.iter().map(|node| node.incarnation.member)
    }

    /// What it said before may still arrive.
    fn die_for_good(&mut self, node: usize) {
        self.tables
            .leave(self.nodes[node].incarnation.member)
            .unwrap();
        (self.nodes[node].is_dead, self.nodes[node].is_connected) = (true, false);
        self.show_view();
    }

    fn check(&self, seed: u64) {
        let living = || self.nodes.iter().filter(|node| !node.is_dead);
        for node in living() {
            assert!(
                node.mirror.is_whole(),
                "seed {seed}: {:?}",
                node.incarnation
            );
            let mut expected = BTreeMap::new();
            for other in living().filter(|other| other.incarnation != node.incarnation) {
                let request = PartRequest {
                    origin: other.incarnation,
                    after: None,
                };
                let all = other.origin.part(&request, usize::MAX).unwrap();
                let number = other.incarnation.member.node;
                expected.extend(
                    all.entries
                        .into_iter()
                        .map(|entry| ((number, entry.key), entry.value)),
                );
            }
            assert_eq!(node.told, expected, "seed {seed}: {:?}", node.incarnation);
        }
    }

    fn change(&mut self, node: usize) {
        let key: Key = Box::from([self.below(12) as u8]);
        let value: Value = Box::from([self.below(4) as u8]);
        let origin = &mut self.nodes[node].origin;
        let change = match value[0] {
            0 => origin.remove(&key),
            _ => origin.set(key, value),
        };
        if let Some(change) = change {
            self.send_to_all(node, Message::Change(change));
        }
    }

    /// A node dies and comes back as a new life, without any state.
    fn die(&mut self, node: usize) {
        let member = self.nodes[node].incarnation.member;
        self.tables.leave(member).unwrap();
        self.show_view();
        self.begin_again(node);
    }

    fn begin_again(&mut self, node: usize) {
        let member = self.tables.join(self.now, NAMES[node]).unwrap();
        self.nodes[node] = self.begin(member);
        // A node listens to others after its first beat.
        self.show_view();
        self.connect(node, true);
    }

    fn begin(&mut self, member: Member) -> Node {
        let random = self.below(u64::MAX);
        Node::new(Incarnation::new(member, random))
    }

    /// The database goes on as it was some time ago, and counts lives again that there have been since.
    /// Those processes are told that they do not live; the others may hear of that later.
    fn fail_over(&mut self) {
        self.has_failed_over = true;
        self.tables = self.standby.clone();
        for node in 0..self.nodes.len() {
            if self
                .tables
                .beat(self.now, self.nodes[node].incarnation.member)
                .is_ok()
            {
                continue;
            }
            if self.below(2) == 0 {
                self.show_view();
            }
            let shown = self.tables.view(self.now).nodes.swap_remove(node);
            if shown.life != Life::Over {
                self.tables.leave(shown.member).unwrap();
            }
            self.begin_again(node);
        }
    }

    fn show_view(&mut self) {
        let view = self.tables.view(self.now);
        for node in 0..self.nodes.len() {
            let now = self.now;
            let actions = self.nodes[node].mirror.on_view(now, now, &view);
            self.follow(node, actions);
        }
    }

    fn connect(&mut self, node: usize, is_connected: bool) {
        let now = self.now;
        self.nodes[node].is_connected = is_connected;
        let actions = self.nodes[node].mirror.on_connected(now, is_connected);
        self.follow(node, actions);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let arrival = self.on_way.keys().next().map(|(at, _)| *at);
            let next = arrival.map_or(self.next_beacon, |at| at.min(self.next_beacon));
            if next > end {
                break self.now = end;
            }
            self.now = next;
            match arrival {
                Some(at) if at == next => self.arrive(),
                _ => self.beat(),
            }
        }
    }

    fn beat(&mut self) {
        self.next_beacon = self.now + Duration::from_millis(500);
        self.show_view();
        for node in 0..self.nodes.len() {
            let beacon = self.nodes[node].origin.beacon();
            self.send_to_all(node, Message::Beacon(beacon));
            let now = self.now;
            let actions = self.nodes[node].mirror.on_time(now);
            self.follow(node, actions);
        }
    }

    fn arrive(&mut self) {
        let Some((_, (to, message))) = self.on_way.pop_first() else {
            return;
        };
        let (now, node) = (self.now, &mut self.nodes[to]);
        if !node.is_connected {
            return;
        }
        let actions = match message {
            Message::Change(change) => node.mirror.on_change(now, change),
            Message::Beacon(beacon) => {
                let is_known = node.mirror.knows(beacon);
                self.known_beacons += u64::from(is_known);
                let follows = node.mirror.on_beacon(now, beacon);
                assert!(!is_known || follows.is_empty(), "a node passes over it");
                follows
            }
            Message::Part(part) => node.mirror.on_part(now, part),
            Message::Ask(from, request) => {
                if let Some(part) = node.origin.part(&request, 64) {
                    self.send(to, from, Message::Part(part));
                }
                Vec::new()
            }
        };
        self.follow(to, actions);
    }

    fn follow(&mut self, node: usize, actions: Vec<LiveAction>) {
        for action in actions {
            match action {
                LiveAction::Ask(request) => {
                    let to = usize::from(request.origin.member.node.0) - 1;
                    self.send(node, to, Message::Ask(node, request));
                }
                LiveAction::Set(member, key, value) => self.take(node, member, key, value),
                LiveAction::Withdrawn(member, key) => self.take(node, member, key, None),
            }
        }
    }

    fn take(&mut self, node: usize, member: Member, key: Key, value: Option<Value>) {
        let incarnation = &self.nodes[usize::from(member.node.0) - 1];
        let is_alive = incarnation.incarnation.member == member && !incarnation.is_dead;
        assert!(
            value.is_none() || is_alive || self.has_failed_over,
            "{member:?} speaks after its end"
        );
        let told = &mut self.nodes[node].told;
        match value {
            Some(value) => drop(told.insert((member.node, key), value)),
            None => assert!(
                told.remove(&(member.node, key)).is_some(),
                "it was told before"
            ),
        }
    }

    fn send_to_all(&mut self, from: usize, message: Message) {
        for to in (0..self.nodes.len()).filter(|to| *to != from) {
            self.send(from, to, message.clone());
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        if !self.nodes[from].is_connected || self.below(100) < self.faults.lost {
            return;
        }
        let copies = 1 + u64::from(self.below(100) < self.faults.repeated);
        for _ in 0..copies {
            let is_delayed = self.below(100) < self.faults.delayed;
            let delay = if is_delayed { self.below(800) } else { 2 };
            self.sent += 1;
            let at = self.now + Duration::from_millis(delay);
            self.on_way.insert((at, self.sent), (to, message.clone()));
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }
}

impl Node {
    fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            origin: LiveOrigin::new(incarnation),
            mirror: LiveMirror::new(incarnation.member.node, PATIENCE),
            told: BTreeMap::new(),
            is_connected: false,
            is_dead: false,
        }
    }
}

fn part_of(origin: Incarnation, at: u64, after: Option<&[u8]>, entries: &[(&[u8], u64)]) -> Part {
    let entries = entries.iter().map(|(key, number)| Entry {
        key: Box::from(*key),
        number: *number,
        value: Box::from(*b"value"),
    });
    Part {
        origin,
        after: after.map(Box::from),
        at,
        entries: entries.collect(),
        is_last: true,
    }
}

fn incarnation(node: u16, epoch: u64) -> Incarnation {
    let node = NodeNumber(node);
    Incarnation::new(Member { node, epoch }, 12)
}

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];
const PATIENCE: Duration = Duration::from_millis(300);
