//! Subscriptions that survive the process: each is a row of the store.
//!
//! The 200 to a SUBSCRIBE leaves after the row is durable, and then the feed begins, so
//! that the first NOTIFY follows the 200. A refresh also takes effect when its row is
//! durable; until then everything continues as before. The row of an ended subscription
//! is deleted later, like that of a binding, and only if it has not changed.
//!
//! A store in memory has no rows: after a restart the server answers the first request
//! of a watcher with 481, so the watcher subscribes anew.

use super::{Inner, SubscriptionRow, Watcher, watcher_context::WatcherContext};
use crate::server::{
    persistence::ChangeGrant, sip::inbound_request::InboundRequest,
    spans::request_span::RequestSpan,
};
use busyhour::{
    buffer::Buffer,
    bus::Name,
    clock::Instant,
    task::{Executor, Task},
};
use busyhour_cluster::Partition;
use busyhour_registrar::{
    BindingId, Refusal,
    watch::{End, Subscribe, Subscription, write_accepted},
};
use busyhour_sip::{Flow, Message, Status};
use busyhour_store::{Change, CommitError, Refused, SoftState, SoftStateKind};
use std::{sync::Arc, time::Duration};

type CommitResult = Result<(), CommitError>;

impl Watcher {
    /// Stores a new subscription, then answers its SUBSCRIBE and starts it.
    pub(in crate::server) fn begin(
        self: &Arc<Self>,
        context: &Arc<WatcherContext>,
        granted_s: u32,
        mut inbound: Box<InboundRequest>,
        answer: Buffer,
    ) {
        let state = self.lock();
        let device = state.subscription.device().clone();
        let value = (state.subscription).stored(context.persistence.runs().of(&device));
        drop(state);
        let span = inbound.span.take();
        let Some(grant) = context.persistence.begin(&device) else {
            self.give_up(context);
            return context.not_begun(&device, &inbound, span);
        };
        let row =
            context
                .persistence
                .soft_state(context.persistence.next_id(), KIND, value, granted_s);
        let (watcher, stored, mut waiting) = (self.clone(), row.clone(), Box::new(inbound.copy()));
        waiting.span = store_span(span);
        let begun = move |result| watcher.begun(result, &stored, &mut waiting, answer);
        if self.commit(context, grant, row, begun).is_err() {
            self.give_up(context);
            context.responder.fail(&inbound);
        }
    }

