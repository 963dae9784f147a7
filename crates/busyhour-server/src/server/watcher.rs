//! One watcher: its subscription, its feed from the bus, its timer.
//!
//! Everything here runs on the watcher's serializer: requests, responses,
//! states from the bus and the alarm, so NOTIFY requests leave in order.

use super::{alarm::Alarm, core::Core, counters::Counter, job::Arrival};
use crate::{
    proto::sip::Message,
    registrar::Refusal,
    watch::{DeviceState, End, Subscribe, Subscription, write_accepted},
};
use busyhour::{
    bus::{self, Delivery},
    serializer::Serializer,
};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// A subscription and what drives it.
pub(super) struct Watcher {
    id: u64,
    tag: Box<str>,
    serializer: Serializer,
    core: Weak<Core>,
    state: Mutex<State>,
}

struct State {
    subscription: Subscription,
    feed: Option<bus::Subscription<DeviceState>>,
    alarm: Alarm,
    is_over: bool,
}

impl Watcher {
    pub(super) fn new(id: u64, tag: &str, core: &Arc<Core>, subscription: Subscription) -> Self {
        Self {
            id,
            tag: tag.into(),
            serializer: core.runtime().pool().ephemeral(),
            core: Arc::downgrade(core),
            state: Mutex::new(State {
                subscription,
                feed: None,
                alarm: Alarm::default(),
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

    /// The tag of a new watcher: its id, and what nobody can guess.
    pub(super) fn make_tag(id: u64, secret: u64) -> String {
        format!("{id:x}-{secret:016x}")
    }

    pub(super) fn id_in_tag(tag: &str) -> Option<u64> {
        let (id, _) = tag.split_once('-')?;
        u64::from_str_radix(id, 16).ok()
    }

    /// Requests and responses that wait for the serializer.
    pub(super) fn queued_len(&self) -> usize {
        self.serializer.len()
    }

    /// Starts the feed: the state there is, then every change.
    pub(super) fn start(self: &Arc<Self>, core: &Core) {
        let watcher = Arc::downgrade(self);
        let device = self.lock().subscription.device().clone();
        let feed = core.states().subscribe().key(device).replay().conflate();
        let feed = feed.on(&self.serializer).start(move |delivery| {
            if let Some(watcher) = watcher.upgrade() {
                watcher.hear(&delivery);
            }
        });
        let mut state = self.lock();
        match state.is_over {
            false => state.feed = Some(feed),
            true => {
                drop(state);
                feed.unsubscribe();
            }
        }
    }

    /// Sends a SUBSCRIBE of this dialog to the serializer; `false` when it takes no more.
    pub(super) fn push(self: &Arc<Self>, arrival: Arrival) -> bool {
        let watcher = self.clone();
        let pushed = self.serializer.try_push(move || watcher.arrive(&arrival));
        pushed.is_ok()
    }

    /// Sends the fate of a NOTIFY to the serializer; `false` when it takes no more.
    pub(super) fn push_answer(self: &Arc<Self>, cseq: u32, status: u16) -> bool {
        let watcher = self.clone();
        let pushed = self
            .serializer
            .try_push(move || watcher.answered(cseq, status));
        pushed.is_ok()
    }

    /// Ends the subscription with a last NOTIFY.
    pub(super) fn push_end(self: &Arc<Self>, end: End) {
        let watcher = self.clone();
        // One that takes no more is shut down already.
        let _ = self
            .serializer
            .try_push(move || watcher.with(|_, state| state.subscription.end(end)));
    }

    fn hear(self: &Arc<Self>, delivery: &Delivery<'_, DeviceState>) {
        self.with(|core, state| {
            let subscription = &mut state.subscription;
            let replaced = match delivery {
                Delivery::Event(device) => subscription.device_is(Some((*device).clone())),
                Delivery::Cleared(_) => subscription.device_is(None),
                Delivery::Replayed => subscription.nothing_more_is_known(),
                Delivery::Lost(_) => false,
            };
            core.counters().watch.conflated.add(u64::from(replaced));
        });
    }

    fn arrive(self: &Arc<Self>, arrival: &Arrival) {
        self.with(|core, state| {
            // It was parsed when it arrived, so it parses again.
            let Ok(message) = Message::parse(&arrival.datagram) else {
                return;
            };
            match self.refresh(core, state, &message, arrival) {
                Ok(()) => core.counters().watch.refreshed.increment(),
                Err(refusal) => {
                    core.refuse_subscription(&message, arrival.flow, arrival.transaction, &refusal)
                }
            }
        });
    }

    fn refresh(
        &self,
        core: &Core,
        state: &mut State,
        message: &Message<'_>,
        arrival: &Arrival,
    ) -> Result<(), Refusal> {
        if state.is_over {
            return Err(Refusal::NoSubscription);
        }
        let subscribe = Subscribe::read(message, &core.config().watch, arrival.flow)?;
        state.subscription.refresh(&subscribe, core.now())?;
        let source = arrival.flow.remote;
        let subscription = &state.subscription;
        let answer = core.write(|out| {
            write_accepted(out, message, subscription, subscribe.granted_s, source);
        });
        if let Some(answer) = answer {
            let flow = core.answer_flow(message, arrival.flow);
            core.answer(arrival.transaction, flow, answer);
        }
        Ok(())
    }

    fn answered(self: &Arc<Self>, cseq: u32, status: u16) {
        self.with(|core, state| {
            let counters = core.counters();
            match state.subscription.answered(cseq, status) {
                false => counters.traffic.stray_responses.increment(),
                true if (200..300).contains(&status) => counters.watch.confirmed.increment(),
                true => {}
            }
        });
    }

    fn ring(self: Arc<Self>) {
        self.with(|core, state| state.alarm.rang(core.now()));
    }

    /// Does something, and then what follows from it: sends what is owed, sets
    /// the alarm, or ends.
    fn with(self: &Arc<Self>, event: impl FnOnce(&Core, &mut State)) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let mut state = self.lock();
        event(&core, &mut state);
        if state.is_over {
            return;
        }
        self.send(&core, &mut state);
        if let Some(end) = state.subscription.ended() {
            let feed = self.close(&core, &mut state, end);
            drop(state);
            // Outside the lock: the feed may be what called us.
            return drop(feed);
        }
        self.set_alarm(&core, &mut state);
    }

    fn send(&self, core: &Core, state: &mut State) {
        let counters = &core.counters().watch;
        let subscription = &mut state.subscription;
        while let Some(sent) = core.poll(subscription) {
            let counter: &Counter = match sent.is_again {
                true => &counters.retransmitted,
                false => &counters.notified,
            };
            counter.increment();
            core.send(subscription.dialog().flow(), sent.datagram);
        }
    }

    fn set_alarm(self: &Arc<Self>, core: &Core, state: &mut State) {
        let Some(deadline) = state.subscription.deadline() else {
            return;
        };
        let watcher = Arc::downgrade(self);
        let ring = move || {
            if let Some(watcher) = watcher.upgrade() {
                watcher.ring();
            }
        };
        let timers = core.runtime().timers();
        let set = state
            .alarm
            .set(deadline, "watcher", timers, &self.serializer, ring);
        if set.is_err() {
            core.counters().traffic.refused_table_full.increment();
        }
    }

    fn close(
        &self,
        core: &Core,
        state: &mut State,
        end: End,
    ) -> Option<bus::Subscription<DeviceState>> {
        let counters = &core.counters().watch;
        match end {
            End::Unsubscribed => counters.unsubscribed.increment(),
            End::Expired => counters.expired.increment(),
            End::Refused(_) | End::Unanswered => counters.given_up.increment(),
            End::Deactivated => {}
        }
        state.is_over = true;
        state.alarm.clear(core.runtime().timers());
        core.watchers().remove(self.id);
        state.feed.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
