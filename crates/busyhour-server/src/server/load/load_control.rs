//! What is read and what is refused while more is offered than can be done: by how
//! much waits, and for how long.

use super::{
    backlog::{Backlog, LEN_MAX},
    overload::{Overload, Shedding},
    refusal_credit::RefusalCredit,
    shares::Holder,
    shed_calls::ShedCalls,
    unread::UnreadWatch,
};
use crate::server::{
    Network, ReadMode,
    stats::{CallStats, counters::Counter, queues::QueueView},
};
use busyhour::{
    clock::{Clock, Instant},
    runtime::Runtime,
};
use busyhour_sip::Flow;
use std::time::Duration;

/// Watches the backlog of requests and their waits, and decides by them.
pub(in crate::server) struct LoadControl {
    /// Requests that were refused.
    pub(in crate::server) shed: Counter,
    /// New calls that were refused, or not even answered.
    shed_calls: Counter,
    unanswered_calls: Counter,
    /// Which INVITEs these were.
    refused_calls: ShedCalls,
    clock: Clock,
    backlog: Backlog,
    overload: Overload,
    unread: UnreadWatch,
    credit: RefusalCredit,
}

impl LoadControl {
    pub(in crate::server) fn new(runtime: &Runtime, refused_calls: ShedCalls) -> Self {
        Self {
            shed: Counter::default(),
            shed_calls: Counter::default(),
            unanswered_calls: Counter::default(),
            refused_calls,
            clock: runtime.clock().clone(),
            backlog: Backlog::new(),
            overload: Overload::new(),
            unread: UnreadWatch::default(),
            credit: RefusalCredit::new(),
        }
    }

    /// What waits for its device.
    pub(in crate::server) fn queue(&self) -> QueueView {
        QueueView {
            kind: "request",
            name: "waiting for their devices".into(),
            queued_len: self.backlog.len() as u64,
            capacity: Some(LEN_MAX as u64),
            refused: Some(self.shed.get()),
            ..QueueView::default()
        }
    }

    /// A request goes to its device, which is known or not.
    pub(in crate::server) fn enter(&self, is_known: bool) {
        self.backlog.enter(is_known);
    }

    /// Its device has it, or it found no room there after all.
    pub(in crate::server) fn leave(&self) {
        self.backlog.leave();
    }

    /// A device begins what arrived then.
    pub(in crate::server) fn note_wait(&self, arrived_at: Instant, now: Instant) {
        self.overload.record(now, now - arrived_at);
    }

    /// What receivers should hand on; see [`super::backlog`].
    pub(in crate::server) fn read_mode(&self) -> ReadMode {
        if !self.backlog.has_room() {
            self.overload.record_rest(self.clock.now());
            return ReadMode::Nothing;
        }
        match self.overload.is_shedding() {
            true => ReadMode::Fresh,
            false => ReadMode::All,
        }
    }

    /// Whether a request is refused at once, because the server can't keep up; counted if
    /// so. Those who have something to lose come last: it is asked whether this
    /// `is_newcomer` only where that matters.
    pub(in crate::server) fn sheds(&self, is_newcomer: impl Fn() -> bool) -> bool {
        let sheds = match self.overload.shedding(self.clock.now()) {
            Shedding::Nothing => false,
            Shedding::Surplus => is_newcomer() && self.backlog.affords_refusal(),
            Shedding::Newcomers => is_newcomer(),
            Shedding::All => true,
        };
        if sheds {
            self.shed.increment();
        }
        sheds
    }

    /// Whether new calls were refused at the last look.
    pub(in crate::server) fn is_shedding_calls(&self) -> bool {
        self.unread.stood(self.clock.now())
    }

    /// Whether a new call is refused at once, because messages wait too long before they are
    /// read, or all registrations are refused; counted if so. `network` has brought it on `flow`.
    pub(in crate::server) fn sheds_call(&self, flow: Flow, network: &dyn Network) -> bool {
        let now = self.clock.now();
        let stands = match flow.transport.is_reliable() {
            true => network.wait_on(flow) >= WAIT_ON_CONNECTION_MAX,
            false => self.unread.stands(now, || network.unread()),
        };
        let sheds = stands || self.overload.shedding(now) == Shedding::All;
        if sheds {
            self.shed_calls.increment();
        }
        sheds
    }

    /// A new call is let in.
    pub(in crate::server) fn note_call(&self) {
        self.credit.earn();
    }

    /// Whether a new call that is refused gets an answer; counted if not. Over a connection it
    /// always does, since there nothing is sent again.
    pub(in crate::server) fn answers_shed(&self, flow: Flow) -> bool {
        let answers = flow.transport.is_reliable() || self.credit.spend(self.clock.now());
        if !answers {
            self.unanswered_calls.increment();
        }
        answers
    }

    /// An INVITE with this hash is refused for too much load. Nothing comes late over a
    /// connection.
    pub(in crate::server) fn note_shed(&self, flow: Flow, invite: u64, holder: Holder) {
        if !flow.transport.is_reliable() {
            self.refused_calls.note(self.clock.now(), invite, holder);
        }
    }

    /// Whether an INVITE with this hash was refused for too much load not long ago.
    pub(in crate::server) fn was_shed(&self, invite: u64) -> bool {
        self.refused_calls.knows(self.clock.now(), invite)
    }

    /// Once a second.
    pub(in crate::server) fn sweep(&self) {
        self.refused_calls.sweep(self.clock.now());
    }

    /// Adds what was counted of new calls.
    pub(in crate::server) fn count_calls(&self, stats: CallStats) -> CallStats {
        CallStats {
            shed: self.shed_calls.get(),
            unanswered: self.unanswered_calls.get(),
            shed_kept: self.refused_calls.len(),
            shed_not_kept: self.refused_calls.not_kept.get(),
            ..stats
        }
    }
}

/// As for datagrams: nobody has noticed it yet.
const WAIT_ON_CONNECTION_MAX: Duration = Duration::from_millis(100);