    fn begun(
        self: &Arc<Self>,
        result: CommitResult,
        row: &SoftState,
        inbound: &mut InboundRequest,
        answer: Buffer,
    ) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        if result.is_err() {
            self.give_up(&context);
            return context.responder.fail(inbound);
        }
        let mut state = self.lock();
        self.note_row(&context, &mut state, SubscriptionRow::new(row, 0));
        if state.is_over {
            // A 200 would say that there is a subscription (RFC 6665 §4.2.1.1). The next request finds out what there is.
            drop(state);
            return context.responder.fail(inbound);
        }
        self.follow_connection(&context, &mut state);
        inbound.span.step("answer");
        let flow = inbound.answer_flow();
        if !context.responder.accept(inbound.transaction, flow, answer) {
            self.cut_off(&context, &mut state, flow);
        }
        drop(state);
        inbound.span.answered(Status::OK.code());
        self.start(&context);
    }

    /// Nobody was told that it exists.
    fn give_up(&self, context: &WatcherContext) {
        let mut state = self.lock();
        let feed = self.let_go(context, &mut state);
        drop(state);
        self.leave_feed(feed);
    }

    /// Stores a refresh before it takes effect. One at a time: a watcher that sends the
    /// next one before the answer is told to try again.
    pub(super) fn prolong(
        self: &Arc<Self>,
        context: &Arc<WatcherContext>,
        state: &mut Inner,
        subscribe: &Subscribe<'_>,
        inbound: &InboundRequest,
        span: RequestSpan,
    ) {
        if state.is_storing {
            return context.responder.drop_arrival(inbound);
        }
        let Some(grant) = self.grant(context, state) else {
            return context.not_begun(state.subscription.device(), inbound, span);
        };
        let run = context.persistence.runs().of(state.subscription.device());
        let value = state.subscription.stored_after(subscribe, run);
        let watcher = self.clone();
        let mut waiting = Box::new(inbound.copy());
        waiting.span = store_span(span);
        let prolonged = move |result: CommitResult| {
            watcher.with(|context, state| match result {
                Ok(()) => watcher.prolonged(context, state, &mut waiting),
                Err(_) => context.responder.fail(&waiting),
            });
        };
        let row = (value, subscribe.granted_s);
        if !self.put_row(context, state, grant, row, prolonged) {
            context.responder.fail(inbound);
        }
    }

    fn prolonged(
        self: &Arc<Self>,
        context: &WatcherContext,
        state: &mut Inner,
        inbound: &mut InboundRequest,
    ) {
        let mut span = inbound.span.take();
        let message = inbound.message();
        if let Err(refusal) = self.take_refresh(context, state, &message, inbound, &mut span) {
            span.answered(refusal.status().code());
            context
                .watchers
                .refuse(&message, inbound.flow, inbound.transaction, &refusal);
        }
    }

    /// Writes the row again after so many NOTIFYs that their numbers would otherwise be
    /// used twice after a crash, and after the first one if the row's run is of another count. If that fails, it is tried again after the next
    /// NOTIFY.
    pub(super) fn renew_row(self: &Arc<Self>, context: &WatcherContext, state: &mut Inner) {
        let subscription = &state.subscription;
        let has_outgrown = |row: &SubscriptionRow| {
            row.is_counted_otherwise || subscription.has_outgrown(row.last_cseq)
        };
        if state.is_storing || !state.row.as_ref().is_some_and(has_outgrown) {
            return;
        }
        let run = context.persistence.runs().of(subscription.device());
        let value = subscription.stored(run);
        let left_s = subscription.left_s(context.clock.now());
        if let Some(grant) = self.grant(context, state) {
            self.put_row(context, state, grant, (value, left_s), |_| ());
        }
    }

    /// Before the row is written; `None` if it is, or will be, another node's.
    fn grant(&self, context: &WatcherContext, state: &Inner) -> Option<ChangeGrant> {
        match state.is_row_given_away {
            true => None,
            false => context.persistence.begin(state.subscription.device()),
        }
    }

    /// Writes the row, notes that it is written, and then calls `done` with the result;
    /// `false` if the store takes no change.
    fn put_row(
        self: &Arc<Self>,
        context: &WatcherContext,
        state: &mut Inner,
        grant: ChangeGrant,
        (value, lives_s): (String, u32),
        done: impl FnOnce(CommitResult) + Send + 'static,
    ) -> bool {
        let known = state.row.as_ref().map(|row| row.ended.id);
        let id = known.unwrap_or_else(|| context.persistence.next_id());
        let row = context.persistence.soft_state(id, KIND, value, lives_s);
        let last_cseq = state.subscription.last_cseq();
        let (watcher, stored) = (self.clone(), row.clone());
        let written = move |result: CommitResult| {
            watcher.with(|context, state| {
                state.is_storing = false;
                if result.is_ok() {
                    let row = SubscriptionRow::new(&stored, last_cseq);
                    watcher.note_row(context, state, row);
                }
            });
            done(result);
        };
        state.is_storing = self.commit(context, grant, row, written).is_ok();
        state.is_storing
    }

    /// The row is written. If it was given away meanwhile, it stays as it is; if the subscription is over, it is deleted.
    fn note_row(&self, context: &WatcherContext, state: &mut Inner, row: SubscriptionRow) {
        match (state.is_row_given_away, state.is_over) {
            (true, _) => {}
            (false, true) => context.persistence.store().purge(&[row.ended]),
            (false, false) => state.row = Some(row),
        }
    }

    /// Without a buffer for the answer nothing is done: the watcher retransmits the
    /// same request.
    pub(super) fn take_refresh(
        self: &Arc<Self>,
        context: &WatcherContext,
        state: &mut Inner,
        message: &Message<'_>,
        inbound: &InboundRequest,
        span: &mut RequestSpan,
    ) -> Result<(), Refusal> {
        if state.is_over {
            return Err(Refusal::NoSubscription);
        }
        let subscribe = Subscribe::read(message, &context.policy, inbound.flow)?;
        let subscription = &mut state.subscription;
        subscription.check_refresh(&subscribe, context.clock.now())?;
        let (granted_s, flow) = (subscribe.granted_s, inbound.flow);
        span.step("answer");
        let answer = context
            .responder
            .write(|out| write_accepted(out, message, subscription, granted_s, flow));
        let Some(answer) = answer else {
            context.responder.abandon(inbound.transaction);
            return Ok(());
        };
        subscription.refresh(&subscribe, context.clock.now())?;
        self.renew_info(state);
        self.list(context, state);
        context.watchers.counters.refreshed.increment();
        self.follow_connection(context, state);
        let flow = inbound.answer_flow();
        if !context.responder.accept(inbound.transaction, flow, answer) {
            self.cut_off(context, state, flow);
        }
        span.answered(Status::OK.code());
        Ok(())
    }

    /// Calls `then` with the result of the row, on the watcher's strand. If the
    /// pool has ended, it runs on the store's thread: the result must not be lost.
    /// The caller may have the state locked.
    fn commit(
        self: &Arc<Self>,
        context: &WatcherContext,
        grant: ChangeGrant,
        row: SoftState,
        then: impl FnOnce(CommitResult) + Send + 'static,
    ) -> Result<(), Refused> {
        let watcher = self.clone();
        let done = move |result| {
            let task = Task::labelled(&"commit", move || then(result));
            if let Err(rejected) = watcher.strand.execute_unbounded(task) {
                rejected.task.run();
            }
        };
        let put = vec![Change::PutSoftState(row)];
        (context.persistence).commit_granted(grant, put, Box::new(done))
    }

    /// Ends the subscription when the server stops; returns the row to delete. If an
    /// earlier NOTIFY is still unanswered, no other can be sent, so the row stays: the
    /// watcher is notified after the restart.
    fn end_with_server(self: &Arc<Self>) -> Option<(Name, BindingId)> {
        let mut row = None;
        self.with(|context, state| {
            state
                .subscription
                .end(End::Deactivated, context.clock.now());
            self.send(context, state);
            let is_told = state.subscription.tells_its_end();
            let told = state.row.as_ref().filter(|_| is_told);
            row = told.map(|row| (state.subscription.device().clone(), row.ended.id));
        });
        row
    }

    /// One that is brought back.
    fn restored(
        context: &Arc<WatcherContext>,
        subscription: Subscription,
        row: &SoftState,
    ) -> Option<Arc<Self>> {
        let tag = subscription.dialog().local_tag().to_owned();
        let id = Self::id_in_tag(&tag)?;
        let holder = context.holder(subscription.dialog().flow(), subscription.account());
        let watcher = Self::new(id, &tag, holder, context, subscription);
        let mut state = watcher.lock();
        state.row = Some(SubscriptionRow {
            is_counted_otherwise: state.subscription.is_counted_otherwise(),
            ..SubscriptionRow::new(row, state.subscription.last_cseq())
        });
        drop(state);
        Some(Arc::new(watcher))
    }
}

