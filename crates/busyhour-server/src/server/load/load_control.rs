//! What is read and what is refused while more is offered than can be done: by how
//! much waits, and for how long.

use super::{
    backlog::{Backlog, LEN_MAX},
    overload::{Overload, Shedding},
    unread::UnreadWatch,
};
use crate::server::{
    Network, ReadMode,
    stats::{counters::Counter, queues::QueueView},
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
    /// New calls that were refused.
    pub(in crate::server) shed_calls: Counter,
    clock: Clock,
    backlog: Backlog,
    overload: Overload,
    unread: UnreadWatch,
}

impl LoadControl {
    pub(in crate::server) fn new(runtime: &Runtime) -> Self {
        Self {
            shed: Counter::default(),
            shed_calls: Counter::default(),
            clock: runtime.clock().clone(),
            backlog: Backlog::new(),
            overload: Overload::new(),
            unread: UnreadWatch::default(),
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
    pub(in crate::server) fn note_wait(&self, arrived_at: Instant) {
        let now = self.clock.now();
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
}

/// As for datagrams: nobody has noticed it yet.
const WAIT_ON_CONNECTION_MAX: Duration = Duration::from_millis(100);
