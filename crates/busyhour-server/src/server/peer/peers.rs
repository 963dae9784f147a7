//! All peers: who sends a request, to whom a call goes, and their probes.

use super::{
    peer_config::PeerConfig,
    probe::{ReachChange, SILENCE_MAX},
    trusted_peer::{TargetStep, TrustedPeer, Turn, Unreachable, has_domain},
    view::{PeerStats, PeerView},
};
use crate::server::{
    load::shares::Holders,
    server_clock::ServerClock,
    sip::{options::write_options, responder::Responder},
};
use busyhour::{bus::Name, clock::Instant, runtime::Runtime, timer::AddError};
use busyhour_proxy::{EventKind, FailureCause, Hops, NextHop, dialogs::Party};
use busyhour_registrar::{Advertised, numeric_address};
use busyhour_sip::{Flow, Message, SipUri, Transport};
use foldhash::quality::FixedState;
use std::{
    hash::BuildHasher,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The neighbours that the operator trusts.
pub(in crate::server) struct Peers {
    peers: Box<[TrustedPeer]>,
    clock: Arc<ServerClock>,
    responder: Arc<Responder>,
    /// The addresses that probes name as ours.
    advertised: Advertised,
    hasher: FixedState,
    last_probe: AtomicU64,
    /// Whether any of them has one.
    has_certificates: bool,
}

impl Peers {
    pub(in crate::server) fn new(
        configs: &[PeerConfig],
        advertised: Advertised,
        seed: u64,
        holders: &Holders,
        clock: Arc<ServerClock>,
        responder: Arc<Responder>,
    ) -> Self {
        let now = clock.now();
        let peer = |(place, config): (usize, &PeerConfig)| {
            let holder = holders.of_peer(&config.name, config.share_percent);
            // Not all at once.
            let first_at = now + FIRST_PROBES_APART * place as u32;
            TrustedPeer::new(config.clone(), holder, now, first_at)
        };
        Self {
            peers: configs.iter().enumerate().map(peer).collect(),
            clock,
            responder,
            advertised,
            hasher: FixedState::with_seed(seed),
            last_probe: AtomicU64::new(0),
            has_certificates: configs.iter().any(PeerConfig::shows_certificate),
        }
    }

    /// The peer that sends on this flow, if it may call our users.
    pub(in crate::server) fn caller(&self, flow: Flow) -> Option<&TrustedPeer> {
        self.sender(flow).filter(|peer| peer.config().may_call)
    }

    /// The peer that sends on this flow, if it may publish for our users.
    pub(in crate::server) fn publisher(&self, flow: Flow) -> Option<&TrustedPeer> {
        self.sender(flow).filter(|peer| peer.config().may_publish)
    }

    fn sender(&self, flow: Flow) -> Option<&TrustedPeer> {
        let by_address = || self.peers.iter().find(|peer| peer.sends_on(flow));
        self.of_certificate(flow).or_else(by_address)
    }

    /// The peer that has shown its certificate on this connection.
    fn of_certificate(&self, flow: Flow) -> Option<&TrustedPeer> {
        if !self.has_certificates || flow.transport != Transport::Tls {
            return None;
        }
        let shown = self.responder.network().shown_certificate(flow)?;
        self.peers.iter().find(|peer| peer.has_certificate(&shown))
    }

    /// Whether the peer sends on this flow, whatever the port of its address.
    pub(in crate::server) fn is_from(&self, peer: &TrustedPeer, flow: Flow) -> bool {
        match peer.needs_certificate() {
            true => self
                .of_certificate(flow)
                .is_some_and(|it| it.name() == peer.name()),
            false => peer.is_at(flow.remote.ip()),
        }
    }

    /// A request came on this flow: calls go to the last connection of a peer.
    pub(in crate::server) fn heard_on(&self, flow: Flow) {
        if let Some(peer) = self.of_certificate(flow)
            && peer.last_connection() != Some(flow)
            && self.responder.network().mark_trusted(flow)
        {
            peer.connected(flow);
        }
    }

    /// This connection has ended.
    pub(in crate::server) fn flow_failed(&self, flow: Flow) {
        self.peers.iter().for_each(|peer| peer.disconnected(flow));
    }

    /// The peer of a side of a dialog; `None` if it is configured no more.
    pub(in crate::server) fn of(&self, party: &Party) -> Option<&TrustedPeer> {
        let name = party.peer.as_ref()?;
        self.named(name)
    }

    pub(in crate::server) fn named(&self, name: &Name) -> Option<&TrustedPeer> {
        self.peers.iter().find(|peer| peer.name() == name)
    }

    /// Whether what a side of a dialog asserts of itself is believed.
    pub(in crate::server) fn believes(&self, party: &Party) -> bool {
        self.of(party).is_some_and(|peer| peer.config().may_call)
    }

    /// The peer that calls for this domain go to.
    pub(in crate::server) fn of_domain(&self, called: &SipUri<'_>) -> Option<&TrustedPeer> {
        self.peers.iter().find(|peer| has_domain(peer, called))
    }

    /// The peer that calls for a user of ours go to who is not known here: by the longest
    /// prefix, else by default.
    pub(in crate::server) fn of_user(&self, user: &str) -> Option<&TrustedPeer> {
        let fitting = |peer: &TrustedPeer| {
            let prefixes = peer.config().prefixes.iter();
            let fitting = prefixes.filter(|prefix| user.starts_with(prefix.as_str()));
            fitting.map(String::len).max()
        };
        let by_prefix = self
            .peers
            .iter()
            .filter_map(|peer| Some((fitting(peer)?, peer)));
        let longest = by_prefix.max_by_key(|(len, _)| *len);
        let default = || self.peers.iter().find(|peer| peer.config().is_default);
        longest.map(|(_, peer)| peer).or_else(default)
    }

    /// The ways to a peer for a new call.
    ///
    /// # Errors
    ///
    /// Why there is none now; counted.
    pub(in crate::server) fn hops(&self, peer: &TrustedPeer) -> Result<Hops, Unreachable> {
        self.refresh(peer);
        let hops = peer.hops();
        match hops {
            Ok(_) => peer.counters.calls_to.increment(),
            Err(_) => peer.counters.refused_down.increment(),
        }
        hops
    }

    /// The ways to a peer within a dialog: first the connection that the dialog came on, if that
    /// was the peer's; then where the next Route or the Contact says, if the peer is there; then
    /// where its last request came from; then its other addresses. A UDP address of the dialog's
    /// own route is better than the source of a request, which may be a port that nobody listens
    /// to.
    pub(in crate::server) fn hops_within(&self, peer: &TrustedPeer, to: Flow, next: &str) -> Hops {
        let named = self.flow_named(peer, to, next);
        let connection = peer.last_connection().map(NextHop::registered);
        let others = peer.config().targets().filter_map(|(transport, remote)| {
            let is_known = |flow: Flow| (flow.transport, flow.remote) == (transport, remote);
            let is_new = !is_known(to) && !named.is_some_and(is_known);
            self.flow_to(transport, remote)
                .filter(|_| is_new)
                .map(NextHop::resolved)
        });
        let first = match (to.connection, named) {
            (0, Some(named)) => NextHop::resolved(named),
            (0, None) => NextHop::resolved(to),
            _ => NextHop::registered(to),
        };
        let named = named.map(NextHop::resolved);
        let last = Some(NextHop::registered(to));
        let more = named.into_iter().chain(last).chain(connection);
        let mut known = vec![first.flow];
        let mut hops = Hops::from(first);
        for way in more.chain(others) {
            if !known.contains(&way.flow) {
                known.push(way.flow);
                hops.push(way);
            }
        }
        hops
    }

    /// The flow to the address that a Route or Contact of the peer names, if the peer is there.
    fn flow_named(&self, peer: &TrustedPeer, to: Flow, next: &str) -> Option<Flow> {
        let (transport, remote) = numeric_address(next)?;
        // Without TLS nobody would show who is there.
        if !peer.is_at(remote.ip()) || peer.needs_certificate() && transport != Transport::Tls {
            return None;
        }
        let is_same = to.transport == transport && to.remote.is_ipv4() == remote.is_ipv4();
        match is_same && transport == Transport::Udp {
            true => Some(Flow::udp(to.local, remote)),
            false => self.flow_to(transport, remote),
        }
    }

    /// The flow from the best address of ours; a connection has to be made.
    fn flow_to(&self, transport: Transport, remote: SocketAddr) -> Option<Flow> {
        let local = self.responder.network().local_to(transport, remote)?;
        Some(Flow {
            transport,
            ..Flow::udp(local, remote)
        })
    }

    /// Counts what happened to a request on its way to a peer; `called` tells who has a label.
    pub(in crate::server) fn note<'p>(
        &self,
        event: EventKind,
        called: impl FnOnce(u64) -> Option<&'p Party>,
    ) {
        let EventKind::Failed {
            label,
            status,
            cause,
            ..
        } = event
        else {
            return;
        };
        let is_attempt_lost = cause != FailureCause::Response || status == 503;
        let peer = called(label).filter(|_| is_attempt_lost);
        if let Some(peer) = peer.and_then(|party| self.of(party)) {
            peer.counters.attempts_failed.increment();
        }
    }

    /// A response, if it answers one of the probes.
    pub(in crate::server) fn answered(&self, response: &Message<'_>, status: u16) -> bool {
        if self.peers.is_empty() {
            return false;
        }
        let via = response.via().ok();
        let branch = via.as_ref().and_then(|via| via.branch());
        let Some(rest) = branch.and_then(|branch| branch.strip_prefix(BRANCH)) else {
            return false;
        };
        let Some((peer, target, number)) = probe_names(rest) else {
            return false;
        };
        let peer = self.peers.get(peer).filter(|_| status >= 200);
        let turn = peer.and_then(|peer| {
            let turn = peer.answered(self.clock.now(), target, number, status)?;
            Some((peer, turn))
        });
        if let Some((peer, turn)) = turn {
            tell(peer, &turn, "it answered OPTIONS with 503");
        }
        true
    }

    /// Asks the peers that calls go to, at their intervals.
    ///
    /// # Errors
    ///
    /// When there is no room for a timer.
    pub(in crate::server) fn start_probing(
        self: &Arc<Self>,
        runtime: &Runtime,
    ) -> Result<(), AddError> {
        let Some(first) = self.next_wait() else {
            return Ok(());
        };
        let peers: Weak<Self> = Arc::downgrade(self);
        let probe = move || {
            let peers = peers.upgrade();
            let next = peers.and_then(|peers| {
                peers.probe();
                peers.next_wait()
            });
            next.unwrap_or(Duration::ZERO)
        };
        let timer = runtime.timers().timer().label("peers");
        let timer = timer.after(first).on(runtime.pool());
        timer.run_with_next_delay(probe).map(drop)
    }

    pub(in crate::server) fn stats(&self) -> PeerStats {
        self.peers
            .iter()
            .fold(PeerStats::default(), |mut sum, peer| {
                sum.add(peer);
                sum
            })
    }

    /// Each address of each peer.
    pub(in crate::server) fn list(&self) -> Vec<PeerView> {
        let now = self.clock.now();
        let views = self
            .peers
            .iter()
            .flat_map(|peer| PeerView::all_of(peer, now));
        views.collect()
    }

    fn probe(&self) {
        let now = self.clock.now();
        for (place, peer) in self.peers.iter().enumerate() {
            let number = || {
                let serial = self.last_probe.fetch_add(1, Ordering::Relaxed);
                self.hasher.hash_one((place, serial))
            };
            self.refresh(peer);
            for step in peer.poll(now, number) {
                match step {
                    TargetStep::Ask {
                        target,
                        flow,
                        number,
                        is_first,
                    } => {
                        let flow = self.connected(flow);
                        if let Some(flow) = flow.filter(|it| peer.asks_on(target, *it, is_first)) {
                            self.ask(flow, &format!("{place:x}.{target:x}.{number:016x}"));
                        }
                    }
                    TargetStep::Turned(turn) => {
                        let silence = SILENCE_MAX.as_secs();
                        tell(
                            peer,
                            &turn,
                            &format!("no answer to OPTIONS within {silence} s"),
                        );
                    }
                }
            }
        }
    }

    /// A flow that something can be sent on; `None` if no connection can be made now.
    fn connected(&self, flow: Flow) -> Option<Flow> {
        match flow.transport {
            Transport::Udp => Some(flow),
            _ => self.responder.network().connect(flow).ok(),
        }
    }

    fn ask(&self, flow: Flow, name: &str) {
        let ours = self.advertised.for_flow(flow);
        let uri = format!("sip:{}{}", flow.remote, flow.transport.uri_suffix());
        let question = self
            .responder
            .write(|out| write_options(out, &uri, (flow.transport, ours), BRANCH, name));
        if let Some(question) = question {
            self.responder.forward(flow, question);
        }
    }

    /// Until something is due; `None` if nothing ever is.
    fn next_wait(&self) -> Option<Duration> {
        let next = self.peers.iter().filter_map(TrustedPeer::next_at).min()?;
        let is_ever = next < Instant::FAR_FUTURE;
        is_ever.then(|| (next - self.clock.now()).max(LEAST_WAIT))
    }

    /// Asks the network, under no lock, which addresses of ours lead to the peer.
    fn refresh(&self, peer: &TrustedPeer) {
        let now = self.clock.now();
        for (transport, remote) in peer.stale(now) {
            let local = self.responder.network().local_to(transport, remote);
            peer.set_local(now, (transport, remote), local);
        }
    }
}

