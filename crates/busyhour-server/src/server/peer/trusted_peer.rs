//! One peer: its addresses and whether they are there, and what is counted of it.

use super::{
    peer_config::{PeerConfig, with_host},
    probe::{AddressProbe, ProbeStep, Reach, ReachChange},
};
use crate::server::{ShownCertificate, load::shares::Holder, stats::counters::Counter};
use busyhour::{bus::Name, clock::Instant};
use busyhour_proxy::{Hops, NextHop};
use busyhour_sip::{Flow, SipUri, Transport};
use std::{
    fmt::{self, Display, Formatter},
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// A neighbour that is trusted.
pub(in crate::server) struct TrustedPeer {
    pub(in crate::server) counters: PeerCounters,
    name: Name,
    config: PeerConfig,
    holder: Holder,
    /// Where calls go, in order.
    targets: Mutex<Box<[PeerTarget]>>,
    /// The last connection on which it has shown its certificate, while it lasts.
    connection: Mutex<Option<Flow>>,
}

/// What is counted of a peer.
#[derive(Debug, Default)]
pub(in crate::server) struct PeerCounters {
    /// Requests outside of a dialog that it sent to our users.
    pub(in crate::server) calls_from: Counter,
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

/// An address that calls go to.
struct PeerTarget {
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
        target: usize,
        flow: Flow,
        number: u64,
        is_first: bool,
    },
    Turned(Turn),
}

/// One address as it is listed.
pub(super) struct TargetState {
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
        let target = |(transport, address)| PeerTarget {
            transport,
            address,
            local: None,
            stale_at: now,
            probe: AddressProbe::new(interval, now, first_at),
            asked_on: None,
        };
        Self {
            counters: PeerCounters::default(),
            name: Name::new(&config.name),
            targets: Mutex::new(config.targets().map(target).collect()),
            connection: Mutex::default(),
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
        addresses.any(|address| address.includes(flow))
    }

    /// Whether it is at this IP address, whatever the port.
    pub(in crate::server) fn is_at(&self, ip: IpAddr) -> bool {
        let mut addresses = self.config.addresses.iter();
        addresses.any(|address| address.is_at(ip))
    }

    /// The Request-URI of a call for `called`; `None` if it stays as it is.
    pub(in crate::server) fn uri_for(&self, called: &SipUri<'_>) -> Option<Box<str>> {
        let host = self.config.host.as_deref()?;
        let user = called.user?;
        Some(format!("{}:{user}@{host}", called.scheme.as_str()).into())
    }

    /// The ways to it, those first that come first in its configuration. Addresses that are
    /// down are left out.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(in crate::server) fn hops(&self) -> Result<Hops, Unreachable> {
        let targets = self.lock();
        let is_up = |target: &&PeerTarget| target.probe.reach() != Reach::Down;
        let mut up = targets.iter().filter(is_up).peekable();
        let unreachable = match up.peek() {
            Some(_) => Unreachable::NoSocket,
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
        let stale = targets.iter().filter(|target| target.stale_at <= now);
        stale.map(PeerTarget::place).collect()
    }

    /// Messages to one of its addresses are sent from this one of ours.
    pub(super) fn set_local(
        &self,
        now: Instant,
        place: (Transport, SocketAddr),
        local: Option<SocketAddr>,
    ) {
        let mut targets = self.lock();
        for target in targets.iter_mut().filter(|target| target.place() == place) {
            target.local = local;
            target.stale_at = now + LOCAL_MAX_AGE;
        }
    }

    /// Its addresses, as far as calls go to them.
    pub(super) fn states(&self) -> Vec<TargetState> {
        let targets = self.lock();
        let state = |target: &PeerTarget| TargetState {
            address: target.to_string(),
            reach: target.probe.reach(),
            since: target.probe.since(),
            round_trip: target.probe.round_trip(),
        };
        targets.iter().map(state).collect()
    }

    /// What is due of its probes.
    pub(super) fn poll(&self, now: Instant, mut number: impl FnMut() -> u64) -> Vec<TargetStep> {
        let mut targets = self.lock();
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
                        target: index,
                        flow,
                        number,
                        is_first,
                    }));
                }
                Some(ProbeStep::Silent(change)) => {
                    steps.push(TargetStep::Turned(turn(&targets, index, change)));
                }
            }
        }
        steps
    }

    /// An OPTIONS goes out on this flow; `false` if the same one went out on it before, and it is
    /// a connection: what is sent over that arrives, or its end is seen.
    pub(super) fn asks_on(&self, target: usize, flow: Flow, is_first: bool) -> bool {
        let mut targets = self.lock();
        let Some(target) = targets.get_mut(target) else {
            return false;
        };
        let before = target.asked_on.replace(flow);
        is_first || before != Some(flow) || !flow.transport.is_reliable()
    }

    /// An answer to a probe came; `None` if it is none.
    pub(super) fn answered(
        &self,
        now: Instant,
        target: usize,
        number: u64,
        status: u16,
    ) -> Option<Turn> {
        let mut targets = self.lock();
        let change = targets
            .get_mut(target)?
            .probe
            .answered(now, number, status)?;
        self.counters.probes_answered.increment();
        Some(turn(&targets, target, change))
    }

    /// When something of its probes is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let targets = self.lock();
        targets.iter().map(|target| target.probe.next_at()).min()
    }

    fn lock(&self) -> MutexGuard<'_, Box<[PeerTarget]>> {
        (self.targets.lock()).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PeerTarget {
    /// The way there; a connection has to be made.
    fn flow(&self) -> Option<Flow> {
        let flow = Flow::udp(self.local?, self.address);
        Some(Flow {
            transport: self.transport,
            ..flow
        })
    }

    fn place(&self) -> (Transport, SocketAddr) {
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

/// Whether a call for this host goes to the peer.
pub(super) fn has_domain(peer: &TrustedPeer, called: &SipUri<'_>) -> bool {
    let is_it = |domain: &String| with_host(domain, |host, _| host.matches(&called.host));
    peer.config.domains.iter().any(|it| is_it(it) == Some(true))
}

const LOCAL_MAX_AGE: Duration = Duration::from_secs(30);
