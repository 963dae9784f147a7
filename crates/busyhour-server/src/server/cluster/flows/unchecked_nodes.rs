//! What was not learned of other nodes' connections, and is asked for again.

use busyhour::clock::Instant;
use busyhour_sip::Flow;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};

/// Nodes that are asked again, for all of their connections or for some.
#[derive(Default)]
pub(in crate::server::cluster) struct UncheckedNodes {
    nodes: BTreeSet<u16>,
    flows: HashSet<Flow>,
    not_before: Instant,
    /// Nodes that do not live, as far as is known, and since when it matters whether that is so.
    doubted: BTreeMap<u16, Instant>,
}

impl UncheckedNodes {
    /// A node has not said which of its connections stand.
    pub(in crate::server::cluster) fn ask(&mut self, node: u16) {
        self.nodes.insert(node);
    }

    /// Nobody has said whether this connection stands.
    pub(in crate::server::cluster) fn ask_for(&mut self, flow: Flow) {
        match self.flows.len() < FLOWS_MAX {
            true => drop(self.flows.insert(flow)),
            false => drop(self.nodes.insert(flow.node)),
        }
    }

    /// A node does not live, as far as is known.
    pub(in crate::server::cluster) fn doubt(&mut self, node: u16, now: Instant) {
        self.doubted.insert(node, now);
    }

    /// The nodes, and connections of others, that are asked for now: at most once a second.
    pub(in crate::server::cluster) fn take(
        &mut self,
        now: Instant,
    ) -> (BTreeSet<u16>, HashSet<Flow>) {
        if now < self.not_before {
            return Default::default();
        }
        self.not_before = now + PAUSE;
        let nodes = std::mem::take(&mut self.nodes);
        let mut flows = std::mem::take(&mut self.flows);
        flows.retain(|flow| !nodes.contains(&flow.node));
        (nodes, flows)
    }

    /// Those of which a view that was read then knows more, and whether they live. A node that was asked has had as long
    /// as `patience` to answer.
    pub(in crate::server::cluster) fn settle(
        &mut self,
        read_at: Instant,
        live: &BTreeSet<u16>,
        patience: Duration,
    ) -> Vec<(u16, bool)> {
        // A view under way may be older than the life of a node that was asked just now.
        for node in self.nodes.extract_if(.., |node| !live.contains(node)) {
            self.doubted.insert(node, read_at + patience);
        }
        let known = self.doubted.iter().filter(|(_, since)| read_at >= **since);
        let known: Vec<u16> = known.map(|(node, _)| *node).collect();
        self.doubted.retain(|node, _| !known.contains(node));
        let lives = known.into_iter().map(|node| (node, live.contains(&node)));
        lives.collect()
    }
}

/// Connections that are asked for alone; with more, all of their nodes' are.
const FLOWS_MAX: usize = 4_096;
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::Transport;
    use std::net::SocketAddr;

    fn flow(connection: u32, node: u16) -> Flow {
        let address = SocketAddr::from(([192, 0, 2, 1], 5060));
        Flow {
            transport: Transport::Tcp,
            connection,
            node,
            ..Flow::udp(address, address)
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// One client that comes and goes has its own connection asked for and no other one, and that once a second.
    #[test]
    fn a_connection_is_asked_for_alone_until_there_are_many() {
        let mut unchecked = UncheckedNodes::default();
        unchecked.ask_for(flow(1, 2));
        unchecked.ask_for(flow(1, 2));
        let none = BTreeSet::new();
        assert_eq!(unchecked.take(at(0)), (none, HashSet::from([flow(1, 2)])));
        unchecked.ask_for(flow(2, 2));
        assert_eq!(unchecked.take(at(999)), Default::default());
        unchecked.ask(2);
        assert_eq!(
            unchecked.take(at(1000)),
            (BTreeSet::from([2]), HashSet::new())
        );
        for connection in 0..2 * FLOWS_MAX as u32 {
            unchecked.ask_for(flow(connection, 3));
        }
        let (nodes, flows) = unchecked.take(at(2000));
        assert!(nodes.into_iter().eq([3]) && flows.is_empty());
    }

    /// Whether a node lives is known by a view that was read after it was doubted, or after the node had time to answer.
    #[test]
    fn a_node_that_does_not_live_by_the_last_view_is_settled_by_a_later_one() {
        let (mut unchecked, patience) = (UncheckedNodes::default(), Duration::from_secs(2));
        let [nobody, third] = [BTreeSet::new(), BTreeSet::from([3])];
        unchecked.doubt(3, at(500));
        assert!(unchecked.settle(at(499), &nobody, patience).is_empty());
        assert_eq!(unchecked.settle(at(500), &third, patience), [(3, true)]);
        unchecked.ask(3);
        assert!(unchecked.settle(at(600), &third, patience).is_empty());
        assert!(unchecked.settle(at(700), &nobody, patience).is_empty());
        assert!(unchecked.settle(at(2699), &nobody, patience).is_empty());
        assert_eq!(unchecked.settle(at(2700), &nobody, patience), [(3, false)]);
        assert!(unchecked.settle(at(9000), &nobody, patience).is_empty());
    }
}