/// Logs what an address has become, and counts it.
fn tell(peer: &TrustedPeer, turn: &Turn, reason: &str) {
    let (name, address) = (peer.name(), &turn.address);
    match turn.change {
        ReachChange::None => {}
        ReachChange::WentUp(down_for) => {
            peer.counters.went_up.increment();
            let down_for_s = down_for.as_secs();
            tracing::info!(peer = %name, %address, down_for_s, "peer is up again");
        }
        ReachChange::WentDown => {
            peer.counters.went_down.increment();
            let calls_go_to = match turn.others_up.is_empty() {
                true => "nowhere: they are refused with 480".to_owned(),
                false => turn.others_up.join(", "),
            };
            tracing::warn!(peer = %name, %address, reason, calls_go_to, "peer is down");
        }
    }
}

/// What stands behind [`BRANCH`]: the places of the peer and of its address, and the number.
fn probe_names(rest: &str) -> Option<(usize, usize, u64)> {
    let mut parts = rest.split('.');
    let mut place = || usize::from_str_radix(parts.next()?, 16).ok();
    let (peer, target) = (place()?, place()?);
    let number = u64::from_str_radix(parts.next()?, 16).ok()?;
    parts.next().is_none().then_some((peer, target, number))
}

/// Begins the branch of each probe.
const BRANCH: &str = "z9hG4bKpeer";
const FIRST_PROBES_APART: Duration = Duration::from_millis(20);
const LEAST_WAIT: Duration = Duration::from_millis(10);
