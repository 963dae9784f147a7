//! Whether connections at other nodes stand, over which something of this node is reached.
//!
//! A node that is granted a partition reads from the database over which connections its contacts and watchers are reached,
//! and does not know what became of these. It enters them, as if they stood, and then asks the nodes that have them;
//! what has ended meanwhile is treated as an end that the node has told. An end that happens later is told, since the node
//! with the connection tells each end to all, and finds this one entered. So no end is missed. It asks as well when it may have
//! missed what was told (`ConnectionEnds` of `busyhour-cluster`), and when a node has a new life.
//!
//! A node that gives no answer is asked again a second later, for all of its connections, until it answers or is gone. One that has
//! never answered in its life may be of an earlier build, which does not understand the question: it is asked after pauses
//! that grow to 32 s.
//!
//! **When a node dies.** A view of the nodes is some time old when it is taken over here, and the node that is dead by it may have
//! begun its next life since, and have handed us requests over connections of that life. So a view by which the node is dead ends
//! nothing. The connections that are known here are noted then, and the time after that. A later view, which was read
//! after that time, decides. If the node is dead by it, so is the life that had any of them: that life had begun before its
//! connections could be known, and a node has one life at a time. So they have ended, and no others. If the node lives by
//! it, it is asked. A later view comes with the next beat, and the same is done for connections that are to be checked
//! while their node does not live.
//!
//! **Who may say so.** A process that stood still for longer than its lease may find a question in its sockets that is meant for the
//! next life of its node, whose connections it does not have. So a node whose lease does not hold says of no connection
//! that it has ended when it is asked.

use crate::server::{
    cluster::node_message::{NodeMessage, NodeVerb},
    core::Core,
};
use busyhour_sip::Flow;
use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write,
    sync::Arc,
};

impl Core {
    /// Asks for these connections, which are entered.
    pub(in crate::server::cluster) fn check_connections(self: &Arc<Self>, flows: Vec<Flow>) {
        let Some(cluster) = &self.cluster else { return };
        let mut nodes: BTreeMap<u16, Vec<Flow>> = BTreeMap::new();
        for flow in in_order(flows) {
            nodes.entry(flow.node).or_default().push(flow);
        }
        for (node, flows) in nodes {
            if node == cluster.link.own() {
                let ended = self.ended_among(&flows);
                self.are_checked(&flows, &ended);
                continue;
            }
            if !cluster.link.is_live(node) {
                cluster.link.doubt(node, self.clock.now(), flows);
                continue;
            }
            if !cluster.link.may_be_asked(node, self.clock.now()) {
                cluster.link.check_again(node);
                continue;
            }
            let mut some = flows.chunks(CHECKED_AT_ONCE);
            // What one message cannot be asked now, the others cannot either.
            if !some.all(|some| self.ask_whether_they_stand(node, some.to_vec())) {
                cluster.link.check_again(node);
            }
        }
    }

    /// Asks for all connections of a node over which something of ours is reached.
    pub(in crate::server::cluster) fn check_connections_of(self: &Arc<Self>, node: u16) {
        let devices = self.devices.flows.connections_of(node);
        let watchers = self.watchers.connections.of_node(node);
        self.check_connections([devices, watchers].concat());
    }

    /// `false` if they cannot be asked for now.
    fn ask_whether_they_stand(self: &Arc<Self>, node: u16, flows: Vec<Flow>) -> bool {
        let (Some(cluster), Some(first)) = (&self.cluster, flows.first()) else {
            return true;
        };
        let (link, core) = (&cluster.link, Arc::downgrade(self));
        let (count, text) = (flows.len() as u64, text_of(&flows));
        let message = NodeMessage::new(NodeVerb::Stand, link.own(), *first);
        let message = message.with_sip(text.as_bytes());
        let answered = Box::new(move |answer: Option<Vec<u8>>| {
            let Some(core) = core.upgrade() else { return };
            // Without a lease a node answers nothing, but its program understands the question.
            let is_understood = answer.is_some();
            match answer.and_then(|answer| places_of(&answer)) {
                Some(ended) => core.are_answered(node, &flows, &ended),
                None => core.are_unanswered(node, count, is_understood),
            }
        });
        let is_asked = link.ask_node(node, &message, answered).is_ok();
        if is_asked {
            link.counters.connections_checked.add(count);
        }
        is_asked
    }

    fn are_answered(&self, node: u16, flows: &[Flow], ended: &[usize]) {
        if let Some(cluster) = &self.cluster {
            cluster.link.is_answered(node);
        }
        self.are_checked(flows, ended);
    }

    fn are_unanswered(&self, node: u16, count: u64, is_understood: bool) {
        let Some(cluster) = &self.cluster else { return };
        cluster.link.counters.connections_unanswered.add(count);
        match is_understood {
            true => cluster.link.is_understood(node),
            false => cluster.link.is_unanswered(node, self.clock.now()),
        }
    }

