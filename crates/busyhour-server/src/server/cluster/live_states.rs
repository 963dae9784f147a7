//! What the nodes tell each other of devices: which are watched where, what they do, and the
//! dialogs that another node carries. `SharedStates` of `busyhour-cluster` decides what is said.
//!
//! **Three locks, in this order.** `feeds` is held while something that other nodes said takes
//! effect here, and while partitions come and go, so that one thing happens after the other.
//! `moving` is held for reading while a dialog that has changed goes to its device or to the
//! device's owner, and for writing while a partition comes or goes, so that no change is lost in
//! between. `spoken` is held while changes get their numbers, and while they are given to the broker,
//! so that they leave in this order; it is the only one that is taken under the lock of a call or of
//! a watcher, and nothing is locked under it.
//!
//! **Changes wait for the next turn of the serializer**, so those of one moment leave in one message: who
//! joins asks for thousands of devices at once, and is answered thousands of times. Before this node
//! listens nothing leaves at all: nobody has heard of it, and who does reads all.

use super::other_versions::OtherVersions;
use crate::lock::lock;
use crate::server::stats::{
    counters::Counter,
    queues::SerializerListing,
    serializer_kind::{KindOptions, SerializerKind},
};
use busyhour::{
    bus::{Name, Subscription},
    clock::Instant,
    runtime::Runtime,
    serializer::Serializer,
};
use busyhour_cluster::{
    Broker, BrokerError, Grant, Incarnation, LiveMessage, LiveOrigin, LiveOutbox, Member,
    PARTITION_COUNT, PartRequest, Partition, SharedAction, SharedStates, View,
};
use busyhour_registrar::watch::{DeviceState, DialogChange};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// This node's part in what all nodes know of devices.
pub(in crate::server) struct LiveStates {
    incarnation: Incarnation,
    broker: Arc<dyn Broker>,
    subject: String,
    spoken: Mutex<SpokenStates>,
    /// By partition: the epoch by which this node speaks for it, or 0.
    epochs: Box<[AtomicU64]>,
    moving: RwLock<()>,
    feeds: Mutex<LiveFeeds>,
    /// Does what follows from events, one after the other.
    pub(in crate::server) serializer: Serializer,
    pub(in crate::server) kind: SerializerKind,
    take: OnceLock<TakeEvent>,
    next_beat_ns: AtomicU64,
    /// There was no room to tell what was known of a device when somebody began to watch it.
    pub(super) must_recall: AtomicBool,
    pub(super) counters: LiveStateCounters,
    pub(super) other_versions: OtherVersions,
}

/// What this node knows and says, and what of it has not left yet.
struct SpokenStates {
    states: SharedStates,
    outbox: LiveOutbox,
    /// A turn of the serializer will send what waits.
    is_flush_due: bool,
}

/// What happened, for the serializer.
pub(super) enum LiveEvent {
    /// Another node has said something.
    Said(LiveMessage),
    /// Somebody watches a device of which something was said before.
    Watched(Name),
    /// Another node did not listen when it was asked.
    Unanswered(Incarnation),
    /// A node is reached again.
    PathIsOpen(u16),
    /// NATS is back: the next part of the watchers is looked at.
    WayIsOpen,
    /// Changes wait to be sent.
    Flush,
    /// Partitions were granted, and watchers here and other nodes are to be told of their devices.
    Granted,
    /// These have to be looked through for what nobody watches any more.
    Sweep(SweepRest),
    /// Time has passed; at this time or later the nodes were these.
    Beat(Instant, View),
}

/// What this node listens to for others, and what it knows of its connection.
#[derive(Default)]
pub(super) struct LiveFeeds {
    pub(super) by_aor: HashMap<Box<str>, Subscription<DeviceState>>,
    pub(super) is_connected: bool,
    pub(super) sweep: WantSweep,
    /// What has still to be told of partitions that were granted.
    pub(super) granted: VecDeque<GrantedRest>,
    /// The part of the watchers that is looked at next, since NATS is back.
    pub(super) next_part: Option<usize>,
}

/// How far this node has looked for what nobody watches any more.
#[derive(Default)]
pub(super) struct WantSweep {
    swept_until: Option<Instant>,
    next: u8,
}

/// What has still to be told of a partition, whose last owner has told it before.
pub(super) struct GrantedRest {
    pub(super) grant: Grant,
    pub(super) actions: Vec<SharedAction>,
}

/// What a node has still to look through in this round. What comes meanwhile waits for a few of these at most.
pub(super) struct SweepRest {
    pub(super) partitions: Vec<Partition>,
    /// Of the partition that was taken last.
    pub(super) names: Vec<Name>,
}

