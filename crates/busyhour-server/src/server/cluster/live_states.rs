//! What the nodes tell each other of devices: which are watched where, what they do, and the
//! dialogs that another node carries. `SharedStates` of `busyhour-cluster` decides what is said.
//!
//! **Three locks, in this order.** `feeds` is held while something that other nodes said takes
//! effect here, and while partitions come and go, so that one thing happens after the other.
//! `moving` is held for reading while a dialog that has changed goes to its device or to the
//! device's owner, and for writing while a partition comes or goes, so that no change is lost in
//! between. `shared` is held while messages get their numbers and are given to the broker, so
//! that they leave in this order; it is the only one that is taken under the lock of a call or of
//! a watcher, and nothing is locked under it.

use super::other_versions::OtherVersions;
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
    Broker, Grant, LiveMessage, LiveOrigin, Member, PARTITION_COUNT, PartRequest, Partition,
    SharedAction, SharedStates, View,
};
use busyhour_registrar::watch::{DeviceState, DialogChange};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// This node's part in what all nodes know of devices.
pub(in crate::server) struct LiveStates {
    member: Member,
    broker: Arc<dyn Broker>,
    subject: String,
    shared: Mutex<SharedStates>,
    /// By partition: the epoch by which this node speaks for it, or 0.
    epochs: Box<[AtomicU64]>,
    moving: RwLock<()>,
    feeds: Mutex<LiveFeeds>,
    /// Does what follows from events, one after the other.
    pub(in crate::server) serializer: Serializer,
    pub(in crate::server) kind: SerializerKind,
    take: OnceLock<Box<dyn Fn(LiveEvent) + Send + Sync>>,
    next_beat_ns: AtomicU64,
    /// There was no room to tell what was known of a device when somebody began to watch it.
    pub(super) must_recall: AtomicBool,
    pub(super) counters: LiveStateCounters,
    pub(super) other_versions: OtherVersions,
}

/// What happened, for the serializer.
pub(super) enum LiveEvent {
    /// Another node has said something.
    Said(LiveMessage),
    /// Somebody watches a device.
    Watched(Name),
    /// Time has passed; the nodes are these.
    Beat(View),
}

/// What this node listens to for others, and what it knows of its connection.
#[derive(Default)]
pub(super) struct LiveFeeds {
    pub(super) by_aor: HashMap<Box<str>, Subscription<DeviceState>>,
    pub(super) is_connected: bool,
    pub(super) next_sweep: Option<Instant>,
}

#[derive(Default)]
pub(super) struct LiveStateCounters {
    /// Messages to other nodes that could not be sent.
    pub(super) not_sent: Counter,
    /// Those of others for which there was no room.
    pub(super) not_taken: Counter,
}

impl LiveStates {
    pub(super) fn new(
        runtime: &Runtime,
        member: Member,
        broker: Arc<dyn Broker>,
        subjects: &str,
    ) -> Self {
        let kind = SerializerKind::new(runtime, OPTIONS);
        Self {
            member,
            broker,
            subject: format!("{subjects}.live"),
            shared: Mutex::new(SharedStates::new(member, PATIENCE)),
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
        self.member
    }

    pub(super) fn is_connected(&self) -> bool {
        self.broker.is_connected()
    }

    /// Who takes events from now on.
    pub(super) fn take_with(&self, take: Box<dyn Fn(LiveEvent) + Send + Sync>) {
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
        self.apply(|shared| shared.want(device));
        self.push(LiveEvent::Watched(device.clone()));
    }

    /// What is watched here, each with whether another node has it.
    pub(super) fn watched(&self) -> Vec<(Name, bool)> {
        let shared = lock(&self.shared);
        let watched = shared.watched();
        let watched = watched.map(|(aor, is_foreign)| (Name::new(aor), is_foreign));
        watched.collect()
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
    pub(super) fn beat(&self, now: Instant, view: Option<&View>) {
        let (Some(view), now_ns) = (view, now.as_nanos()) else {
            return;
        };
        if now_ns < self.next_beat_ns.load(Ordering::Relaxed) {
            return;
        }
        let next = now + BEAT_MIN;
        self.next_beat_ns.store(next.as_nanos(), Ordering::Relaxed);
        self.apply(|shared| vec![SharedAction::Send(shared.beacon())]);
        self.push(LiveEvent::Beat(view.clone()));
    }

    /// Something that another node says, from the broker's thread.
    pub(super) fn hear(&self, payload: &[u8], reply: Option<&str>) {
        match LiveMessage::from_bytes(payload) {
            Some(LiveMessage::Ask(request)) => self.answer(&request, reply),
            // What we say ourselves comes back.
            Some(message) if message.origin() == self.member => {}
            Some(message) => self.push(LiveEvent::Said(message)),
            None => match LiveMessage::other_version(payload) {
                Some(version) => self.other_versions.heard(&version.to_string()),
                None => self.other_versions.unreadable(),
            },
        }
    }

    fn answer(&self, request: &PartRequest, reply: Option<&str>) {
        let part = lock(&self.shared).part(request, PART_BYTES);
        if let (Some(part), Some(reply)) = (part, reply) {
            let answer = LiveMessage::Part(part).to_bytes();
            self.count(self.broker.publish(reply, answer).is_ok());
        }
    }

    /// Where this node hears what others say.
    pub(super) fn subjects_to_hear(&self) -> [String; 2] {
        [self.subject.clone(), self.subject_of(self.member)]
    }

    fn subject_of(&self, member: Member) -> String {
        format!("{}.{}", self.subject, member.node.0)
    }

    /// Sends what has to be said, and returns what else follows.
    pub(super) fn apply(
        &self,
        event: impl FnOnce(&mut SharedStates) -> Vec<SharedAction>,
    ) -> Vec<SharedAction> {
        let mut shared = lock(&self.shared);
        let mut actions = event(&mut shared);
        actions.retain(|action| match action {
            SharedAction::Send(message) => {
                let sent = self.broker.publish(&self.subject, message.to_bytes());
                self.count(sent.is_ok());
                false
            }
            _ => true,
        });
        actions
    }

    /// Asks another node; what does not come is asked for again.
    pub(super) fn ask(self: &Arc<Self>, request: PartRequest) {
        let subject = self.subject_of(request.origin);
        let live = Arc::downgrade(self);
        let answered = Box::new(move |answer: Result<Vec<u8>, _>| {
            if let (Ok(answer), Some(live)) = (answer, live.upgrade()) {
                live.hear(&answer, None);
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

    fn push(&self, event: LiveEvent) {
        if let Some(take) = self.take.get() {
            take(event);
        }
    }

    pub(super) fn figures(&self) -> LiveFigures {
        let shared = lock(&self.shared);
        LiveFigures {
            is_whole: shared.is_whole(),
            resyncs: shared.resyncs(),
            too_large: shared.too_large(),
            told: shared.told_len() as u64,
            watched: shared.watched_of_others_len() as u64,
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
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
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
/// NATS takes 1 MiB by default.
const PART_BYTES: usize = 256 << 10;
/// A node beats each fifth of a lease, and does more in between.
const BEAT_MIN: Duration = Duration::from_millis(200);
