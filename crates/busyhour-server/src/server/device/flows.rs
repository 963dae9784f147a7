//! Which devices are reached over which flow, so that their contacts become unreachable
//! when a connection ends or an address does not answer.
//!
//! A device enters a flow before it asks the network whether the connection
//! lives ([`Network::mark_trusted`]), and the network takes a connection out of its
//! directory before it tells of the end ([`DeviceContext::flow_failed`]). So either the
//! device is told that the connection is gone, or the thread that tells of the end finds
//! the device here. Both may happen; the second changes nothing.
//!
//! [`Network::mark_trusted`]: crate::server::Network::mark_trusted

use super::{Device, device_context::DeviceContext};
use crate::server::{ServerConfig, sip::options::write_options, stats::counters::FlowCounters};
use busyhour::{
    clock::Instant,
    runtime::Runtime,
    task::{Executor, Task},
    timer::AddError,
};
use busyhour_iax2::frames::{Command, Frame, FullFrame, Kind};
use busyhour_registrar::{Advertised, Contact, Pace, Probe, Probes, Reach};
use busyhour_sip::Flow;
use foldhash::quality::FixedState;
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    hash::BuildHasher,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The devices of every flow, in shards with a lock each.
pub(in crate::server) struct Flows {
    pub(in crate::server) counters: FlowCounters,
    shards: Box<[Mutex<FlowShard>]>,
    hasher: FixedState,
    probing: ProbePolicy,
    /// Flows that are probed, so that nobody looks for one where there is none.
    probed_count: AtomicUsize,
    /// The addresses that probes come from.
    advertised: Advertised,
}

#[derive(Default)]
struct FlowShard {
    table: HashMap<Flow, FlowDevices>,
    /// Flows of datagrams that are probed.
    probes: Probes,
}

/// Who is probed, and how often; zero is never.
struct ProbePolicy {
    interval: Duration,
    /// Behind an address translation.
    nat_interval: Duration,
    /// After a restart.
    verify_within: Duration,
    /// Keep-alives to those behind an address translation.
    nat_keep_alive: Duration,
}

/// The devices of one flow: nearly always one, and a hundred thousand behind a proxy.
enum FlowDevices {
    One(TellOrder, Weak<Device>),
    Many(BTreeMap<TellOrder, Weak<Device>>),
}

/// The hash of a device's address of record, which gives the order in which devices are
/// told, so that every run with the same seed is the same; and its address in memory,
/// in case two have the same hash.
type TellOrder = (u64, usize);

/// Whom to tell of a flow.
enum Told {
    /// Those that it had when it ended.
    Former(FlowDevices),
    /// The devices of a flow, from the first or after this place.
    Present(Option<TellOrder>),
}

impl Flows {
    pub(in crate::server) fn new(config: &ServerConfig, seed: u64) -> Self {
        Self {
            counters: FlowCounters::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: FixedState::with_seed(seed),
            probing: ProbePolicy {
                interval: config.probe_interval,
                nat_interval: config.nat_probe_interval,
                verify_within: config.verify_within,
                nat_keep_alive: config.nat_keep_alive,
            },
            probed_count: AtomicUsize::new(0),
            advertised: config.advertised.clone(),
        }
    }

    /// Whether devices may be asked.
    pub(in crate::server) fn may_probe(&self) -> bool {
        self.probing.may_probe()
    }

    /// How often the device of a contact over datagrams is asked; `None` if it is not.
    pub(super) fn pace(&self, contact: &Contact) -> Option<Pace> {
        self.probing.pace(contact)
    }

    /// From now on the device is reached over this flow, and asked in this pace.
    pub(in crate::server) fn enter(
        &self,
        (flow, pace): (Flow, Option<Pace>),
        device: &Arc<Device>,
        now: Instant,
    ) {
        let hash = self.hasher.hash_one(flow);
        let mut shard = self.shard(hash);
        let (place, weak) = (self.place(device), Arc::downgrade(device));
        match shard.table.entry(flow) {
            Entry::Vacant(vacant) => drop(vacant.insert(FlowDevices::One(place, weak))),
            Entry::Occupied(mut devices) => devices.get_mut().insert(place, weak),
        }
        if let Some(pace) = pace {
            self.count_probed(&mut shard, |probes| probes.watch(flow, hash, pace, now));
        }
    }

