//! What the nodes of a cluster tell each other of devices: who watches which, what the owner says
//! of it, and the dialogs that others carry. Every message and every moment goes in, and comes
//! out as actions.

use super::{
    Beacon, Incarnation, Key, LiveAction, LiveChange, LiveMessage, LiveMirror, LiveOrigin, Part,
    PartRequest, Value, beacon_pace::BeaconPace, by_partition::ByPartition,
};
use crate::{Grant, Member, NodeNumber, PARTITION_COUNT, Partition, View};
use busyhour::clock::Instant;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// One node's part in what all nodes know of devices. See "Devices of other nodes" in the crate's
/// README.
#[derive(Debug)]
pub struct SharedStates {
    own: Member,
    origin: LiveOrigin,
    pace: BeaconPace,
    mirror: LiveMirror,
    /// The epochs of the partitions for which this node speaks.
    grants: BTreeMap<Partition, u64>,
    /// What is watched here, whoever has it, with the epoch of the owner heard last; 0 before.
    watched: ByPartition<u64>,
    /// How many of each partition have 0.
    unheard: Box<[usize]>,
    /// The nodes that watch a device.
    wanted: ByPartition<BTreeSet<NodeNumber>>,
}

/// What follows from an event, to be done in this order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SharedAction {
    /// Send this to all nodes.
    Send(LiveMessage),
    /// Ask its origin for a part, which goes to [`SharedStates::on_part`].
    Ask(PartRequest),
    /// Say from now on by [`SharedStates::state_is`] what this device does, beginning with what it
    /// does now.
    Begin(Box<str>),
    /// Nobody wants to know this device any more, or another node says it.
    Stop(Box<str>),
    /// What a device of another node does; `None` if it does nothing.
    State(Box<str>, Option<Value>),
    /// A device that is watched here is ours from now on, so what it does here is what watchers
    /// are told.
    Ours(Box<str>),
    /// A dialog of a device of ours that another node carries; or that we carry, and told the
    /// owner before.
    Report(Report),
}

/// A dialog of a device, as the node says that carries it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Report {
    /// The device's address of record.
    pub aor: Box<str>,
    /// Who carries the dialog.
    pub by: Member,
    /// Its number there.
    pub id: u64,
    /// What it is; `None` if it is over.
    pub value: Option<Value>,
    /// Nobody said how it ended: the life of the node that carried it is over, or its end was
    /// missed.
    pub is_withdrawn: bool,
}

impl SharedStates {
    /// Of a process that begins now. An origin that does not answer within `patience` is asked
    /// again.
    pub fn new(own: Incarnation, patience: Duration) -> Self {
        Self {
            own: own.member,
            origin: LiveOrigin::new(own),
            pace: BeaconPace::default(),
            mirror: LiveMirror::new(own.member.node, patience),
            grants: BTreeMap::new(),
            watched: ByPartition::new(),
            unheard: vec![0; PARTITION_COUNT].into(),
            wanted: ByPartition::new(),
        }
    }

    /// Whether everything is known that the other nodes have said.
    pub fn is_whole(&self) -> bool {
        self.mirror.is_whole()
    }

    /// How often all states of a node were read again, since something had been missed.
    pub fn resyncs(&self) -> u64 {
        self.mirror.resyncs()
    }

    /// How many states were not told to the others, since they were too large.
    pub fn too_large(&self) -> u64 {
        self.origin.too_large()
    }

    /// How many states this node tells the others.
    pub fn told_len(&self) -> usize {
        self.origin.len()
    }

    /// What is watched here of a partition.
    pub fn watched(&self, partition: Partition) -> impl Iterator<Item = &str> {
        self.watched.of(partition).keys().map(|aor| &**aor)
    }

    /// Whether another node wants to know a device.
    pub fn is_wanted(&self, aor: &str) -> bool {
        self.wanted.of(Partition::of(aor)).contains_key(aor)
    }

    /// How many of those another node has.
    pub fn watched_of_others_len(&self) -> usize {
        let watched = self.watched.iter();
        let of_others = watched.filter(|(partition, _)| !self.grants.contains_key(partition));
        of_others.map(|(_, watched)| watched.len()).sum()
    }

    /// Of how many of those no owner has said anything yet.
    pub fn unheard_len(&self) -> usize {
        let unheard = (0..=u8::MAX).map(Partition).zip(&self.unheard);
        let of_others = unheard.filter(|(partition, _)| !self.grants.contains_key(partition));
        of_others.map(|(_, unheard)| unheard).sum()
    }

    /// What tells the others how much this node has said.
    pub fn beacon(&self) -> LiveMessage {
        LiveMessage::Beacon(self.origin.beacon())
    }

