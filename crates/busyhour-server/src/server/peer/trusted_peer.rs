//! One peer: its addresses and whether they are there, and what is counted of it.

use super::{
    peer_config::{ALL_DOMAINS, PeerConfig, with_host},
    probe::{AddressProbe, ProbeStep, Reach, ReachChange},
};
use crate::server::{ShownCertificate, load::shares::Holder, stats::counters::Counter};
use busyhour::{bus::Name, clock::Instant};
use busyhour_proxy::{
    Hops, NextHop,
    dns::{HopName, NotLocated, Servers},
};
use busyhour_sip::{Flow, SipUri, Transport};
use std::{
    fmt::{self, Display, Formatter},
    net::{IpAddr, SocketAddr},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A neighbour that is trusted.
pub(in crate::server) struct TrustedPeer {
    pub(in crate::server) counters: PeerCounters,
    name: Name,
    config: PeerConfig,
    holder: Holder,
    /// Of its probes.
    interval: Duration,
    /// Where calls go.
    targets: Mutex<PeerTargets>,
    /// The last connection on which it has shown its certificate, while it lasts.
    connection: Mutex<Option<Flow>>,
    /// When the log has last told of requests from its address that are not its own, in
    /// nanoseconds; 0 for never.
    told_of_others_ns: AtomicU64,
}

/// What is counted of a peer.
#[derive(Debug, Default)]
pub(in crate::server) struct PeerCounters {
    /// Requests outside of a dialog that it sent to our users.
    pub(in crate::server) calls_from: Counter,
    /// Requests from one of its addresses that were not its own.
    pub(in crate::server) not_from_peer: Counter,
    /// Its calls that were answered with the contacts of the called user.
    pub(in crate::server) redirected: Counter,
    /// Those of our users that were sent to it.
    pub(in crate::server) calls_to: Counter,
    /// Requests that an address did not take: silence, 503, or it could not be sent.
    pub(in crate::server) attempts_failed: Counter,
    /// Requests refused because every address was down.
    pub(in crate::server) refused_down: Counter,
    pub(in crate::server) publications: Counter,
    pub(in crate::server) probes_sent: Counter,
    pub(in crate::server) probes_answered: Counter,
    pub(in crate::server) went_down: Counter,
    pub(in crate::server) went_up: Counter,
}

/// Where calls go, and what is known of the names among the addresses.
struct PeerTargets {
    /// In the order of the configuration.
    list: Vec<PeerTarget>,
    names: Box<[NamedAddress]>,
}

/// A name among the addresses.
struct NamedAddress {
    /// Among the addresses.
    place: usize,
    name: HopName,
    /// What DNS said of it last.
    servers: Option<Servers>,
    /// Why it said nothing more.
    failure: Option<NotLocated>,
    /// When to ask again.
    due_at: Instant,
}

/// An address that calls go to.
struct PeerTarget {
    /// The place of the address, or of the name that led to it, in the configuration.
    place: usize,
    transport: Transport,
    address: SocketAddr,
    /// The address of ours that they are sent from.
    local: Option<SocketAddr>,
    /// When to ask for that again, as routes change.
    stale_at: Instant,
    probe: AddressProbe,
    /// The flow that the OPTIONS which waits was sent on.
    asked_on: Option<Flow>,
}

/// Why no call goes to a peer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Unreachable {
    /// Every address is down.
    Down,
    /// None of our sockets can send there.
    NoSocket,
    /// DNS has not said where its names are.
    NotLocated,
}

/// What has become of a name among the addresses of a peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameChange {
    None,
    /// Its servers are these.
    Located(Vec<String>),
    /// It has none, or nobody says; what it had before stays, or not.
    Lost {
        reason: NotLocated,
        keeps: usize,
    },
}

/// What an address has become, with those that calls go to instead.
pub(super) struct Turn {
    pub(super) address: String,
    pub(super) change: ReachChange,
    pub(super) others_up: Vec<String>,
}

