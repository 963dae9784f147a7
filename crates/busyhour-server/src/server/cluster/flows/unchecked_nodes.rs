//! What was not learned of other nodes' connections, and is asked for again.

use super::connection_checks::in_order;
use crate::{lock::lock, server::cluster::node_link::NodeLink};
use busyhour::clock::Instant;
use busyhour_sip::Flow;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet, btree_map::Entry},
    time::Duration,
};

/// Nodes that are asked again, for all of their connections or for some.
#[derive(Default)]
pub(in crate::server::cluster) struct UncheckedNodes {
    nodes: BTreeSet<u16>,
    flows: HashSet<Flow>,
    not_before: Instant,
    /// Connections of nodes that do not live, as far as is known.
    doubted: BTreeMap<u16, DoubtedNode>,
    /// Nodes whose program answers such questions.
    answering: BTreeSet<u16>,
    /// Others that were asked.
    silent: BTreeMap<u16, SilentNode>,
}

/// A node that has answered no question in its life: that of an earlier build does not understand them.
struct SilentNode {
    pause: Duration,
    not_before: Instant,
}

/// What is doubted of a node. While the database is away there is no view, and something is doubted each second; so there are two
/// groups at most. The first one stays as it is, since a view that was read after the last of a group decides, and the
/// first must not wait for ever for a later one. What comes meanwhile is in the second one.
struct DoubtedNode {
    first: DoubtedConnections,
    others: Option<DoubtedConnections>,
}

/// Connections that were all known at this time.
#[derive(Debug, Default)]
struct DoubtedConnections {
    known_at: Instant,
    flows: HashSet<Flow>,
}

/// What a view says of what was not known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::server::cluster) struct SettledDoubts {
    /// Nodes that have to be asked, or looked at again, for all of their connections.
    pub(in crate::server::cluster) unsure: BTreeSet<u16>,
    /// Connections whose process is gone.
    pub(in crate::server::cluster) over: Vec<Flow>,
}

impl UncheckedNodes {
    /// A node has not said which of its connections stand.
    pub(in crate::server::cluster) fn ask(&mut self, node: u16) {
        self.nodes.insert(node);
    }

    /// A question has no answer. Who has answered one before is asked again soon; others after pauses that grow.
    pub(in crate::server::cluster) fn is_unanswered(&mut self, node: u16, now: Instant) {
        self.ask(node);
        if self.answering.contains(&node) {
            return;
        }
        let silent = self.silent.entry(node).or_insert(SilentNode {
            pause: PAUSE / 2,
            not_before: now,
        });
        // Questions that were asked at once have no answer at once.
        if silent.not_before <= now {
            silent.pause = PAUSE_MAX.min(silent.pause * 2);
            silent.not_before = now + silent.pause;
        }
    }

    /// The program of this node answers.
    pub(in crate::server::cluster) fn is_answered(&mut self, node: u16) {
        self.silent.remove(&node);
        self.answering.insert(node);
    }

    /// The node is gone or has another life, perhaps of another program.
    pub(in crate::server::cluster) fn begins_anew(&mut self, node: u16) {
        self.silent.remove(&node);
        self.answering.remove(&node);
    }

    pub(in crate::server::cluster) fn may_be_asked(&self, node: u16, now: Instant) -> bool {
        let silent = self.silent.get(&node);
        silent.is_none_or(|silent| silent.not_before <= now)
    }

    /// Nobody has said whether this connection stands.
    pub(in crate::server::cluster) fn ask_for(&mut self, flow: Flow) {
        match self.flows.len() < FLOWS_MAX {
            true => drop(self.flows.insert(flow)),
            false => drop(self.nodes.insert(flow.node)),
        }
    }

    /// The node of these connections, which are known now, does not live by the last view. If too many come one by one, it is
    /// looked at again for all of its connections, of which those that have ended meanwhile are none.
    pub(in crate::server::cluster) fn doubt(&mut self, node: u16, now: Instant, flows: Vec<Flow>) {
        if flows.is_empty() {
            return;
        }
        let doubted = match self.doubted.entry(node) {
            Entry::Vacant(free) => {
                let first = DoubtedConnections::new(now, flows);
                free.insert(DoubtedNode {
                    first,
                    others: None,
                });
                return;
            }
            Entry::Occupied(known) => known.into_mut().others.get_or_insert_default(),
        };
        let room = FLOWS_MAX.max(flows.len());
        doubted.known_at = now;
        doubted.flows.extend(flows.iter().copied());
        if doubted.flows.len() > room {
            doubted.flows = flows.into_iter().collect();
            self.nodes.insert(node);
        }
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
        let (nodes, later) = std::mem::take(&mut self.nodes)
            .into_iter()
            .partition::<BTreeSet<_>, _>(|node| self.may_be_asked(*node, now));
        self.nodes = later;
        let mut flows = std::mem::take(&mut self.flows);
        flows.retain(|flow| !nodes.contains(&flow.node) && !self.nodes.contains(&flow.node));
        (nodes, flows)
    }

