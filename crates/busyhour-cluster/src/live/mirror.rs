//! The states of other nodes, as this node has them.

use super::{Beacon, Incarnation, Key, LiveChange, LiveChanges, Part, PartRequest, Value};
use crate::{Life, Member, NodeNumber, View};
use busyhour::clock::Instant;
use std::{collections::BTreeMap, ops::Bound, time::Duration};

/// Every state that other nodes have told of.
#[derive(Debug)]
pub struct LiveMirror {
    own: NodeNumber,
    /// How long an answer may take before it is asked for again.
    patience: Duration,
    is_connected: bool,
    origins: BTreeMap<NodeNumber, Origin>,
    /// The newest life of each node, which may still speak.
    lives: BTreeMap<NodeNumber, NewestLife>,
    resyncs: u64,
}

/// What becomes of a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LiveAction {
    /// Ask an origin; its [`Part`] goes to [`LiveMirror::on_part`].
    Ask(PartRequest),
    /// A node has said that its state has changed; `None` if it has none any more.
    Set(Member, Key, Option<Value>),
    /// A node's state is no more, and nobody said how it ended: the node's life is over, or the
    /// state is missing where all are.
    Withdrawn(Member, Key),
}

/// The newest life of a node that the database has shown, or that has spoken.
#[derive(Debug, Clone, Copy)]
struct NewestLife {
    epoch: u64,
    known_at: Instant,
}

/// What one process has said.
#[derive(Debug)]
struct Origin {
    incarnation: Incarnation,
    /// The number that its next change must have; 0 while none is known.
    next: u64,
    states: BTreeMap<Key, Held>,
    sync: Option<Sync>,
}

#[derive(Debug)]
struct Held {
    number: u64,
    /// `None` if it was removed during a sync, which may still bring it.
    value: Option<Value>,
}

/// All states are read again, part by part.
#[derive(Debug)]
struct Sync {
    after: Option<Key>,
    asked_at: Instant,
    /// The origin did not listen then. It is asked again when it speaks.
    is_unanswered: bool,
    /// Parts that were read before the change of this number are too old.
    required: u64,
    /// Something was missed after it had begun.
    must_repeat: bool,
}

impl LiveMirror {
    /// What the node `own` has of others. An origin that does not answer within `patience` is
    /// asked again.
    pub fn new(own: NodeNumber, patience: Duration) -> Self {
        Self {
            own,
            patience,
            is_connected: false,
            origins: BTreeMap::new(),
            lives: BTreeMap::new(),
            resyncs: 0,
        }
    }

    /// Whether everything is known that the other nodes have said; otherwise some states may be
    /// old.
    pub fn is_whole(&self) -> bool {
        self.is_connected && self.origins.values().all(|origin| origin.sync.is_none())
    }

    /// How often all states of a node were read again, since something had been missed.
    pub fn resyncs(&self) -> u64 {
        self.resyncs
    }

    /// A state of a node.
    pub fn get(&self, node: NodeNumber, key: &[u8]) -> Option<&[u8]> {
        self.origins.get(&node)?.states.get(key)?.value.as_deref()
    }

    /// All states of a node, in the order of their keys.
    pub fn states(&self, node: NodeNumber) -> impl Iterator<Item = (&[u8], &[u8])> {
        let states = self.origins.get(&node).map(|origin| origin.states.iter());
        let states = states.into_iter().flatten();
        states.filter_map(|(key, held)| Some((&**key, held.value.as_deref()?)))
    }

