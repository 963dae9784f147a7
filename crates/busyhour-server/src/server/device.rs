//! One device: its bindings, and its registrations one after the other.
//!
//! **One guard.** The lock guards the state, and nothing else does. The strand is no
//! guard but a queue: it keeps a device's requests in the order in which they came, which
//! a mutex does not, bounds how many wait, and lets no worker wait for another. The lock
//! is needed beside it, because others look at a device too: expiry timers and
//! connections that have ended, on one serializer for all devices, so that a million
//! deadlines keep one worker busy and not all of them; watchers that subscribe, on their
//! own serializers; lists over HTTP and GRUUs, on the threads that ask; and the store's
//! thread, once the pool has ended. Under the lock nothing waits for the disk, so who
//! finds it taken waits for microseconds.
//!
//! A registration that changes something goes to the store, and requests that arrive in
//! the meantime wait, so that at most one change of a device is on its way to the disk:
//!
//! 1. arrive: read the request, compute the next bindings and the 200, hand
//!    the changes to the store;
//! 2. the store calls back from its own thread: back to the strand;
//! 3. committed: the new bindings take effect, the 200 leaves, the state is published;
//! 4. the waiting requests take their turn.
//!
//! A failure between 1 and 3 leaves the bindings unchanged. A PUBLISH goes through the
//! same steps.
//!
//! A device gets a [`DeviceContext`] of the server, and not the whole of it.
//!
//! There may be a million devices: an idle one holds its bindings and nothing else. Its
//! state is published only while somebody listens.

pub(super) mod devices;
pub(super) mod device_request;
pub(super) mod compositor;
pub(super) mod restore;
pub(super) mod state_topics;
pub(super) mod device_context;
pub(super) mod flows;
mod refusals;
mod publications;
mod publishing;
mod reach;
pub(super) mod listing;
pub(super) mod loading;
pub(super) mod removal;
pub(super) mod dialogs;
mod draft;
mod rare;