    /// With each beat: a beacon, if it is time for one.
    pub fn beacon_due(&mut self, view: &View) -> Option<LiveMessage> {
        let number = self.origin.beacon().number;
        (self.pace.is_due(number, view)).then(|| self.beacon())
    }

    /// The answer to another node's question, of about `bytes_max` bytes.
    pub fn part(&self, request: &PartRequest, bytes_max: usize) -> Option<Part> {
        self.origin.part(request, bytes_max)
    }

    /// This node speaks for a partition from now on: what is stored of it is in memory.
    pub fn granted(&mut self, grant: Grant) -> Vec<SharedAction> {
        let partition = grant.partition;
        self.grants.insert(partition, grant.epoch);
        let mut actions = Vec::new();
        for key in self.own_keys(REPORT, partition) {
            let value = self.origin.get(&key).map(Box::from);
            actions.extend(report(self.own, &key, value, false));
            actions.extend(self.origin.remove(&key).map(send));
        }
        for (by, key, value) in self.mirror.all_under(&prefix(REPORT, partition)) {
            actions.extend(report(by, key, Some(value.into()), false));
        }
        for aor in self.watched.of(partition).keys() {
            let want = key(WANT, partition, aor, None);
            actions.extend(self.origin.remove(&want).map(send));
            actions.push(SharedAction::Ours(aor.clone()));
        }
        let wanted = self.wanted.of(partition).keys();
        actions.extend(wanted.cloned().map(SharedAction::Begin));
        actions
    }

    /// Another node speaks for a partition from now on. The dialogs of its devices that this node
    /// carries have to be [told](Self::report).
    pub fn lost(&mut self, partition: Partition) -> Vec<SharedAction> {
        let epoch = self.grants.remove(&partition).unwrap_or_default();
        let wanted = self.wanted.of(partition).keys();
        let mut actions: Vec<_> = wanted.cloned().map(SharedAction::Stop).collect();
        for key in self.own_keys(STATE, partition) {
            actions.extend(self.origin.remove(&key).map(send));
        }
        let watched = self.watched.of(partition).keys();
        for aor in watched.cloned().collect::<Vec<_>>() {
            let want = key(WANT, partition, &aor, None);
            actions.extend(self.origin.set(want, Box::default()).map(send));
            // The next owner may have spoken already, and it says nothing twice.
            self.know(partition, &aor, epoch);
            actions.extend(self.recall_in(partition, &aor));
        }
        actions
    }

    /// Somebody watches a device here, whoever has it. What is known of one of another node is in
    /// [`recall`](Self::recall).
    pub fn want(&mut self, aor: &str) -> Vec<SharedAction> {
        let partition = Partition::of(aor);
        let watched = self.watched.within(partition);
        if !watched.contains_key(aor) {
            watched.insert(aor.into(), 0);
            self.unheard[partition.index()] += 1;
        }
        if self.grants.contains_key(&partition) {
            return Vec::new();
        }
        let want = key(WANT, partition, aor, None);
        let change = self.origin.set(want, Box::default());
        change.map(send).into_iter().collect()
    }

    /// Nobody watches it here any more.
    pub fn unwant(&mut self, aor: &str) -> Vec<SharedAction> {
        let partition = Partition::of(aor);
        if self.watched.within(partition).remove(aor) == Some(0) {
            self.unheard[partition.index()] -= 1;
        }
        let change = self.origin.remove(&key(WANT, partition, aor, None));
        change.map(send).into_iter().collect()
    }

    /// What was said last of a device of another node.
    pub fn recall(&mut self, aor: &str) -> Vec<SharedAction> {
        self.recall_in(Partition::of(aor), aor)
    }

    fn recall_in(&mut self, partition: Partition, aor: &str) -> Vec<SharedAction> {
        let key = key(STATE, partition, aor, None);
        let said = self.mirror.all_of(&key);
        let newest = said.filter_map(|(_, value)| epoch_of(value).map(|epoch| (epoch, value)));
        let newest = newest.max_by_key(|(epoch, _)| *epoch);
        let newest = newest.map(|(_, value)| Value::from(value));
        newest.map_or_else(Vec::new, |value| self.heard(partition, aor, &value))
    }

    /// Whether an owner has said something of a device, whoever listened.
    pub fn can_recall(&self, aor: &str) -> bool {
        let key = key(STATE, Partition::of(aor), aor, None);
        self.mirror.all_of(&key).next().is_some()
    }

    /// The same of all that are watched here, for whoever could not ask for one.
    pub fn recall_all(&mut self) -> Vec<SharedAction> {
        let watched = self.watched.iter();
        let foreign = watched.filter(|(partition, _)| !self.grants.contains_key(partition));
        let foreign: Vec<(Partition, Box<str>)> = foreign
            .flat_map(|(partition, watched)| {
                watched.keys().map(move |aor| (partition, aor.clone()))
            })
            .collect();
        let recalled = foreign
            .iter()
            .flat_map(|(partition, aor)| self.recall_in(*partition, aor));
        recalled.collect()
    }

