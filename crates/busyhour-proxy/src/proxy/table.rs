//! The table of response contexts: what comes in, and what is due.

mod kept_context;
mod late;
mod request_key;

use self::{kept_context::KeptContext, request_key::RequestKeys};
use super::{
    Actions, Answer, BranchId, Edge, EventKind, Policy, ProxyStats, TargetSet, TransactionId, Way,
    best_response::BestResponse,
    cancelling::CancelReason,
    context::{Context, Pending},
    responding::BranchResponse,
    slots::Slots,
    target::as_request_uri,
    work::{Shared, Work},
};
use crate::{
    keyed_hash::{KeyedHash, Purpose},
    routing::{BranchParameter, LoopDetection, RequestRefusal, Routing, SessionRequest},
    transaction::ServerTransaction,
};
use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
    timer::TimerQueue,
};
use busyhour_sip::{Flow, Message, Method, Start, Status, UnreadRequest};
use hashbrown::HashTable;
use std::fmt;

/// A proxy's requests; pure. A server may have several tables, if all messages of a
/// Call-ID always go to the same one.
///
/// `E` says how the proxy names itself, and what is kept with each request.
pub struct Proxy<E: Edge> {
    contexts: Slots<KeptContext<E::Data>>,
    /// Slots by [`Context::key`].
    keys: HashTable<u32>,
    timers: TimerQueue<u32>,
    shared: Shared<E>,
    loops: LoopDetection,
    request_keys: RequestKeys,
    nonces: KeyedHash,
    serial: u64,
    held_bytes: u64,
    /// What was kept with requests that ended, until their events are handled.
    ended: Vec<(TransactionId, E::Data)>,
}

/// A message that came in.
#[derive(Debug, Clone, Copy)]
pub struct Inbound<'m, 'a> {
    /// As it was read.
    pub message: &'m Message<'a>,
    /// The bytes that it was read from.
    pub datagram: &'m Buffer,
    /// The way on which it came.
    pub flow: Flow,
}

/// What became of a request that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Received {
    /// It belongs to a known transaction; there is nothing more to do.
    Absorbed,
    /// It is new: check it and [begin](Proxy::begin) it. An ACK is one to a 2xx:
    /// [forward](Proxy::forward_ack) it.
    New,
    /// A CANCEL of no known INVITE, or of one that somebody else has sent: answer 481.
    UnknownCancel,
}

/// What became of an attempt to begin a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It has begun: say where it [goes](Proxy::forward), or [answer](Proxy::answer) it.
    New(TransactionId),
    /// It had begun before: another copy of it was quicker.
    Known,
}

impl<E: Edge> Proxy<E> {
    /// An empty table. Buffers of what it sends come from `pool`. `seed` must be secret;
    /// all tables of a server need the same `loops`, and each a seed of its own.
    pub fn new(policy: Policy, edge: E, pool: BufferPool, loops: LoopDetection, seed: u64) -> Self {
        Self {
            contexts: Slots::new(),
            keys: HashTable::new(),
            timers: TimerQueue::new(),
            shared: Shared::new((policy, edge), pool, seed),
            loops,
            request_keys: RequestKeys::new(seed),
            nonces: KeyedHash::new(seed, Purpose::Transactions),
            serial: 0,
            held_bytes: 0,
            ended: Vec::new(),
        }
    }

    /// Requests in the table.
    pub fn len(&self) -> usize {
        self.contexts.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.contexts.len() == 0
    }

    /// What is kept with a request, as long as the table knows it; and after its end until
    /// [`drop_ended`](Self::drop_ended) or the next message, for the events of its last step.
    pub fn data(&self, transaction: TransactionId) -> Option<&E::Data> {
        let context = self.contexts.get(transaction.slot);
        match context.filter(|context| context.id() == transaction) {
            Some(context) => Some(context.data()),
            None => {
                let mut ended = self.ended.iter();
                ended.find_map(|(id, data)| (*id == transaction).then_some(data))
            }
        }
    }

    /// Bytes of messages that a request holds now.
    pub fn held_bytes(&self, transaction: TransactionId) -> usize {
        let context = self.contexts.get(transaction.slot);
        let context = context.filter(|context| context.id() == transaction);
        context.map_or(0, KeptContext::held_bytes)
    }