/// What has to be done about one address.
pub(super) enum TargetStep {
    Ask {
        flow: Flow,
        number: u64,
        is_first: bool,
    },
    Turned(Turn),
}

/// One address as it is listed.
pub(super) struct TargetState {
    /// The place of the address, or of its name, in the configuration.
    pub(super) place: usize,
    pub(super) address: String,
    pub(super) reach: Reach,
    pub(super) since: Instant,
    pub(super) round_trip: Option<Duration>,
}

impl TrustedPeer {
    pub(super) fn new(config: PeerConfig, holder: Holder, now: Instant, first_at: Instant) -> Self {
        let interval = match config.takes_calls() {
            true => config.probe_interval,
            // Nothing depends on it.
            false => Duration::ZERO,
        };
        let target = |(place, (transport, address))| {
            let probe = AddressProbe::new(interval, now, first_at);
            PeerTarget::new(place, (transport, address), probe, now)
        };
        let name = |(place, name): (usize, &HopName)| NamedAddress {
            place,
            name: name.clone(),
            servers: None,
            failure: None,
            due_at: now,
        };
        let targets = PeerTargets {
            list: config.placed_targets().map(target).collect(),
            names: config.names().map(name).collect(),
        };
        Self {
            counters: PeerCounters::default(),
            name: Name::new(&config.name),
            targets: Mutex::new(targets),
            connection: Mutex::default(),
            told_of_others_ns: AtomicU64::new(0),
            interval,
            config,
            holder,
        }
    }

    pub(in crate::server) fn name(&self) -> &Name {
        &self.name
    }

    pub(in crate::server) fn config(&self) -> &PeerConfig {
        &self.config
    }

    /// To whom its calls and publications are charged.
    pub(in crate::server) fn holder(&self) -> Holder {
        self.holder
    }

    /// Whether this certificate is one of its.
    pub(super) fn has_certificate(&self, shown: &ShownCertificate) -> bool {
        let PeerConfig {
            certificates,
            certificate_names,
            ..
        } = &self.config;
        let has_name = |own: &String| {
            let mut names = shown.names.iter();
            names.any(|name| name.eq_ignore_ascii_case(own))
        };
        certificates.iter().any(|own| own.0 == shown.fingerprint)
            || certificate_names.iter().any(has_name)
    }

    /// Whether it is known by its certificates.
    pub(super) fn needs_certificate(&self) -> bool {
        self.config.shows_certificate()
    }

    /// It has shown its certificate on this connection.
    pub(super) fn connected(&self, flow: Flow) {
        *self.connection() = Some(flow);
    }

    /// This connection has ended.
    pub(super) fn disconnected(&self, flow: Flow) {
        self.connection().take_if(|last| *last == flow);
    }

    pub(super) fn last_connection(&self) -> Option<Flow> {
        *self.connection()
    }

    fn connection(&self) -> MutexGuard<'_, Option<Flow>> {
        (self.connection.lock()).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether a message that came on this flow is its, if that is known by its address.
    pub(super) fn sends_on(&self, flow: Flow) -> bool {
        if self.needs_certificate() {
            return false;
        }
        let mut addresses = self.config.addresses.iter();
        addresses.any(|address| address.includes(flow)) || self.is_located_at(flow.remote.ip())
    }

    /// Whether the log has not told of requests from its address that are not its own for a while;
    /// then it is to do so now.
    pub(super) fn may_tell_of_others(&self, now: Instant) -> bool {
        let told = self.told_of_others_ns.load(Ordering::Relaxed);
        let now_ns = now.as_nanos().max(1);
        let is_due = told == 0 || now_ns >= told.saturating_add(TOLD_OF_OTHERS_EACH_NS);
        let order = Ordering::Relaxed;
        let told_of = &self.told_of_others_ns;
        is_due && told_of.compare_exchange(told, now_ns, order, order).is_ok()
    }

