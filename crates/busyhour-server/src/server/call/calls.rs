//! The proxy's requests and the dialogs, in shards by Call-ID.

mod admitting;
pub(in crate::server) mod elsewhere;
mod late;
mod relaying;
mod sending;

pub(in crate::server) use super::edge::ServerEdge;

use relaying::ShardMedia;

use super::{
    call_log::CallLog,
    checked::{Begin, Checked, Parties, Standing},
    permit::{CallRoom, NoRoom},
    probing::Probing,
    step_actions::{StepActions, with_actions},
    target::way_within,
    tracking::{Tracking, UnknownDialog},
    view::CallView,
};
use crate::server::{
    change::{changes::Changes, record},
    device::device_context::DeviceContext,
    dns::lookups::Lookups,
    expiry_timer::{ExpiryOptions, ExpiryTimer},
    media::relay_set::RelaySet,
    peer::peers::Peers,
    server_clock::ServerClock,
    sip::responder::Responder,
    stats::{
        CallStats,
        counters::Counter,
        latency::Latency,
        queues::SerializerListing,
        serializer_kind::{KindOptions, SerializerKind},
    },
    tenant::call_count,
};
use busyhour::{runtime::Runtime, serializer::Serializer, timer::Timers};
use busyhour_proxy::{
    Begun, EventKind, Inbound, LoopDetection, Policy, Proxy, Received, RequestRefusal,
    TransactionId,
    dialogs::{CallEvent, Carried, DialogPolicy, Dialogs, Party, ProbeOutcome, Role},
};
use busyhour_sip::{HeaderName, Message, Method, Status, UnreadRequest};
use foldhash::quality::FixedState;
use std::{
    hash::BuildHasher,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Every call of the server.
pub(in crate::server) struct Calls {
    pub(in crate::server) counters: CallCounters,
    pub(in crate::server) kind: SerializerKind,
    post_dial_delay: Latency,
    pub(super) shards: Box<[ProxyShard]>,
    pub(super) hasher: FixedState,
    edge: ServerEdge,
    loops: LoopDetection,
    pub(in crate::server) room: CallRoom,
    /// Besides, for what matters more than others: when there is no other room.
    emergency_room: CallRoom,
    within_room: CallRoom,
    bye_room: CallRoom,
    /// Calls of all shards. Concurrent threads may exceed the bound by one call each.
    call_count: AtomicUsize,
    log: Arc<CallLog>,
    pub(super) responder: Arc<Responder>,
    devices: Arc<DeviceContext>,
    pub(super) peers: Arc<Peers>,
    pub(super) lookups: Arc<Lookups>,
    pub(in crate::server) relays: Arc<RelaySet>,
    changes: Arc<Changes>,
    pub(super) clock: Arc<ServerClock>,
    timers: Timers,
}

/// What is counted of calls beside what the tables count.
#[derive(Debug, Default)]
pub(in crate::server) struct CallCounters {
    /// Requests for the proxy that were refused before it took them.
    pub(in crate::server) refused: Counter,
    /// Those of them for which there was no room among the requests of all calls.
    pub(in crate::server) refused_full: Counter,
    /// Those of them for which there was no memory among that of all calls.
    pub(in crate::server) refused_memory: Counter,
    /// Requests within a dialog whose route has no valid token.
    pub(in crate::server) untrusted_routes: Counter,
    /// Dialogs that were not asked whether they still live.
    pub(in crate::server) probes_left_out: Counter,
}

/// The bounds of the calls of a server.
pub(in crate::server) struct CallBounds {
    pub(in crate::server) policy: Policy,
    pub(in crate::server) dialogs: DialogPolicy,
    pub(in crate::server) room: CallRoom,
    /// Only for calls for help.
    pub(in crate::server) emergency_room: CallRoom,
    /// Only for requests within dialogs: new calls take nothing of it.
    pub(in crate::server) within_room: CallRoom,
    /// Only for BYE.
    pub(in crate::server) bye_room: CallRoom,
}

pub(super) struct ProxyShard {
    state: Mutex<ShardInner>,
    /// Where the expiry timer of the shard fires.
    serializer: Serializer,
}

pub(super) struct ShardInner {
    pub(super) proxy: Proxy<ServerEdge>,
    pub(super) dialogs: Dialogs,
    probing: Probing,
    pub(super) media: ShardMedia,
    expiry_timer: ExpiryTimer,
}

impl Calls {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        edge: ServerEdge,
        (seed, loops): (u64, LoopDetection),
        bounds: CallBounds,
        responder: Arc<Responder>,
        (devices, peers, lookups, relays): (
            Arc<DeviceContext>,
            Arc<Peers>,
            Arc<Lookups>,
            Arc<RelaySet>,
        ),
        (changes, clock, log): (Arc<Changes>, Arc<ServerClock>, Arc<CallLog>),
    ) -> Self {
        let buffers = runtime.buffers();
        let pool = buffers
            .owned_by("calls")
            .unwrap_or_else(|_| buffers.clone());
        let CallBounds {
            policy,
            dialogs,
            room,
            emergency_room,
            within_room,
            bye_room,
        } = bounds;
        let hasher = FixedState::with_seed(seed);
        let kind = SerializerKind::new(runtime, OPTIONS);
        let shard = |number: u16| ProxyShard {
            state: Mutex::new(ShardInner {
                proxy: Proxy::new(
                    policy.clone(),
                    edge.clone(),
                    pool.clone(),
                    loops.clone(),
                    hasher.hash_one(number),
                ),
                dialogs: Dialogs::new(hasher.hash_one((number, 0)), number, dialogs.clone()),
                probing: Probing::new(hasher.hash_one((number, 1))),
                media: ShardMedia::new(number, dialogs.calls_max, relays.refuses),
                expiry_timer: ExpiryTimer::default(),
            }),
            serializer: kind.ephemeral(),
        };
        Self {
            shards: (0..SHARDS as u16).map(shard).collect(),
            counters: CallCounters::default(),
            kind,
            post_dial_delay: Latency::new(),
            hasher: hasher.clone(),
            edge,
            loops,
            room,
            emergency_room,
            within_room,
            bye_room,
            call_count: AtomicUsize::new(0),
            log,
            responder,
            devices,
            peers,
            lookups,
            relays,
            changes,
            clock,
            timers: runtime.timers().clone(),
        }
    }

    pub(in crate::server) fn edge(&self) -> &ServerEdge {
        &self.edge
    }

    pub(super) fn loops(&self) -> &LoopDetection {
        &self.loops
    }

    pub(in crate::server) fn stats(&self) -> CallStats {
        let [p50, p99] = self.post_dial_delay.permille_ns([500, 990]);
        let mut stats = CallStats {
            post_dial_delay_p50_ns: p50,
            post_dial_delay_p99_ns: p99,
            refused: self.counters.refused.get(),
            untrusted_routes: self.counters.untrusted_routes.get(),
            probes_left_out: self.counters.probes_left_out.get(),
            refused_full: self.counters.refused_full.get(),
            refused_memory: self.counters.refused_memory.get(),
            charged_bytes: self.rooms().map(CallRoom::charged_bytes).iter().sum(),
            post_dial_delay: self.log.post_dial_delay().stats(),
            outcomes: self.log.outcome_stats(),
            records: self.log.stats(),
            ..CallStats::default()
        };
        for shard in &self.shards {
            let state = shard.lock();
            stats.proxy += &state.proxy.stats();
            stats.dialogs += &state.dialogs.stats();
        }
        stats
    }

    /// The calls that last, at most `limit` of them: those first that have been longest in
    /// their state. It visits every call, so it is meant for operators.
    pub(in crate::server) fn live(&self, limit: usize) -> Vec<CallView> {
        let mut live = Vec::new();
        for shard in &self.shards {
            live.extend(shard.lock().dialogs.live());
        }
        live.sort_unstable_by_key(|call| call.since);
        let now = self.clock.now();
        let views = live.iter().take(limit);
        views.map(|call| CallView::new(call, now)).collect()
    }

    /// Tells the calls of a shard to those who read changes; `false` if there is no such
    /// shard.
    pub(in crate::server) fn tell_states(&self, shard: usize) -> bool {
        let Some(shard) = self.shards.get(shard) else {
            return false;
        };
        let state = shard.lock();
        // What has no record would not be told to end.
        let calls = state.dialogs.live();
        for call in calls.filter(|call| call.has_record_to_come) {
            self.changes.calls.tell(|| record::live_call(&call, None));
        }
        true
    }

    /// What waits for the serializers of the shards' timers.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        let mut shards = self.kind.listing();
        for (number, shard) in self.shards.iter().enumerate() {
            shards.add(shard.serializer.stats(), || number.to_string());
        }
        shards
    }

    /// Takes a valid request: absorbs retransmissions and ACKs of refusals, and carries
    /// CANCEL out.
    pub(super) fn receive(self: &Arc<Self>, inbound: &Inbound<'_, '_>) -> Received {
        let now = self.clock.now();
        self.step(inbound.message, |state, out| {
            state.proxy.receive(now, inbound, &mut out.proxy)
        })
    }

    /// Whether a request is one that the proxy is responsible for.
    pub(super) fn knows(&self, request: &UnreadRequest<'_>) -> bool {
        let shard = &self.shards[self.shard_of_name(request.header(HeaderName::CallId))];
        shard.lock().proxy.knows(request)
    }

    /// Both sides of the dialog of a request, if it is known, and which of them sends.
    pub(super) fn parties(&self, request: &Message<'_>) -> Option<([Party; 2], Role)> {
        let shard = &self.shards[self.shard_of(request)];
        shard.lock().dialogs.parties(request)
    }

    /// Begins a request that was checked, and sends it to its targets.
    ///
    /// # Errors
    ///
    /// Why there is no room for it.
    pub(super) fn begin(self: &Arc<Self>, mut checked: Checked<'_, '_>) -> Result<Begin, NoRoom> {
        let Checked {
            inbound, routing, ..
        } = checked;
        let no_room = Status::SERVICE_UNAVAILABLE.code();
        let permit = self.permit(&checked);
        let permit = permit.inspect_err(|_| checked.span.answered(no_room))?;
        let now = self.clock.now();
        self.step(inbound.message, |state, out| {
            let standing = checked.standing(state.dialogs.sender(inbound.message));
            if standing == Standing::Stranger {
                return Ok(Begin::NotOfDialog);
            }
            let is_followed = standing == Standing::Party;
            let begun = state
                .proxy
                .begin(now, inbound, routing, permit, &mut out.proxy);
            match begun {
                Ok(Begun::New(transaction)) => {
                    Ok(self.forward(state, transaction, (checked, is_followed), out))
                }
                Ok(Begun::Known) => {
                    checked.span.discard();
                    Ok(Begin::Begun)
                }
                Err(RequestRefusal::Full) => {
                    self.counters.refused_full.increment();
                    checked.span.answered(no_room);
                    Err(NoRoom::Requests)
                }
                Err(refusal) => {
                    checked.span.answered(refusal.status().code());
                    self.counters.refused.increment();
                    state.proxy.refuse(inbound, &refusal, &mut out.proxy);
                    Ok(Begin::Refused(refusal.status(), checked.parties.caller()))
                }
            }
        })
    }

    fn forward(
        &self,
        state: &mut ShardInner,
        transaction: TransactionId,
        (checked, is_followed): (Checked<'_, '_>, bool),
        out: &mut StepActions,
    ) -> Begin {
        let Checked {
            inbound,
            located,
            parties,
            mut span,
            is_of_other_node,
            is_in_cluster,
            ..
        } = checked;
        let message = inbound.message;
        let is_bye = message.method() == Some(Method::Bye);
        let mut is_adopted = false;
        let at = self.clock.moment();
        let ShardInner {
            proxy,
            dialogs,
            media,
            ..
        } = state;
        let (tracking, caller, sender) = match parties {
            Parties::Outside(caller, account) => {
                let is_invite = message.method() == Some(Method::Invite);
                let party = caller.clone();
                let call = is_invite.then(|| {
                    let account = account.as_ref();
                    dialogs.invite(at, message, party, account, &mut out.dialogs)
                });
                let tracking = call.flatten().map_or(Tracking::None, Tracking::Call);
                (tracking, caller.clone(), caller)
            }
            Parties::Within(parties, sender) => {
                let [caller, callee] = parties.clone();
                let party = if sender == Role::Caller {
                    caller.clone()
                } else {
                    callee
                };
                let adopted = Some(Carried::Adopted);
                is_adopted = is_bye && dialogs.carried(message, &parties) == adopted;
                let mut follow =
                    || dialogs.request(at.now, message, inbound.flow, &mut out.dialogs);
                let tracking = match is_followed {
                    false => Tracking::Spiral,
                    true => match follow() {
                        Some(known) => Tracking::Within(known),
                        // Two nodes would believe that they carry it, and one would be told how
                        // it ends.
                        None if is_of_other_node && !is_bye => Tracking::None,
                        None => {
                            let mut unknown = UnknownDialog::new(parties, sender, inbound.flow);
                            unknown.notice = is_in_cluster.then(|| inbound.datagram.clone());
                            Tracking::Unknown(unknown.into())
                        }
                    },
                };
                // Another's call may have the same Call-ID.
                let is_alone = || !message.call_id().is_ok_and(|it| dialogs.lasts(it));
                let is_unknown = matches!(tracking, Tracking::Unknown(_));
                // What was adopted may use a relay that is not known here.
                if is_bye && (is_unknown || is_adopted) && is_alone() {
                    let relays = self.relays.relays();
                    media.ended_by(at.now, message, relays, &mut out.media);
                }
                (tracking, caller, party)
            }
        };
        if located.lookup.is_some() {
            span.step("DNS");
        }
        let begun = match tracking {
            Tracking::Unknown(_) if is_bye => Begin::EndsElsewhere,
            Tracking::Within(_) if is_bye && is_adopted => Begin::EndsElsewhere,
            _ => Begin::Begun,
        };
        if let Some(permit) = proxy.data_mut(transaction) {
            permit.span = span;
            permit.tracking = tracking;
            permit.is_believed = self.peers.believes(&sender);
            permit.set_parties(caller, sender, located.called);
        }
        match located.lookup {
            None => proxy.forward(at.now, transaction, located.targets, &mut out.proxy),
            Some(lookup) => out.lookups.push((transaction, lookup)),
        }
        self.wait_for(located.asleep, message, transaction);
        begun
    }

    /// Forwards the ACK of a 2xx, which nobody answers.
    pub(super) fn forward_ack(self: &Arc<Self>, checked: &Checked<'_, '_>) {
        let Checked {
            inbound, routing, ..
        } = *checked;
        let Some(target) = checked.located.targets.targets.first() else {
            return;
        };
        let (now, way) = (self.clock.now(), target.hops.first_way());
        self.step(inbound.message, |state, out| {
            match checked.standing(state.dialogs.sender(inbound.message)) {
                Standing::Stranger => return self.counters.untrusted_routes.increment(),
                Standing::Spiral | Standing::Rival => {}
                // Whoever sends it from elsewhere has not proved who he is.
                Standing::Party if !checked.is_at_home => {}
                Standing::Party => {
                    let (message, flow) = (inbound.message, inbound.flow);
                    let _ack = state.dialogs.request(now, message, flow, &mut out.dialogs);
                }
            }
            state
                .proxy
                .forward_ack(inbound, routing, way, &mut out.proxy);
        });
    }

    /// Answers a request that the proxy does not take.
    pub(super) fn refuse(self: &Arc<Self>, inbound: &Inbound<'_, '_>, refusal: &RequestRefusal) {
        self.counters.refused.increment();
        if !self.responder.may_answer(inbound.flow) {
            return;
        }
        self.step(inbound.message, |state, out| {
            state.proxy.refuse(inbound, refusal, &mut out.proxy);
        });
    }

    /// Runs `act` on the shard of a message's Call-ID, then does what follows.
    fn step<R>(
        self: &Arc<Self>,
        message: &Message<'_>,
        act: impl FnOnce(&mut ShardInner, &mut StepActions) -> R,
    ) -> R {
        self.step_in(self.shard_of(message), Some(message), act)
    }

    /// Something happened to the relayed calls of a shard.
    pub(super) fn step_in_shard(
        self: &Arc<Self>,
        index: usize,
        act: impl FnOnce(&mut ShardMedia, &mut StepActions),
    ) {
        if index < SHARDS {
            self.step_in(index, None, |state, out| act(&mut state.media, out));
        }
    }

    pub(super) fn step_in<R>(
        self: &Arc<Self>,
        index: usize,
        message: Option<&Message<'_>>,
        act: impl FnOnce(&mut ShardInner, &mut StepActions) -> R,
    ) -> R {
        self.step_then(index, message, act, |result, _| result)
    }

    /// `then` sees what follows from the step before it is done.
    fn step_then<R, T>(
        self: &Arc<Self>,
        index: usize,
        message: Option<&Message<'_>>,
        act: impl FnOnce(&mut ShardInner, &mut StepActions) -> R,
        then: impl FnOnce(R, &mut StepActions) -> T,
    ) -> T {
        with_actions(|out| {
            let mut state = self.shards[index].lock();
            let before = state.dialogs.len();
            let all = &self.call_count;
            let others = all.load(Ordering::Relaxed).saturating_sub(before);
            state.dialogs.set_others(others);
            let result = act(&mut state, out);
            self.conclude(&mut state, message, out);
            self.hold_for_relays(&mut state, message, out);
            let after = state.dialogs.len();
            match after >= before {
                true => all.fetch_add(after - before, Ordering::Relaxed),
                false => all.fetch_sub(before - after, Ordering::Relaxed),
            };
            self.set_timer(index, &mut state);
            drop(state);
            let result = then(result, out);
            self.send(index, out);
            result
        })
    }

    /// Tells the dialogs what happened to requests, and the devices what became of their
    /// dialogs.
    fn conclude(
        &self,
        state: &mut ShardInner,
        message: Option<&Message<'_>>,
        out: &mut StepActions,
    ) {
        let ShardInner {
            proxy,
            dialogs,
            probing,
            media,
            ..
        } = state;
        let now = self.clock.now();
        for event in out.proxy.take_events() {
            if let Some(permit) = proxy.data(event.transaction) {
                let called = |label| permit.called(label);
                self.peers.note(event.kind, called);
                let failure = self.peers.way_failure(event.kind, called, permit.caller());
                out.way_failures.extend(failure);
                let tracking = &permit.tracking;
                let times = (now, || self.clock.moment());
                let is_adopted =
                    tracking.tell(dialogs, times, &event, called, message, &mut out.dialogs);
                if let (true, Tracking::Unknown(known)) = (is_adopted, tracking) {
                    out.adopted = known.notice.clone();
                }
                if is_adopted && let Some(permit) = proxy.data_mut(event.transaction) {
                    // What comes again of the response adopts nothing that another node keeps.
                    permit.tracking = Tracking::None;
                }
            }
            let held_bytes = proxy.held_bytes(event.transaction) as u64;
            if let Some(permit) = proxy.data_mut(event.transaction) {
                permit.span.follow(event.kind);
                permit.note(is_final(event.kind), held_bytes);
            }
        }
        proxy.drop_ended();
        for change in out.dialogs.changes.drain(..) {
            self.devices.apply_dialog(change);
        }
        let mut not_asked = Vec::new();
        for probe in out.dialogs.probes.drain(..) {
            let device = self.devices.table.find(&probe.device);
            let bindings = device.map(|device| device.active_bindings(now));
            let way = way_within(&probe.uri, probe.flow, &bindings.unwrap_or_default());
            if !probing.begin(now, &probe, &way, &self.edge) {
                not_asked.push(probe.id);
            }
        }
        for probe in not_asked {
            self.counters.probes_left_out.increment();
            // Who is not asked is believed to know its dialog.
            let outcome = ProbeOutcome::Answered(Status::OK.code());
            dialogs.probed(now, probe, outcome, &mut out.dialogs);
        }
        self.end_relayed(media, out);
        if !out.dialogs.calls.is_empty() {
            self.tell_calls(&mut out.dialogs.calls);
        }
    }

    /// Tells what became of calls in the order in which it did: a new call may end the last
    /// one that had its names.
    fn tell_calls(&self, events: &mut Vec<CallEvent>) {
        call_count::count(&self.devices.accounts.tenants, events);
        for event in &*events {
            self.changes.calls.tell(|| match event {
                CallEvent::Began(call) => record::live_call(call, Some("began")),
                CallEvent::Answered(call) => record::live_call(call, Some("answered")),
                CallEvent::Ended(record) => record::ended_call(record),
            });
        }
        let records: Vec<_> = events
            .drain(..)
            .filter_map(CallEvent::into_record)
            .collect();
        for delay in records.iter().filter_map(|record| record.post_dial_delay) {
            self.post_dial_delay.record(delay);
        }
        if !records.is_empty() {
            self.log.note(records);
        }
    }

    fn set_timer(self: &Arc<Self>, index: usize, state: &mut ShardInner) {
        let deadlines = [
            state.proxy.next_deadline(),
            state.dialogs.next_deadline(),
            state.probing.next_deadline(),
            state.media.next_deadline(),
        ];
        let Some(deadline) = deadlines.into_iter().flatten().min() else {
            return;
        };
        let calls = Arc::downgrade(self);
        let fire = move || {
            if let Some(calls) = calls.upgrade() {
                calls.expire(index);
            }
        };
        let serializer = &self.shards[index].serializer;
        let timer = &mut state.expiry_timer;
        let set = timer.set(deadline, EXPIRY, &self.timers, serializer, fire);
        if set.is_err() {
            self.responder.traffic.refused_table_full.increment();
        }
    }

    fn expire(self: &Arc<Self>, index: usize) {
        let now = self.clock.now();
        self.shards[index].lock().expiry_timer.fired(now);
        self.step_in(index, None, |state, out| {
            state.proxy.expire(now, &mut out.proxy);
            state.dialogs.expire(now, &mut out.dialogs);
            let relays = self.relays.relays();
            state.media.expire(now, relays, &mut out.media);
            let ShardInner {
                probing, dialogs, ..
            } = state;
            let silent = probing.expire(now, |flow, datagram| {
                let datagram = self.responder.write(|out| out.extend_from_slice(datagram));
                out.probes.extend(datagram.map(|datagram| (flow, datagram)));
            });
            for probe in silent {
                dialogs.probed(now, probe, ProbeOutcome::Silent, &mut out.dialogs);
            }
        });
    }
}

impl ProxyShard {
    pub(super) fn lock(&self) -> MutexGuard<'_, ShardInner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the request needs only what it sends again.
fn is_final(event: EventKind) -> bool {
    matches!(
        event,
        EventKind::Answered { is_first: true, .. }
            | EventKind::Refused { .. }
            | EventKind::Unanswered
    )
}

/// The shortest time of a transaction is 500 ms, and an estimate.
const EXPIRY: ExpiryOptions = ExpiryOptions {
    label: "calls",
    slack: Duration::from_millis(100),
};
/// A shard has one timer.
const OPTIONS: KindOptions = KindOptions {
    name: "call",
    low: 1,
    high: 4,
    unlabelled: "timer of calls",
};
/// More than threads, so that two threads seldom wait for each other.
pub(in crate::server) const SHARDS: usize = 64;