    /// Drops what was kept with requests that have ended; the next message does so as well.
    /// Call it when the events of a step are handled.
    pub fn drop_ended(&mut self) {
        self.ended.clear();
    }

    /// Whether a request belongs to one that the table has, so that
    /// [`receive`](Self::receive) would absorb it or carry it out.
    pub fn knows(&self, request: &UnreadRequest<'_>) -> bool {
        self.find(self.request_keys.of_unread(request)).is_some()
    }

    /// Whether the request in this slot came from the side that sends on `flow`.
    fn is_sender(&self, slot: u32, flow: Flow) -> bool {
        let context = self.contexts.get(slot);
        context.is_some_and(|context| self.shared.edge.may_answer(context.upstream(), flow))
    }

    fn is_known(&self, transaction: TransactionId) -> bool {
        let context = self.contexts.get(transaction.slot);
        context.is_some_and(|context| context.id() == transaction)
    }

    /// The same, to change.
    pub fn data_mut(&mut self, transaction: TransactionId) -> Option<&mut E::Data> {
        let context = self.contexts.get_mut(transaction.slot)?;
        (context.id() == transaction).then_some(context.data_mut())
    }

    /// Everything counted so far.
    pub fn stats(&self) -> ProxyStats {
        ProxyStats {
            transaction_count: self.contexts.len() as u64,
            held_bytes: self.held_bytes,
            ..self.shared.stats.clone()
        }
    }

    /// Takes a valid request: absorbs retransmissions and the ACKs of refusals, and carries
    /// CANCEL out (RFC 3261 §17.2.3, §16.10).
    pub fn receive(
        &mut self,
        now: Instant,
        inbound: &Inbound<'_, '_>,
        out: &mut Actions,
    ) -> Received {
        self.drop_ended();
        let key = self.request_keys.of(inbound.message);
        let known = self.find(key);
        // A forwarded INVITE shows all that names it, to whoever is called.
        let is_sender = known.is_some_and(|slot| self.is_sender(slot, inbound.flow));
        match (inbound.message.method(), known) {
            (Some(Method::Cancel), Some(slot)) if is_sender => self.cancel(now, slot, inbound, out),
            (Some(Method::Cancel), _) => {
                self.shared.stats.cancels_unknown += 1;
                Received::UnknownCancel
            }
            (_, None) => Received::New,
            (Some(Method::Ack), Some(slot)) if is_sender => self.acknowledge(now, slot, out),
            (Some(Method::Ack), Some(_)) => Received::Absorbed,
            (_, Some(slot)) => {
                self.shared.stats.retransmissions_absorbed += 1;
                self.step(now, slot, out, |context, work| {
                    context.repeat_response(work)
                });
                Received::Absorbed
            }
        }
    }

    /// Begins a request that was checked; an INVITE is answered by 100 at once. The table
    /// waits for its targets as long as a transaction lives (64 × T1).
    ///
    /// # Errors
    ///
    /// [`RequestRefusal::Full`] and [`RequestRefusal::SessionTooShort`]; then nothing has begun,
    /// and the data is dropped.
    pub fn begin(
        &mut self,
        now: Instant,
        inbound: &Inbound<'_, '_>,
        routing: &Routing<'_>,
        data: E::Data,
        out: &mut Actions,
    ) -> Result<Begun, RequestRefusal> {
        self.drop_ended();
        let key = self.request_keys.of(inbound.message);
        if self.find(key).is_some() {
            return Ok(Begun::Known);
        }
        let (policy, is_in_dialog) = (&self.shared.policy, routing.is_in_dialog());
        let is_full = self.contexts.len() >= policy.room(is_in_dialog)
            || self.held_bytes >= policy.byte_room(is_in_dialog);
        if is_full {
            self.shared.stats.refused_full += 1;
            return Err(RequestRefusal::Full);
        }
        let session = SessionRequest::of(inbound.message, policy.session_s)
            .map_err(|_too_short| RequestRefusal::SessionTooShort)?;
        let id = self.insert(now, key, inbound, routing, (data, session));
        let is_invite = inbound.message.method() == Some(Method::Invite);
        self.shared.stats.requests += 1;
        self.shared.stats.invites += u64::from(is_invite);
        self.step(now, id.slot, out, |context, work| {
            if is_invite {
                context.send_own(&Status::TRYING.into(), work);
            }
        });
        Ok(Begun::New(id))
    }