impl SubscriptionRow {
    fn new(row: &SoftState, last_cseq: u32) -> Self {
        let ended = row.ended();
        Self {
            ended,
            last_cseq,
            is_counted_otherwise: false,
        }
    }
}

impl WatcherContext {
    /// The row of a subscription to this device was not begun: its SUBSCRIBE waits for whoever has the device next.
    fn not_begun(&self, device: &str, inbound: &InboundRequest, mut span: RequestSpan) {
        if !self.devices.keep_again(device, inbound, &mut span) {
            span.answered(Status::SERVICE_UNAVAILABLE.code());
            self.responder.fail(inbound);
        }
    }

    /// Restores stored subscriptions, each with its remaining lifetime, and sends each
    /// one the full state, one after the other: all of them need it after the restart,
    /// and they must not answer at the same time. Limits do not apply here: what was
    /// acknowledged is kept.
    ///
    /// Returns the connections over which they are told.
    pub(in crate::server) fn restore_subscriptions(
        self: &Arc<Self>,
        rows: Vec<SoftState>,
    ) -> Vec<Flow> {
        let at = self.clock.moment();
        let mut told_at = at.now;
        let mut over = Vec::new();
        let mut back = Vec::new();
        for row in rows {
            let remaining = row.remaining(at.steady);
            if remaining.is_zero() {
                over.push(row.ended());
                continue;
            }
            match self.restore_subscription(&row, remaining, told_at) {
                Ok(watcher) => back.push(watcher),
                Err(reason) => {
                    tracing::warn!(
                        row = row.id.0,
                        reason,
                        "a stored subscription cannot be restored"
                    );
                    over.push(row.ended());
                }
            }
            told_at = told_at + TOLD_PACE;
        }
        // All are in the table before the first one begins, so that none gets the id of
        // another.
        back.iter().for_each(|watcher| watcher.start(self));
        self.persistence.store().purge(&over);
        back.iter().filter_map(Watcher::connection).collect()
    }

