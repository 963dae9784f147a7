//! Requests that ask a device whether it still knows a dialog: sent again until an answer
//! comes (RFC 3261 §17.1.2), and matched with it.

use super::edge::ServerEdge;
use crate::server::random::Numbers;
use busyhour::clock::Instant;
use busyhour_proxy::{
    Edge, Way, as_request_uri,
    dialogs::{Probe, ProbeId, ProbeOutcome},
};
use busyhour_sip::{Flow, Message};
use std::{collections::BTreeMap, time::Duration};

/// The probes of one shard that wait for an answer.
pub(super) struct Probing {
    /// By a number that nobody can guess.
    waiting: BTreeMap<u64, WaitingProbe>,
    numbers: Numbers,
    serial: u64,
}

struct WaitingProbe {
    id: ProbeId,
    flow: Flow,
    datagram: Box<[u8]>,
    /// When it is sent, and after which interval once more.
    next_at: Instant,
    interval: Duration,
    until: Instant,
}

impl Probing {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            waiting: BTreeMap::new(),
            numbers: Numbers::new(seed),
            serial: 0,
        }
    }

    /// It is sent on this way with the next expiry, at once; `false` if too many wait already.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        probe: &Probe,
        way: &Way,
        edge: &ServerEdge,
    ) -> bool {
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        self.serial += 1;
        let number = self.numbers.at(self.serial);
        let flow = way.hop.flow;
        let mut via = format!("SIP/2.0/{} ", flow.transport);
        edge.put_sent_by(flow, &mut via);
        via.push_str(&format!(";rport;branch={BRANCH}{number:016x}"));
        let mut datagram = Vec::new();
        let uri = way.uri.as_deref().map(as_request_uri);
        probe.write(&mut datagram, &via, uri, way.route.as_deref());
        let waiting = WaitingProbe {
            id: probe.id,
            flow,
            datagram: datagram.into(),
            next_at: now,
            interval: T1,
            until: now + 64 * T1,
        };
        self.waiting.insert(number, waiting);
        true
    }

    /// What a final response that came on this flow says of the dialog, if it answers one of these
    /// probes. Nobody else than who was asked may say that a dialog has ended.
    pub(super) fn answered(
        &mut self,
        response: &Message<'_>,
        flow: Flow,
        edge: &ServerEdge,
    ) -> Option<(ProbeId, ProbeOutcome)> {
        let status = response.status().filter(|status| *status >= 200)?;
        let via = response.via().ok()?;
        let number = via.branch()?.strip_prefix(BRANCH)?;
        let number = u64::from_str_radix(number, 16).ok()?;
        let asked = self.waiting.get(&number)?;
        if !edge.may_answer(asked.flow, flow) {
            return None;
        }
        let waiting = self.waiting.remove(&number)?;
        Some((waiting.id, ProbeOutcome::Answered(status)))
    }

    /// Sends what is due, and returns the probes that nobody answered.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        mut send: impl FnMut(Flow, &[u8]),
    ) -> Vec<ProbeId> {
        let mut silent = Vec::new();
        self.waiting.retain(|_, probe| {
            if probe.until <= now {
                silent.push(probe.id);
                return false;
            }
            if probe.next_at <= now {
                send(probe.flow, &probe.datagram);
                probe.next_at = match probe.flow.transport.is_reliable() {
                    true => probe.until,
                    false => now + probe.interval,
                };
                probe.interval = (2 * probe.interval).min(T2);
            }
            true
        });
        silent
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let due = |probe: &WaitingProbe| probe.next_at.min(probe.until);
        self.waiting.values().map(due).min()
    }
}

/// Begins the branch of each of these probes.
const BRANCH: &str = "z9hG4bKask";
/// RFC 3261 §17.1.2.2.
const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
/// Of one shard: they are rare, so a linear look at them is.
const WAITING_MAX: usize = 256;