#[derive(Default)]
pub(super) struct LiveStateCounters {
    /// Messages to other nodes that could not be sent.
    pub(super) not_sent: Counter,
    /// Those of others for which there was no room.
    pub(super) not_taken: Counter,
}

/// `false` if there is no room.
type TakeEvent = Box<dyn Fn(LiveEvent) -> bool + Send + Sync>;

impl LiveStates {
    pub(super) fn new(
        runtime: &Runtime,
        incarnation: Incarnation,
        broker: Arc<dyn Broker>,
        subjects: &str,
    ) -> Self {
        let kind = SerializerKind::new(runtime, OPTIONS);
        Self {
            incarnation,
            broker,
            subject: format!("{subjects}.live"),
            spoken: Mutex::new(SpokenStates {
                states: SharedStates::new(incarnation, PATIENCE),
                outbox: LiveOutbox::default(),
                is_flush_due: false,
            }),
            epochs: (0..PARTITION_COUNT).map(|_| AtomicU64::new(0)).collect(),
            moving: RwLock::new(()),
            feeds: Mutex::default(),
            serializer: kind.ephemeral(),
            kind,
            take: OnceLock::new(),
            next_beat_ns: AtomicU64::new(0),
            must_recall: AtomicBool::new(false),
            counters: LiveStateCounters::default(),
            other_versions: OtherVersions::new(runtime.clock().clone()),
        }
    }

    pub(super) fn member(&self) -> Member {
        self.incarnation.member
    }

    pub(super) fn is_connected(&self) -> bool {
        self.broker.is_connected()
    }

    /// Who takes events from now on.
    pub(super) fn take_with(&self, take: TakeEvent) {
        // It is set once, when the server starts.
        let _ = self.take.set(take);
    }

    /// Whether what this node knows of a device is what watchers are told.
    pub(in crate::server) fn speaks_for(&self, aor: &str) -> bool {
        self.epoch(Partition::of(aor)).load(Ordering::SeqCst) != 0
    }

    /// Keeps partitions from coming and going.
    pub(in crate::server) fn keep_partitions(&self) -> RwLockReadGuard<'_, ()> {
        self.moving
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets partitions come and go.
    pub(super) fn move_partitions(&self) -> RwLockWriteGuard<'_, ()> {
        self.moving
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Only while they may come and go.
    pub(super) fn granted(&self, grant: Grant) -> Vec<SharedAction> {
        self.epoch(grant.partition)
            .store(grant.epoch, Ordering::SeqCst);
        self.apply(|shared| shared.granted(grant))
    }

    /// Only while they may come and go.
    pub(super) fn lost(&self, partition: Partition) -> Vec<SharedAction> {
        self.epoch(partition).store(0, Ordering::SeqCst);
        self.apply(|shared| shared.lost(partition))
    }

