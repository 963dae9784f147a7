//! One watcher: its subscription, its feed from the bus, its timer.
//!
//! Everything here runs on the watcher's strand: requests, responses, states from the bus and the expiry timer, so NOTIFY
//! requests leave in order. A strand is a serializer that some watchers share, always the same ones, as devices do: a serializer for each
//! would add a quarter to what a watcher takes. No turn waits for anything, so the wait for a strand is short.

pub(super) mod watchers;
pub(super) mod watcher_context;
pub(super) mod resource_feeds;
pub(super) mod list_hub;
mod resource_feed;
mod list_resolution;
pub(super) mod list_watching;
mod durable;
mod resource_index;
mod unheard_watcher;
mod watcher_connections;
mod watcher_end;
mod watcher_index;
mod watcher_infos;
mod watcher_listing;
pub(super) mod view;

use self::{
    list_hub::ListHub,
    list_watching::{ChangedPlaces, ResolvedList},
    resource_feed::ResourceFeed,
    resource_feeds::FeedKey,
    resource_index::ResourceHash,
    watcher_context::WatcherContext,
    watcher_infos::WatcherInfoPlace,
};
use super::{
    expiry_timer::{ExpiryOptions, ExpiryTimer},
    load::shares::Holder,
    sip::{inbound_request::InboundRequest, transactions::buffer_bytes},
    spans::request_span::RequestSpan,
    stats::counters::Counter,
};
use busyhour::{
    bus::{self, Delivery, Event, Name, SubscriptionBuilder, Topic},
    serializer::Serializer,
    task::{Executor, Task},
};
use busyhour_registrar::{
    EndedBinding, Refusal,
    watch::{End, Package, RegistrationState, State, Subscribe, Subscription, WatcherInfo},
};
use busyhour_sip::{Flow, Message};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// A subscription and what drives it.
pub(super) struct Watcher {
    id: u64,
    /// Of no other one of this process; one that is brought back has the id of another one.
    number: u64,
    tag: Box<str>,
    /// Who opened it.
    holder: Holder,
    /// `None` if nobody may ask who watches what it watches.
    resource_hash: Option<ResourceHash>,
    /// Shared with other watchers.
    strand: Serializer,
    /// Requests and responses that wait for their turn.
    queued: AtomicU32,
    context: Weak<WatcherContext>,
    /// Resources of its list that it is charged for.
    lamps: AtomicU64,
    /// A turn that reads the state of its resource is on its way.
    is_look_due: AtomicBool,
    changed: Mutex<ChangedPlaces>,
    state: Mutex<Inner>,
}

struct Inner {
    subscription: Subscription,
    feed: Option<StateSubscription>,
    /// Its list, from the SUBSCRIBE until it starts.
    resolved: Option<Box<ResolvedList>>,
    expiry_timer: ExpiryTimer,
    /// The connection by whose end it is found.
    connection: Option<Box<Flow>>,
    /// The node by whose path it is found.
    unheard_at: Option<u16>,
    /// Its row in the store, as it was last written.
    row: Option<SubscriptionRow>,
    /// The row belongs to the next owner of the partition, or to a later watcher with its id, and so does a write of it that is
    /// still on its way. Nobody here may change or delete it any more.
    is_row_given_away: bool,
    /// A row is on its way to the disk.
    is_storing: bool,
    /// Of the NOTIFY that left last, until its answer.
    notify_span: RequestSpan,
    /// The bytes that its unanswered NOTIFY is charged for.
    notify_bytes: u64,
    is_over: bool,
}

/// A row of the store.
struct SubscriptionRow {
    /// As the store has to forget it.
    ended: EndedBinding,
    /// The CSeq number in the row, or the first one of this run of the server.
    last_cseq: u32,
    /// It was written in a run of the other count, so it has to be written again.
    is_counted_otherwise: bool,
}

/// Where the states come from: what the watchers of a resource share, a subscription on the bus, or a list that has many
/// resources. Dropping it ends it.
enum StateSubscription {
    Resource(Arc<ResourceFeed>),
    Registration(
        #[expect(dead_code, reason = "held for its drop")] bus::Subscription<RegistrationState>,
    ),
    Watchers(
        #[expect(dead_code, reason = "held for its drop")] bus::Subscription<WatcherInfo>,
        WatcherInfoPlace,
    ),
    List(Arc<ListHub>),
}