    /// All states of all nodes whose keys begin like this.
    pub fn all_under<'s>(
        &'s self,
        prefix: &'s [u8],
    ) -> impl Iterator<Item = (Member, &'s [u8], &'s [u8])> {
        self.origins.values().flat_map(move |origin| {
            let from = (Bound::Included(prefix), Bound::Unbounded);
            let states = origin.states.range::<[u8], _>(from);
            let states = states.take_while(move |(key, _)| key.starts_with(prefix));
            states.filter_map(|(key, held)| {
                Some((origin.incarnation.member, &**key, held.value.as_deref()?))
            })
        })
    }

    /// What each node says of a key.
    pub fn all_of(&self, key: &[u8]) -> impl Iterator<Item = (Member, &[u8])> {
        self.origins.values().filter_map(move |origin| {
            let held = origin.states.get(key)?;
            Some((origin.incarnation.member, held.value.as_deref()?))
        })
    }

    /// The broker can be reached, or not any more. What was said meanwhile is lost, so all is
    /// read again when it is back.
    pub fn on_connected(&mut self, now: Instant, is_connected: bool) -> Vec<LiveAction> {
        self.is_connected = is_connected;
        let origins = self.origins.values_mut();
        origins.map(|origin| origin.begin_sync(now)).collect()
    }

    /// The nodes that live, as the database had them at `read_at` or later. What others have said is
    /// withdrawn.
    pub fn on_view(&mut self, now: Instant, read_at: Instant, view: &View) -> Vec<LiveAction> {
        let mut actions = self.forget_lost(read_at, view);
        for node in &view.nodes {
            match node.life {
                Life::Over => actions.extend(self.withdraw(read_at, node.member)),
                Life::Current | Life::Late => {
                    self.meet(now, Incarnation::unknown(node.member), &mut actions);
                }
            }
        }
        actions
    }

    /// A life is in the database before it speaks. If one is not there that was known before the view
    /// was read, the database has lost it, and counts from a lower number again.
    fn forget_lost(&mut self, read_at: Instant, view: &View) -> Vec<LiveAction> {
        let shown = |node: NodeNumber| {
            let mut nodes = view.nodes.iter().map(|shown| shown.member);
            let shown = nodes.find(|member| member.node == node);
            shown.unwrap_or(Member { node, epoch: 0 })
        };
        let lives = self.lives.iter();
        let lost = lives.filter_map(|(node, newest)| {
            let shown = shown(*node);
            (newest.known_at < read_at && shown.epoch < newest.epoch).then_some(shown)
        });
        let lost: Vec<Member> = lost.collect();
        let forgotten = lost.into_iter();
        forgotten
            .flat_map(|shown| self.forget(read_at, shown))
            .collect()
    }

    /// A node has said that a state has changed.
    pub fn on_change(&mut self, now: Instant, change: LiveChange) -> Vec<LiveAction> {
        let mut actions = Vec::new();
        let number = change.number;
        let Some(origin) = self.meet(now, change.origin, &mut actions) else {
            return actions;
        };
        if number < origin.next {
            // It was there before; or it was missed, and then all is read again.
            return actions;
        }
        let has_missed = origin.expect(number, number + 1);
        actions.extend(origin.apply(change.key, number, change.value));
        self.resync_if(has_missed, now, change.origin, &mut actions);
        actions
    }

    /// A node has said that states have changed.
    pub fn on_changes(&mut self, now: Instant, changes: LiveChanges) -> Vec<LiveAction> {
        let each = changes.into_each();
        each.flat_map(|change| self.on_change(now, change))
            .collect()
    }

    /// A node has said how many changes it has made.
    pub fn on_beacon(&mut self, now: Instant, beacon: Beacon) -> Vec<LiveAction> {
        let mut actions = Vec::new();
        let Some(origin) = self.meet(now, beacon.origin, &mut actions) else {
            return actions;
        };
        let has_missed = origin.expect(beacon.number + 1, beacon.number + 1);
        let unanswered = origin.sync.as_ref().filter(|sync| sync.is_unanswered);
        if unanswered.is_some() {
            actions.extend(origin.ask(now));
        }
        self.resync_if(has_missed, now, beacon.origin, &mut actions);
        actions
    }

    /// Whether a beacon changes nothing here.
    pub fn knows(&self, beacon: Beacon) -> bool {
        let origin = self.origins.get(&beacon.origin.member.node);
        origin.is_some_and(|origin| {
            let is_whole = origin.sync.is_none() && beacon.number < origin.next;
            origin.incarnation == beacon.origin && is_whole
        })
    }

    /// A node has answered.
    pub fn on_part(&mut self, now: Instant, part: Part) -> Vec<LiveAction> {
        let Some(origin) = self.origins.get_mut(&part.origin.member.node) else {
            return Vec::new();
        };
        match origin.hears(part.origin) {
            true => origin.on_part(now, part),
            false => Vec::new(),
        }
    }

    /// An origin did not listen when it was asked.
    pub fn on_unanswered(&mut self, asked: Incarnation) {
        let origin = self.origins.get_mut(&asked.member.node);
        let origin = origin.filter(|origin| origin.incarnation.is_meant_by(asked));
        if let Some(sync) = origin.and_then(|origin| origin.sync.as_mut()) {
            sync.is_unanswered = true;
        }
    }

    /// Asks again where no answer has come.
    pub fn on_time(&mut self, now: Instant) -> Vec<LiveAction> {
        let patience = self.patience;
        let asks = self.origins.values_mut().filter_map(|origin| {
            let sync = origin.sync.as_ref()?;
            (sync.asked_at + patience <= now).then(|| origin.ask(now))?
        });
        asks.collect()
    }

    /// The origin of a message; `None` if its life is over, or if it is this node.
    fn meet(
        &mut self,
        now: Instant,
        incarnation: Incarnation,
        actions: &mut Vec<LiveAction>,
    ) -> Option<&mut Origin> {
        let member = incarnation.member;
        let newest = self.lives.get(&member.node);
        if member.node == self.own || newest.is_some_and(|newest| member.epoch < newest.epoch) {
            return None;
        }
        let known = self.origins.get(&member.node);
        if known.is_none_or(|known| known.incarnation.gives_way_to(incarnation)) {
            actions.extend(self.forget(now, member));
            let mut origin = Origin::new(incarnation);
            actions.push(origin.begin_sync(now));
            self.origins.insert(member.node, origin);
        }
        let origin = self.origins.get_mut(&member.node)?;
        (origin.hears(incarnation) || !incarnation.is_known()).then_some(origin)
    }

    /// Everything that lives before this one have said ends.
    fn withdraw(&mut self, read_at: Instant, over: Member) -> Vec<LiveAction> {
        let known = self.origins.get(&over.node);
        match known.map(|origin| origin.incarnation.member.epoch) {
            // A later life has spoken already.
            Some(epoch) if epoch > over.epoch => Vec::new(),
            _ => self.forget(read_at, over),
        }
    }

    /// From now on this life of a node may speak, and later ones.
    fn forget(&mut self, now: Instant, member: Member) -> Vec<LiveAction> {
        let newest = NewestLife {
            epoch: member.epoch,
            known_at: now,
        };
        self.lives.insert(member.node, newest);
        let Some(origin) = self.origins.remove(&member.node) else {
            return Vec::new();
        };
        let gone = origin
            .states
            .into_iter()
            .filter(|(_, held)| held.value.is_some());
        gone.map(|(key, _)| LiveAction::Withdrawn(origin.incarnation.member, key))
            .collect()
    }

    fn resync_if(
        &mut self,
        has_missed: bool,
        now: Instant,
        incarnation: Incarnation,
        actions: &mut Vec<LiveAction>,
    ) {
        let origin = self.origins.get_mut(&incarnation.member.node);
        let origin = origin.filter(|_| has_missed);
        let Some(origin) = origin else { return };
        match &mut origin.sync {
            Some(sync) => sync.must_repeat = true,
            None => {
                self.resyncs += 1;
                actions.push(origin.begin_sync(now));
            }
        }
    }
}