    /// Says where a request goes; an empty set means that nobody is there (480). Does
    /// nothing if the request has ended, or its targets are known.
    pub fn forward(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        targets: TargetSet,
        out: &mut Actions,
    ) {
        if self.is_known(transaction) {
            self.step(now, transaction.slot, out, |context, work| {
                context.locate(targets, work);
            });
        }
    }

    /// Answers a request instead of forwarding it. Does nothing if its final response was
    /// sent.
    pub fn answer(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        answer: &Answer<'_>,
        out: &mut Actions,
    ) {
        if !self.is_known(transaction) {
            return;
        }
        self.step(now, transaction.slot, out, |context, work| {
            if context.final_status != 0 {
                return;
            }
            context.send_own(answer, work);
            let status = answer.status.code();
            if status < 200 {
                return;
            }
            work.shared.stats.refused += 1;
            work.note(EventKind::Refused {
                status,
                branch: None,
                after: work.now - context.began_at,
            });
            context.close(status);
            context.cancel_branches(&CancelReason::None, work);
        });
    }

    /// Answers a request that was not begun; nothing is kept, so its retransmission gets
    /// the same answer. Does nothing for an ACK.
    pub fn refuse(
        &mut self,
        inbound: &Inbound<'_, '_>,
        refusal: &RequestRefusal,
        out: &mut Actions,
    ) {
        let Inbound { message, flow, .. } = *inbound;
        if message.method() == Some(Method::Ack) {
            return;
        }
        let tag = self.shared.tag(self.request_keys.of(message));
        if let Some(datagram) = self.shared.write_refusal(message, flow, refusal, &tag) {
            let flow = answer_flow(message, flow);
            let transaction = NO_TRANSACTION;
            self.work(Instant::ZERO, transaction, out)
                .send(flow, datagram);
        }
    }

    /// Forwards the ACK of a 2xx on this way; it is a transaction of its own and gets no response
    /// (RFC 3261 §13.2.2.4, §16.11).
    pub fn forward_ack(
        &mut self,
        inbound: &Inbound<'_, '_>,
        routing: &Routing<'_>,
        way: &Way,
        out: &mut Actions,
    ) {
        let (received, hop) = (self.loops.received_branch(inbound.message), way.hop);
        let own_uri = way.uri.as_deref().map(as_request_uri);
        let uri = own_uri.unwrap_or(routing.request_uri());
        let Inbound { message, flow, .. } = *inbound;
        let ack = (self.shared).write_ack(message, flow, (way, uri), routing.rest(), received);
        let Some(datagram) = ack else { return };
        self.shared.stats.acks_forwarded += 1;
        out.send(super::Outbound {
            flow: hop.flow,
            datagram,
            may_connect: !hop.is_registered,
            branch: None,
        });
    }

    /// Takes a response. `false` means that it answers no request of this table: it is not
    /// forwarded (RFC 6026 §7.3, §8.9), but may answer a request of the caller's own. It has
    /// the branch of the request, and comes [from where that went](Edge::may_answer).
    pub fn receive_response(
        &mut self,
        now: Instant,
        inbound: &Inbound<'_, '_>,
        out: &mut Actions,
    ) -> bool {
        self.drop_ended();
        let (Start::Response { status, .. }, Ok(via)) =
            (inbound.message.start(), inbound.message.via())
        else {
            return false;
        };
        let Some(branch) = via.branch().and_then(BranchParameter::parse) else {
            return false;
        };
        let response = BranchResponse {
            message: inbound.message,
            datagram: inbound.datagram,
            number: branch.number,
            status,
        };
        let context = self.contexts.get(branch.slot);
        let is_it = |context: &KeptContext<E::Data>| {
            let sent = context.branch_flow(branch.number);
            let may_answer = |sent| self.shared.edge.may_answer(sent, inbound.flow);
            self.shared.branch_nonce(context.id(), branch.number) == branch.nonce
                && sent.is_some_and(may_answer)
        };
        let is_known = context.is_some_and(is_it)
            && self.step(now, branch.slot, out, |context, work| {
                context.receive_response(response, work)
            });
        self.shared.stats.stray_responses += u64::from(!is_known);
        is_known
    }