    fn restore_subscription(
        self: &Arc<Self>,
        row: &SoftState,
        remaining: Duration,
        told_at: Instant,
    ) -> Result<Arc<Watcher>, String> {
        let advertised = self.advertised.clone();
        let ends_at = self.clock.now() + remaining;
        let subscription = Subscription::restore(
            &row.value,
            |device| self.persistence.runs().of(device),
            &self.policy,
            advertised,
            ends_at,
            told_at,
        );
        let mut subscription = subscription.map_err(|reason| reason.to_string())?;
        let flow = subscription.dialog().flow();
        if flow.transport.is_reliable() && self.responder.network().may_stand(flow) {
            subscription.connection_stands();
        }
        let watcher = Watcher::restored(self, subscription, row);
        let watcher = watcher.ok_or("its tag is not from this server")?;
        self.watchers.put_back(&watcher);
        self.watchers.counters.restored.increment();
        Ok(watcher)
    }

    /// Asks every watcher to subscribe again, and deletes the rows of those that could
    /// be told.
    pub(in crate::server) fn end_subscriptions(&self) {
        let watchers = self.watchers.all();
        let rows = watchers.iter().filter_map(Watcher::end_with_server);
        let rows = rows.map(|(device, id)| (Partition::of(&device), device, id));
        let mut rows: Vec<_> = rows.collect();
        // A commit is for one partition, and is refused if that is another node's.
        rows.sort_by_key(|(partition, ..)| *partition);
        for of_one in rows.chunk_by(|(a, ..), (b, ..)| a == b) {
            for batch in of_one.chunks(BATCH_LEN) {
                let (_, device, _) = &batch[0];
                let changes = batch.iter().map(|(.., id)| Change::RemoveSoftState(*id));
                let changes = changes.collect();
                // A row that stays is restored at the next start; then its watcher answers
                // that it is over.
                let _ = (self.persistence).commit(device, changes, Box::new(|_| ()));
            }
        }
    }
}

/// From now on it waits for the disk; if that takes nothing, it is answered so.
fn store_span(mut span: RequestSpan) -> RequestSpan {
    span.step("store");
    span.falls_back_to(Status::SERVICE_UNAVAILABLE.code());
    span
}

