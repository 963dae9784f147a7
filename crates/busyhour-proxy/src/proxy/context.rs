//! The response context of one request (RFC 3261 §16.2): its server transaction, its
//! branches, and until its final response all that further branches need.

use super::{
    Edge, EventKind, Fallback, Target, TransactionId,
    best_response::BestResponse,
    branch::ClientBranch,
    work::{Answer, Work},
};
use crate::{
    routing::{CompactFlow, RouteRest},
    transaction::{ServerTimeout, ServerTransaction},
};
use busyhour::{buffer::Buffer, clock::Instant, timer::QueueHandle};
use busyhour_sip::{Flow, Message, MessageIndex, Status};
use std::time::Duration;

/// A request that the proxy is responsible for.
#[derive(Debug)]
pub(super) struct Context<P> {
    pub id: TransactionId,
    /// Matches retransmissions (RFC 3261 §17.2.3).
    pub key: u128,
    /// The caller's; dropped when the table forgets the request.
    pub data: P,
    pub began_at: Instant,
    /// Where responses go.
    pub upstream: CompactFlow,
    pub server: ServerTransaction,
    /// What answers a retransmission.
    pub last_response: Option<Buffer>,
    /// Until the final response.
    pub pending: Option<Box<Pending>>,
    pub branches: Vec<ClientBranch>,
    /// 0 before it is sent.
    pub final_status: u16,
    pub is_cancelled: bool,
    pub has_progress: bool,
    /// The session interval in seconds for a 2xx without one (RFC 4028 §8.2); 0 for none.
    pub session_s: u32,
    /// As the table has counted them.
    pub held_bytes: usize,
    pub timer: QueueHandle,
}

/// What is needed until the final response.
#[derive(Debug)]
pub(super) struct Pending {
    pub request: Buffer,
    pub index: MessageIndex,
    /// Where the request came from.
    pub from: Flow,
    pub rest: RouteRest,
    /// The Request-URI, if route preprocessing changed it.
    pub uri: Option<Box<str>>,
    /// Whether the caller has said where the request goes.
    pub is_located: bool,
    pub targets: Vec<Target>,
    /// The targets before this one were tried.
    pub next_target: usize,
    pub fallbacks: Vec<Fallback>,
    pub ring_time: Option<Duration>,
    /// When the group has rung long enough; before targets are known, when waiting for
    /// them ends.
    pub ring_due: Instant,
    /// The last group rang for its whole time.
    pub has_rung_out: bool,
    pub best: BestResponse,
    /// Targets that are not found yet, and when they count as lost for this reason.
    pub late_count: u32,
    pub late_due: Instant,
    pub late_reason: &'static str,
    /// The reason phrase of a 480 of ours.
    pub own_reason: Option<&'static str>,
}

impl Pending {
    pub fn message(&self) -> Message<'_> {
        self.index.message(&self.request)
    }
}

impl<P> Context<P> {
    /// Whether nothing of it can go on.
    pub fn is_over(&self) -> bool {
        self.server.is_terminated() && self.branches.iter().all(ClientBranch::is_over)
    }

    pub fn next_due(&self) -> Instant {
        let own_due = |it: &Pending| match it.late_count {
            0 => it.ring_due,
            _ => it.ring_due.min(it.late_due),
        };
        let ring_due = self.pending.as_deref().map(own_due);
        let branches = self.branches.iter().map(ClientBranch::next_due);
        branches
            .chain(ring_due)
            .fold(self.server.next_due(), Instant::min)
    }

    /// If the INVITE was answered and nothing else is kept: when its server transaction ends.
    pub fn answered_until(&self) -> Option<Instant> {
        let is_bare = self.pending.is_none() && self.last_response.is_none();
        self.server.accepted_until().filter(|_| is_bare)
    }

    /// Bytes of messages that it holds.
    pub fn count_bytes(&self) -> usize {
        let pending = self.pending.as_ref();
        let pending = pending.map_or(0, |it| it.request.len() + it.best.held_bytes());
        let response = self.last_response.as_ref().map_or(0, |it| it.len());
        let branches: usize = self.branches.iter().map(ClientBranch::held_bytes).sum();
        pending + response + branches
    }

    /// Everything that is due.
    pub fn expire<E: Edge<Data = P>>(&mut self, work: &mut Work<'_, E>) {
        self.expire_server(work);
        for number in 0..self.branches.len() {
            self.expire_branch(number, work);
        }
        let ring_due = self.pending.as_ref().map(|pending| pending.ring_due);
        if ring_due.is_some_and(|due| due <= work.now) {
            self.ring_out(work);
        }
        if let Some(pending) = self.pending.as_ref()
            && pending.late_count > 0
            && pending.late_due <= work.now
        {
            let (count, reason) = (pending.late_count, pending.late_reason);
            self.end_late(count, reason, work);
        }
        self.advance(work);
    }

    fn expire_server<E: Edge<Data = P>>(&mut self, work: &mut Work<'_, E>) {
        let timers = work.shared.policy.timers;
        match self.server.expire(work.now, &timers) {
            ServerTimeout::Nothing => {}
            ServerTimeout::Ended => self.last_response = None,
            ServerTimeout::Retransmit => {
                work.shared.stats.retransmitted += 1;
                self.repeat_response(work);
            }
            ServerTimeout::Trying => self.send_own(&Status::TRYING.into(), work),
            ServerTimeout::Unacknowledged => {
                self.last_response = None;
                work.shared.stats.unacknowledged += 1;
                work.note(EventKind::Unacknowledged);
            }
        }
    }

    /// Sends the last response again, if the transaction does so.
    pub fn repeat_response<E: Edge<Data = P>>(&self, work: &mut Work<'_, E>) {
        if let Some(response) = self.last_response.clone().filter(|_| self.server.repeats()) {
            work.send(self.upstream.get(), response);
        }
    }

    /// Sends a response of our own.
    pub fn send_own<E: Edge<Data = P>>(&mut self, answer: &Answer<'_>, work: &mut Work<'_, E>) {
        let Some(pending) = &self.pending else {
            return;
        };
        let message = pending.message();
        // A 100 has no tag of ours.
        let tag = match answer.status {
            Status::TRYING => String::new(),
            _ => work.shared.tag(self.id),
        };
        let written = work
            .shared
            .write_answer(&message, pending.from, answer, &tag);
        self.respond(answer.status.code(), written, work);
    }

    /// Sends a response upstream if the server transaction allows it; without memory for
    /// it, the request ends as if its response were lost.
    pub fn respond<E: Edge<Data = P>>(
        &mut self,
        status: u16,
        response: Option<Buffer>,
        work: &mut Work<'_, E>,
    ) {
        let timers = work.shared.policy.timers;
        if !self.server.respond(work.now, status, &timers) {
            return;
        }
        self.last_response = response.clone().filter(|_| self.server.repeats());
        if let Some(response) = response {
            work.send(self.upstream.get(), response);
        }
    }
}
