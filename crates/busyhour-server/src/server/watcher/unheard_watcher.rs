//! A watcher that has answered no NOTIFY yet is sent few copies of the first one, since it may not be there. It is sent some
//! more when its SUBSCRIBE comes again, and when the path to the node through which it is reached opens again:
//! what was sent meanwhile is lost. `busyhour-registrar/src/watch/notifier/subscription/notify_loss.rs` says how many.
//!
//! When NATS is back, so are the ways to all other nodes, and whoever is reached through one and has not answered what was sent
//! is told anew. For that all watchers are looked at, a part in each turn of the serializer for live states, so that no turn takes
//! long; only those have a turn of their own that have something to be told.

use super::{Inner, Watcher, watcher_context::WatcherContext, watchers::Watchers};
use crate::server::core::Core;
use busyhour::{buffer::Buffer, task::Task};
use busyhour_sip::{Flow, Message, Method};
use std::sync::Arc;

impl Core {
    /// A request has come again that has this answer.
    pub(in crate::server) fn asked_again(
        &self,
        request: &Message<'_>,
        flow: Flow,
        answer: &Buffer,
    ) {
        if flow.transport.is_reliable() || request.method() != Some(Method::Subscribe) {
            return;
        }
        let Ok(answer) = Message::parse(answer) else {
            return;
        };
        let to = answer.to().ok();
        let watcher = to.and_then(|to| self.watchers.find(to.tag()?));
        // Whatever its queue has leads to a NOTIFY as well.
        if let Some(watcher) = watcher.filter(|it| !self.is_flooded(it.queued_len())) {
            watcher.push_asked_again();
        }
    }
}

impl Watchers {
    /// This node is reached again. Only those that are reached through it and have answered nothing are looked at.
    pub(in crate::server) fn path_is_open(&self, node: u16) {
        let through_it = self.unheard.of(node);
        through_it.iter().for_each(Watcher::push_asked_again);
    }

    /// NATS is back: what was sent through other nodes meanwhile may be lost. Looks at the watchers of one [part](Self::PARTS).
    pub(in crate::server) fn way_is_open(&self, part: usize) {
        for watcher in self.part(part) {
            if watcher.waits_elsewhere(self) {
                watcher.push_way_is_open();
            }
        }
    }
}

impl Watcher {
    /// Enters the node through which datagrams reach it while it has answered none.
    pub(super) fn follow_path(self: &Arc<Self>, context: &WatcherContext, state: &mut Inner) {
        let (watchers, flow) = (&context.watchers, state.subscription.dialog().flow());
        let is_one = watchers.is_elsewhere(flow.node) && !flow.transport.is_reliable();
        let is_followed = is_one && !state.subscription.is_heard() && !state.is_over;
        let now = is_followed.then_some(flow.node);
        let before = std::mem::replace(&mut state.unheard_at, now);
        if before != now {
            before.inspect(|node| watchers.unheard.leave(*node, self));
            now.inspect(|node| watchers.unheard.enter(*node, self));
        }
    }

    pub(super) fn leave_path(&self, context: &WatcherContext, state: &mut Inner) {
        if let Some(node) = state.unheard_at.take() {
            context.watchers.unheard.leave(node, self);
        }
    }

    fn push_asked_again(self: &Arc<Self>) {
        if !self.is_unheard() {
            return;
        }
        let watcher = self.clone();
        let ask = move || {
            watcher.with(|context, state| state.subscription.asked_again(context.clock.now()));
        };
        self.push_task(Task::labelled(&"SUBSCRIBE again", ask));
    }

    /// What was sent to it may be lost, and it is reached again.
    fn push_way_is_open(self: &Arc<Self>) {
        let watcher = self.clone();
        let tell = move || {
            watcher.with(|context, state| state.subscription.way_is_open(context.clock.now()));
        };
        self.push_task(Task::labelled(&"way is open", tell));
    }

    /// It is reached through another node, and has not answered all that was to be sent.
    fn waits_elsewhere(&self, watchers: &Watchers) -> bool {
        let state = self.lock();
        let subscription = &state.subscription;
        watchers.is_elsewhere(subscription.dialog().flow().node) && subscription.is_unanswered()
    }

