use super::upstream_step::UpstreamAsk;
use busyhour::clock::Instant;
use std::{sync::Arc, time::Duration};

/// What is known of one address of record.
#[derive(Debug)]
pub(super) struct UpstreamEntry {
    /// It has a telephone here.
    pub(super) is_wanted: bool,
    /// The registrar has it until then, by its last 200.
    pub(super) sure_until: Option<Instant>,
    /// The registrar may have it until then.
    pub(super) may_until: Option<Instant>,
    /// The way of its requests, by the registrar's last 200.
    pub(super) service_route: Option<Arc<str>>,
    /// Since when it has been wanted, or not been sure.
    pub(super) unsure_since: Instant,
    /// The lifetime to ask for: the registrar's minimum, if it has said so.
    pub(super) expires_s: u32,
    /// When its next request leaves; what it waits for while one is pending.
    pub(super) due_at: Instant,
    /// When its last request left.
    pub(super) sent_at: Option<Instant>,
    pub(super) pending: Option<PendingRequest>,
    pub(super) failure: Option<Failure>,
    /// How the totals of the table count it.
    pub(super) counted: Counted,
}

/// A request without its final answer.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) number: u64,
    pub(super) ask: UpstreamAsk,
    /// Until when the registrar might have had the address before.
    pub(super) may_before: Option<Instant>,
    pub(super) began_at: Instant,
    /// When it is sent again.
    pub(super) again_at: Instant,
    /// Until the retransmission after that.
    pub(super) interval: Duration,
    pub(super) challenge_count: u32,
    pub(super) is_sent_again: bool,
    /// A telephone came or went while it was under way.
    pub(super) is_outdated: bool,
}

/// Why the registrar has not an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    /// Of its last answer; 0 if there was none.
    pub(super) status: u16,
    /// One after the other.
    pub(super) count: u32,
    /// It is the end that it does not take.
    pub(super) is_of_end: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) is_told: bool,
    pub(super) is_failing: bool,
    pub(super) is_refused: bool,
}

impl PendingRequest {
    /// Until when the registrar may have the address after it has refused this request. If it was
    /// sent more than once, an earlier one may have been taken by a registrar that crashed then.
    pub(super) fn may_until_if_refused(&self, until: Option<Instant>) -> Option<Instant> {
        match self.is_sent_again {
            true => until,
            false => self.may_before,
        }
    }
}

impl UpstreamEntry {
    pub(super) fn new(now: Instant, expires_s: u32) -> Self {
        Self {
            is_wanted: false,
            sure_until: None,
            may_until: None,
            service_route: None,
            unsure_since: now,
            expires_s,
            due_at: now,
            sent_at: None,
            pending: None,
            failure: None,
            counted: Counted::default(),
        }
    }

    /// The registrar has it.
    pub(super) fn is_sure(&self, now: Instant) -> bool {
        self.sure_until.is_some_and(|until| until > now)
    }

    /// Nothing is left of it, here and there.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        !self.is_wanted && self.may_until.is_none_or(|until| until <= now)
    }

    /// The registrar is not known to have it from now on.
    pub(super) fn doubt(&mut self, now: Instant) {
        if self.is_sure(now) {
            self.unsure_since = now;
        }
        self.sure_until = None;
    }

    /// Since when the registrar has not been known to have it.
    pub(super) fn unsure_since(&self, now: Instant) -> Option<Instant> {
        match self.sure_until {
            Some(until) if until > now => None,
            Some(until) => Some(until),
            None => Some(self.unsure_since),
        }
    }

    pub(super) fn tally(&self) -> Counted {
        Counted {
            is_told: self.may_until.is_some(),
            is_failing: self.is_wanted && self.failure.is_some(),
            is_refused: self.failure.is_some(),
        }
    }
}

impl Failure {
    /// The registrar does not want this address, and waiting does not help: any answer of 4xx or
    /// 6xx but those that ask for patience.
    pub(super) fn is_refusal(self) -> bool {
        let is_patience = matches!(self.status, 408 | 423 | 429 | 480 | 491);
        let is_final = matches!(self.status, 400..500 | 600..700) && !is_patience;
        is_final && !self.is_of_end
    }
}