impl Origin {
    fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            next: 0,
            states: BTreeMap::new(),
            sync: None,
        }
    }

    /// Whether it is this process that speaks. Of a life that only a view has shown, it is the first one
    /// that does.
    fn hears(&mut self, incarnation: Incarnation) -> bool {
        if !self.incarnation.is_known() && self.incarnation.member == incarnation.member {
            self.incarnation = incarnation;
        }
        self.incarnation == incarnation
    }

    fn begin_sync(&mut self, now: Instant) -> LiveAction {
        self.sync = Some(Sync {
            after: None,
            asked_at: now,
            is_unanswered: false,
            required: self.next,
            must_repeat: false,
        });
        LiveAction::Ask(PartRequest {
            origin: self.incarnation,
            after: None,
        })
    }

    /// The changes before `number` should have been seen, and the next one has the number `next`.
    /// Whether some were missed.
    fn expect(&mut self, number: u64, next: u64) -> bool {
        let has_missed = self.next > 0 && number > self.next;
        if let Some(sync) = self.sync.as_mut().filter(|_| self.next == 0) {
            sync.required = number;
        }
        self.next = self.next.max(next);
        has_missed
    }

    /// Asks for the part that is awaited.
    fn ask(&mut self, now: Instant) -> Option<LiveAction> {
        let sync = self.sync.as_mut()?;
        (sync.asked_at, sync.is_unanswered) = (now, false);
        Some(LiveAction::Ask(PartRequest {
            origin: self.incarnation,
            after: sync.after.clone(),
        }))
    }

    /// Takes a state over unless a newer one is known.
    fn apply(&mut self, key: Key, number: u64, value: Option<Value>) -> Option<LiveAction> {
        let known = self.states.get(&key);
        if known.is_some_and(|known| known.number >= number) {
            return None;
        }
        let before = known.and_then(|known| known.value.as_ref());
        let action = (before != value.as_ref())
            .then(|| LiveAction::Set(self.incarnation.member, key.clone(), value.clone()));
        match (&value, &self.sync) {
            // Nothing can bring it back.
            (None, None) => drop(self.states.remove(&key)),
            _ => drop(self.states.insert(key, Held { number, value })),
        }
        action
    }

    fn on_part(&mut self, now: Instant, part: Part) -> Vec<LiveAction> {
        let Some(sync) = &mut self.sync else {
            return Vec::new();
        };
        if sync.after != part.after || part.at + 1 < sync.required {
            return Vec::new();
        }
        if part.after.is_none() {
            // All changes until then are in this part, or in those that are read later.
            sync.required = part.at + 1;
            self.next = self.next.max(part.at + 1);
        }
        let last = part.entries.last().map(|entry| entry.key.clone());
        let mut states = self.remove_missing(&part);
        for entry in part.entries {
            states.extend(self.apply(entry.key, entry.number, Some(entry.value)));
        }
        // The next part is on its way while what follows from this one is done.
        let mut actions = Vec::from_iter(self.go_on_with_sync(now, last, part.is_last));
        actions.append(&mut states);
        actions
    }

    fn go_on_with_sync(
        &mut self,
        now: Instant,
        last: Option<Key>,
        is_last: bool,
    ) -> Option<LiveAction> {
        let sync = self.sync.as_mut()?;
        if !is_last {
            sync.after = last;
            return self.ask(now);
        }
        if sync.must_repeat {
            return Some(self.begin_sync(now));
        }
        self.sync = None;
        self.states.retain(|_, held| held.value.is_some());
        None
    }

    /// What the part should have and does not was removed, if we do not know better. Only the states
    /// between the part's ends are looked at, or a sync would cost the square of all.
    fn remove_missing(&mut self, part: &Part) -> Vec<LiveAction> {
        let after = part.after.as_deref();
        let last = part.entries.last().map(|entry| &*entry.key);
        let last = last.filter(|_| !part.is_last);
        if after.is_some() && last.is_some() && after >= last {
            return Vec::new();
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let until = last.map_or(Bound::Unbounded, Bound::Included);
        let is_there = |key: &Key| {
            part.entries
                .binary_search_by(|entry| entry.key.cmp(key))
                .is_ok()
        };
        let is_missing = |(key, held): &(&Key, &Held)| {
            held.value.is_some() && held.number <= part.at && !is_there(key)
        };
        let within = self.states.range::<[u8], _>((from, until));
        let missing: Vec<Key> = (within.filter(is_missing))
            .map(|(key, _)| key.clone())
            .collect();
        let removed = missing.into_iter().filter_map(|key| {
            let held = self.states.get_mut(&key)?;
            (held.number, held.value) = (part.at, None);
            Some(LiveAction::Withdrawn(self.incarnation.member, key))
        });
        removed.collect()
    }
}