    /// Why a request from one of its addresses is not its own.
    pub(in crate::server) fn why_not(&self, flow: Flow) -> String {
        if self.needs_certificate() {
            return "it has shown no certificate of the peer".to_owned();
        }
        let ip = flow.remote.ip();
        let addresses = self.config.addresses.iter();
        let there = addresses.filter(|address| address.is_at(ip));
        let there: Vec<_> = there.map(ToString::to_string).collect();
        format!(
            "the peer is {} alone; without port and transport it is all of {}",
            there.join(", "),
            ip.to_canonical()
        )
    }

    /// Whether one of its names led to this IP address.
    fn is_located_at(&self, ip: IpAddr) -> bool {
        if self.config.names().next().is_none() {
            return false;
        }
        let targets = self.lock();
        let mut located = targets.names.iter().filter_map(|it| it.servers.as_ref());
        located.any(|servers| {
            let mut addresses = servers.addresses();
            addresses.any(|(_, address)| address.ip() == ip.to_canonical())
        })
    }

    /// Whether it is at this IP address, whatever the port.
    pub(in crate::server) fn is_at(&self, ip: IpAddr) -> bool {
        let mut addresses = self.config.addresses.iter();
        addresses.any(|address| address.is_at(ip)) || self.is_located_at(ip)
    }

    /// Its names that have to be looked up, each with its place; not again before the answer.
    pub(super) fn names_due(&self, now: Instant) -> Vec<(usize, HopName)> {
        let mut targets = self.lock();
        let due = targets.names.iter_mut().filter(|it| it.due_at <= now);
        let begin = |named: &mut NamedAddress| {
            named.due_at = Instant::FAR_FUTURE;
            (named.place, named.name.clone())
        };
        due.map(begin).collect()
    }

    /// What DNS said of the name at this place. While nobody says anything, its last servers
    /// stay: a call there is better than none.
    pub(super) fn located(
        &self,
        now: Instant,
        place: usize,
        result: Result<Servers, (NotLocated, Duration)>,
    ) -> NameChange {
        let mut targets = self.lock();
        let PeerTargets { list, names } = &mut *targets;
        let Some(named) = names.iter_mut().find(|it| it.place == place) else {
            return NameChange::None;
        };
        let (servers, failure, ttl) = match result {
            Ok(servers) => {
                let ttl = servers.ttl();
                (Some(servers), None, ttl)
            }
            Err((NotLocated::NoAnswer, ttl)) => {
                (named.servers.take(), Some(NotLocated::NoAnswer), ttl)
            }
            Err((reason, ttl)) => (None, Some(reason), ttl),
        };
        named.due_at = now + ttl.clamp(LOOKUP_LEAST, LOOKUP_MOST);
        let addresses: Vec<_> = servers.iter().flat_map(Servers::addresses).collect();
        let had = |place: usize, list: &[PeerTarget]| {
            let own = list.iter().filter(|it| it.place == place);
            own.map(PeerTarget::way).collect::<Vec<_>>()
        };
        let before = had(place, list);
        list.retain(|it| it.place != place || addresses.contains(&it.way()));
        for way in addresses.iter().filter(|way| !before.contains(way)) {
            let probe = AddressProbe::new(self.interval, now, now);
            list.push(PeerTarget::new(place, *way, probe, now));
        }
        let is_new = had(place, list) != before;
        let was_failing = std::mem::replace(&mut named.failure, failure);
        named.servers = servers;
        match failure {
            None if is_new || was_failing.is_some() => {
                let own = list.iter().filter(|it| it.place == place);
                NameChange::Located(own.map(ToString::to_string).collect())
            }
            Some(reason) if was_failing != failure => NameChange::Lost {
                reason,
                keeps: addresses.len(),
            },
            _ => NameChange::None,
        }
    }

    /// Whether a name among its addresses has to be looked up at some time.
    pub(super) fn has_names(&self) -> bool {
        self.config.names().next().is_some()
    }

