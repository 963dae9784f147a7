//! Requests for a domain whose servers DNS says: they have begun, and wait for its answer.

use super::{calls::Calls, target::NameLookup};
use busyhour_proxy::{
    Answer, Target, TransactionId,
    dialogs::Party,
    dns::{NotLocated, Servers},
};
use busyhour_registrar::Refusal;
use busyhour_sip::{HeaderName, Status};
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
            let refusal = self.responder.no_room(excess, from, account.as_deref());
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
            let hops = self.peers.hops_to(peer, &servers, lookup.is_named)?;
            Some((peer, hops))
        });
        let Some((peer, hops)) = hops else {
            let forbidden = Refusal::Forbidden("No Server That May Be Called");
            return self.answer(index, transaction, forbidden.status(), forbidden.reason());
        };
        let party = Party::peer(peer.name().clone(), hops.first().flow);
        let target = Target {
            uri: lookup.uri.clone(),
            hops,
            silence_max: Some(peer.config().silence_max),
            group: 0,
            label: 0,
        };
        self.step_in(index, None, |state, out| {
            if let Some(permit) = state.proxy.data_mut(transaction) {
                permit.called = [party].into();
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
}

/// A domain that does not exist is told apart from DNS that does not answer (RFC 3261 §21.5.5).
fn answer_to(reason: NotLocated) -> (Status, &'static str) {
    match reason {
        NotLocated::NoSuchName => (Status::NOT_FOUND, "Domain Does Not Exist"),
        NotLocated::NoService => (Status::TEMPORARILY_UNAVAILABLE, "Domain Takes No Calls"),
        NotLocated::NoAnswer => (Status::SERVER_TIMEOUT, "No Answer From DNS"),
    }
}

/// Lookups end after seconds.
const RETRY_AFTER_S: &str = "5";