    pub(super) fn feeds(&self) -> MutexGuard<'_, LiveFeeds> {
        lock(&self.feeds)
    }

    /// Somebody watches a device, whoever has it, and listens by now.
    pub(in crate::server) fn want(&self, device: &Name) {
        let mut can_recall = false;
        self.apply(|shared| {
            let actions = shared.want(device);
            can_recall = shared.can_recall(device);
            actions
        });
        if can_recall {
            self.push(LiveEvent::Watched(device.clone()));
        }
    }

    /// What is watched here of a partition.
    pub(super) fn watched(&self, partition: Partition) -> Vec<Name> {
        let spoken = lock(&self.spoken);
        spoken.states.watched(partition).map(Name::new).collect()
    }

    /// What a device of ours does, for those who watch it on other nodes.
    pub(super) fn tell(&self, device: &str, state: Option<&DeviceState>) {
        let state = state.map(DeviceState::to_shared);
        let bytes = state.as_ref().map_or(0, Vec::len);
        if bytes > LiveOrigin::VALUE_BYTES_MAX {
            tracing::error!(
                event = "state_too_large",
                device,
                bytes,
                "other nodes are not told what a device does"
            );
        }
        self.apply(|shared| shared.state_is(device, state.as_deref()));
    }

    /// A dialog that is carried here has changed, and its device is another node's.
    pub(in crate::server) fn report(&self, change: &DialogChange) {
        self.report_as(&change.device, change.id, change.to_shared());
    }

    pub(super) fn report_as(&self, device: &str, id: u64, dialog: Option<Vec<u8>>) {
        let dialog = dialog.map(Vec::into_boxed_slice);
        self.apply(|shared| shared.report(device, id, dialog));
    }

    /// The next beat of the node has read this.
    pub(super) fn beat(&self, now: Instant, read_at: Instant, view: Option<&View>) {
        let (Some(view), now_ns) = (view, now.as_nanos()) else {
            return;
        };
        if !self.listens() {
            return;
        }
        if now_ns < self.next_beat_ns.load(Ordering::Relaxed) {
            return;
        }
        let next = now + BEAT_MIN;
        self.next_beat_ns.store(next.as_nanos(), Ordering::Relaxed);
        self.apply(|shared| {
            let beacon = shared.beacon_due(view);
            beacon.map(SharedAction::Send).into_iter().collect()
        });
        self.push(LiveEvent::Beat(read_at, view.clone()));
    }

    /// Who has asked before this node listened asks again.
    pub(super) fn send_beacon(&self) {
        self.apply(|shared| vec![SharedAction::Send(shared.beacon())]);
    }

    fn listens(&self) -> bool {
        self.take.get().is_some()
    }

    /// Something that another node says, from the broker's thread.
    pub(super) fn hear(&self, payload: &[u8], reply: Option<&str>) {
        match LiveMessage::from_bytes(payload) {
            Some(LiveMessage::Ask(request)) => self.answer(&request, reply),
            // What we say ourselves comes back.
            Some(message) if message.origin() == self.incarnation => {}
            // Most of them say nothing new, and a turn of the serializer wakes a thread.
            Some(LiveMessage::Beacon(beacon)) if lock(&self.spoken).states.knows(beacon) => {}
            Some(message) => drop(self.push(LiveEvent::Said(message))),
            None => match LiveMessage::other_version(payload) {
                Some(version) => self.other_versions.heard(&version.to_string()),
                None => self.other_versions.unreadable(),
            },
        }
    }

    fn answer(&self, request: &PartRequest, reply: Option<&str>) {
        let part = lock(&self.spoken).states.part(request, PART_BYTES);
        if let (Some(part), Some(reply)) = (part, reply) {
            let answer = LiveMessage::Part(part).to_bytes();
            self.count(self.broker.publish(reply, answer).is_ok());
        }
    }

    /// Where this node hears what others say.
    pub(super) fn subjects_to_hear(&self) -> [String; 2] {
        [
            self.subject.clone(),
            self.subject_of(self.incarnation.member),
        ]
    }

    fn subject_of(&self, member: Member) -> String {
        format!("{}.{}", self.subject, member.node.0)
    }

    /// Sends what has to be said, now or soon, and returns what else follows.
    pub(super) fn apply(
        &self,
        event: impl FnOnce(&mut SharedStates) -> Vec<SharedAction>,
    ) -> Vec<SharedAction> {
        let mut spoken = lock(&self.spoken);
        let mut others = Vec::new();
        for action in event(&mut spoken.states) {
            match action {
                SharedAction::Send(message) => self.say(&mut spoken, message),
                other => others.push(other),
            }
        }
        let waits = !spoken.outbox.is_empty() && !spoken.is_flush_due;
        spoken.is_flush_due |= waits;
        drop(spoken);
        if waits && !self.push(LiveEvent::Flush) {
            self.flush();
        }
        others
    }

    fn say(&self, spoken: &mut SpokenStates, message: LiveMessage) {
        let is_full = match message {
            _ if !self.listens() => return,
            LiveMessage::Change(change) => {
                spoken.outbox.push(change);
                spoken.outbox.is_full()
            }
            message => {
                self.send_waiting(spoken);
                self.send(&message);
                false
            }
        };
        if is_full {
            self.send_waiting(spoken);
        }
    }

    /// Sends what waits.
    pub(super) fn flush(&self) {
        let mut spoken = lock(&self.spoken);
        spoken.is_flush_due = false;
        self.send_waiting(&mut spoken);
    }

    fn send_waiting(&self, spoken: &mut SpokenStates) {
        for message in spoken.outbox.take() {
            self.send(&message);
        }
    }

    fn send(&self, message: &LiveMessage) {
        let sent = self.broker.publish(&self.subject, message.to_bytes());
        self.count(sent.is_ok());
    }

    /// Asks another node; what does not come is asked for again.
    pub(super) fn ask(self: &Arc<Self>, request: PartRequest) {
        let (origin, subject) = (request.origin, self.subject_of(request.origin.member));
        let live = Arc::downgrade(self);
        let answered = Box::new(move |answer: Result<Vec<u8>, BrokerError>| {
            let Some(live) = live.upgrade() else { return };
            match answer {
                Ok(answer) => live.hear(&answer, None),
                Err(_) => drop(live.push(LiveEvent::Unanswered(origin))),
            }
        });
        let request = LiveMessage::Ask(request).to_bytes();
        let asked = self.broker.request(&subject, request, PATIENCE, answered);
        self.count(asked.is_ok());
    }

    fn count(&self, is_sent: bool) {
        if !is_sent {
            self.counters.not_sent.increment();
        }
    }

    /// A node is reached again. Without room who is reached through it may be told later.
    pub(super) fn path_is_open(&self, node: u16) {
        self.push(LiveEvent::PathIsOpen(node));
    }

    /// Those who are reached through other nodes are looked at, a part in each turn. Without room the next beat goes on.
    pub(super) fn way_is_open(&self) {
        self.push(LiveEvent::WayIsOpen);
    }

    /// What was granted is told of in turns between which other events are taken. Without room the next beat goes on.
    pub(super) fn tell_of_granted(&self) {
        self.push(LiveEvent::Granted);
    }

    /// Whether this node has a partition since that grant.
    pub(super) fn has_grant(&self, grant: Grant) -> bool {
        self.epoch(grant.partition).load(Ordering::SeqCst) == grant.epoch
    }

    /// Whether another node wants to know a device.
    pub(super) fn is_wanted(&self, aor: &str) -> bool {
        lock(&self.spoken).states.is_wanted(aor)
    }

    /// Does it in turns between which other events are taken. Without room the rest is looked through in the next round.
    pub(super) fn sweep(&self, rest: SweepRest) {
        if !rest.partitions.is_empty() || !rest.names.is_empty() {
            self.push(LiveEvent::Sweep(rest));
        }
    }

    /// `false` if it is not taken.
    fn push(&self, event: LiveEvent) -> bool {
        self.take.get().is_some_and(|take| take(event))
    }

    pub(super) fn figures(&self) -> LiveFigures {
        let shared = &lock(&self.spoken).states;
        LiveFigures {
            is_whole: shared.is_whole(),
            resyncs: shared.resyncs(),
            too_large: shared.too_large(),
            told: shared.told_len() as u64,
            watched: shared.watched_of_others_len() as u64,
            unheard: shared.unheard_len() as u64,
        }
    }

    /// What waits for its serializer.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        let mut listing = self.kind.listing();
        listing.add(self.serializer.stats(), || {
            "states of other nodes".to_owned()
        });
        listing
    }

    fn epoch(&self, partition: Partition) -> &AtomicU64 {
        &self.epochs[partition.index()]
    }
}