    /// What a view says that was read then or later. A node that does not live by it may have begun its next life since, so only
    /// those of its connections have ended that were known before.
    pub(in crate::server::cluster) fn settle(
        &mut self,
        read_at: Instant,
        live: &BTreeSet<u16>,
    ) -> SettledDoubts {
        let is_dead = |node: &u16| !live.contains(node);
        let mut settled = SettledDoubts {
            // They have not answered, and what they are to be asked for becomes a doubt.
            unsure: self.nodes.extract_if(.., is_dead).collect(),
            over: Vec::new(),
        };
        self.doubted.retain(|node, doubted| {
            let (over, is_left) = doubted.settle(read_at);
            match (live.contains(node), over.is_empty()) {
                (_, true) => {}
                (true, false) => drop(settled.unsure.insert(*node)),
                (false, false) => settled.over.extend(over),
            }
            is_left
        });
        settled.over = in_order(settled.over);
        settled
    }
}

impl DoubtedNode {
    /// Takes out what was known by then; and whether something is left.
    fn settle(&mut self, read_at: Instant) -> (HashSet<Flow>, bool) {
        if self.first.known_at > read_at {
            return (HashSet::new(), true);
        }
        let mut settled = std::mem::take(&mut self.first.flows);
        match self.others.take() {
            Some(others) if others.known_at > read_at => {
                self.first = others;
                (settled, true)
            }
            others => {
                settled.extend(others.into_iter().flat_map(|others| others.flows));
                (settled, false)
            }
        }
    }
}

impl DoubtedConnections {
    fn new(known_at: Instant, flows: Vec<Flow>) -> Self {
        let flows = flows.into_iter().collect();
        Self { known_at, flows }
    }
}

impl NodeLink {
    /// A node has not said which of its connections stand.
    pub(in crate::server::cluster) fn check_again(&self, node: u16) {
        lock(&self.unchecked).ask(node);
    }

    /// A node has answered which of its connections stand.
    pub(in crate::server::cluster) fn is_answered(&self, node: u16) {
        lock(&self.unchecked).is_answered(node);
    }

    /// A node has answered, but not which of its connections stand; it is asked again.
    pub(in crate::server::cluster) fn is_understood(&self, node: u16) {
        let mut unchecked = lock(&self.unchecked);
        unchecked.is_answered(node);
        unchecked.ask(node);
    }

    /// A node has not said which of its connections stand, and is asked again.
    pub(in crate::server::cluster) fn is_unanswered(&self, node: u16, now: Instant) {
        lock(&self.unchecked).is_unanswered(node, now);
    }

    /// Whether it is time to ask a node that has answered nothing yet.
    pub(in crate::server::cluster) fn may_be_asked(&self, node: u16, now: Instant) -> bool {
        lock(&self.unchecked).may_be_asked(node, now)
    }

    /// The node of these connections does not live, as far as is known. A view that is read from now on says so, and they have
    /// ended; or that it has begun a life, and it is asked.
    pub(in crate::server::cluster) fn doubt(&self, node: u16, now: Instant, flows: Vec<Flow>) {
        lock(&self.unchecked).doubt(node, now, flows);
    }

    /// Those nodes, and connections of others, at most once a second; they are asked again.
    pub(in crate::server::cluster) fn take_unchecked(
        &self,
        now: Instant,
    ) -> (BTreeSet<u16>, HashSet<Flow>) {
        lock(&self.unchecked).take(now)
    }
}

