//! Writes and sends: every datagram leaves through here.

use super::{
    inbound_request::InboundRequest,
    receive::Request,
    transactions::{TransactionKey, Transactions},
    unproven::Unproven,
};
use crate::server::{
    Network, SendError,
    capture::message_tap::{Direction, MessageTap},
    load::{
        heavy_hitters::HeavyHitters,
        shares::{Cells, Excess, Holders},
    },
    stats::counters::TrafficCounters,
    tenant::{tenant_quota::TenantQuota, tenants::Tenants},
};
use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
    runtime::Runtime,
};
use busyhour_registrar::{
    DATAGRAM_LEN_MAX, Refusal,
    watch::{NoBuffer, Subscription, Transmission},
    write_refusal,
};
use busyhour_sip::{
    Flow, HeaderName, Message, Method, ParseError, ResponseBuilder, Status, UnreadRequest,
    is_ack_to, source_of, write_hex,
};
use foldhash::quality::FixedState;
use std::{cell::RefCell, hash::BuildHasher, net::SocketAddr, sync::Arc, time::Duration};

/// A response that is being written.
pub(in crate::server) type Response<'o, 'm, 'a> = ResponseBuilder<'o, 'm, 'a, Vec<u8>>;

/// Writes and sends for all parts of the server: it has the network, the buffers and
/// the answers that are kept for retransmissions. It counts the traffic, and who was
/// refused for lack of room.
pub(in crate::server) struct Responder {
    pub(in crate::server) traffic: TrafficCounters,
    runtime: Runtime,
    /// For answers, and for NOTIFY requests: lists of buffers tell them apart.
    answers: BufferPool,
    notifies: BufferPool,
    network: Arc<dyn Network>,
    tap: Arc<MessageTap>,
    transactions: Transactions,
    holders: Holders,
    tenants: Arc<Tenants>,
    unproven: Unproven,
    /// Who was refused for a share.
    over_share: HeavyHitters,
    /// Who was not answered, as it has proved nothing.
    not_answered: HeavyHitters,
    /// Makes the ends of our tags in refusals for too much load.
    shed_marks: FixedState,
    /// The server is open: there are no credentials, so nobody can authenticate.
    is_open: bool,
}

impl Responder {
    pub(in crate::server) fn new(
        runtime: Runtime,
        (network, tap): (Arc<dyn Network>, Arc<MessageTap>),
        transactions: Transactions,
        (holders, tenants): (Holders, Arc<Tenants>),
        unproven: Unproven,
        (shed_seed, is_open): (u64, bool),
    ) -> Self {
        let owned_by = |owner| {
            let buffers = runtime.buffers();
            buffers.owned_by(owner).unwrap_or_else(|_| buffers.clone())
        };
        Self {
            traffic: TrafficCounters::default(),
            answers: owned_by("answers"),
            notifies: owned_by("NOTIFY requests"),
            runtime,
            network,
            tap,
            transactions,
            holders,
            tenants,
            unproven,
            over_share: HeavyHitters::default(),
            not_answered: HeavyHitters::default(),
            shed_marks: FixedState::with_seed(shed_seed),
            is_open,
        }
    }

    pub(in crate::server) fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    pub(in crate::server) fn network(&self) -> &dyn Network {
        &*self.network
    }

    /// Where copies of messages are taken.
    pub(in crate::server) fn tap(&self) -> &Arc<MessageTap> {
        &self.tap
    }

    /// Hands a datagram to the network.
    pub(in crate::server) fn send(&self, flow: Flow, datagram: Buffer) {
        self.tap.see(Direction::Out, flow, &datagram);
        self.count(flow, self.network.send(flow, datagram));
    }

    fn count(&self, flow: Flow, sent: Result<(), SendError>) {
        match sent {
            Ok(()) => self.traffic.sent.increment(),
            Err(error) => self.count_unsent(flow, error),
        }
    }

    /// Hands a message of a call to the network; `false` if it cannot leave.
    pub(in crate::server) fn forward(&self, flow: Flow, datagram: Buffer) -> bool {
        self.tap.see(Direction::Out, flow, &datagram);
        match self.network.send(flow, datagram) {
            Ok(()) => self.traffic.sent.increment(),
            Err(error) => {
                self.count_unsent(flow, error);
                // A datagram that found no room is lost, as any may be, and sent again.
                return error == SendError::Full && !flow.transport.is_reliable();
            }
        }
        true
    }