    /// The Request-URI of a call for `called`; `None` if it stays as it is.
    pub(in crate::server) fn uri_for(&self, called: &SipUri<'_>) -> Option<Box<str>> {
        let host = self.config.host.as_deref()?;
        let user = called.user?;
        Some(format!("{}:{user}@{host}", called.scheme.as_str()).into())
    }

    /// The ways to it, those first that come first in its configuration; the servers of a name
    /// in the order that `order` says. Addresses that are down are left out.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(in crate::server) fn hops(
        &self,
        order: impl Fn(&Servers) -> Vec<(Transport, SocketAddr)>,
    ) -> Result<Hops, Unreachable> {
        let targets = self.lock();
        let all = targets.in_order(order);
        let is_up = |target: &&PeerTarget| target.probe.reach() != Reach::Down;
        let has_any = !all.is_empty();
        let mut up = all.into_iter().filter(is_up).peekable();
        let unreachable = match up.peek() {
            Some(_) => Unreachable::NoSocket,
            None if !has_any && self.has_names() => Unreachable::NotLocated,
            None => Unreachable::Down,
        };
        let connection = self.last_connection().map(NextHop::registered);
        let flows = up.filter_map(PeerTarget::flow).map(NextHop::resolved);
        let mut flows = connection.into_iter().chain(flows);
        let mut hops = Hops::from(flows.next().ok_or(unreachable)?);
        flows.for_each(|hop| hops.push(hop));
        Ok(hops)
    }

    /// Addresses for which ours has to be asked for.
    pub(super) fn stale(&self, now: Instant) -> Vec<(Transport, SocketAddr)> {
        let targets = self.lock();
        let stale = targets.list.iter().filter(|target| target.stale_at <= now);
        stale.map(PeerTarget::way).collect()
    }

    /// Every address that calls may go to.
    pub(super) fn ways(&self) -> Vec<(Transport, SocketAddr)> {
        self.lock().list.iter().map(PeerTarget::way).collect()
    }

    /// Messages to one of its addresses are sent from this one of ours.
    pub(super) fn set_local(
        &self,
        now: Instant,
        way: (Transport, SocketAddr),
        local: Option<SocketAddr>,
    ) {
        let mut targets = self.lock();
        let targets = targets.list.iter_mut();
        for target in targets.filter(|target| target.way() == way) {
            target.local = local;
            target.stale_at = now + LOCAL_MAX_AGE;
        }
    }

    /// Its addresses, as far as calls go to them.
    pub(super) fn states(&self) -> Vec<TargetState> {
        let targets = self.lock();
        let state = |target: &PeerTarget| TargetState {
            place: target.place,
            address: target.to_string(),
            reach: target.probe.reach(),
            since: target.probe.since(),
            round_trip: target.probe.round_trip(),
        };
        targets.list.iter().map(state).collect()
    }

    /// What is due of its probes.
    pub(super) fn poll(&self, now: Instant, mut number: impl FnMut() -> u64) -> Vec<TargetStep> {
        let targets = &mut self.lock().list;
        let mut steps = Vec::new();
        for index in 0..targets.len() {
            let target = &mut targets[index];
            match target.probe.poll(now, &mut number) {
                None => {}
                Some(ProbeStep::Send { number, is_first }) => {
                    if is_first {
                        self.counters.probes_sent.increment();
                    }
                    // What cannot be sent is not answered either.
                    steps.extend(target.flow().map(|flow| TargetStep::Ask {
                        flow,
                        number,
                        is_first,
                    }));
                }
                Some(ProbeStep::Silent(change)) => {
                    steps.push(TargetStep::Turned(turn(targets, index, change)));
                }
            }
        }
        steps
    }

    /// An OPTIONS goes out on this flow; `false` if the same one went out on it before, and it is
    /// a connection: what is sent over that arrives, or its end is seen.
    pub(super) fn asks_on(&self, number: u64, flow: Flow, is_first: bool) -> bool {
        let targets = &mut self.lock().list;
        let Some(target) = targets.iter_mut().find(|it| it.probe.asks(number)) else {
            return false;
        };
        let before = target.asked_on.replace(flow);
        is_first || before != Some(flow) || !flow.transport.is_reliable()
    }

    /// An answer to a probe came; `None` if it is none.
    pub(super) fn answered(&self, now: Instant, number: u64, status: u16) -> Option<Turn> {
        let targets = &mut self.lock().list;
        let index = targets.iter().position(|it| it.probe.asks(number))?;
        let change = targets[index].probe.answered(now, number, status)?;
        self.counters.probes_answered.increment();
        Some(turn(targets, index, change))
    }

    /// When something of its probes or of its names is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let targets = self.lock();
        let probes = targets.list.iter().map(|target| target.probe.next_at());
        let names = targets.names.iter().map(|named| named.due_at);
        probes.chain(names).min()
    }

    fn lock(&self) -> MutexGuard<'_, PeerTargets> {
        (self.targets.lock()).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PeerTargets {
    fn in_order(
        &self,
        order: impl Fn(&Servers) -> Vec<(Transport, SocketAddr)>,
    ) -> Vec<&PeerTarget> {
        let mut all: Vec<_> = self.list.iter().collect();
        all.sort_by_key(|target| target.place);
        for named in &self.names {
            let ways = named.servers.as_ref().map(&order).unwrap_or_default();
            let rank = |target: &&PeerTarget| ways.iter().position(|way| *way == target.way());
            let first = all.partition_point(|target| target.place < named.place);
            let end = all.partition_point(|target| target.place <= named.place);
            all[first..end].sort_by_key(rank);
        }
        all
    }
}

