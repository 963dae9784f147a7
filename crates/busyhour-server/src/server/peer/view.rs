//! Peers as the command line, HTTP and the statistics see them.

use super::{
    peer_config::PeerAddress,
    probe::Reach,
    trusted_peer::{TargetState, TrustedPeer},
};
use crate::server::nanos;
use busyhour::clock::Instant;
use serde::Serialize;

/// A peer with its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PeerView {
    /// The peer.
    pub name: String,
    /// Its addresses, in the order of the configuration.
    pub addresses: Vec<PeerAddressView>,
    /// What it may do: `call`, `publish`.
    pub may: String,
    /// Which calls go to it: its prefixes with `*`, its domains with `@`, and `default`.
    pub takes: String,
    /// Requests outside of dialogs that it sent to our users.
    pub calls_from: u64,
    /// Requests that came from one of its addresses, but not as they come from the peer: from
    /// another port, over another transport, or without its certificate.
    pub not_from_peer: u64,
    /// Those of its calls that were answered with the contacts of the called user.
    pub redirected: u64,
    /// Those of our users that were sent to it.
    pub calls_to: u64,
    /// Times when an address did not take a call: silence, a 503, or no way there.
    pub attempts_failed: u64,
    /// Calls refused because all of its addresses were down.
    pub refused_down: u64,
    /// PUBLISH requests for our users.
    pub publications: u64,
    /// OPTIONS sent to it.
    pub probes_sent: u64,
    /// Answers to them.
    pub probes_answered: u64,
}

/// One address of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PeerAddressView {
    /// The address or network, and the name that led there; of a peer that is known by its
    /// certificate also that of its last connection, `tls/192.0.2.10:40000`, or `tls` while there
    /// is none.
    pub address: String,
    /// `up`, `down`, or `unknown` if it was not asked yet; nothing if no calls go there.
    pub state: Option<&'static str>,
    /// For how long, in nanoseconds.
    pub since_ns: Option<u64>,
    /// From the last OPTIONS to its answer.
    pub round_trip_ns: Option<u64>,
}

/// What all peers did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PeerStats {
    /// Peers.
    pub peer_count: u64,
    /// Addresses that calls may go to.
    pub target_count: u64,
    /// Those of them that are down.
    pub down_count: u64,
    /// Requests outside of dialogs that they sent to our users.
    pub calls_from: u64,
    /// Requests that came from their addresses, but not as they come from the peer.
    pub not_from_peer: u64,
    /// Those of their calls that were answered with the contacts of the called user.
    pub redirected: u64,
    /// Those of our users that were sent to them.
    pub calls_to: u64,
    /// Times when an address did not take a call: silence, a 503, or no way there.
    pub attempts_failed: u64,
    /// Calls refused because all addresses of their peer were down.
    pub refused_down: u64,
    /// PUBLISH requests for our users.
    pub publications: u64,
    /// OPTIONS sent to them.
    pub probes_sent: u64,
    /// Answers to them.
    pub probes_answered: u64,
    /// Times when an address went down.
    pub went_down: u64,
    /// Times when one came back.
    pub went_up: u64,
}

impl PeerView {
    pub(super) fn new(peer: &TrustedPeer, now: Instant) -> Self {
        let counters = &peer.counters;
        Self {
            name: peer.name().to_string(),
            addresses: PeerAddressView::all_of(peer, now),
            may: may(peer),
            takes: takes(peer),
            calls_from: counters.calls_from.get(),
            not_from_peer: counters.not_from_peer.get(),
            redirected: counters.redirected.get(),
            calls_to: counters.calls_to.get(),
            attempts_failed: counters.attempts_failed.get(),
            refused_down: counters.refused_down.get(),
            publications: counters.publications.get(),
            probes_sent: counters.probes_sent.get(),
            probes_answered: counters.probes_answered.get(),
        }
    }
}

impl PeerAddressView {
    fn all_of(peer: &TrustedPeer, now: Instant) -> Vec<Self> {
        let states = peer.states();
        let addresses = peer.config().addresses.iter().enumerate();
        let takes_calls = peer.config().takes_calls();
        let view = |(place, address): (usize, &PeerAddress)| {
            let own = states.iter().filter(|state| state.place == place);
            let with = |state| Self::new(address, Some(state).filter(|_| takes_calls), now);
            let mut views: Vec<_> = own.map(with).collect();
            if views.is_empty() {
                views.push(Self::new(address, None, now));
            }
            views
        };
        let connection = peer.needs_certificate().then(|| Self::of_connection(peer));
        addresses.flat_map(view).chain(connection).collect()
    }

    fn of_connection(peer: &TrustedPeer) -> Self {
        let (address, state) = match peer.last_connection() {
            Some(flow) => (format!("tls/{}", flow.remote), "up"),
            None => ("tls".to_owned(), "down"),
        };
        Self {
            address,
            state: peer.config().takes_calls().then_some(state),
            since_ns: None,
            round_trip_ns: None,
        }
    }

    fn new(address: &PeerAddress, state: Option<&TargetState>, now: Instant) -> Self {
        let address = match (state, address) {
            (Some(state), PeerAddress::Named(name)) => format!("{} ({})", state.address, name.host),
            (Some(state), _) => state.address.clone(),
            (None, _) => address.to_string(),
        };
        Self {
            address,
            state: state.map(|state| match state.reach {
                Reach::Unknown => "unknown",
                Reach::Up => "up",
                Reach::Down => "down",
            }),
            since_ns: state.map(|state| nanos(now - state.since)),
            round_trip_ns: state.and_then(|state| state.round_trip).map(nanos),
        }
    }
}

impl PeerStats {
    pub(super) fn add(&mut self, peer: &TrustedPeer) {
        let counters = &peer.counters;
        let targets = peer.states();
        let down = targets.iter().filter(|state| state.reach == Reach::Down);
        self.peer_count += 1;
        self.target_count += targets.len() as u64;
        self.down_count += down.count() as u64;
        self.calls_from += counters.calls_from.get();
        self.not_from_peer += counters.not_from_peer.get();
        self.redirected += counters.redirected.get();
        self.calls_to += counters.calls_to.get();
        self.attempts_failed += counters.attempts_failed.get();
        self.refused_down += counters.refused_down.get();
        self.publications += counters.publications.get();
        self.probes_sent += counters.probes_sent.get();
        self.probes_answered += counters.probes_answered.get();
        self.went_down += counters.went_down.get();
        self.went_up += counters.went_up.get();
    }
}

fn may(peer: &TrustedPeer) -> String {
    let rights = [
        (peer.config().may_call, "call"),
        (peer.config().may_publish, "publish"),
    ];
    let granted = rights.iter().filter(|(is_granted, _)| *is_granted);
    let names: Vec<_> = granted.map(|(_, name)| *name).collect();
    names.join(", ")
}

fn takes(peer: &TrustedPeer) -> String {
    let config = peer.config();
    let prefixes = config.prefixes.iter().map(|prefix| format!("{prefix}*"));
    let domains = config.domains.iter().map(|domain| format!("@{domain}"));
    let default = config.is_default.then(|| "default".to_owned());
    let all: Vec<_> = prefixes.chain(domains).chain(default).collect();
    all.join(", ")
}