    /// If a peer does not read or is gone, only that peer is affected.
    fn count_unsent(&self, flow: Flow, error: SendError) {
        let traffic = &self.traffic;
        match error {
            SendError::Full if !flow.transport.is_reliable() => traffic.send_refused.increment(),
            _ => traffic.undeliverable.increment(),
        }
    }

    /// As [`send`](Self::send), for a message that can be written again later; `false`
    /// if its connection has no room now.
    pub(in crate::server) fn try_send(&self, flow: Flow, datagram: Buffer) -> bool {
        self.tap.see(Direction::Out, flow, &datagram);
        let traffic = &self.traffic;
        match self.network.try_send(flow, datagram) {
            Ok(()) => traffic.sent.increment(),
            Err(SendError::Full) if flow.transport.is_reliable() => return false,
            Err(error) => self.count_unsent(flow, error),
        }
        true
    }

    /// As [`answer`](Self::answer), for a request that was accepted: the client that
    /// sent it is trusted on its connection. `false` when that is gone.
    pub(in crate::server) fn accept(
        &self,
        transaction: TransactionKey,
        flow: Flow,
        answer: Buffer,
    ) -> bool {
        self.accept_registration(transaction, (flow, answer), None)
    }

    /// As [`accept`](Self::accept), for a REGISTER; `registered` has the flow that it came over and its address of record,
    /// unless that has no contacts any more.
    pub(in crate::server) fn accept_registration(
        &self,
        transaction: TransactionKey,
        (flow, answer): (Flow, Buffer),
        registered: Option<(Flow, &str)>,
    ) -> bool {
        let is_there = self.network.mark_trusted(flow);
        self.transactions.answer(transaction, answer.clone());
        self.tap.see(Direction::Out, flow, &answer);
        let sent = match registered {
            Some(registered) => self.network.send_registered(flow, answer, registered),
            None => self.network.send(flow, answer),
        };
        self.count(flow, sent);
        is_there
    }

    /// Sends the answer of a transaction and keeps it for retransmissions.
    pub(in crate::server) fn answer(
        &self,
        transaction: TransactionKey,
        flow: Flow,
        answer: Buffer,
    ) {
        self.transactions.answer(transaction, answer.clone());
        self.send(flow, answer);
    }

    /// A pinned buffer of what `write` writes; `None`, counted, when there is none.
    pub(in crate::server) fn write(&self, write: impl FnOnce(&mut Vec<u8>)) -> Option<Buffer> {
        with_scratch(|scratch| {
            write(scratch);
            self.pin(scratch)
        })
    }