const KIND: SoftStateKind = SoftStateKind::Subscription;
/// Four thousand watchers in a second: each answers, and some subscribe anew.
const TOLD_PACE: Duration = Duration::from_micros(250);
/// Rows that go in one batch.
const BATCH_LEN: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::lock;
    use crate::server::{Authentication, Network, SendError, ServerConfig, core::Core};
    use busyhour::runtime::Runtime;
    use busyhour_sip::Transport;
    use busyhour_store::{DiskBehaviour, SimulatedDisk};
    use std::sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    };

    type EndWatcher = fn(&Arc<Watcher>);

    /// One connection, which may have ended, and the answers that left.
    #[derive(Default)]
    struct OneConnection {
        has_ended: AtomicBool,
        statuses: Mutex<Vec<u16>>,
    }

    impl Network for OneConnection {
        fn send(&self, _: Flow, message: Buffer) -> Result<(), SendError> {
            let message = Message::parse(&message).expect("our own");
            lock(&self.statuses).extend(message.status());
            match self.has_ended.load(Ordering::SeqCst) {
                true => Err(SendError::FlowFailed),
                false => Ok(()),
            }
        }

        fn mark_trusted(&self, _: Flow) -> bool {
            !self.has_ended.load(Ordering::SeqCst)
        }
    }

    /// A server whose disk writes when the test says so.
    struct World {
        runtime: Runtime,
        disk: SimulatedDisk,
        network: Arc<OneConnection>,
        core: Arc<Core>,
        flow: Flow,
    }

    impl World {
        fn new() -> Self {
            let runtime = Runtime::simulated(1);
            let disk = SimulatedDisk::new(1, DiskBehaviour::default());
            let network = Arc::new(OneConnection::default());
            let config = ServerConfig {
                domains: vec!["example.com".to_owned()],
                authentication: Authentication::Open,
                ..ServerConfig::default()
            };
            let store = Box::new(disk.open(runtime.clock().clone()));
            let core = Core::start(runtime.clone(), config, network.clone(), store, None);
            let [local, remote] =
                ["192.0.2.1:5060", "192.0.2.7:5070"].map(|it| it.parse().unwrap());
            Self {
                core: core.expect("a server"),
                runtime,
                disk,
                network,
                flow: Flow {
                    transport: Transport::Tcp,
                    connection: 7,
                    node: 1,
                    ..Flow::udp(local, remote)
                },
            }
        }

        /// Bob subscribes, with the tag that he was answered if he does again; it waits for the disk.
        fn subscribe(&self, cseq: u32, tag: Option<&str>) {
            let remote = self.flow.remote;
            let tag = tag.map_or(String::new(), |tag| format!(";tag={tag}"));
            let subscribe = format!(
                "SUBSCRIBE sip:alice@example.com SIP/2.0\r\n\
                 Via: SIP/2.0/TCP {remote};branch=z9hG4bK{cseq}\r\n\
                 From: <sip:bob@example.com>;tag=b\r\nTo: <sip:alice@example.com>{tag}\r\n\
                 Call-ID: c\r\nCSeq: {cseq} SUBSCRIBE\r\n\
                 Contact: <sip:bob@{remote};transport=tcp>\r\n\
                 Event: presence\r\nExpires: 600\r\nContent-Length: 0\r\n\r\n"
            );
            let subscribe = self.runtime.buffers().copy_from(subscribe.as_bytes());
            self.core.receive(self.flow, &subscribe.expect("room"));
            self.pass(Duration::from_millis(1));
        }

        fn pass(&self, time: Duration) {
            let simulation = self.runtime.simulation().expect("it is one");
            simulation.run_for(time);
        }

        /// All that waits for the disk is written.
        fn write(&self) {
            while let Some(due) = self.disk.next_due() {
                let clock = self.runtime.clock();
                clock.as_virtual().expect("virtual").advance_to(due);
                self.disk.run_due();
                self.pass(Duration::from_millis(1));
            }
        }

        fn row_count(&self) -> usize {
            self.disk.contents().soft_states.len()
        }

        fn watcher(&self) -> Arc<Watcher> {
            self.core.watchers.all().pop().expect("there is one")
        }
    }

    /// Its end is told when the watcher is not on it yet, and nobody tells it again.
    #[test]
    fn a_watcher_whose_connection_ends_before_its_subscribe_is_answered_is_cut() {
        for ends in [false, true] {
            let world = World::new();
            let (core, flow) = (&world.core, world.flow);
            world.subscribe(1, None);
            assert_eq!(core.watchers.len(), 1, "it waits for the disk");
            if ends {
                world.network.has_ended.store(true, Ordering::SeqCst);
                core.watchers.connection_ended(flow);
            }
            world.write();
            world.pass(Duration::from_secs(1));
            let connections = core.watchers.connections.of_node(1);
            let (cut, notified) = (core.watchers.stats().cut, core.watchers.stats().notified);
            match ends {
                false => assert_eq!((cut, notified, connections), (0, 1, vec![flow])),
                true => assert_eq!((cut, notified, connections), (1, 0, Vec::new())),
            }
        }
    }

    /// It reads the row and brings the subscription back, so nothing here may delete it: neither when the watcher that was told to
    /// subscribe again has answered that, nor when one with its id is back, nor when a write of the row ends after that.
    #[test]
    fn the_next_owner_of_a_partition_keeps_the_rows_of_its_watchers() {
        let ends: [(EndWatcher, usize); 3] = [
            (|watcher| watcher.push_end(End::Unsubscribed), 0),
            (Watcher::push_moved, 1),
            (Watcher::push_superseded, 1),
        ];
        for (end, row_count) in ends {
            for is_being_written in [false, true] {
                let world = World::new();
                world.subscribe(1, None);
                world.write();
                let watcher = world.watcher();
                if is_being_written {
                    world.subscribe(2, Some(watcher.tag()));
                    assert!(watcher.lock().is_storing);
                }
                end(&watcher);
                world.pass(Duration::from_millis(1));
                world.write();
                world.pass(Duration::from_secs(40));
                world.write();
                assert!(watcher.lock().is_over);
                assert_eq!(world.row_count(), row_count, "{is_being_written}");
            }
        }
    }

    /// Its account was removed meanwhile, for instance, or its SUBSCRIBE waited for the disk for longer than it wanted to watch.
    #[test]
    fn a_subscription_that_ends_before_its_subscribe_is_stored_is_not_accepted() {
        for ends in [false, true] {
            let world = World::new();
            world.subscribe(1, None);
            if ends {
                world.watcher().push_end(End::Rejected);
                world.pass(Duration::from_secs(40));
                assert_eq!(world.core.watchers.len(), 0);
            }
            assert!(
                lock(&world.network.statuses).is_empty(),
                "it waits for the disk"
            );
            world.write();
            world.pass(Duration::from_secs(1));
            let expected = if ends { 503 } else { 200 };
            assert_eq!(*lock(&world.network.statuses), [expected]);
            world.write();
            assert_eq!(world.row_count(), usize::from(!ends));
        }
    }

    /// The next owner has the row of a SUBSCRIBE that was committed before the partition went; and nobody has it if the subscription
    /// is over before it has begun.
    #[test]
    fn the_row_of_a_new_subscription_is_the_next_owners_if_its_partition_has_gone() {
        let ends: [(EndWatcher, usize); 2] = [
            (|watcher| watcher.push_end(End::Rejected), 0),
            (Watcher::push_moved, 1),
        ];
        for (end, row_count) in ends {
            let world = World::new();
            world.subscribe(1, None);
            let watcher = world.watcher();
            end(&watcher);
            world.pass(Duration::from_secs(40));
            world.write();
            world.pass(Duration::from_secs(40));
            world.write();
            assert!(watcher.lock().is_over);
            assert_eq!(world.row_count(), row_count);
            let connections = world.core.watchers.connections.of_node(1);
            assert!(connections.is_empty(), "it is over");
        }
    }
}