use self::{
    device_context::DeviceContext,
    device_request::{DeviceRequest, Iax2InboundRequest},
    draft::{Answer, Draft, Pending, RegistrationDraft, is_visible},
    rare::{MoreRare, Rare},
};
use super::{
    change::record::RegistrationEvent, load::shares::Holder, sip::inbound_request::InboundRequest,
    tenant::tenant_quota::TenantQuota,
};
use busyhour::{
    bus::Name,
    clock::Instant,
    task::{Executor, Task},
};
use busyhour_cluster::Partition;
use busyhour_iax2::RequestOutcome;
use busyhour_registrar::{
    Binding, BindingChange, Bindings, Now, Reach, Refusal, Registration, SILENCE_MAX, Update,
    watch::{MessageSummary, Publications, Published},
    write_answer,
};
use busyhour_sip::{Flow, Message, Status};
use busyhour_store::{Change, CommitError};
use std::sync::{
    Arc, Mutex, MutexGuard, Weak,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

/// A device by its address of record.
pub(super) struct Device {
    aor: Box<str>,
    /// In a cluster; otherwise the first one.
    partition: Partition,
    /// For whom it was made.
    holder: Holder,
    context: Weak<DeviceContext>,
    /// Requests that wait for their turn on the strand.
    queued: AtomicU32,
    /// It has been registered.
    is_known: AtomicBool,
    /// A `publish_full` waits on the strand, and has not begun.
    is_shown_soon: AtomicBool,
    state: Mutex<DeviceInner>,
}

#[derive(Default)]
struct DeviceInner {
    bindings: Bindings,
    pending: Option<Box<Pending>>,
    /// What few devices have, and those seldom.
    rare: Option<Box<Rare>>,
    /// Somebody listens on the bus.
    has_subscribers: bool,
    /// Contacts that its domain is charged for, if that has settings of its own.
    contacts_charged: u32,
    /// Not in the table any more: whoever holds it has to look the device up again.
    is_retired: bool,
}

impl Device {
    pub(super) fn new(
        aor: Box<str>,
        partition: Partition,
        holder: Holder,
        context: &Arc<DeviceContext>,
    ) -> Self {
        let state = DeviceInner {
            has_subscribers: context.topics.has_subscribers(&aor),
            ..DeviceInner::default()
        };
        Self {
            aor,
            partition,
            holder,
            context: Arc::downgrade(context),
            queued: AtomicU32::new(0),
            is_known: AtomicBool::new(false),
            is_shown_soon: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Its address of record.
    pub(super) fn aor(&self) -> &str {
        &self.aor
    }

    pub(super) fn partition(&self) -> Partition {
        self.partition
    }

    pub(super) fn holder(&self) -> Holder {
        self.holder
    }

    /// The bindings that are valid at `now`.
    pub(super) fn active_bindings(&self, now: Instant) -> Vec<Binding> {
        self.lock().bindings.active(now).cloned().collect()
    }

    /// Requests that wait for their turn.
    pub(super) fn queued_len(&self) -> usize {
        self.queued.load(Ordering::Relaxed) as usize
    }

    /// Sends a registration to the strand; `false` when that takes no more.
    pub(super) fn push(
        self: &Arc<Self>,
        context: &DeviceContext,
        device_request: DeviceRequest,
    ) -> bool {
        let device = self.clone();
        self.queued.fetch_add(1, Ordering::Relaxed);
        context.load.enter(self.is_known.load(Ordering::Relaxed));
        let arrive = move || {
            device.queued.fetch_sub(1, Ordering::Relaxed);
            device.arrive(device_request);
        };
        let strand = context.table.strand_of(self);
        let is_pushed = strand.execute(Task::labelled(&"request", arrive)).is_ok();
        if !is_pushed {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            context.load.leave();
        }
        is_pushed
    }

    /// After a restart, or when a deadline has come.
    pub(super) fn fire(self: &Arc<Self>, context: &Arc<DeviceContext>) {
        let mut state = self.lock();
        if !state.is_retired {
            self.finish_transition(context, &mut state);
        }
    }

    /// Removes a device from the table that was created for a request which found no
    /// room on its strand.
    pub(super) fn leave_if_idle(self: &Arc<Self>, context: &Arc<DeviceContext>) {
        if self.queued_len() == 0 && !self.is_known.load(Ordering::Relaxed) {
            self.fire(context);
        }
    }

    fn arrive(self: &Arc<Self>, device_request: DeviceRequest) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        context.load.leave();
        let mut state = self.lock();
        if state.is_retired {
            drop(state);
            return context.register_again(&self.aor, device_request);
        }
        // Its turn takes microseconds, which change nothing of what ends.
        let now = context.clock.now();
        context.load.note_wait(device_request.arrived_at(), now);
        if state.pending.is_none() {
            self.expire(&context, &mut state, now);
            self.register(&context, &mut state, device_request);
            return self.finish_transition_at(&context, &mut state, now);
        }
        let waiting = &mut state.more_rare().waiting;
        match waiting.len() < context.table.queue_len_max {
            true => waiting.push_back(device_request),
            false => context.drop_request(&device_request),
        }
    }

    fn register(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        device_request: DeviceRequest,
    ) {
        if matches!(
            device_request,
            DeviceRequest::Sip(_) | DeviceRequest::Iax2(_)
        ) {
            context.log.counters.requests.increment();
        }
        if context.accounts.is_revoked(&self.aor) {
            return context.refuse_request(&device_request);
        }
        match device_request {
            DeviceRequest::Sip(inbound) => self.register_sip(context, state, inbound),
            DeviceRequest::Iax2(inbound) => self.register_iax2(context, state, inbound),
            DeviceRequest::Publish(inbound) => self.take_publication(context, state, inbound),
            DeviceRequest::Remove(removal) => self.take_removal(context, state, removal),
        }
    }

    fn register_sip(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        mut inbound: Box<InboundRequest>,
    ) {
        inbound.span.step("registrar");
        let message = inbound.message();
        let (flow, transaction) = (inbound.flow, inbound.transaction);
        let draft = self.draft(context, &state.bindings, &message, &inbound);
        match draft.and_then(|draft| self.charged(context, state, draft)) {
            Ok(Some((draft, changes))) => {
                drop(message);
                let (device_request, draft) =
                    (DeviceRequest::Sip(inbound), Draft::Registration(draft));
                let changes = changes.into_iter().map(Change::from).collect();
                self.commit(context, state, Pending::new(device_request, draft), changes);
            }
            Ok(None) => context.responder.abandon(transaction),
            Err(refusal) => {
                context.refuse_registration(&message, flow, transaction, &refusal);
                drop(message);
                inbound.span.answered(refusal.status().code());
            }
        }
    }

    fn register_iax2(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        mut inbound: Box<Iax2InboundRequest>,
    ) {
        inbound.span.step("registrar");
        let policy = &context.accounts.of(&self.aor);
        let registration = &inbound.registration;
        let mut next_id = || context.persistence.next_id();
        let update =
            state
                .bindings
                .update_iax2(registration, policy, context.clock.moment(), &mut next_id);
        let update = match update {
            Ok(update) => self
                .charge_contacts(context, state, &update.bindings)
                .map(|()| update),
            Err(_) => Err(Refusal::TooManyContacts),
        };
        let update = match update {
            Ok(update) => update,
            Err(Refusal::Overloaded(_)) => {
                return context.give_up_request(&DeviceRequest::Iax2(inbound));
            }
            Err(refusal) => {
                inbound.span.answered(403);
                let reason = match refusal {
                    Refusal::Forbidden(reason) => reason,
                    _ => "Too Many Contacts",
                };
                (context.log).iax2_forbidden(&self.aor, registration.flow, reason);
                return context
                    .iax2
                    .conclude(&inbound.call, &RequestOutcome::Forbidden);
            }
        };
        let verdict = match registration.granted_s(policy) {
            0 => RequestOutcome::Released,
            refresh_s => RequestOutcome::Registered {
                refresh_s,
                message_count: context.mailboxes.message_count(&registration.username),
            },
        };
        let draft = RegistrationDraft {
            answer: Answer::Iax2(inbound.call, verdict),
            tally: update.tally,
            is_visible: is_visible(&update),
            keeps_flow: false,
            bindings: update.bindings,
        };
        let (device_request, draft) = (DeviceRequest::Iax2(inbound), Draft::Registration(draft));
        let changes = update.changes.into_iter().map(Change::from).collect();
        self.commit(context, state, Pending::new(device_request, draft), changes);
    }

    /// The outcome of a registration; `None` without a buffer for the answer.
    fn draft(
        &self,
        context: &DeviceContext,
        bindings: &Bindings,
        message: &Message<'_>,
        inbound: &InboundRequest,
    ) -> Result<Option<(RegistrationDraft, Vec<BindingChange>)>, Refusal> {
        let at = context.clock.moment();
        let (registration, update) = self.update(context, bindings, message, inbound.flow, at)?;
        if update.tally.added + update.tally.refreshed > 0 {
            context.upstream.check(&self.aor)?;
        }
        let caps = context.push.capabilities(registration.wish.uris());
        let caps = caps.map_err(|_unknown| Refusal::PushNotSupported)?;
        let answer = context.responder.write_contacts(inbound.flow, |out| {
            let tag = context.responder.to_tag(inbound.transaction);
            write_answer(
                out,
                message,
                &registration,
                &update.bindings,
                at,
                (tag.as_str(), caps.as_deref()),
            );
        })?;
        let Some(answer) = answer else {
            return Ok(None);
        };
        let draft = RegistrationDraft {
            answer: Answer::Sip(inbound.transaction, inbound.answer_flow(), answer),
            tally: update.tally,
            is_visible: is_visible(&update),
            keeps_flow: registration.extensions.outbound && registration.extensions.is_direct,
            bindings: update.bindings,
        };
        Ok(Some((draft, update.changes)))
    }

    fn update<'m>(
        &'m self,
        context: &DeviceContext,
        bindings: &Bindings,
        message: &Message<'m>,
        flow: Flow,
        at: Now,
    ) -> Result<(Registration<'m>, Update), Refusal> {
        let registration = Registration::read(message, &self.aor, flow)?;
        let policy = context.accounts.of(&self.aor);
        let update = bindings.update(&registration, &policy, at, &mut || {
            context.persistence.next_id()
        })?;
        Ok((registration, update))
    }

    fn commit(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        mut pending: Pending,
        changes: Vec<Change>,
    ) {
        if changes.is_empty() {
            return self.accept(context, state, pending);
        }
        if context.persistence.store().is_immediate() {
            return self.commit_at_once(context, state, pending, changes);
        }
        let Some(grant) = context.persistence.begin(&self.aor) else {
            return context.not_begun(&self.aor, pending.device_request);
        };
        let change_count = changes.len() as u64;
        if let Err(excess) = context.persistence.charge(self.holder, change_count) {
            if let Some((flow, _)) = pending.device_request.way() {
                let account = Some(context.accounts.account_of(&self.aor));
                let quota = TenantQuota::OtherShare;
                (context.responder).count_excess(excess, quota, flow, account);
            }
            return context.give_up_request(&pending.device_request);
        }
        pending.device_request.step("store");
        let device = self.clone();
        let done = Box::new(move |result| device.complete(result));
        pending.change_count = change_count;
        state.pending = Some(Box::new(pending));
        if (context.persistence)
            .commit_granted(grant, changes, done)
            .is_err()
        {
            self.fail(context, state);
        }
    }

    /// With a store that commits at once (in memory), there are no steps 2 and 4.
    fn commit_at_once(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        pending: Pending,
        changes: Vec<Change>,
    ) {
        if context
            .persistence
            .store()
            .commit(changes, Box::new(|_| ()))
            .is_ok()
        {
            return self.accept(context, state, pending);
        }
        state.pending = Some(Box::new(pending));
        self.fail(context, state);
    }

    /// Runs on the store's thread, or on the one that commits: it pushes to the strand
    /// beyond its bound, since there is at most one such task for a device. If the pool
    /// has ended, it runs here, since a commit must not be lost; the lock makes that
    /// safe, and nothing else of the device changes while a change is pending.
    fn complete(self: Arc<Self>, result: Result<(), CommitError>) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        let strand = context.table.strand_of(&self);
        let task = Task::labelled(&"commit", move || self.committed(result));
        if let Err(rejected) = strand.execute_unbounded(task) {
            rejected.task.run();
        }
    }

    fn committed(self: Arc<Self>, result: Result<(), CommitError>) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        let mut state = self.lock();
        match result {
            Ok(()) => {
                if let Some(pending) = state.pending.take() {
                    context
                        .persistence
                        .discharge(self.holder, pending.change_count);
                    self.accept(&context, &mut state, *pending);
                }
            }
            Err(_) => self.fail(&context, &mut state),
        }
        while state.pending.is_none() {
            let Some(device_request) = state
                .rare
                .as_mut()
                .and_then(|rare| rare.more.as_mut()?.waiting.pop_front())
            else {
                break;
            };
            self.register(&context, &mut state, device_request);
        }
        self.finish_transition(&context, &mut state);
    }

    /// The requested change is durable, or there was nothing to change.
    fn accept(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        pending: Pending,
    ) {
        let Pending {
            mut device_request,
            draft,
            ..
        } = pending;
        device_request.step("answer");
        let draft = match (draft, &device_request) {
            (Draft::Registration(draft), _) => draft,
            (Draft::Publication(draft), DeviceRequest::Publish(inbound)) => {
                self.accept_publication(context, state, inbound, draft);
                return device_request.answered(Status::OK);
            }
            (Draft::Removal(draft), DeviceRequest::Remove(removal)) => {
                return self.accept_removal(context, state, removal, draft);
            }
            (Draft::Publication(_) | Draft::Removal(_), _) => return,
        };
        self.hold(context, state, draft.bindings);
        self.count_registration(context);
        // Who has the answer may look at the counts at once.
        context.log.counters.count_accepted(draft.tally);
        let mut lost = None;
        match draft.answer {
            Answer::Sip(transaction, flow, answer) => {
                let responder = &context.responder;
                let way = device_request.way().filter(|_| !state.bindings.is_empty());
                let from = way.map(|(from, _)| (from, &*self.aor));
                let is_there = responder.accept_registration(transaction, (flow, answer), from);
                lost = (!is_there).then_some(flow);
                if draft.keeps_flow {
                    responder.network().expect_keepalives(flow, SILENCE_MAX);
                }
            }
            Answer::Iax2(call, verdict) => context.iax2.conclude(&call, &verdict),
        }
        device_request.answered(Status::OK);
        let took = context.clock.now() - device_request.arrived_at();
        if let Some(way) = device_request.way() {
            context
                .log
                .accepted(&self.aor, way, draft.tally, &state.bindings, took);
        }
        if draft.is_visible {
            let event = RegistrationEvent::of(draft.tally);
            self.tell_registration(context, state, Some(event));
        }
        self.publish_registration(context, state, draft.is_visible);
        if let Some(flow) = lost {
            // The end of its connection would not be reported any more, and unreachable
            // contacts are in no flow.
            context.flows.leave(flow, self);
            self.set_reach(context, state, flow, Reach::Unreachable);
        }
    }

    /// The store did not take the change: the bindings stay as they were.
    fn fail(&self, context: &Arc<DeviceContext>, state: &mut DeviceInner) {
        let Some(mut pending) = state.pending.take() else {
            return;
        };
        pending.device_request.answered(Status::SERVICE_UNAVAILABLE);
        context
            .persistence
            .discharge(self.holder, pending.change_count);
        context.log.counters.store_failures.increment();
        let is_publication = matches!(pending.device_request, DeviceRequest::Publish(_));
        if let Some((flow, protocol)) = pending.device_request.way().filter(|_| !is_publication) {
            context
                .log
                .device_refused(&self.aor, flow, protocol, "The Store Failed");
        }
        context.give_up_request(&pending.device_request);
    }

    /// Brings the device into its state between two events: without expired bindings,
    /// without anything of a removed account, with the next deadline set, without state
    /// that nobody listens to, and removed from the table if nothing is left.
    fn finish_transition(self: &Arc<Self>, context: &Arc<DeviceContext>, state: &mut DeviceInner) {
        self.finish_transition_at(context, state, context.clock.now());
    }

    fn finish_transition_at(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        now: Instant,
    ) {
        if state.pending.is_some() {
            return;
        }
        self.expire(context, state, now);
        self.settle_contacts(context, state);
        state.tidy();
        if state.has_subscribers && !context.topics.has_subscribers(&self.aor) {
            state.has_subscribers = false;
            if context.speaks_for(&self.aor) {
                let _ = context.topics.states.remove(&self.name());
            }
        }
        match state.next_expiry() {
            Some(deadline) => {
                self.is_known.store(true, Ordering::Relaxed);
                context.wake_device(self, deadline);
            }
            None if state.rare.is_none() => self.retire(context, state),
            None => {}
        }
    }

    /// Removes what has ended at `now`; everything if the account is gone.
    fn expire(self: &Arc<Self>, context: &DeviceContext, state: &mut DeviceInner, now: Instant) {
        let is_revoked = context.accounts.is_revoked(&self.aor);
        let until = if is_revoked { Instant::FAR_FUTURE } else { now };
        self.expire_publications(context, state, until);
        if state.bindings.next_expiry().is_none_or(|at| at > until) {
            return;
        }
        let before = state.bindings.clone();
        let expired = state.bindings.expire(until);
        self.follow_flows(context, &before, &state.bindings);
        self.end_unregistered(context, state);
        context.persistence.store().purge(&expired.ended);
        if expired.active_count > 0 {
            let counters = &context.log.counters;
            counters.count_ended(expired.active_count, is_revoked);
            let left = state.bindings.active(context.clock.now()).count();
            if let Some(last) = before.all().max_by_key(|one| one.id) {
                let reason = match is_revoked {
                    true => context.accounts.why_revoked(),
                    false => "not refreshed in time",
                };
                let flow = last.contact.flow();
                context.log.ended(&self.aor, flow, left, reason);
            }
            let event = match is_revoked {
                true => RegistrationEvent::Deactivated,
                false => RegistrationEvent::Expired,
            };
            self.tell_registration(context, state, Some(event));
            self.publish_registration(context, state, true);
        }
    }

    fn retire(self: &Arc<Self>, context: &DeviceContext, state: &mut DeviceInner) {
        state.is_retired = true;
        context.table.remove(self);
    }

    /// The key of the device on the bus; it exists only while somebody listens.
    fn name(&self) -> Name {
        Name::new(&self.aor)
    }

    fn lock(&self) -> MutexGuard<'_, DeviceInner> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl DeviceInner {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn more_rare(&mut self) -> &mut MoreRare {
        self.rare().more.get_or_insert_default()
    }

    fn publications(&self) -> Option<&Publications> {
        Some(&self.rare.as_ref()?.more.as_ref()?.publications)
    }

    /// Frees the memory of what is not there any more.
    fn tidy(&mut self) {
        self.rare.iter_mut().for_each(|rare| rare.tidy());
        self.rare.take_if(|rare| rare.is_empty());
    }

    /// What watchers are told of what is published.
    fn told(&self, name: &Name) -> Option<Arc<[Published]>> {
        let rare = self.rare.as_ref()?;
        let published = self.publications().and_then(Publications::told);
        rare.dialogs.told(name, published)
    }

    /// What is published of the mailbox.
    fn messages(&self) -> Option<Arc<MessageSummary>> {
        self.publications()?.messages()
    }

    fn next_expiry(&self) -> Option<Instant> {
        let published = self.publications().and_then(Publications::next_expiry);
        let ends = [self.bindings.next_expiry(), published];
        ends.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
