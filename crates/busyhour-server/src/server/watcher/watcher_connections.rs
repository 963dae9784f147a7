//! Which watchers are told over which connection of a cluster's nodes, so that they are found when it ends.
//!
//! A watcher enters its connection before its SUBSCRIBE is answered, and the answer says whether a connection of this node still
//! stands. One of another node is asked for then, or cannot take the first NOTIFY, and that node tells so.

use super::{Inner, Watcher, watcher_context::WatcherContext, watcher_index::WatcherIndex};
use busyhour::task::{Executor, Task};
use busyhour_sip::Flow;
use std::sync::Arc;

/// Watchers by their connections.
pub(in crate::server) struct WatcherConnections {
    watchers: WatcherIndex<Flow>,
}

impl WatcherConnections {
    pub(super) fn new(seed: u64) -> Self {
        let watchers = WatcherIndex::new(seed);
        Self { watchers }
    }

    /// The connection of a flow, whose end has to be known: a server alone sees it when it sends.
    pub(super) fn of(flow: Flow) -> Option<Flow> {
        let is_one = flow.transport.is_reliable() && flow.connection != 0 && flow.node != 0;
        is_one.then_some(flow)
    }

    /// The connection is gone: those that were told over it.
    pub(super) fn end(&self, flow: Flow) -> Vec<Arc<Watcher>> {
        self.watchers.take(flow)
    }

    /// The connections of a node over which watchers are told.
    pub(in crate::server) fn of_node(&self, node: u16) -> Vec<Flow> {
        self.watchers.keys(|flow| flow.node == node)
    }
}

impl Watcher {
    /// This connection has ended.
    pub(super) fn push_connection_ended(self: &Arc<Self>, flow: Flow) {
        let watcher = self.clone();
        let end = move || {
            watcher.with(|context, state| watcher.cut_off(context, state, flow));
        };
        // There is one of these for each connection. It is refused only when the server ends.
        let task = Task::labelled(&"end of a connection", end);
        let _ = self.strand.execute_unbounded(task);
    }

    /// This connection has ended. Whoever subscribes over it again after all enters it again.
    pub(super) fn cut_off(
        self: &Arc<Self>,
        context: &WatcherContext,
        state: &mut Inner,
        flow: Flow,
    ) {
        // A server alone sees it when it sends.
        if WatcherConnections::of(flow).is_some() {
            let is_cut = state.subscription.connection_ended(flow);
            context.watchers.counters.cut.add(u64::from(is_cut));
            self.follow_connection(context, state);
        }
    }

    /// Enters the connection that it is on now, before anything is sent over it.
    pub(super) fn follow_connection(self: &Arc<Self>, context: &WatcherContext, state: &mut Inner) {
        let subscription = &state.subscription;
        let now = WatcherConnections::of(subscription.dialog().flow());
        let now = now.filter(|_| !subscription.is_cut() && !state.is_over);
        let before = state.connection.as_deref().copied();
        if before != now {
            state.connection = now.map(Box::new);
            let connections = &context.watchers.connections.watchers;
            before.inspect(|flow| connections.leave(*flow, self));
            now.inspect(|flow| connections.enter(*flow, self));
        }
    }

    pub(super) fn leave_connection(&self, context: &WatcherContext, state: &mut Inner) {
        if let Some(flow) = state.connection.take() {
            context.watchers.connections.watchers.leave(*flow, self);
        }
    }

