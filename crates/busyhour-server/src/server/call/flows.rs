//! Over which flows calls go: where DNS leads, over which connections, and what the end of a flow
//! means. Requests for a domain have begun when DNS is asked, and wait for its answer.

use super::{
    calls::{Calls, SHARDS},
    target::NameLookup,
};
use crate::server::{
    device::Device, peer::peers::party_of_domain, tenant::tenant_quota::TenantQuota,
};
use busyhour::bus::Name;
use busyhour_proxy::{
    Answer, Outbound, Target, TransactionId,
    dialogs::{EndedFlow, Party, Role},
    dns::{NotLocated, Servers},
};
use busyhour_registrar::Refusal;
use busyhour_sip::{Flow, HeaderName, Message, Status};
use std::sync::Arc;

impl Calls {
    /// Looks up where a request goes, and sends it there; maybe before this returns.
    pub(super) fn look_up(
        self: &Arc<Self>,
        index: usize,
        transaction: TransactionId,
        lookup: Box<NameLookup>,
    ) {
        let (name, holder, from) = (lookup.name.clone(), lookup.holder, lookup.from);
        let account = lookup.account.clone();
        let calls = Arc::downgrade(self);
        let told = move |result: Result<Servers, (NotLocated, _)>| {
            if let Some(calls) = calls.upgrade() {
                let result = result.map_err(|(reason, _)| reason);
                calls.located(index, transaction, &lookup, result);
            }
        };
        let transports = self.peers.transports_of_domains();
        let begun = self
            .lookups
            .locate(name, transports, holder, Box::new(told));
        if let Err(excess) = begun {
            let refusal =
                (self.responder).no_room(excess, TenantQuota::OtherShare, from, account.as_deref());
            self.answer(index, transaction, refusal.status(), refusal.reason());
        }
    }

    fn located(
        self: &Arc<Self>,
        index: usize,
        transaction: TransactionId,
        lookup: &NameLookup,
        result: Result<Servers, NotLocated>,
    ) {
        let servers = match result {
            Ok(servers) => servers,
            Err(reason) => {
                let (status, text) = answer_to(reason);
                return self.answer(index, transaction, status, text);
            }
        };
        let peer = self.peers.named(&lookup.peer);
        let hops = peer.and_then(|peer| {
            let domain = (&*lookup.domain, lookup.is_named);
            let hops = self.peers.hops_to(peer, &servers, domain)?;
            Some((peer, hops))
        });
        let Some((peer, hops)) = hops else {
            let forbidden = Refusal::Forbidden("No Server That May Be Called");
            return self.answer(index, transaction, forbidden.status(), forbidden.reason());
        };
        let party = party_of_domain(peer, &lookup.domain, hops.first().flow);
        let target = Target {
            uri: lookup.uri.clone(),
            hops,
            silence_max: Some(peer.config().silence_max),
            group: 0,
            label: 0,
        };
        self.step_in(index, None, |state, out| {
            if let Some(permit) = state.proxy.data_mut(transaction) {
                permit.set_called([party].into());
            }
            let now = self.clock.now();
            state
                .proxy
                .forward(now, transaction, target.into(), &mut out.proxy);
        });
    }

    fn answer(
        self: &Arc<Self>,
        index: usize,
        transaction: TransactionId,
        status: Status,
        reason: &str,
    ) {
        self.counters.refused.increment();
        let retry_after = [(HeaderName::RetryAfter, RETRY_AFTER_S)];
        let answer = Answer {
            status,
            reason: Some(reason),
            headers: match status {
                Status::SERVICE_UNAVAILABLE => &retry_after,
                _ => &[],
            },
        };
        self.step_in(index, None, |state, out| {
            let now = self.clock.now();
            state
                .proxy
                .answer(now, transaction, &answer, &mut out.proxy);
        });
    }

    /// Where the sender of a request was last in its dialog, if that is known.
    pub(super) fn flow_of(&self, request: &Message<'_>) -> Option<Flow> {
        let shard = &self.shards[self.shard_of(request)];
        let state = shard.lock();
        Some(state.dialogs.sender(request)?.party.flow)
    }

    /// Whom a request within a dialog is for, where it sent something last, if these parties are known to have the dialog.
    pub(super) fn recipient(&self, request: &Message<'_>, parties: &[Party; 2]) -> Option<Party> {
        let (known, sender) = self.parties(request)?;
        let are_same = known
            .iter()
            .zip(parties)
            .all(|(one, other)| one.is_same(other));
        let [caller, callee] = known;
        are_same.then_some(match sender {
            Role::Caller => callee,
            Role::Callee => caller,
        })
    }

    /// A device is not reached over this flow any more.
    pub(in crate::server) fn flow_ended(self: &Arc<Self>, device: &Device, flow: Flow) {
        let dialogs = device.dialogs();
        if dialogs.is_empty() {
            return;
        }
        let ended = EndedFlow {
            device: &Name::new(device.aor()),
            flow: Some(flow),
        };
        let mut shards: Vec<_> = dialogs.into_iter().map(shard_of_dialog).collect();
        shards.sort_unstable();
        shards.dedup();
        for index in shards.into_iter().filter(|index| *index < SHARDS) {
            let now = self.clock.now();
            self.step_in(index, None, |state, _| state.dialogs.flow_ended(now, ended));
        }
    }

    /// The flow that a message goes on: that of a connection which is there or is being made, if
    /// it goes to an address over one (RFC 3261 §18.1.1). `None` if none can be made.
    pub(super) fn connected(&self, index: usize, outbound: &Outbound) -> Option<Flow> {
        let flow = outbound.flow;
        if !flow.transport.is_reliable() || !outbound.may_connect {
            return Some(flow);
        }
        let network = self.responder.network();
        let holder = outbound.branch.and_then(|branch| {
            let state = self.shards[index].lock();
            state.proxy.data(branch.transaction())?.holder().key()
        });
        let made = match (network.connect(flow, holder), flow.connection) {
            (Ok(made), _) => made,
            (Err(_), 0) => return None,
            // It stands, or sending on it says that it has ended.
            (Err(_), _) => return Some(flow),
        };
        if made == flow {
            return Some(flow);
        }
        if let Some(branch) = outbound.branch {
            self.shards[index].lock().proxy.connected(branch, made);
        }
        Some(made)
    }

    /// A connection has ended: what waits for a response on it goes on its next way.
    pub(in crate::server) fn connection_ended(self: &Arc<Self>, flow: Flow) {
        for index in 0..self.shards.len() {
            let now = self.clock.now();
            if self.shards[index].lock().proxy.uses(flow) {
                self.step_in(index, None, |state, out| {
                    state.proxy.connection_ended(now, flow, &mut out.proxy);
                });
            }
        }
    }
}

/// A domain that does not exist is told apart from DNS that does not answer (RFC 3261 §21.5.5).
fn answer_to(reason: NotLocated) -> (Status, &'static str) {
    match reason {
        NotLocated::NoSuchName => (Status::NOT_FOUND, "Domain Does Not Exist"),
        NotLocated::NoService => (Status::TEMPORARILY_UNAVAILABLE, "Domain Takes No Calls"),
        NotLocated::NoAnswer => (Status::SERVER_TIMEOUT, "No Answer From DNS"),
    }
}

/// The table of dialogs has the number of the shard in its ids.
fn shard_of_dialog(id: u64) -> usize {
    (id >> 48) as usize
}

/// Lookups end after seconds.
const RETRY_AFTER_S: &str = "5";