    /// The answer to the question whether these connections of ours stand. It is none from a process whose life may be over.
    pub(in crate::server::cluster) fn answer_whether_they_stand(&self, text: &[u8]) -> Vec<u8> {
        let flows = std::str::from_utf8(text).map_or(None, flows_of);
        let flows = flows.filter(|_| self.may_say_what_has_ended());
        flows.map_or_else(Vec::new, |flows| answer_of(&self.ended_among(&flows)))
    }

    /// Whether a connection of this node that is not known here has certainly ended: it may be one of the node's next life.
    pub(in crate::server::cluster) fn may_say_what_has_ended(&self) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.routes.has_lease(self.clock.now()))
    }

    /// The places of those connections of ours that have ended. The others are trusted, as they were when they were used.
    fn ended_among(&self, flows: &[Flow]) -> Vec<usize> {
        let network = self.responder.network();
        let ended = |(_, flow): &(usize, &Flow)| !network.mark_trusted(**flow);
        let ended = flows.iter().enumerate().filter(ended);
        ended.map(|(place, _)| place).collect()
    }

    fn are_checked(&self, flows: &[Flow], ended: &[usize]) {
        let Some(cluster) = &self.cluster else { return };
        let ended: HashSet<usize> = ended.iter().copied().collect();
        let mut standing = Vec::new();
        for (place, flow) in flows.iter().enumerate() {
            if ended.contains(&place) {
                cluster.link.counters.connections_ended.increment();
                self.flow_ended(*flow);
            } else {
                standing.push(*flow);
            }
        }
        self.devices.connections_stand(standing);
    }
}

/// Each once. They come out of tables whose order is another one in each run, and what follows from them is to be the same.
pub(super) fn in_order(mut flows: Vec<Flow>) -> Vec<Flow> {
    flows.sort_unstable_by_key(|flow| {
        let number = flow.connection;
        (flow.node, flow.transport, number, flow.remote, flow.local)
    });
    flows.dedup();
    flows
}

/// A connection in each line.
fn text_of(flows: &[Flow]) -> String {
    let mut text = String::new();
    for flow in flows {
        let (local, remote, connection) = (flow.local_text(), flow.remote, flow.connection);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{connection} {local} {remote}");
    }
    text
}

pub(super) fn flows_of(text: &str) -> Option<Vec<Flow>> {
    let flow = |line: &str| {
        let (connection, addresses) = line.split_once(' ')?;
        let (local, remote) = addresses.split_once(' ')?;
        Some(Flow {
            connection: connection.parse().ok()?,
            ..Flow::from_texts(local, remote)?
        })
    };
    text.lines().map(flow).collect()
}

/// The places of those that have ended, behind a sign that there is an answer.
pub(super) fn answer_of(ended: &[usize]) -> Vec<u8> {
    let mut answer = ANSWER.to_owned();
    for place in ended {
        let _ = write!(answer, " {place}");
    }
    answer.into_bytes()
}

/// `None` if this is no answer.
fn places_of(answer: &[u8]) -> Option<Vec<usize>> {
    let answer = std::str::from_utf8(answer).ok()?;
    let places = answer.strip_prefix(ANSWER)?.split_whitespace();
    places.map(|place| place.parse().ok()).collect()
}

const ANSWER: &str = "ended:";
/// So many fit into one message of NATS.
const CHECKED_AT_ONCE: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::Transport;

    #[test]
    fn connections_are_read_as_they_were_written() {
        let flow = Flow {
            transport: Transport::Wss,
            connection: u32::MAX,
            node: 3,
            ..Flow::udp(
                "[2001:db8::1%4]:443".parse().expect("an address"),
                "192.0.2.7:40000".parse().expect("an address"),
            )
        };
        let tcp = Flow {
            transport: Transport::Tcp,
            ..flow
        };
        let flows = vec![flow, tcp];
        assert_eq!(flows_of(&text_of(&flows)), Some(flows));
        assert_eq!(flows_of("7 tcp/192.0.2.1:5060\n"), None);
        assert_eq!(flows_of("hello"), None);
    }

    #[test]
    fn connections_are_in_one_order_and_each_is_there_once() {
        let address = |port| std::net::SocketAddr::from(([192, 0, 2, 1], port));
        let flow = |node, connection, port| Flow {
            transport: Transport::Tcp,
            connection,
            node,
            ..Flow::udp(address(5060), address(port))
        };
        let sorted = vec![flow(2, 1, 9), flow(2, 7, 8), flow(2, 7, 9), flow(3, 1, 1)];
        let mut mixed = sorted.clone();
        mixed.reverse();
        mixed.extend(&sorted[1..3]);
        assert_eq!(in_order(mixed), sorted);
    }

    #[test]
    fn an_answer_is_told_from_none() {
        for ended in [&[][..], &[0], &[3, 511]] {
            assert_eq!(places_of(&answer_of(ended)).as_deref(), Some(ended));
        }
        for bytes in [&b""[..], b"-", b"+", b"ended: x", b"\xff"] {
            assert_eq!(places_of(bytes), None);
        }
    }
}