impl PeerTarget {
    fn new(
        place: usize,
        (transport, address): (Transport, SocketAddr),
        probe: AddressProbe,
        now: Instant,
    ) -> Self {
        Self {
            place,
            transport,
            address,
            local: None,
            stale_at: now,
            probe,
            asked_on: None,
        }
    }

    /// The way there; a connection has to be made.
    fn flow(&self) -> Option<Flow> {
        let flow = Flow::udp(self.local?, self.address);
        Some(Flow {
            transport: self.transport,
            ..flow
        })
    }

    fn way(&self) -> (Transport, SocketAddr) {
        (self.transport, self.address)
    }
}

impl Display for PeerTarget {
    /// As it stands in the configuration.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::Udp => self.address.fmt(f),
            stream => write!(f, "{}/{}", stream.parameter(), self.address),
        }
    }
}

/// What an address has become.
fn turn(targets: &[PeerTarget], index: usize, change: ReachChange) -> Turn {
    let is_up = |(other, target): &(usize, &PeerTarget)| {
        *other != index && target.probe.reach() != Reach::Down
    };
    let others = targets.iter().enumerate().filter(is_up);
    Turn {
        address: targets[index].to_string(),
        change,
        others_up: others.map(|(_, target)| target.to_string()).collect(),
    }
}

/// Whether calls for all domains that nobody else has go to the peer.
pub(super) fn has_all_domains(peer: &TrustedPeer) -> bool {
    peer.config.domains.iter().any(|it| it == ALL_DOMAINS)
}

/// Whether a call for this host goes to the peer.
pub(super) fn has_domain(peer: &TrustedPeer, called: &SipUri<'_>) -> bool {
    let is_it = |domain: &String| with_host(domain, |host, _| host.matches(&called.host));
    peer.config.domains.iter().any(|it| is_it(it) == Some(true))
}

/// Between two lookups of a name.
const LOOKUP_LEAST: Duration = Duration::from_secs(5);
const LOOKUP_MOST: Duration = Duration::from_secs(3600);
const LOCAL_MAX_AGE: Duration = Duration::from_secs(30);
const TOLD_OF_OTHERS_EACH_NS: u64 = 60_000_000_000;
