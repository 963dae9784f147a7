//! All peers: who sends a request, to whom a call goes, and their probes.

use super::{
    peer_config::PeerConfig,
    probe::{ReachChange, SILENCE_MAX},
    public_address::is_public,
    trusted_peer::{
        NameChange, TargetStep, TrustedPeer, Turn, Unreachable, has_all_domains, has_domain,
    },
    view::{PeerStats, PeerView},
    way_failure::WayFailure,
};
use crate::server::{
    dns::lookups::Lookups,
    load::shares::{Holder, Holders},
    random::Numbers,
    server_clock::ServerClock,
    sip::{options::write_options, responder::Responder},
};
use busyhour::{bus::Name, clock::Instant, runtime::Runtime, timer::AddError};
use busyhour_proxy::{
    EventKind, FailureCause, Hops, NextHop,
    dialogs::Party,
    dns::{HopName, NotLocated, Servers, Transports},
};
use busyhour_registrar::{Advertised, numeric_address};
use busyhour_sip::{Flow, Host, Message, SipUri, Transport, Uri};
use std::{
    net::{IpAddr, SocketAddr},
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
    lookups: Arc<Lookups>,
    /// The addresses that probes name as ours.
    advertised: Advertised,
    /// Of the probes.
    numbers: Numbers,
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
        (clock, responder, lookups): (Arc<ServerClock>, Arc<Responder>, Arc<Lookups>),
    ) -> Self {
        let now = clock.now();
        let peer = |(place, config): (usize, &PeerConfig)| {
            let holder = holders.of_peer(&config.name, config.share_percent.min(100) as u8);
            // Not all at once.
            let first_at = now + FIRST_PROBES_APART * place as u32;
            TrustedPeer::new(config.clone(), holder, now, first_at)
        };
        Self {
            peers: configs.iter().enumerate().map(peer).collect(),
            clock,
            responder,
            lookups,
            advertised,
            numbers: Numbers::new(seed),
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

    /// A peer with this right that is at the address of a flow, but does not send on it, so that
    /// who does is no more than anybody; counted. `true` if the log should say so now.
    pub(in crate::server) fn not_from_peer(
        &self,
        flow: Flow,
        has_right: impl Fn(&PeerConfig) -> bool,
    ) -> Option<(&TrustedPeer, bool)> {
        let is_it = |peer: &&TrustedPeer| has_right(peer.config()) && peer.is_at(flow.remote.ip());
        let peer = self.peers.iter().find(is_it)?;
        peer.counters.not_from_peer.increment();
        Some((peer, peer.may_tell_of_others(self.clock.now())))
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

    /// The peer with this name, or for a domain of it.
    pub(in crate::server) fn named(&self, name: &str) -> Option<&TrustedPeer> {
        let name = name.split_once(DOMAIN_MARK).map_or(name, |(peer, _)| peer);
        self.peers.iter().find(|peer| &**peer.name() == name)
    }

    /// Whether what a side of a dialog asserts of itself is believed.
    pub(in crate::server) fn believes(&self, party: &Party) -> bool {
        self.of(party).is_some_and(|peer| peer.config().may_call)
    }

    /// The peer that calls for this domain go to; `is_ours` if it is one of ours.
    pub(in crate::server) fn of_domain(
        &self,
        called: &SipUri<'_>,
        is_ours: bool,
    ) -> Option<&TrustedPeer> {
        let exact = self.peers.iter().find(|peer| has_domain(peer, called));
        let any = || {
            let is_other = !is_ours && matches!(called.host, Host::Name(_));
            let mut peers = self.peers.iter();
            peers.find(|peer| is_other && has_all_domains(peer))
        };
        exact.or_else(any)
    }

    /// Whether both addresses are of one peer.
    pub(in crate::server) fn has_both(&self, addresses: [IpAddr; 2]) -> bool {
        let mut peers = self.peers.iter();
        peers.any(|peer| addresses.iter().all(|ip| peer.is_at(*ip)))
    }

    /// Whether the operator has named the domain of this call.
    pub(in crate::server) fn is_named(&self, peer: &TrustedPeer, called: &SipUri<'_>) -> bool {
        has_domain(peer, called)
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
        let hops = peer.hops(|servers| self.lookups.order(servers));
        match hops {
            Ok(_) => peer.counters.calls_to.increment(),
            Err(_) => peer.counters.refused_down.increment(),
        }
        hops
    }

    /// The ways to servers that DNS names for a domain whose calls go to this peer. Strangers say
    /// what their DNS says: so it does not lead to another peer, which may trust us; and of
    /// domains that the operator has not named, only to public addresses.
    ///
    /// Over TLS they have to show a certificate for `domain`, not for the host that SRV names
    /// (RFC 5922 §4).
    pub(in crate::server) fn hops_to(
        &self,
        peer: &TrustedPeer,
        servers: &Servers,
        (domain, is_named): (&str, bool),
    ) -> Option<Hops> {
        let is_allowed = |ip: IpAddr| {
            let mut others = self.peers.iter().filter(|it| it.name() != peer.name());
            (is_named || is_public(ip)) && !others.any(|other| other.is_at(ip))
        };
        let order = self.lookups.order(servers).into_iter();
        let allowed = order.filter(|(_, address)| is_allowed(address.ip()));
        let flow_to = |(over, address)| self.flow_to_server(over, address, Some(domain));
        let mut flows = allowed.filter_map(flow_to).take(WAYS_MAX);
        let mut hops = Hops::from(NextHop::resolved(flows.next()?));
        flows.for_each(|flow| hops.push(NextHop::resolved(flow)));
        peer.counters.calls_to.increment();
        Some(hops)
    }

    /// The ways to a peer within a dialog: first the connection that the dialog came on, if that
    /// was the peer's; then where the next Route or the Contact says, if the peer is there; then
    /// where its last request came from; then its other addresses. A UDP address of the dialog's
    /// own route is better than the source of a request, which may be a port that nobody listens
    /// to.
    pub(in crate::server) fn hops_within(
        &self,
        peer: &TrustedPeer,
        party: &Party,
        next: &str,
    ) -> Hops {
        let (to, domain) = (party.flow, domain_of(party));
        let named = self.flow_named(peer, (to, domain), next);
        let connection = peer.last_connection().map(NextHop::registered);
        let others = peer.ways().into_iter().filter_map(|(transport, remote)| {
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
        // The connection of the dialog may have ended.
        let again = domain.filter(|_| to.transport == Transport::Tls);
        let again = again.and_then(|_| self.flow_to_server(to.transport, to.remote, domain));
        let again = again.map(NextHop::resolved);
        let more = named.into_iter().chain(last).chain(again);
        let more = more.chain(connection);
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
    fn flow_named(
        &self,
        peer: &TrustedPeer,
        (to, domain): (Flow, Option<&str>),
        next: &str,
    ) -> Option<Flow> {
        let (transport, remote) = match numeric_address(next) {
            Some(address) => address,
            None => self.known_address(peer, next)?,
        };
        let is_there = peer.is_at(remote.ip()) || remote.ip() == to.remote.ip();
        // Without TLS nobody would show who is there.
        if !is_there || peer.needs_certificate() && transport != Transport::Tls {
            return None;
        }
        let is_same = to.transport == transport && to.remote.is_ipv4() == remote.is_ipv4();
        match is_same && transport == Transport::Udp {
            true => Some(Flow::udp(to.local, remote)),
            false => self.flow_to_server(transport, remote, domain),
        }
    }

    /// Where the server of a Route or Contact with a name is, if that was looked up.
    fn known_address(&self, peer: &TrustedPeer, next: &str) -> Option<(Transport, SocketAddr)> {
        let name = hop_name(next)?;
        let servers = self.lookups.known(&name, self.transports(peer))?.ok()?;
        self.lookups.order(&servers).into_iter().next()
    }

    /// The name in a Route or Contact of a peer, if it has to be looked up first.
    pub(in crate::server) fn unknown_name(
        &self,
        peer: &TrustedPeer,
        next: &str,
    ) -> Option<(HopName, Transports)> {
        let (name, transports) = (hop_name(next)?, self.transports(peer));
        let is_known = self.lookups.known(&name, transports).is_some();
        (!is_known).then_some((name, transports))
    }

    /// As [`flow_to`](Self::flow_to); over TLS to a server of this domain.
    fn flow_to_server(
        &self,
        transport: Transport,
        remote: SocketAddr,
        domain: Option<&str>,
    ) -> Option<Flow> {
        let flow = self.flow_to(transport, remote)?;
        match domain.filter(|_| transport == Transport::Tls) {
            Some(domain) => self.responder.network().flow_to_domain(flow, domain),
            None => Some(flow),
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

    /// What the log says if a request has failed on its way to a peer.
    pub(in crate::server) fn way_failure<'p>(
        &self,
        event: EventKind,
        called: impl FnOnce(u64) -> Option<&'p Party>,
        caller: Option<&Party>,
    ) -> Option<WayFailure> {
        let (label, from, to, status, cause) = match event {
            EventKind::FailedOver {
                label,
                from,
                to,
                status,
                cause,
            } => (label, from, Some(to), status, cause),
            EventKind::Exhausted {
                label,
                from,
                status,
                cause,
            } => (label, from, None, status, cause),
            _ => return None,
        };
        let peer = called(label)?.peer.clone()?;
        let caller = caller.and_then(|caller| caller.device.as_ref().or(caller.peer.as_ref()));
        Some(WayFailure {
            peer,
            caller: caller.cloned(),
            from,
            to,
            status,
            cause,
        })
    }

    /// A response that came on this flow, if it answers one of the probes. Nobody else than the
    /// peer may say that it takes no calls.
    pub(in crate::server) fn answered(
        &self,
        response: &Message<'_>,
        status: u16,
        flow: Flow,
    ) -> bool {
        if self.peers.is_empty() {
            return false;
        }
        let via = response.via().ok();
        let branch = via.as_ref().and_then(|via| via.branch());
        let Some(rest) = branch.and_then(|branch| branch.strip_prefix(BRANCH)) else {
            return false;
        };
        let Some((peer, number)) = probe_names(rest) else {
            return false;
        };
        let asked = self.peers.get(peer);
        let Some(peer) = asked.filter(|peer| peer.is_at(flow.remote.ip())) else {
            return false;
        };
        let is_final = status >= 200;
        let turn = is_final.then(|| peer.answered(self.clock.now(), number, status));
        if let Some(turn) = turn.flatten() {
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

    /// Each peer with its addresses.
    pub(in crate::server) fn list(&self) -> Vec<PeerView> {
        let now = self.clock.now();
        let peers = self.peers.iter();
        peers.map(|peer| PeerView::new(peer, now)).collect()
    }

    fn probe(self: &Arc<Self>) {
        let now = self.clock.now();
        self.look_up_names();
        for (place, peer) in self.peers.iter().enumerate() {
            let number = || {
                self.numbers
                    .at(self.last_probe.fetch_add(1, Ordering::Relaxed))
            };
            self.refresh(peer);
            for step in peer.poll(now, number) {
                match step {
                    TargetStep::Ask {
                        flow,
                        number,
                        is_first,
                    } => {
                        let flow = self.connected(flow);
                        if let Some(flow) = flow.filter(|it| peer.asks_on(number, *it, is_first)) {
                            self.ask(flow, &format!("{place:x}.{number:016x}"));
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

    /// Looks the names up whose time is over. Who waits for them is the operator, so nobody is
    /// charged.
    fn look_up_names(self: &Arc<Self>) {
        let now = self.clock.now();
        for (index, peer) in self.peers.iter().enumerate() {
            let transports = self.transports(peer);
            for (place, name) in peer.names_due(now) {
                let (peers, own) = (Arc::downgrade(self), name.clone());
                let told = move |result: Result<_, _>| {
                    if let Some(peers) = peers.upgrade() {
                        peers.located(index, place, &own, result);
                    }
                };
                let begun =
                    self.lookups
                        .locate(name.clone(), transports, Holder::NOBODY, Box::new(told));
                if begun.is_err() {
                    let refused = Err((NotLocated::NoAnswer, Duration::ZERO));
                    self.located(index, place, &name, refused);
                }
            }
        }
    }

    /// What DNS said of a name of a peer.
    fn located(
        &self,
        index: usize,
        place: usize,
        name: &HopName,
        result: Result<Servers, (NotLocated, Duration)>,
    ) {
        let peer = &self.peers[index];
        let over_tls = result.iter().flat_map(Servers::addresses);
        for (_, address) in over_tls.filter(|(over, _)| *over == Transport::Tls) {
            let expected = peer.config().certificate_at(address, &name.host);
            self.responder.network().expect_certificate(expected);
        }
        let change = peer.located(self.clock.now(), place, result);
        let (peer, name) = (peer.name(), &name.host);
        match change {
            NameChange::None => {}
            NameChange::Located(addresses) => {
                let addresses = addresses.join(", ");
                tracing::info!(%peer, name, addresses, "DNS says where a peer is");
            }
            NameChange::Lost { reason, keeps: 0 } => {
                tracing::warn!(%peer, name, %reason, event = "dns_has_lost_a_peer", "DNS does not say where a peer is: calls to it are refused with 480");
            }
            NameChange::Lost { reason, keeps } => {
                tracing::warn!(%peer, name, %reason, addresses = keeps, event = "dns_does_not_answer_for_a_peer", "DNS does not say where a peer is: calls go to its last addresses");
            }
        }
    }

    /// Over which transports servers of any domain are reached.
    pub(in crate::server) fn transports_of_domains(&self) -> Transports {
        let network = self.responder.network();
        Transports {
            udp: network.speaks(Transport::Udp),
            tcp: network.speaks(Transport::Tcp),
            tls: network.speaks(Transport::Tls),
        }
    }

    /// Over which transports the servers of its names are reached.
    fn transports(&self, peer: &TrustedPeer) -> Transports {
        let network = self.responder.network();
        let is_known = !peer.config().certificates.is_empty();
        Transports {
            udp: network.speaks(Transport::Udp),
            tcp: network.speaks(Transport::Tcp),
            tls: network.speaks(Transport::Tls) || is_known,
        }
    }

    /// A flow that something can be sent on; `None` if no connection can be made now.
    fn connected(&self, flow: Flow) -> Option<Flow> {
        match flow.transport {
            Transport::Udp => Some(flow),
            _ => self.responder.network().connect(flow, None).ok(),
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

    /// Until something is due; `None` if nothing ever is. An answer of DNS may come at any time
    /// and bring addresses to probe.
    fn next_wait(&self) -> Option<Duration> {
        let next = self.peers.iter().filter_map(TrustedPeer::next_at).min()?;
        let has_names = self.peers.iter().any(TrustedPeer::has_names);
        let wait = (next - self.clock.now()).max(LEAST_WAIT);
        match has_names {
            true => Some(wait.min(NAMES_WAIT)),
            false => (next < Instant::FAR_FUTURE).then_some(wait),
        }
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

/// The side of a dialog that is a server of a domain, to which DNS led by `lookup` of this peer.
/// The domain is in the dialog's route, so that whose certificate is expected needs no memory.
pub(in crate::server) fn party_of_domain(peer: &TrustedPeer, domain: &str, flow: Flow) -> Party {
    let name = [peer.name(), domain].join(DOMAIN_MARK);
    Party::peer(Name::new(&name), flow)
}

fn domain_of(party: &Party) -> Option<&str> {
    let (_, domain) = party.peer.as_ref()?.split_once(DOMAIN_MARK)?;
    Some(domain)
}

fn hop_name(uri: &str) -> Option<HopName> {
    let uri = Uri::parse(uri)?;
    HopName::of_uri(uri.as_sip()?)
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

/// What stands behind [`BRANCH`]: the place of the peer, and the number.
fn probe_names(rest: &str) -> Option<(usize, u64)> {
    let (peer, number) = rest.split_once('.')?;
    let peer = usize::from_str_radix(peer, 16).ok()?;
    Some((peer, u64::from_str_radix(number, 16).ok()?))
}

/// Between the name of a peer, which cannot have it, and a domain.
const DOMAIN_MARK: &str = "/";
/// A domain that names more servers is not tried at all of them.
const WAYS_MAX: usize = 16;
/// Begins the branch of each probe.
const BRANCH: &str = "z9hG4bKpeer";
const FIRST_PROBES_APART: Duration = Duration::from_millis(20);
const LEAST_WAIT: Duration = Duration::from_millis(10);
/// While peers have names.
const NAMES_WAIT: Duration = Duration::from_secs(1);