    /// A NOTIFY waits for its answer, and none was answered before.
    fn is_unheard(&self) -> bool {
        let state = self.lock();
        !state.subscription.is_heard() && state.subscription.outstanding_len() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::load::shares::Holder;
    use busyhour::{bus::Name, clock::Instant, runtime::Runtime};
    use busyhour_registrar::{
        Advertised,
        watch::{Subscribe, Subscription, WatchPolicy},
    };
    use busyhour_sip::Transport;
    use std::time::Duration;

    const SUBSCRIBE: &str = "SUBSCRIBE sip:alice@example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bK1\r\n\
        From: <sip:bob@example.com>;tag=b\r\nTo: <sip:alice@example.com>\r\n\
        Call-ID: c\r\nCSeq: 1 SUBSCRIBE\r\nContact: <sip:bob@192.0.2.7>\r\n\
        Event: reg\r\nContent-Length: 0\r\n\r\n";

    /// It is reached through node 2, and has been sent its first NOTIFY.
    fn watcher(core: &Arc<Core>, runtime: &Runtime, transport: Transport) -> Arc<Watcher> {
        let message = Message::parse(SUBSCRIBE.as_bytes()).expect("sound");
        let [local, remote] = ["192.0.2.1:5060", "192.0.2.7:5070"].map(|it| it.parse().unwrap());
        let flow = Flow {
            transport,
            node: 2,
            ..Flow::udp(local, remote)
        };
        let request = Subscribe::read(&message, &WatchPolicy::default(), flow).expect("granted");
        let alice = Name::new("sip:alice@example.com");
        let subscription =
            Subscription::open(&request, alice, "1-2", Advertised::default(), Instant::ZERO);
        let holder = Holder::NOBODY;
        let watcher = Watcher::new(1, "1-2", holder, &core.watching, subscription);
        let watcher = Arc::new(watcher);
        core.watchers.insert(&watcher).expect("room");
        watcher.start(&core.watching);
        let simulation = runtime.simulation().expect("it is one");
        simulation.run_for(Duration::from_millis(1));
        watcher
    }

    #[test]
    fn when_nats_is_back_who_has_not_answered_is_told_anew_and_nobody_else_has_a_turn() {
        let runtime = Runtime::simulated(1);
        let core = Core::simulated(&runtime, 10);
        let watcher = watcher(&core, &runtime, Transport::Tcp);
        let open = || {
            (0..Watchers::PARTS).for_each(|part| core.watchers.way_is_open(part));
            let queued = watcher.strand.len();
            let simulation = runtime.simulation().expect("it is one");
            simulation.run_for(Duration::from_millis(1));
            (queued, core.watchers.stats().notified)
        };
        assert_eq!(core.watchers.stats().notified, 1);
        assert_eq!([open(), open()], [(1, 2), (1, 3)]);
        watcher.push_answer(3, 200);
        let simulation = runtime.simulation().expect("it is one");
        simulation.run_for(Duration::from_millis(1));
        assert_eq!(open(), (0, 3));
    }

    #[test]
    fn who_is_reached_through_a_node_is_told_when_the_path_to_it_opens_again() {
        let runtime = Runtime::simulated(1);
        let core = Core::simulated(&runtime, 10);
        let watcher = watcher(&core, &runtime, Transport::Udp);
        let simulation = runtime.simulation().expect("it is one");
        let copies = || {
            simulation.run_for(Duration::from_secs(4));
            core.watchers.stats().retransmitted
        };
        assert_eq!([copies(), copies()], [3, 3]);
        core.watchers.path_is_open(3);
        assert_eq!(copies(), 3, "another node");
        core.watchers.path_is_open(2);
        assert_eq!(copies(), 6);
        assert_eq!(core.watchers.unheard.of(2).len(), 1);
        watcher.push_answer(1, 200);
        core.watchers.path_is_open(2);
        assert_eq!(copies(), 6, "it has answered");
        assert!(core.watchers.unheard.of(2).is_empty(), "nobody looks at it");
    }
}