    /// What a device of ours does, after [`SharedAction::Begin`]; `None` if it does nothing.
    pub fn state_is(&mut self, aor: &str, state: Option<&[u8]>) -> Vec<SharedAction> {
        let partition = Partition::of(aor);
        let is_wanted = self.wanted.of(partition).contains_key(aor);
        let Some(epoch) = self.grants.get(&partition).filter(|_| is_wanted) else {
            return Vec::new();
        };
        let mut value = epoch.to_be_bytes().to_vec();
        value.push(state.is_some().into());
        value.extend(state.unwrap_or_default());
        let state = key(STATE, partition, aor, None);
        let change = self.origin.set(state, value.into());
        change.map(send).into_iter().collect()
    }

    /// A dialog that this node carries of a device of another node; `None` when it is over.
    pub fn report(&mut self, aor: &str, id: u64, value: Option<Value>) -> Vec<SharedAction> {
        let key = key(REPORT, Partition::of(aor), aor, Some(id));
        let change = match value {
            Some(value) => self.origin.set(key, value),
            None => self.origin.remove(&key),
        };
        change.map(send).into_iter().collect()
    }

    /// Whether a beacon says nothing that this node does not know, so that nobody has to take it in.
    pub fn knows(&self, beacon: Beacon) -> bool {
        self.mirror.knows(beacon)
    }

    /// Another node has said something.
    pub fn on_message(&mut self, now: Instant, message: LiveMessage) -> Vec<SharedAction> {
        let actions = match message {
            LiveMessage::Change(change) => self.mirror.on_change(now, change),
            LiveMessage::Changes(changes) => self.mirror.on_changes(now, changes),
            LiveMessage::Beacon(beacon) => self.mirror.on_beacon(now, beacon),
            LiveMessage::Part(part) => return self.on_part(now, part),
            // Its answer is in `part`.
            LiveMessage::Ask(_) => return Vec::new(),
        };
        self.follow(actions)
    }

    /// A node has answered.
    pub fn on_part(&mut self, now: Instant, part: Part) -> Vec<SharedAction> {
        let actions = self.mirror.on_part(now, part);
        self.follow(actions)
    }

    /// A node did not listen when it was asked for a part.
    pub fn on_unanswered(&mut self, origin: Incarnation) {
        self.mirror.on_unanswered(origin);
    }

    /// The nodes that live, as the database had them at `read_at` or later.
    pub fn on_view(&mut self, now: Instant, read_at: Instant, view: &View) -> Vec<SharedAction> {
        let actions = self.mirror.on_view(now, read_at, view);
        self.follow(actions)
    }

    /// The broker can be reached, or not any more.
    pub fn on_connected(&mut self, now: Instant, is_connected: bool) -> Vec<SharedAction> {
        self.pace.begin_anew();
        let actions = self.mirror.on_connected(now, is_connected);
        self.follow(actions)
    }

    /// Asks again where no answer has come.
    pub fn on_time(&mut self, now: Instant) -> Vec<SharedAction> {
        let actions = self.mirror.on_time(now);
        self.follow(actions)
    }

    /// The keys of what this node says of devices of a partition.
    fn own_keys(&self, kind: u8, partition: Partition) -> Vec<Key> {
        let prefix = prefix(kind, partition);
        let states = self.origin.states_under(&prefix);
        states.map(|(key, _)| key.into()).collect()
    }

    /// What owners of earlier epochs say of a device is not told here any more.
    fn know(&mut self, partition: Partition, aor: &str, epoch: u64) {
        let Some(known) = self.watched.within(partition).get_mut(aor) else {
            return;
        };
        if *known == 0 && epoch > 0 {
            self.unheard[partition.index()] -= 1;
        }
        *known = epoch.max(*known);
    }

    fn follow(&mut self, actions: Vec<LiveAction>) -> Vec<SharedAction> {
        let mut out = Vec::new();
        for action in actions {
            match action {
                LiveAction::Ask(request) => out.push(SharedAction::Ask(request)),
                LiveAction::Set(member, key, value) => {
                    out.extend(self.on_set(member, &key, value, false));
                }
                LiveAction::Withdrawn(member, key) => {
                    out.extend(self.on_set(member, &key, None, true));
                }
            }
        }
        out
    }