impl Watcher {
    pub(super) fn new(
        id: u64,
        tag: &str,
        holder: Holder,
        context: &Arc<WatcherContext>,
        subscription: Subscription,
    ) -> Self {
        let number = context.watchers.next_number();
        Self {
            id,
            number,
            tag: tag.into(),
            holder,
            resource_hash: context.watchers.index.hash_of(&subscription),
            strand: context.watchers.strand(number).clone(),
            queued: AtomicU32::new(0),
            context: Arc::downgrade(context),
            lamps: AtomicU64::new(0),
            is_look_due: AtomicBool::new(false),
            changed: Mutex::default(),
            state: Mutex::new(Inner {
                subscription,
                feed: None,
                resolved: None,
                expiry_timer: ExpiryTimer::default(),
                connection: None,
                unheard_at: None,
                row: None,
                is_row_given_away: false,
                is_storing: false,
                notify_span: RequestSpan::default(),
                notify_bytes: 0,
                is_over: false,
            }),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    pub(super) fn holder(&self) -> Holder {
        self.holder
    }

    /// The tag of a new watcher: its id and an unguessable part.
    pub(super) fn make_tag(id: u64, secret: u64) -> String {
        format!("{id:x}-{secret:016x}")
    }

    pub(super) fn id_in_tag(tag: &str) -> Option<u64> {
        let (id, _) = tag.split_once('-')?;
        u64::from_str_radix(id, 16).ok()
    }

    /// The address of record it watches.
    pub(super) fn device(&self) -> Name {
        self.lock().subscription.device().clone()
    }

    /// What it is told of that address.
    pub(super) fn package(&self) -> Package {
        self.lock().subscription.package()
    }

    /// Whether it watches a list.
    pub(super) fn is_of_list(&self) -> bool {
        self.lock().subscription.is_of_list()
    }

    /// It watches this list, for which it was charged.
    pub(super) fn with_list(self, list: ResolvedList, count: u64) -> Self {
        self.lock().resolved = Some(Box::new(list));
        Self {
            lamps: AtomicU64::new(count),
            ..self
        }
    }

    /// Whether an account opened it, and that `is_it`.
    pub(super) fn is_of(&self, is_it: impl FnOnce(&str) -> bool) -> bool {
        self.lock().subscription.account().is_some_and(is_it)
    }

    /// What it watches and where it is, for people.
    pub(super) fn describe(&self) -> String {
        let state = self.lock();
        let subscription = &state.subscription;
        let list = if subscription.is_of_list() {
            "list "
        } else {
            ""
        };
        format!(
            "{} of {list}{} to {}",
            subscription.package().name(),
            subscription.device(),
            subscription.dialog().flow().remote
        )
    }

    /// Requests and responses that wait for their turn.
    pub(super) fn queued_len(&self) -> usize {
        self.queued.load(Ordering::Relaxed) as usize
    }

    /// Starts the feed: the current state, then every change. The expiry timer is set
    /// before, so that a watcher that never receives anything still ends.
    pub(super) fn start(self: &Arc<Self>, context: &Arc<WatcherContext>) {
        let (device, package, is_of_list) = {
            let mut state = self.lock();
            if state.is_over {
                return;
            }
            self.set_expiry_timer(context, &mut state);
            self.follow_connection(context, &mut state);
            self.follow_path(context, &mut state);
            let subscription = &state.subscription;
            let is_of_list = subscription.is_of_list();
            (
                subscription.device().clone(),
                subscription.package(),
                is_of_list,
            )
        };
        if is_of_list {
            return self.start_list(context);
        }
        let feed = self.feed(context, &device, package);
        let is_told_to_look = matches!(feed, StateSubscription::Resource(_));
        let mut state = self.lock();
        match state.is_over {
            false => {
                state.feed = Some(feed);
                self.list(context, &state);
                drop(state);
                if is_told_to_look {
                    self.push_look();
                }
                // A list that came before did not end it.
                let account = context.accounts.account_of(&device);
                if context.lists.snapshot().contains_key(account) {
                    self.end_for_list();
                }
                // If the account was removed before the watcher was in the table, the
                // walk has missed the watcher.
                context.revoke(self);
            }
            true => {
                drop(state);
                self.leave_feed(Some(feed));
            }
        }
    }

    /// What it watches may have another state. One turn takes all that has changed until it runs.
    fn push_look(self: &Arc<Self>) {
        if self.is_look_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let watcher = self.clone();
        let look = move || {
            // What changes from here on has a turn of its own.
            watcher.is_look_due.swap(false, Ordering::AcqRel);
            watcher.with(|context, state| {
                if let Some(StateSubscription::Resource(feed)) = &state.feed
                    && let Some(known) = feed.state()
                {
                    let replaced = state.subscription.state_is(known);
                    context.watchers.counters.conflated.add(u64::from(replaced));
                }
            });
        };
        self.push_task(Task::labelled(&"state", look));
    }

    fn feed(
        self: &Arc<Self>,
        context: &Arc<WatcherContext>,
        device: &Name,
        package: Package,
    ) -> StateSubscription {
        match package {
            Package::Presence | Package::Dialog | Package::MessageSummary => {
                let feed = ResourceFeed::open(context, &context.feed_key(package, device));
                feed.add_watcher(self);
                StateSubscription::Resource(feed)
            }
            Package::Registration => {
                let feed = context
                    .devices
                    .topics
                    .registrations
                    .subscribe()
                    .key(device.clone())
                    .conflate();
                let feed = self.attach(feed, State::Registration);
                if !context.devices.show_registration(device) {
                    // A device with contacts has its place, so this one has none.
                    self.push_state(State::Registration(RegistrationState::none(device)));
                }
                StateSubscription::Registration(feed)
            }
            Package::PresenceWatchers
            | Package::DialogWatchers
            | Package::MessageSummaryWatchers => self.watchers_feed(context, device, package),
        }
    }

    /// Subscribes to one key of a topic; `wrap` converts its events.
    fn listen<E: Event<Key = Name>>(
        self: &Arc<Self>,
        topic: &Topic<E>,
        key: Name,
        wrap: fn(E) -> State,
    ) -> bus::Subscription<E> {
        self.attach(topic.subscribe().key(key).replay().conflate(), wrap)
    }

    fn attach<E: Event<Key = Name>>(
        self: &Arc<Self>,
        feed: SubscriptionBuilder<E>,
        wrap: fn(E) -> State,
    ) -> bus::Subscription<E> {
        let watcher = Arc::downgrade(self);
        let feed = feed.name(self.describe());
        feed.on(&self.strand).start(move |delivery| {
            if let Some(watcher) = watcher.upgrade() {
                watcher.hear(&delivery, wrap);
            }
        })
    }

    /// Sends a SUBSCRIBE of this dialog to the strand; `false` when it takes no more.
    pub(super) fn push(self: &Arc<Self>, mut inbound: Box<InboundRequest>) -> bool {
        self.push_message(&"SUBSCRIBE", move |watcher| watcher.arrive(&mut inbound))
    }

    /// Sends the result of a NOTIFY to the strand; `false` when it takes no more.
    pub(super) fn push_answer(self: &Arc<Self>, cseq: u32, status: u16) -> bool {
        self.push_message(&"answer to a NOTIFY", move |watcher| {
            watcher.answered(cseq, status)
        })
    }

    fn push_message(
        self: &Arc<Self>,
        label: &'static &'static str,
        take_in: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> bool {
        let watcher = self.clone();
        self.queued.fetch_add(1, Ordering::Relaxed);
        let task = Task::labelled(label, move || {
            watcher.queued.fetch_sub(1, Ordering::Relaxed);
            take_in(&watcher);
        });
        let is_pushed = self.strand.execute(task).is_ok();
        if !is_pushed {
            self.queued.fetch_sub(1, Ordering::Relaxed);
        }
        is_pushed
    }

    fn push_state(self: &Arc<Self>, told: State) {
        let watcher = self.clone();
        let tell = move || {
            watcher.with(|_, state| {
                state.subscription.state_is(Some(told));
            });
        };
        self.push_task(Task::labelled(&"state", tell));
    }

    /// What must not be lost, however much waits for the strand.
    fn push_task(&self, task: Task) {
        // Refused only when the server ends.
        let _ = self.strand.execute_unbounded(task);
    }

    fn hear<E: Event<Key = Name>>(
        self: &Arc<Self>,
        delivery: &Delivery<'_, E>,
        wrap: fn(E) -> State,
    ) {
        self.with(|context, state| {
            let subscription = &mut state.subscription;
            let replaced = match delivery {
                Delivery::Event(event, _) => subscription.state_is(Some(wrap((*event).clone()))),
                Delivery::Removed(..) => subscription.state_is(None),
                Delivery::Replayed => subscription.nothing_more_is_known(),
                Delivery::Lost(_) => false,
            };
            context.watchers.counters.conflated.add(u64::from(replaced));
        });
    }

    fn arrive(self: &Arc<Self>, inbound: &mut InboundRequest) {
        let mut span = inbound.span.take();
        span.step("watcher");
        self.with(|context, state| {
            let message = inbound.message();
            if let Err(refusal) = self.refresh(context, state, &message, inbound, &mut span) {
                span.answered(refusal.status().code());
                context
                    .watchers
                    .refuse(&message, inbound.flow, inbound.transaction, &refusal);
            }
        });
    }

    fn refresh(
        self: &Arc<Self>,
        context: &Arc<WatcherContext>,
        state: &mut Inner,
        message: &Message<'_>,
        inbound: &InboundRequest,
        span: &mut RequestSpan,
    ) -> Result<(), Refusal> {
        let account = context.accounts.account_of(state.subscription.device());
        if let Some(StateSubscription::Resource(feed)) = &state.feed
            && let FeedKey::Mailbox(mailbox) = feed.key()
            && *mailbox != context.mailboxes.of(account)
        {
            // The account has another mailbox now: a new subscription receives that
            // one.
            self.push_end(End::Deactivated);
            return Err(Refusal::NoSubscription);
        }
        let subscribe = Subscribe::read(message, &context.policy, inbound.flow)?;
        context.watchers.check_kept_len(&subscribe)?;
        if state.is_over || subscribe.granted_s == 0 || context.persistence.store().is_immediate() {
            return self.take_refresh(context, state, message, inbound, span);
        }
        state
            .subscription
            .check_refresh(&subscribe, context.clock.now())?;
        self.prolong(context, state, &subscribe, inbound, span.take());
        Ok(())
    }

    fn answered(self: &Arc<Self>, cseq: u32, status: u16) {
        self.with(
            |context, state| match state.subscription.answered(cseq, status) {
                false => context.responder.traffic.stray_responses.increment(),
                true if status < 200 => {}
                true if status >= 300 => state.notify_span.take().answered(status),
                true => {
                    state.notify_span.take().answered(status);
                    context.watchers.counters.confirmed.increment();
                    context
                        .responder
                        .heard_at(state.subscription.dialog().flow());
                }
            },
        );
    }

    fn fire(self: Arc<Self>) {
        self.with(|context, state| state.expiry_timer.fired(context.clock.now()));
    }

    /// Runs `act`, and then what follows from it: sends what is owed, sets the expiry
    /// timer, or ends.
    fn with(self: &Arc<Self>, event: impl FnOnce(&Arc<WatcherContext>, &mut Inner)) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        let mut state = self.lock();
        event(&context, &mut state);
        if state.is_over {
            return;
        }
        self.follow_connection(&context, &mut state);
        self.follow_path(&context, &mut state);
        self.send(&context, &mut state);
        if state.subscription.outstanding_len() == 0 {
            self.charge(&context, &mut state.notify_bytes, 0);
        }
        if let Some(end) = state.subscription.ended() {
            let feed = self.close(&context, &mut state, end);
            drop(state);
            return self.leave_feed(feed);
        }
        self.renew_row(&context, &mut state);
        self.set_expiry_timer(&context, &mut state);
    }

    fn send(&self, context: &WatcherContext, state: &mut Inner) {
        let counters = &context.watchers.counters;
        let subscription = &mut state.subscription;
        while let Some(sent) = context.responder.poll(subscription) {
            let cost = buffer_bytes(subscription.outstanding_len());
            if !sent.is_again && !self.charge(context, &mut state.notify_bytes, cost) {
                counters.over_share.increment();
                subscription.put_off(context.clock.now());
                continue;
            }
            let flow = subscription.dialog().flow();
            if !subscription.is_heard() && !context.responder.may_send_unproven(flow) {
                counters.unproven.increment();
                if !sent.is_again {
                    subscription.put_off(context.clock.now());
                }
                continue;
            }
            if !context
                .responder
                .try_send(subscription.dialog().flow(), sent.datagram)
            {
                // Changes in the meantime are conflated to the last state.
                subscription.put_off(context.clock.now());
                continue;
            }
            if !sent.is_again {
                let call_id = subscription.dialog().call_id();
                state.notify_span = context.spans.notify(call_id, subscription.device(), flow);
            }
            let counter: &Counter = match sent.is_again {
                true => &counters.retransmitted,
                false => &counters.notified,
            };
            counter.increment();
            if flow.transport.is_reliable()
                && context.responder.network().may_lose(flow)
                && subscription.may_be_lost(context.clock.now())
            {
                counters.told_anew.increment();
            }
        }
    }

    /// Charges its subscriber for an unanswered NOTIFY, in place of the last one;
    /// `false` if the share is used up.
    fn charge(&self, context: &WatcherContext, charged: &mut u64, bytes: u64) -> bool {
        let notifies = &context.watchers.notifies;
        notifies.give_back(self.holder, std::mem::take(charged));
        if bytes > 0 && notifies.take(self.holder, bytes).is_err() {
            return false;
        }
        *charged = bytes;
        true
    }

    fn set_expiry_timer(self: &Arc<Self>, context: &WatcherContext, state: &mut Inner) {
        let Some(deadline) = state.subscription.deadline() else {
            return;
        };
        let watcher = Arc::downgrade(self);
        let fire = move || {
            if let Some(watcher) = watcher.upgrade() {
                watcher.fire();
            }
        };
        let timers = &context.timers;
        let set = state
            .expiry_timer
            .set(deadline, EXPIRY, timers, &self.strand, fire);
        if set.is_err() {
            context.responder.traffic.refused_table_full.increment();
        }
    }

    fn changed_places(&self) -> MutexGuard<'_, ChangedPlaces> {
        self.changed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Without slack: after a restart the watchers are told one after the other, and with it they
/// would be told in bursts.
const EXPIRY: ExpiryOptions = ExpiryOptions {
    label: "watcher",
    slack: Duration::ZERO,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::core::Core;
    use busyhour::{clock::Instant, runtime::Runtime};
    use busyhour_registrar::{Advertised, watch::WatchPolicy};

    const SUBSCRIBE: &str = "SUBSCRIBE sip:alice@example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bK1\r\n\
        From: <sip:bob@example.com>;tag=b\r\nTo: <sip:alice@example.com>\r\n\
        Call-ID: c\r\nCSeq: 1 SUBSCRIBE\r\nContact: <sip:bob@192.0.2.7>\r\n\
        Event: reg\r\nContent-Length: 0\r\n\r\n";

    fn subscription() -> Subscription {
        let message = Message::parse(SUBSCRIBE.as_bytes()).expect("sound");
        let (remote, local) = ("192.0.2.7:5070", "192.0.2.1:5060");
        let flow = Flow::udp(local.parse().unwrap(), remote.parse().unwrap());
        let request = Subscribe::read(&message, &WatchPolicy::default(), flow).expect("granted");
        let device = Name::new("sip:alice@example.com");
        Subscription::open(
            &request,
            device,
            "1-2",
            Advertised::default(),
            Instant::ZERO,
        )
    }

    #[test]
    fn a_watcher_has_an_expiry_timer_before_its_first_state() {
        let runtime = Runtime::simulated(1);
        let core = Core::simulated(&runtime, 10);
        let watcher = Arc::new(Watcher::new(
            1,
            "1-2",
            Holder::NOBODY,
            &core.watching,
            subscription(),
        ));
        core.watchers.insert(&watcher).expect("room");
        watcher.start(&core.watching);
        let state = watcher.lock();
        assert_eq!(state.expiry_timer.set_for(), state.subscription.deadline());
        assert!(state.expiry_timer.set_for().is_some());
    }
}