    /// A message of this branch could not be sent (RFC 3261 §16.9).
    pub fn transport_error(&mut self, now: Instant, branch: BranchId, out: &mut Actions) {
        self.drop_ended();
        if self.is_known(branch.transaction) {
            self.step(now, branch.transaction.slot, out, |context, work| {
                context.transport_error(branch.number, work);
            });
        }
    }

    /// The way of a branch, which had no connection yet, is this flow now. Tell it before
    /// anything is sent on the flow, so that its end is not missed.
    pub fn connected(&mut self, branch: BranchId, flow: Flow) {
        let slot = branch.transaction.slot;
        // Nothing connects for one that was answered.
        let context = match self.contexts.get_mut(slot) {
            Some(KeptContext::Whole(context)) if context.id == branch.transaction => context,
            _ => return,
        };
        if let Some(branch) = context.branches.get_mut(usize::from(branch.number)) {
            branch.flow = flow.into();
            self.shared.note_flow(flow, slot);
        }
    }

    /// A connection has ended: requests that nothing was heard of on it take their next way
    /// (RFC 3261 §18.4).
    pub fn connection_ended(&mut self, now: Instant, flow: Flow, out: &mut Actions) {
        self.drop_ended();
        let slots: Vec<_> = self.slots_on(flow).collect();
        for slot in slots {
            self.step(now, slot, out, |context, work| {
                context.connection_ended(flow, work);
            });
        }
    }

    /// Whether requests of the table were sent on this connection.
    pub fn uses(&self, flow: Flow) -> bool {
        self.slots_on(flow).next().is_some()
    }