/// Connections that are asked for, or doubted, alone; with more, all of their nodes' are.
const FLOWS_MAX: usize = 4_096;
const PAUSE: Duration = Duration::from_secs(1);
/// Between two questions to a node that has answered none.
const PAUSE_MAX: Duration = Duration::from_secs(32);

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

    /// A node of an earlier build takes a question for a message of no node, and logs that.
    #[test]
    fn a_node_that_has_answered_nothing_is_asked_after_pauses_that_grow() {
        let mut unchecked = UncheckedNodes::default();
        let asked_s = |unchecked: &mut UncheckedNodes, from_s: u64, to_s: u64| {
            let mut asked = Vec::new();
            for second in from_s..to_s {
                let (nodes, _) = unchecked.take(at(second * 1000));
                if nodes.contains(&3) {
                    asked.push(second);
                    // Two messages of one question.
                    unchecked.is_unanswered(3, at(second * 1000));
                    unchecked.is_unanswered(3, at(second * 1000 + 1));
                }
            }
            asked
        };
        unchecked.ask(3);
        let first = [0, 1, 3, 7, 15, 31, 63, 95];
        assert_eq!(asked_s(&mut unchecked, 0, 100), first);
        assert!(!unchecked.may_be_asked(3, at(100_000)));
        unchecked.ask_for(flow(1, 3));
        assert_eq!(unchecked.take(at(100_000)), Default::default());
        // Its next life may be of another program, which answers.
        unchecked.begins_anew(3);
        assert!(unchecked.may_be_asked(3, at(100_000)));
        unchecked.is_answered(3);
        let each: Vec<u64> = (101..140).collect();
        assert_eq!(asked_s(&mut unchecked, 101, 140), each);
    }

    /// The race: a node may begin its next life after the view was read by which it is dead.
    #[test]
    fn only_connections_end_that_were_known_before_a_view_was_read_that_has_their_node_dead() {
        let mut unchecked = UncheckedNodes::default();
        let [nobody, third] = [BTreeSet::new(), BTreeSet::from([3])];
        let over = |flows: &[Flow]| SettledDoubts {
            unsure: BTreeSet::new(),
            over: flows.to_vec(),
        };
        let unsure = || SettledDoubts {
            unsure: BTreeSet::from([3]),
            over: Vec::new(),
        };
        let [one, two, other] = [flow(1, 3), flow(2, 3), flow(7, 4)];
        unchecked.doubt(3, at(500), vec![one]);
        unchecked.doubt(4, at(600), vec![other]);
        assert_eq!(unchecked.settle(at(499), &nobody), over(&[]));
        unchecked.doubt(3, at(501), vec![two]);
        assert_eq!(unchecked.settle(at(500), &nobody), over(&[one]));
        // It lives again, and says itself what stands.
        assert_eq!(unchecked.settle(at(550), &third), unsure());
        assert_eq!(unchecked.settle(at(600), &nobody), over(&[other]));
        assert_eq!(unchecked.settle(at(9000), &nobody), over(&[]));
        assert!(unchecked.doubted.is_empty());
        // Who is asked and dies before it answers is looked at again.
        unchecked.ask(3);
        assert_eq!(unchecked.settle(at(9001), &third), over(&[]));
        assert_eq!(unchecked.settle(at(9002), &nobody), unsure());
        assert_eq!(unchecked.settle(at(9003), &nobody), over(&[]));
    }

    /// Nobody reads a view, and each second connections of a dead node are doubted, always others.
    #[test]
    fn what_is_doubted_while_the_database_is_away_has_a_bound_and_the_first_waits_for_no_later_one()
    {
        let mut unchecked = UncheckedNodes::default();
        let nobody = BTreeSet::new();
        let (hour, each) = (3600, 10);
        for second in 0..hour {
            let first = second as u32 * each;
            let flows = (first..first + each).map(|connection| flow(connection, 3));
            unchecked.doubt(3, at(1000 * second), flows.collect());
            let others = unchecked.doubted[&3].others.as_ref();
            assert!(others.map_or(0, |others| others.flows.len()) <= FLOWS_MAX);
        }
        // More came one by one than are kept, so all of the node's are looked at.
        assert!(unchecked.nodes.contains(&3));
        let all = (0..2 * FLOWS_MAX as u32).map(|connection| flow(connection, 3));
        unchecked.doubt(3, at(1000 * hour), all.clone().collect());
        let others = unchecked.doubted[&3].others.as_ref();
        assert_eq!(others.map(|others| others.flows.len()), Some(2 * FLOWS_MAX));
        // A view that was read after the first group decides about it, and about no other.
        let settled = unchecked.settle(at(500), &nobody);
        assert_eq!(settled.unsure, BTreeSet::from([3]));
        let over = |settled: SettledDoubts| {
            BTreeSet::from_iter(settled.over.iter().map(|it| it.connection))
        };
        assert_eq!(over(settled), (0..each).collect());
        assert_eq!(
            over(unchecked.settle(at(1000 * hour - 1), &nobody)),
            BTreeSet::new()
        );
        let last = over(unchecked.settle(at(1000 * hour), &nobody));
        assert_eq!(last, all.map(|it| it.connection).collect());
        assert!(unchecked.doubted.is_empty());
    }
}