    /// Changes the probes of a shard, and counts how many there are then.
    fn count_probed(&self, shard: &mut FlowShard, change: impl FnOnce(&mut Probes)) {
        let before = shard.probes.len();
        change(&mut shard.probes);
        let after = shard.probes.len();
        self.probed_count
            .fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// From now on it is not.
    pub(in crate::server) fn leave(&self, flow: Flow, device: &Arc<Device>) {
        let mut shard = self.shard(self.hasher.hash_one(flow));
        let Some(devices) = shard.table.get_mut(&flow) else {
            return;
        };
        if devices.remove(self.place(device)) {
            shard.table.remove(&flow);
            self.count_probed(&mut shard, |probes| probes.forget(&flow));
        }
    }

    /// Flows over which devices are reached.
    pub(in crate::server) fn len(&self) -> u64 {
        let lens = self.shards.iter().map(|s| lock(s).table.len() as u64);
        lens.sum()
    }

    /// Whether some flow is probed. One that enters at this moment was heard right before, or is asked later.
    fn are_probed(&self) -> bool {
        self.probed_count.load(Ordering::Relaxed) > 0
    }

    /// Notes that something arrived on a flow; returns whether that is news.
    fn heard(&self, flow: &Flow, now: Instant) -> bool {
        let mut shard = self.shard(self.hasher.hash_one(flow));
        shard.probes.heard(flow, now)
    }

    /// Notes an answer to a question on a flow.
    pub(in crate::server) fn answered(&self, flow: &Flow, now: Instant) {
        self.counters.probes_answered.increment();
        let mut shard = self.shard(self.hasher.hash_one(flow));
        shard.probes.answered(flow, now);
    }

    /// How long the last answer on a flow took, if that is known.
    pub(in crate::server) fn latency(&self, flow: &Flow) -> Option<Duration> {
        let shard = self.shard(self.hasher.hash_one(flow));
        shard.probes.latency(flow)
    }

    /// The due actions of a shard, a limited number at a time.
    fn poll(&self, index: usize, now: Instant) -> (Vec<Probe>, Option<Instant>) {
        let mut shard = lock(&self.shards[index]);
        let due = std::iter::from_fn(|| shard.probes.poll(now)).take(PROBES_AT_ONCE);
        (due.collect(), shard.probes.next_due())
    }

    /// Some devices of a flow behind this place, and the place of the last of them.
    fn some_behind(&self, flow: &Flow, place: Option<TellOrder>) -> Portion {
        let shard = self.shard(self.hasher.hash_one(flow));
        let devices = shard.table.get(flow);
        devices.map_or_else(Portion::default, |devices| devices.some_behind(place))
    }

    /// The connections of a node of the cluster over which devices are reached.
    pub(in crate::server) fn connections_of(&self, node: u16) -> Vec<Flow> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let is_its = |flow: &&Flow| flow.node == node && flow.connection != 0;
            all.extend(lock(shard).table.keys().filter(is_its));
        }
        all
    }

    /// Ends a flow: the devices it had.
    fn end(&self, flow: Flow) -> Option<FlowDevices> {
        let mut shard = self.shard(self.hasher.hash_one(flow));
        shard.table.remove(&flow)
    }

    fn place(&self, device: &Arc<Device>) -> TellOrder {
        let hash = self.hasher.hash_one(device.aor());
        (hash, Arc::as_ptr(device) as usize)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, FlowShard> {
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

impl DeviceContext {
    /// A connection has ended: the contacts that were registered over it are
    /// unreachable, and those that cannot come back end.
    pub(in crate::server) fn flow_failed(self: &Arc<Self>, flow: Flow) {
        if let Some(devices) = self.flows.end(flow) {
            self.reach(flow, Reach::Unreachable, Told::Former(devices));
        }
    }

    /// Connections that were read from the database have not ended.
    pub(in crate::server) fn connections_stand(self: &Arc<Self>, flows: Vec<Flow>) {
        let context = Arc::downgrade(self);
        let tell = move || {
            let Some(context) = context.upgrade() else {
                return;
            };
            for flow in flows {
                context.reach_some(flow, Reach::Reachable, Told::Present(None));
            }
        };
        self.in_turn(tell);
    }

    /// A datagram came: the device at the other end is there.
    pub(in crate::server) fn note_life(self: &Arc<Self>, flow: Flow) {
        if self.flows.are_probed() && self.flows.heard(&flow, self.clock.now()) {
            self.reach(flow, Reach::Reachable, Told::Present(None));
        }
    }

    /// Asks those who have been silent, from now on.
    pub(in crate::server) fn start_probing(
        self: &Arc<Self>,
        runtime: &Runtime,
    ) -> Result<(), AddError> {
        if !self.flows.may_probe() {
            return Ok(());
        }
        let context: Weak<Self> = Arc::downgrade(self);
        let probe = move || match context.upgrade() {
            Some(context) => context.probe_all(),
            None => Duration::ZERO,
        };
        let timer = runtime.timers().timer().label("probes");
        let timer = timer.after(PROBE_PERIOD).on(runtime.pool());
        timer.run_with_next_delay(probe).map(drop)
    }

    /// Returns how long nothing is due, or not much later.
    fn probe_all(self: &Arc<Self>) -> Duration {
        if !self.flows.are_probed() {
            return PROBE_PERIOD_MAX;
        }
        let next = (0..SHARDS).filter_map(|index| self.probe(index)).min();
        let rest = next.map_or(PROBE_PERIOD_MAX, |next| next - self.clock.now());
        rest.clamp(PROBE_PERIOD, PROBE_PERIOD_MAX)
    }

    /// Returns when the next of these is due.
    fn probe(self: &Arc<Self>, index: usize) -> Option<Instant> {
        let (due, next) = self.flows.poll(index, self.clock.now());
        for probe in due {
            match probe {
                Probe::Ask(flow) => self.ask(flow),
                Probe::KeepAlive(flow) => self.keep_alive(flow),
                Probe::Down(flow) => self.reach(flow, Reach::Unreachable, Told::Present(None)),
            }
        }
        next
    }

    /// All devices of a flow are probed together: one answer counts for the flow.
    fn ask(&self, flow: Flow) {
        let now = self.clock.now();
        let (devices, _) = self.flows.some_behind(&flow, None);
        let contact = devices
            .iter()
            .find_map(|device| device.contact_over(flow, now));
        let Some(contact) = contact else { return };
        let number = self.flows.counters.probed.get();
        let question = match contact.uri().starts_with("iax:") {
            true => self.responder.write(write_poke),
            false => {
                let ours = (flow.transport, self.flows.advertised.for_flow(flow));
                // Its answer is known by its flow, so that anybody may guess it.
                let name = format!("{number}.{}", now.as_nanos());
                self.responder
                    .write(|out| write_options(out, contact.uri(), ours, PROBE_BRANCH, &name))
            }
        };
        if let Some(question) = question {
            self.flows.counters.probed.increment();
            self.responder.try_send(flow, question);
        }
    }

    /// Two line ends, which a device passes over (RFC 3261 §7.5).
    fn keep_alive(&self, flow: Flow) {
        let line_ends = |out: &mut Vec<u8>| out.extend_from_slice(b"\r\n\r\n");
        if let Some(keep_alive) = self.responder.write(line_ends) {
            self.flows.counters.kept_alive.increment();
            self.responder.try_send(flow, keep_alive);
        }
    }

    /// Tells some devices and leaves the others for the next turn: a proxy may have
    /// registered a hundred thousand devices over one connection.
    fn reach(self: &Arc<Self>, flow: Flow, reach: Reach, told: Told) {
        let context = Arc::downgrade(self);
        let tell = move || {
            if let Some(context) = context.upgrade() {
                context.reach_some(flow, reach, told);
            }
        };
        self.in_turn(tell);
    }

    fn reach_some(self: &Arc<Self>, flow: Flow, reach: Reach, mut told: Told) {
        let (devices, last) = match &mut told {
            Told::Former(devices) => devices.take_some(),
            Told::Present(place) => self.flows.some_behind(&flow, *place),
        };
        for device in devices {
            device.reach(self, flow, reach);
            if !reach.is_believed() {
                self.lose(&device, flow);
            }
        }
        if let Told::Present(place) = &mut told {
            *place = last;
        }
        if last.is_some() {
            self.reach(flow, reach, told);
        }
    }

    /// What is to be told of flows has no other bound than the flows there are: the end of one comes once, and nobody would
    /// find out about it later. It is refused only when the server ends.
    fn in_turn(&self, tell: impl FnOnce() + Send + 'static) {
        let tell = Task::labelled(&"devices of a flow", tell);
        let _ = self.table.expiry_serializer().execute_unbounded(tell);
    }

    /// Nothing goes over this flow to the device any more.
    fn lose(self: &Arc<Self>, device: &Arc<Device>, flow: Flow) {
        if let Some(calls) = self.calls.get() {
            calls(device, flow);
        }
        if flow.transport.is_reliable() {
            self.end_cut_off(device, flow);
        }
    }
}

impl ProbePolicy {
    fn may_probe(&self) -> bool {
        let all = [
            self.interval,
            self.nat_interval,
            self.verify_within,
            self.nat_keep_alive,
        ];
        all.iter().any(|it| !it.is_zero())
    }

    fn pace(&self, contact: &Contact) -> Option<Pace> {
        let is_translated = contact.is_translated();
        let nat_interval = match is_translated {
            true => self.nat_interval,
            false => Duration::ZERO,
        };
        let reach = contact.reach();
        let is_new = reach == Reach::Unverified && !self.verify_within.is_zero();
        let verify_within = is_new.then_some(self.verify_within);
        let intervals = [self.interval, nat_interval].into_iter();
        let every = intervals.filter(|it| !it.is_zero()).min();
        let is_kept = is_translated && !contact.uri().starts_with("iax:");
        let keep_alive = (is_kept && !self.nat_keep_alive.is_zero()).then_some(self.nat_keep_alive);
        // One that did not answer may still be heard.
        let is_lost = reach == Reach::Unreachable && self.may_probe();
        let is_watched = every.is_some() || keep_alive.is_some();
        (is_watched || is_new || is_lost).then_some(Pace {
            every,
            verify_within,
            keep_alive,
        })
    }
}

/// Begins the branch of each probe.
pub(in crate::server) const PROBE_BRANCH: &str = "z9hG4bKprobe";

/// A POKE asks without a call (RFC 5456 §6.7.1); its PONG is acknowledged.
fn write_poke(out: &mut Vec<u8>) {
    let poke = FullFrame {
        source_call: POKE_CALL,
        kind: Kind::Iax(Command::Poke),
        ..FullFrame::default()
    };
    poke.write(out);
}

/// The ACK of the PONG that answers a POKE of ours; `None` for any other frame.
pub(in crate::server) fn ack_of_pong(datagram: &[u8]) -> Option<FullFrame<'static>> {
    let Ok(Frame::Full(pong)) = Frame::parse(datagram) else {
        return None;
    };
    let is_ours = pong.kind == Kind::Iax(Command::Pong) && pong.destination_call == POKE_CALL;
    is_ours.then(|| FullFrame {
        source_call: POKE_CALL,
        destination_call: pong.source_call,
        timestamp: pong.timestamp,
        outbound: pong.inbound,
        inbound: pong.outbound.wrapping_add(1),
        ..FullFrame::default()
    })
}

/// Devices to be told in one turn, and the place of the last of them; `None` when
/// there are no more.
type Portion = (Vec<Arc<Device>>, Option<TellOrder>);

impl FlowDevices {
    fn insert(&mut self, place: TellOrder, device: Weak<Device>) {
        match self {
            Self::Many(devices) => drop(devices.insert(place, device)),
            Self::One(known, _) if *known == place => *self = Self::One(place, device),
            Self::One(known, other) => {
                let other = (*known, std::mem::take(other));
                *self = Self::Many(BTreeMap::from([other, (place, device)]));
            }
        }
    }

    /// Whether none is left.
    fn remove(&mut self, place: TellOrder) -> bool {
        match self {
            Self::One(known, _) => *known == place,
            Self::Many(devices) => {
                devices.remove(&place);
                devices.is_empty()
            }
        }
    }

    fn some_behind(&self, place: Option<TellOrder>) -> Portion {
        match self {
            Self::One(known, device) if place.is_none_or(|place| place < *known) => {
                (device.upgrade().into_iter().collect(), None)
            }
            Self::One(..) => Portion::default(),
            Self::Many(devices) => {
                let behind = place.map_or(Bound::Unbounded, Bound::Excluded);
                let some = devices.range((behind, Bound::Unbounded)).take(BATCH_LEN);
                let (mut found, mut last, mut count) = (Vec::new(), None, 0);
                for (place, device) in some {
                    found.extend(device.upgrade());
                    (last, count) = (Some(*place), count + 1);
                }
                (found, last.filter(|_| count == BATCH_LEN))
            }
        }
    }

    fn take_some(&mut self) -> Portion {
        let (devices, last) = self.some_behind(None);
        if let (Self::Many(all), Some((hash, address))) = (&mut *self, last) {
            // Those behind the last one.
            *all = all.split_off(&(hash, address.saturating_add(1)));
        }
        (devices, last)
    }
}

fn lock(shard: &Mutex<FlowShard>) -> MutexGuard<'_, FlowShard> {
    shard
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Many more than threads, so that two threads seldom want the same shard.
const SHARDS: usize = 64;
/// Devices that one turn tells, so that what waits behind it waits for less than
/// a millisecond.
const BATCH_LEN: usize = 64;
/// How often silent flows are checked while some are due, and how many of a shard are probed then: at most
/// 20,480 in a second.
const PROBE_PERIOD: Duration = Duration::from_millis(100);
/// How often otherwise: a flow that is new meanwhile may be due before the others.
const PROBE_PERIOD_MAX: Duration = Duration::from_millis(500);
const PROBES_AT_ONCE: usize = 32;
/// No call has this number for us: a PONG comes to nothing but a PING or POKE.
const POKE_CALL: u16 = 0x7fff;
