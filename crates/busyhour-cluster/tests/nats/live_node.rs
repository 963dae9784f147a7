//! A node with live states on NATS, as a server has them.

use busyhour::clock::Clock;
use busyhour_cluster::{
    Broker, BrokerError, BrokerMessage, Incarnation, Key, LiveAction, LiveMessage, LiveMirror,
    LiveOrigin, Member, NatsBroker, NatsOptions, NodeNumber, OnConnected, PartRequest, Value,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

/// A node: what it says, and what it has of others.
pub struct LiveNode {
    incarnation: Incarnation,
    clock: Clock,
    origin: Mutex<LiveOrigin>,
    mirror: Mutex<LiveMirror>,
    broker: OnceLock<NatsBroker>,
}

impl LiveNode {
    pub fn start(node: u16, options: NatsOptions) -> Arc<Self> {
        let member = Member {
            node: NodeNumber(node),
            epoch: 1,
        };
        let incarnation = Incarnation::new(member, u64::from(node));
        let live = Arc::new(Self {
            incarnation,
            clock: Clock::machine(),
            origin: Mutex::new(LiveOrigin::new(incarnation)),
            mirror: Mutex::new(LiveMirror::new(member.node, PATIENCE)),
            broker: OnceLock::new(),
        });
        let on_connected = on(&live, |live, is_connected| {
            let now = live.clock.now();
            let actions = live.mirror.lock().unwrap().on_connected(now, is_connected);
            live.follow(actions);
        });
        let broker = NatsBroker::connect(NatsOptions {
            on_connected: Some(OnConnected(Arc::new(on_connected))),
            ..options
        });
        let broker = live.broker.get_or_init(|| broker.expect("right options"));
        let hear = on(&live, Self::hear);
        broker.subscribe("live", Box::new(hear)).unwrap();
        let answer = on(&live, Self::answer);
        broker
            .subscribe(&subject(member.node), Box::new(answer))
            .unwrap();
        live
    }

    pub fn broker(&self) -> &NatsBroker {
        self.broker.get().expect("it was set at the start")
    }

    pub fn set(&self, key: u32, value: u32) {
        let (key, value) = (Box::from(key.to_be_bytes()), Box::from(value.to_be_bytes()));
        // Under the lock, so that the changes leave in their order.
        let mut origin = self.origin.lock().unwrap();
        if let Some(change) = origin.set(key, value) {
            self.tell(&LiveMessage::Change(change));
        }
    }

    /// A state of so many bytes.
    pub fn set_large(&self, key: u32, len: usize) {
        let mut origin = self.origin.lock().unwrap();
        let value: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        if let Some(change) = origin.set(key.to_be_bytes().into(), value.into()) {
            self.tell(&LiveMessage::Change(change));
        }
    }

    pub fn resyncs(&self) -> u64 {
        self.mirror.lock().unwrap().resyncs()
    }

    pub fn remove(&self, key: u32) {
        let mut origin = self.origin.lock().unwrap();
        if let Some(change) = origin.remove(&key.to_be_bytes()) {
            self.tell(&LiveMessage::Change(change));
        }
    }

    /// What a server does with each beat.
    pub fn beat(self: &Arc<Self>) {
        let beacon = self.origin.lock().unwrap().beacon();
        self.tell(&LiveMessage::Beacon(beacon));
        let actions = self.mirror.lock().unwrap().on_time(self.clock.now());
        self.follow(actions);
    }

    pub fn is_whole(&self) -> bool {
        self.mirror.lock().unwrap().is_whole()
    }

    /// What this node has of another.
    pub fn states_of(&self, other: &Self) -> BTreeMap<Key, Value> {
        let mirror = self.mirror.lock().unwrap();
        let states = mirror.states(other.incarnation.member.node);
        states
            .map(|(key, value)| (key.into(), value.into()))
            .collect()
    }

    /// What the node says itself.
    pub fn own_states(&self) -> BTreeMap<Key, Value> {
        let request = PartRequest {
            origin: self.incarnation,
            after: None,
        };
        let all = self
            .origin
            .lock()
            .unwrap()
            .part(&request, usize::MAX)
            .unwrap();
        all.entries
            .into_iter()
            .map(|entry| (entry.key, entry.value))
            .collect()
    }

    /// If the broker is away, the message is lost.
    fn tell(&self, message: &LiveMessage) {
        let _repaired_later = self.broker().publish("live", message.to_bytes());
    }

    fn hear(self: &Arc<Self>, message: BrokerMessage) {
        let now = self.clock.now();
        let mut mirror = self.mirror.lock().unwrap();
        let actions = match LiveMessage::from_bytes(&message.payload) {
            Some(LiveMessage::Change(change)) => mirror.on_change(now, change),
            Some(LiveMessage::Beacon(beacon)) => mirror.on_beacon(now, beacon),
            other => panic!("{other:?}"),
        };
        drop(mirror);
        self.follow(actions);
    }

    fn answer(self: &Arc<Self>, message: BrokerMessage) {
        let Some(LiveMessage::Ask(request)) = LiveMessage::from_bytes(&message.payload) else {
            panic!("{message:?}");
        };
        let part = self.origin.lock().unwrap().part(&request, PART_BYTES);
        let (part, reply) = part
            .zip(message.reply)
            .expect("it asks this life for an answer");
        let _asked_again = self
            .broker()
            .publish(&reply, LiveMessage::Part(part).to_bytes());
    }

    fn follow(self: &Arc<Self>, actions: Vec<LiveAction>) {
        for action in actions {
            if let (LiveAction::Ask(request), Some(broker)) = (action, self.broker.get()) {
                let subject = subject(request.origin.member.node);
                let request = LiveMessage::Ask(request).to_bytes();
                let done = Box::new(on(self, Self::take_part));
                let _asked_again = broker.request(&subject, request, PATIENCE, done);
            }
        }
    }

    fn take_part(self: &Arc<Self>, answer: Result<Vec<u8>, BrokerError>) {
        let part = answer
            .ok()
            .and_then(|bytes| LiveMessage::from_bytes(&bytes));
        if let Some(LiveMessage::Part(part)) = part {
            let actions = self.mirror.lock().unwrap().on_part(self.clock.now(), part);
            self.follow(actions);
        }
    }
}

/// A callback that does not keep the node.
fn on<T>(live: &Arc<LiveNode>, call: fn(&Arc<LiveNode>, T)) -> impl Fn(T) + Send + Sync + use<T> {
    let live = Arc::downgrade(live);
    move |what| {
        if let Some(live) = live.upgrade() {
            call(&live, what);
        }
    }
}

fn subject(node: NodeNumber) -> String {
    format!("live.{node}")
}

const PATIENCE: Duration = Duration::from_millis(500);
const PART_BYTES: usize = 4096;