    fn slots_on(&self, flow: Flow) -> impl Iterator<Item = u32> + '_ {
        let all = (flow.connection, 0)..=(flow.connection, u32::MAX);
        self.shared.connections.range(all).map(|(_, slot)| *slot)
    }

    /// Does what is due: retransmissions, timeouts, the next group.
    pub fn expire(&mut self, now: Instant, out: &mut Actions) {
        self.drop_ended();
        while let Some((_, handle)) = self.timers.hold_due(now) {
            match self.timers.get(handle).copied() {
                Some(slot) => self.step(now, slot, out, |context, work| context.expire(work)),
                None => drop(self.timers.cancel(handle)),
            }
        }
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Runs one step of a request; then its timer is set, or it is forgotten.
    fn step<T: Default>(
        &mut self,
        now: Instant,
        slot: u32,
        out: &mut Actions,
        run: impl FnOnce(&mut Context<E::Data>, &mut Work<'_, E>) -> T,
    ) -> T {
        self.contexts.change(slot, KeptContext::opened);
        let Some(KeptContext::Whole(context)) = self.contexts.get_mut(slot) else {
            return T::default();
        };
        let mut work = Work {
            now,
            id: context.id,
            shared: &mut self.shared,
            out,
        };
        let was_final = context.final_status != 0;
        let result = run(context, &mut work);
        let held = match context.is_over() {
            true => 0,
            false => context.count_bytes(),
        };
        self.held_bytes += held as u64;
        let before = std::mem::replace(&mut context.held_bytes, held);
        self.held_bytes -= before as u64;
        if context.is_over() {
            work.note(EventKind::Ended);
            self.remove(slot);
        } else {
            if was_final && held < before {
                work.note(EventKind::Shrunk);
            }
            self.timers.reschedule(context.timer, context.next_due());
            self.contexts.change(slot, KeptContext::settled);
        }
        result
    }

    fn remove(&mut self, slot: u32) {
        let context = self.contexts.remove(slot).map(KeptContext::opened);
        let Some(KeptContext::Whole(context)) = context else {
            return;
        };
        self.timers.cancel(context.timer);
        self.shared.stats.branch_count -= context.branches.len() as u64;
        for branch in &context.branches {
            let connection = branch.flow.get().connection;
            if connection != 0 {
                self.shared.connections.remove(&(connection, slot));
            }
        }
        if let Ok(entry) = self.keys.find_entry(context.key as u64, |it| *it == slot) {
            entry.remove();
        }
        self.ended.push((context.id, context.data));
    }

    fn insert(
        &mut self,
        now: Instant,
        key: u128,
        inbound: &Inbound<'_, '_>,
        routing: &Routing<'_>,
        (data, session): (E::Data, Option<SessionRequest>),
    ) -> TransactionId {
        let Inbound { message, flow, .. } = *inbound;
        let (slot, is_reliable) = (self.contexts.next_slot(), flow.transport.is_reliable());
        self.serial += 1;
        let id = TransactionId {
            slot,
            nonce: self.nonces.of(self.serial),
        };
        let timers = self.shared.policy.timers;
        let is_invite = message.method() == Some(Method::Invite);
        let ring_due = now + timers.lifetime();
        let context = Context {
            id,
            key,
            data,
            began_at: now,
            upstream: answer_flow(message, flow).into(),
            server: ServerTransaction::start(now, is_invite, is_reliable, &timers),
            last_response: None,
            pending: Some(Box::new(Pending::new(inbound, routing, ring_due))),
            branches: Vec::new(),
            final_status: 0,
            is_cancelled: false,
            has_progress: false,
            session_s: session.map_or(0, SessionRequest::interval_for_caller_s),
            held_bytes: 0,
            timer: self.timers.add(ring_due, slot),
        };
        self.contexts.insert(KeptContext::new(context));
        let contexts = &self.contexts;
        let hash = |slot: &u32| contexts.get(*slot).map_or(0, |it| it.key() as u64);
        self.keys.insert_unique(key as u64, slot, hash);
        id
    }

    fn find(&self, key: u128) -> Option<u32> {
        let is_it = |slot: &u32| self.contexts.get(*slot).is_some_and(|it| it.key() == key);
        self.keys.find(key as u64, is_it).copied()
    }

    fn cancel(
        &mut self,
        now: Instant,
        slot: u32,
        inbound: &Inbound<'_, '_>,
        out: &mut Actions,
    ) -> Received {
        let reason = CancelReason::of(inbound.message);
        let Inbound { message, flow, .. } = *inbound;
        self.step(now, slot, out, |context, work| {
            let (answer, tag) = (Status::OK.into(), work.shared.tag(context.id));
            if let Some(ok) = work.shared.write_answer(message, flow, &answer, &tag) {
                work.send(answer_flow(message, flow), ok);
            }
            context.cancel(&reason, work);
        });
        Received::Absorbed
    }

    /// An ACK with the branch of its INVITE. After a 2xx it is none of ours.
    fn acknowledge(&mut self, now: Instant, slot: u32, out: &mut Actions) -> Received {
        let context = self.contexts.get(slot);
        let was_accepted = context.is_some_and(|it| (200..300).contains(&it.final_status()));
        if was_accepted {
            return Received::New;
        }
        self.step(now, slot, out, |context, work| {
            let timers = work.shared.policy.timers;
            context.server.acknowledge(now, &timers);
            if !context.server.repeats() {
                context.last_response = None;
            }
        });
        Received::Absorbed
    }

    fn work<'w>(
        &'w mut self,
        now: Instant,
        id: TransactionId,
        out: &'w mut Actions,
    ) -> Work<'w, E> {
        Work {
            now,
            id,
            shared: &mut self.shared,
            out,
        }
    }
}

impl<E: Edge> fmt::Debug for Proxy<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("transactions", &self.len())
            .field("held_bytes", &self.held_bytes)
            .finish_non_exhaustive()
    }
}

impl Pending {
    fn new(inbound: &Inbound<'_, '_>, routing: &Routing<'_>, ring_due: Instant) -> Self {
        let came_with = match inbound.message.start() {
            Start::Request { uri, .. } => uri,
            Start::Response { .. } => "",
        };
        let uri = routing.request_uri();
        Self {
            request: inbound.datagram.clone(),
            index: inbound.message.index().clone(),
            from: inbound.flow,
            rest: routing.rest(),
            uri: (uri != came_with).then(|| uri.into()),
            is_located: false,
            targets: Vec::new(),
            next_target: 0,
            fallbacks: Vec::new(),
            ring_time: None,
            ring_due,
            has_rung_out: false,
            best: BestResponse::default(),
            late_count: 0,
            late_due: Instant::FAR_FUTURE,
            late_reason: "",
            own_reason: None,
        }
    }
}

/// Where the response to a request goes.
fn answer_flow(request: &Message<'_>, flow: Flow) -> Flow {
    request.via().map_or(flow, |via| flow.answered_by(&via))
}

/// Names no request.
const NO_TRANSACTION: TransactionId = TransactionId {
    slot: u32::MAX,
    nonce: 0,
};