    /// As [`write`](Self::write), for an answer with contacts.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooLongToAnswer`] if the answer does not fit into a datagram: the
    /// client would never receive it.
    pub(in crate::server) fn write_contacts(
        &self,
        flow: Flow,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Option<Buffer>, Refusal> {
        with_scratch(|scratch| {
            write(scratch);
            let fits = flow.transport.is_reliable() || scratch.len() <= DATAGRAM_LEN_MAX;
            match fits {
                true => Ok(self.pin(scratch)),
                false => Err(Refusal::TooLongToAnswer),
            }
        })
    }

    fn pin(&self, written: &[u8]) -> Option<Buffer> {
        let pinned = self.answers.copy_from(written);
        if pinned.is_err() {
            self.traffic.no_buffer.increment();
        }
        pinned.ok()
    }

    /// What a subscription has to send now; a missing buffer is counted.
    pub(in crate::server) fn poll(&self, subscription: &mut Subscription) -> Option<Transmission> {
        let (now, buffers) = (self.now(), &self.notifies);
        match with_scratch(|scratch| subscription.poll(now, scratch, buffers)) {
            Ok(sent) => sent,
            Err(NoBuffer) => {
                self.traffic.no_buffer.increment();
                None
            }
        }
    }

    /// Answers a message that is not a valid request; the answer is not kept. The
    /// reason phrase says what is wrong (RFC 3261 §21.4.1).
    pub(in crate::server) fn refuse_malformed(
        &self,
        message: &Message<'_>,
        flow: Flow,
        error: ParseError,
    ) {
        if message.method() == Some(Method::Ack) || !self.may_answer(flow) {
            return;
        }
        let reason = error.to_string();
        let status = error.status();
        let tag = self.to_tag(self.transactions.key(message, flow.remote));
        let answer = self.write(|out| {
            let source = Some(flow.remote);
            ResponseBuilder::with_reason(out, message, status, &reason, source)
                .to_tag(tag.as_str())
                .finish();
        });
        if let Some(answer) = answer {
            self.send(answer_flow(message, flow), answer);
        }
    }

    /// Answers a request that is kept nowhere.
    pub(in crate::server) fn respond_to(
        &self,
        request: &Request<'_>,
        status: Status,
        finish: impl FnOnce(Response<'_, '_, '_>),
    ) {
        if self.may_answer(request.flow) {
            self.respond_at_once(request, status, finish);
        }
    }

    /// As [`respond_to`](Self::respond_to), where it is known that it may be answered.
    pub(in crate::server) fn respond_at_once(
        &self,
        request: &Request<'_>,
        status: Status,
        finish: impl FnOnce(Response<'_, '_, '_>),
    ) {
        let Request { message, flow, .. } = *request;
        if let Some(answer) = self.answer_to(message, flow, request.transaction, status, finish) {
            self.send(request.answer_flow(), answer);
        }
    }

    /// An ACK is never answered (RFC 3261 §17.1.1.3).
    pub(in crate::server) fn answer_to(
        &self,
        request: &Message<'_>,
        flow: Flow,
        transaction: TransactionKey,
        status: Status,
        finish: impl FnOnce(Response<'_, '_, '_>),
    ) -> Option<Buffer> {
        if request.method() == Some(Method::Ack) {
            return None;
        }
        let tag = self.to_tag(transaction);
        self.write(|out| {
            let source = Some(flow.remote);
            finish(ResponseBuilder::new(out, request, status, source).to_tag(tag.as_str()));
        })
    }

    /// Answers a request that is refused. It would be refused again, so the
    /// answer is not kept.
    pub(in crate::server) fn refuse(
        &self,
        request: &Message<'_>,
        flow: Flow,
        transaction: TransactionKey,
        refusal: &Refusal,
    ) {
        self.transactions.forget(transaction);
        if !self.may_answer(flow) {
            return;
        }
        if let Some(answer) = self.refusal(request, flow, transaction, refusal) {
            self.send(answer_flow(request, flow), answer);
        }
    }

    /// As [`refuse`](Self::refuse), and keeps the answer for retransmissions, if the share of the
    /// source allows it.
    pub(in crate::server) fn refuse_and_keep(&self, request: &Request<'_>, refusal: &Refusal) {
        let Request { message, flow, .. } = *request;
        if !self.may_answer(flow) {
            return;
        }
        let answer = self.refusal(message, flow, request.transaction, refusal);
        if let Some(answer) = answer {
            let holder = self.holders.of(flow.remote.ip(), None);
            (self.transactions).keep(request.transaction, self.now(), holder, answer.clone());
            self.send(request.answer_flow(), answer);
        }
    }

    /// Answers a request that the store did not take and might take a moment later. The
    /// answer is kept: a late duplicate must not do what the client was told had failed.
    pub(in crate::server) fn fail(&self, inbound: &InboundRequest) {
        let (message, flow) = (inbound.message(), inbound.flow);
        let refusal = self.overloaded();
        if let Some(answer) = self.refusal(&message, flow, inbound.transaction, &refusal) {
            self.answer(inbound.transaction, inbound.answer_flow(), answer);
        }
    }

    /// Refuses or drops a request whose watcher's queue is full.
    pub(in crate::server) fn drop_arrival(&self, inbound: &InboundRequest) {
        self.traffic.dropped_device_queue.increment();
        self.reject_or_drop(inbound, &self.overloaded());
    }

    /// Refuses or drops a request for lack of room. Over datagrams no answer is best:
    /// it costs nothing, and the client retransmits. Over a connection clients do not
    /// retransmit (RFC 3261 §17.1.2.2), so the answer says when to try again.
    pub(in crate::server) fn reject_or_drop(&self, inbound: &InboundRequest, refusal: &Refusal) {
        match inbound.flow.transport.is_reliable() {
            true => {
                let message = inbound.message();
                self.refuse(&message, inbound.flow, inbound.transaction, refusal);
            }
            false => self.abandon(inbound.transaction),
        }
    }

    fn refusal(
        &self,
        request: &Message<'_>,
        flow: Flow,
        transaction: TransactionKey,
        refusal: &Refusal,
    ) -> Option<Buffer> {
        let tag = self.to_tag(transaction);
        self.write(|out| write_refusal(out, request, refusal, flow.remote, tag.as_str()))
    }

    /// Gives a transaction up without an answer: the client will try again.
    pub(in crate::server) fn abandon(&self, transaction: TransactionKey) {
        self.transactions.forget(transaction);
    }

    /// The refusal of a request for which there is no room. Retry-After is in whole
    /// seconds, so the pause is one of four values, chosen by the microsecond of the
    /// request's arrival, which spreads the retries.
    pub(in crate::server) fn overloaded(&self) -> Refusal {
        Refusal::Overloaded(self.pause())
    }

    fn pause(&self) -> Duration {
        Duration::from_secs(1 + self.now().as_nanos() / 1000 % 4)
    }

    /// The refusal when a table has no room, for anybody or for this holder; counted.
    pub(in crate::server) fn no_room(
        &self,
        excess: Excess,
        quota: TenantQuota,
        flow: Flow,
        account: Option<&str>,
    ) -> Refusal {
        self.count_excess(excess, quota, flow, account);
        self.overloaded()
    }

    /// Counts a refusal for lack of room, and notes its holder; for its domain it is of this quota.
    pub(in crate::server) fn count_excess(
        &self,
        excess: Excess,
        quota: TenantQuota,
        flow: Flow,
        account: Option<&str>,
    ) {
        match excess {
            Excess::Whole => self.traffic.refused_table_full.increment(),
            Excess::Share => {
                self.traffic.refused_share.increment();
                self.tenants.note_refused(quota, account);
                let source = source_of(flow.remote.ip());
                self.over_share.note(source, account.unwrap_or(""));
            }
        }
    }

    /// Logs who was refused for a share, and who was not answered.
    pub(in crate::server) fn log_over_share(&self) {
        self.over_share.log(self.now());
        self.not_answered.log_unproven(self.now());
    }

    /// Whether an answer may go to a source that has shown no right credentials; takes
    /// a token for it. Over a connection the client has proved that it receives. An
    /// open server does not limit answers, since nobody can authenticate.
    pub(in crate::server) fn may_answer(&self, flow: Flow) -> bool {
        let may = self.has_token(flow);
        if !may {
            self.traffic.unproven_not_answered.increment();
            self.not_answered.try_note(source_of(flow.remote.ip()));
        }
        may
    }

    /// The same for a caller that can send a shorter answer instead, and counts
    /// unanswered requests itself.
    pub(in crate::server) fn has_token(&self, flow: Flow) -> bool {
        self.is_open || self.may_send_unproven(flow)
    }

    /// Whether a datagram may go to this unproven source; takes a token for it.
    pub(in crate::server) fn may_send_unproven(&self, flow: Flow) -> bool {
        flow.transport.is_reliable() || self.unproven.take(self.source(flow), self.now())
    }

    /// The client has proved that it receives at this source.
    pub(in crate::server) fn heard_at(&self, flow: Flow) {
        if !flow.transport.is_reliable() {
            self.unproven.prove(self.source(flow), self.now());
        }
    }

    fn source(&self, flow: Flow) -> Cells {
        self.holders.of(flow.remote.ip(), None).source()
    }

    fn now(&self) -> Instant {
        self.runtime.clock().now()
    }

    /// Whether an ACK with these headers acknowledges a refusal that was answered here and is
    /// kept nowhere: it has the tag that the refusal had.
    pub(in crate::server) fn is_acknowledged<'t>(
        &self,
        flow: Flow,
        header: impl Fn(HeaderName) -> &'t str,
    ) -> bool {
        let to = header(HeaderName::To);
        if to.ends_with(self.shed_mark(flow.remote).as_str()) {
            return true;
        }
        let key = self.transactions.acknowledged(flow.remote, header);
        key.is_some_and(|key| to.ends_with(self.to_tag(key).as_str()))
    }

    /// Whether a datagram is the ACK of a request that came from there and was refused by
    /// [`refuse_for_load`](Self::refuse_for_load) or [`refuse_unread`](Self::refuse_unread).
    pub(in crate::server) fn is_ack_of_shed(&self, datagram: &[u8], source: SocketAddr) -> bool {
        is_ack_to(datagram, self.shed_mark(source).as_str())
    }

    /// Refuses a request because there is too much to do. The answer is kept nowhere: it is the
    /// same each time it is written. `scripts/refusal-cost.sh` counts its calls.
    #[inline(never)]
    pub(in crate::server) fn refuse_for_load(
        &self,
        request: &Message<'_>,
        flow: Flow,
        key: TransactionKey,
    ) {
        if !self.may_answer(flow) {
            return;
        }
        let (refusal, tag) = (
            Refusal::Overloaded(pause_of(key)),
            self.shed_tag(key, flow.remote),
        );
        let answer =
            self.write(|out| write_refusal(out, request, &refusal, flow.remote, tag.as_str()));
        if let Some(answer) = answer {
            self.send(answer_flow(request, flow), answer);
        }
    }

    /// As [`refuse_for_load`](Self::refuse_for_load), for a request that was not read.
    #[inline(never)]
    pub(in crate::server) fn refuse_unread(
        &self,
        request: &UnreadRequest<'_>,
        flow: Flow,
        key: TransactionKey,
    ) {
        if !self.may_answer(flow) {
            return;
        }
        let (pause, tag) = (pause_of(key), self.shed_tag(key, flow.remote));
        let refusal = Refusal::Overloaded(pause);
        let answer = self.write(|out| {
            let because = (refusal.status(), refusal.reason());
            request.write_refusal(out, because, flow.remote, tag.as_str(), pause.as_secs());
        });
        if let Some(answer) = answer {
            self.send(flow.answered_by(request.via()), answer);
        }
    }

    /// Our tag in To of such a refusal: it ends with the mark of its source.
    fn shed_tag(&self, key: TransactionKey, source: SocketAddr) -> ToTag<SHED_TAG_LEN> {
        let mut digits = [0; SHED_TAG_LEN];
        let (of_request, mark) = digits.split_at_mut(TAG_LEN);
        of_request.copy_from_slice(&self.to_tag(key).0);
        mark.copy_from_slice(&self.shed_mark(source).0);
        ToTag(digits)
    }

    /// By what we know our refusals for too much load again. Where a request comes back to us on
    /// its way, its sender may be told the tag that we gave to somebody else: his ACK is for the
    /// proxy.
    fn shed_mark(&self, source: SocketAddr) -> ToTag<TAG_LEN> {
        let mut digits = [0; TAG_LEN];
        write_hex(&mut digits, &self.shed_marks.hash_one(source).to_be_bytes());
        ToTag(digits)
    }

    /// Our tag in To, the same for each retransmission of a request.
    pub(in crate::server) fn to_tag(&self, transaction: TransactionKey) -> ToTag<TAG_LEN> {
        let mut digits = [0; TAG_LEN];
        write_hex(&mut digits, &transaction.hash().to_be_bytes());
        ToTag(digits)
    }
}

/// The destination of the response to a request, even to one without a valid Via.
pub(in crate::server) fn answer_flow(request: &Message<'_>, flow: Flow) -> Flow {
    request.via().map_or(flow, |via| flow.answered_by(&via))
}

/// When to try again what is refused for too much load, as [`Responder::overloaded`] says, but the
/// same for each copy of a request.
fn pause_of(key: TransactionKey) -> Duration {
    Duration::from_secs(1 + key.hash() % 4)
}

/// A tag of ours, in hexadecimal digits, or the end of one.
pub(in crate::server) struct ToTag<const LEN: usize>([u8; LEN]);

impl<const LEN: usize> ToTag<LEN> {
    pub(in crate::server) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

/// Lends the thread's empty write buffer. A buffer that has grown beyond the usual size
/// is freed: each thread has its own, and none shrinks by itself.
fn with_scratch<R>(use_scratch: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(SCRATCH_LEN));
    }
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            scratch.clear();
            let used = use_scratch(&mut scratch);
            if scratch.capacity() > SCRATCH_LEN_MAX {
                *scratch = Vec::with_capacity(SCRATCH_LEN);
            }
            used
        }
        // Already lent further up this thread's stack.
        Err(_) => use_scratch(&mut Vec::with_capacity(SCRATCH_LEN)),
    })
}

const TAG_LEN: usize = 16;
const SHED_TAG_LEN: usize = 2 * TAG_LEN;
const SCRATCH_LEN: usize = 2048;
/// A usual NOTIFY has room in it.
const SCRATCH_LEN_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grown_buffer_is_returned() {
        with_scratch(|scratch| scratch.resize(SCRATCH_LEN_MAX, 1));
        with_scratch(|scratch| {
            assert!(scratch.is_empty() && scratch.capacity() >= SCRATCH_LEN_MAX);
            scratch.resize(2 * SCRATCH_LEN_MAX, 1);
        });
        with_scratch(|scratch| assert_eq!((scratch.len(), scratch.capacity()), (0, SCRATCH_LEN)));
    }
}