    fn on_set(
        &mut self,
        member: Member,
        key: &[u8],
        value: Option<Value>,
        is_withdrawn: bool,
    ) -> Vec<SharedAction> {
        let Some((aor, _)) = key.first().and_then(|kind| subject(key, *kind)) else {
            return Vec::new();
        };
        let partition = Partition::of(aor);
        match (key[0], value) {
            (WANT, Some(_)) => self.wanted_by(partition, aor, member.node),
            (WANT, None) => self.unwanted_by(partition, aor, member.node),
            (STATE, Some(value)) => self.heard(partition, aor, &value),
            // Whoever has the partition then says what is so. Until then nothing else is known.
            (STATE, None) => Vec::new(),
            (REPORT, value) if self.grants.contains_key(&partition) => {
                let report = report(member, key, value, is_withdrawn);
                report.into_iter().collect()
            }
            // The owner has it; or another version of this program says more.
            _ => Vec::new(),
        }
    }

    fn wanted_by(
        &mut self,
        partition: Partition,
        aor: &str,
        node: NodeNumber,
    ) -> Vec<SharedAction> {
        let wanted = self.wanted.within(partition);
        if let Some(nodes) = wanted.get_mut(aor) {
            nodes.insert(node);
            return Vec::new();
        }
        wanted.insert(aor.into(), BTreeSet::from([node]));
        match self.grants.contains_key(&partition) {
            true => vec![SharedAction::Begin(aor.into())],
            false => Vec::new(),
        }
    }

    fn unwanted_by(
        &mut self,
        partition: Partition,
        aor: &str,
        node: NodeNumber,
    ) -> Vec<SharedAction> {
        let wanted = self.wanted.within(partition);
        let Some(nodes) = wanted.get_mut(aor) else {
            return Vec::new();
        };
        nodes.remove(&node);
        if !nodes.is_empty() {
            return Vec::new();
        }
        wanted.remove(aor);
        if !self.grants.contains_key(&partition) {
            return Vec::new();
        }
        let change = self.origin.remove(&key(STATE, partition, aor, None));
        let stop = [SharedAction::Stop(aor.into())];
        stop.into_iter().chain(change.map(send)).collect()
    }

    /// Takes over what an owner says, unless a later one has spoken.
    fn heard(&mut self, partition: Partition, aor: &str, value: &[u8]) -> Vec<SharedAction> {
        let Some((epoch, [is_something, state @ ..])) = epoch_of(value).zip(value.get(8..)) else {
            return Vec::new();
        };
        let is_ours = self.grants.contains_key(&partition);
        match self.watched.of(partition).get(aor) {
            Some(known) if *known <= epoch && !is_ours => {
                self.know(partition, aor, epoch);
                let state = (*is_something == 1).then(|| state.into());
                vec![SharedAction::State(aor.into(), state)]
            }
            _ => Vec::new(),
        }
    }
}

fn send(change: LiveChange) -> SharedAction {
    SharedAction::Send(LiveMessage::Change(change))
}

fn report(
    by: Member,
    key: &[u8],
    value: Option<Value>,
    is_withdrawn: bool,
) -> Option<SharedAction> {
    let (aor, id) = subject(key, REPORT)?;
    Some(SharedAction::Report(Report {
        aor: aor.into(),
        by,
        id: id?,
        value,
        is_withdrawn,
    }))
}

fn epoch_of(value: &[u8]) -> Option<u64> {
    value.first_chunk().copied().map(u64::from_be_bytes)
}

/// A kind, the partition and the address of record of a device, and the number of a dialog if it is
/// about one. So what is about a partition is together.
fn key(kind: u8, partition: Partition, aor: &str, id: Option<u64>) -> Key {
    let id_len = id.map_or(0, |_| size_of::<u64>());
    let mut key = Vec::with_capacity(2 + aor.len() + id_len);
    key.extend(prefix(kind, partition));
    key.extend(aor.as_bytes());
    key.extend(id.into_iter().flat_map(u64::to_be_bytes));
    key.into()
}

/// The address of record, and the number of the dialog, of a key of this kind.
fn subject(key: &[u8], kind: u8) -> Option<(&str, Option<u64>)> {
    let ([first, _partition], rest) = key.split_first_chunk()?;
    if *first != kind {
        return None;
    }
    let (aor, id) = match kind == REPORT {
        true => {
            let (aor, id) = rest.split_last_chunk()?;
            (aor, Some(u64::from_be_bytes(*id)))
        }
        false => (rest, None),
    };
    Some((std::str::from_utf8(aor).ok()?, id))
}

/// How the keys of a kind begin that are about devices of a partition.
fn prefix(kind: u8, partition: Partition) -> [u8; 2] {
    [kind, partition.0]
}

/// This node watches the device.
const WANT: u8 = b'w';
/// What the device does, as its owner says: the epoch of the owner's grant, whether there is
/// something, and what it is.
const STATE: u8 = b's';
/// A dialog of the device.
const REPORT: u8 = b'd';