    pub(super) fn connection(self: &Arc<Self>) -> Option<Flow> {
        self.lock().connection.as_deref().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{core::Core, load::shares::Holder};
    use busyhour::{bus::Name, clock::Instant, runtime::Runtime};
    use busyhour_registrar::{
        Advertised,
        watch::{Subscribe, Subscription, WatchPolicy},
    };
    use busyhour_sip::{Message, Transport};
    use std::time::Duration;

    const SUBSCRIBE: &str = "SUBSCRIBE sip:alice@example.com SIP/2.0\r\n\
        Via: SIP/2.0/TCP 192.0.2.7:5070;branch=z9hG4bK1\r\n\
        From: <sip:bob@example.com>;tag=b\r\nTo: <sip:alice@example.com>\r\n\
        Call-ID: c\r\nCSeq: 1 SUBSCRIBE\r\nContact: <sip:bob@192.0.2.7;transport=tcp>\r\n\
        Event: reg\r\nContent-Length: 0\r\n\r\n";

    /// An end that was told by mistake is not the last one of that connection.
    #[test]
    fn a_watcher_that_was_cut_and_is_on_its_connection_again_is_found_again() {
        let runtime = Runtime::simulated(1);
        let core = Core::simulated(&runtime, 10);
        let message = Message::parse(SUBSCRIBE.as_bytes()).expect("sound");
        let [local, remote] = ["192.0.2.1:5060", "192.0.2.7:5070"].map(|it| it.parse().unwrap());
        let flow = Flow {
            transport: Transport::Tcp,
            connection: 7,
            node: 2,
            ..Flow::udp(local, remote)
        };
        let request = Subscribe::read(&message, &WatchPolicy::default(), flow).expect("granted");
        let alice = Name::new("sip:alice@example.com");
        let subscription =
            Subscription::open(&request, alice, "1-2", Advertised::default(), Instant::ZERO);
        let watcher = Watcher::new(1, "1-2", Holder::NOBODY, &core.watching, subscription);
        let watcher = Arc::new(watcher);
        core.watchers.insert(&watcher).expect("room");
        watcher.start(&core.watching);
        let simulation = runtime.simulation().expect("it is one");
        let ends = || {
            core.watchers.connection_ended(flow);
            simulation.run_for(Duration::from_secs(1));
            (
                core.watchers.stats().cut,
                core.watchers.connections.of_node(2).len(),
            )
        };
        assert_eq!([ends(), ends()], [(1, 0), (1, 0)]);
        watcher.with(|_, state| state.subscription.connection_stands());
        assert_eq!(core.watchers.connections.of_node(2), [flow]);
        assert_eq!(ends(), (2, 0));
    }

    #[test]
    fn watchers_are_found_by_the_connection_that_they_are_on_now() {
        let runtime = Runtime::simulated(1);
        let core = Core::simulated(&runtime, 10);
        let address = std::net::SocketAddr::from(([192, 0, 2, 1], 5060));
        let flow = |connection, node| Flow {
            transport: Transport::Tls,
            connection,
            node,
            ..Flow::udp(address, address)
        };
        assert_eq!(WatcherConnections::of(Flow::udp(address, address)), None);
        assert_eq!(WatcherConnections::of(flow(7, 0)), None);
        let (one, other) = (flow(7, 2), flow(8, 2));
        assert_eq!(WatcherConnections::of(one), Some(one));
        let connections = WatcherConnections::new(1);
        // Two of them have one id.
        let watchers = [1, 1, 3].map(|id| {
            let message = Message::parse(SUBSCRIBE.as_bytes()).expect("sound");
            let request = Subscribe::read(&message, &WatchPolicy::default(), one).expect("granted");
            let alice = Name::new("sip:alice@example.com");
            let advertised = Advertised::default();
            let subscription =
                Subscription::open(&request, alice, "1-2", advertised, Instant::ZERO);
            let watcher = Watcher::new(id, "1-2", Holder::NOBODY, &core.watching, subscription);
            Arc::new(watcher)
        });
        let index = &connections.watchers;
        for watcher in &watchers {
            index.enter(one, watcher);
        }
        let [first, second, third] = &watchers;
        index.leave(one, first);
        index.enter(other, first);
        assert_eq!(connections.of_node(2).len(), 2);
        assert!(connections.of_node(3).is_empty());
        let ended = connections.end(one);
        assert!(
            ended
                .iter()
                .zip([second, third])
                .all(|(it, expected)| Arc::ptr_eq(it, expected))
        );
        assert_eq!(ended.len(), 2);
        assert!(connections.end(one).is_empty());
        index.leave(one, third);
        index.leave(other, first);
        assert!(connections.of_node(2).is_empty());
    }
}