/// How much is known and told, for the statistics.
pub(super) struct LiveFigures {
    pub(super) is_whole: bool,
    pub(super) resyncs: u64,
    pub(super) too_large: u64,
    pub(super) told: u64,
    pub(super) watched: u64,
    pub(super) unheard: u64,
}

impl LiveFeeds {
    /// The part of the watchers whose turn it is, of so many.
    pub(super) fn take_part(&mut self, count: usize) -> Option<usize> {
        let part = self.next_part?;
        self.next_part = (part + 1 < count).then_some(part + 1);
        Some(part)
    }
}

impl WantSweep {
    /// The partitions that are looked at now, so that each one's turn comes in time, and no look takes
    /// long.
    pub(super) fn due(&mut self, now: Instant) -> impl Iterator<Item = Partition> {
        let since = self.swept_until.map_or(Duration::ZERO, |until| now - until);
        self.swept_until = Some(now);
        let part = since.as_secs_f64() / SWEEP.as_secs_f64();
        let count = (PARTITION_COUNT as f64 * part.min(1.0)).ceil() as usize;
        let first = self.next;
        self.next = first.wrapping_add(count as u8);
        (0..count).map(move |index| Partition(first.wrapping_add(index as u8)))
    }
}

/// A node that joins is told all by the others, in messages of which each is one turn.
const OPTIONS: KindOptions = KindOptions {
    name: "live",
    low: 64,
    high: 4096,
    unlabelled: "states",
};
/// How long another node may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// What follows from a part takes some milliseconds of a worker. NATS takes 1 MiB by default.
const PART_BYTES: usize = 64 << 10;
/// What nobody watches any more is told for so long at most.
const SWEEP: Duration = Duration::from_secs(5);
/// A node beats each fifth of a lease, and does more in between.
const BEAT_MIN: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_watchers_has_its_turn_once() {
        let mut feeds = LiveFeeds::default();
        assert_eq!(feeds.take_part(3), None);
        feeds.next_part = Some(0);
        let parts: Vec<_> = std::iter::from_fn(|| feeds.take_part(3)).collect();
        assert_eq!(parts, [0, 1, 2]);
        assert_eq!(feeds.take_part(3), None);
    }
}
