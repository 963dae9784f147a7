//! The way to the other nodes. Nothing here blocks, and what cannot be sent now is not kept.

mod notices;

use super::{
    direct::node_paths::NodePaths,
    flows::{
        flows_by_branch::FlowsByBranch,
        next_lives::NextLives,
        own_flows::OwnFlows,
        registered_flows::RegisteredFlows,
        unchecked_nodes::{SettledDoubts, UncheckedNodes},
    },
    node_message::{NodeMessage, NodeVerb},
    node_questions::QuestionCounters,
    numbers::handed_numbers::HandedNumbers,
};
use crate::lock::lock;
use crate::server::{load::source_shares::SourceShares, stats::counters::Counter};
use busyhour::clock::Instant;
use busyhour_cluster::{Broker, BrokerError, ConnectionEnds, Member, NodeNumber, Notices};
use busyhour_sip::{Flow, Message, Transport};
use foldhash::quality::FixedState;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    hash::BuildHasher,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Sends messages to other nodes, and remembers for whom requests left over our flows.
pub(in crate::server) struct NodeLink {
    broker: Arc<dyn Broker>,
    /// The paths that need no broker.
    pub(super) paths: Option<NodePaths>,
    subjects: String,
    own: u16,
    own_flows: OwnFlows,
    /// The nodes that live, a bit for each number.
    live: Box<[AtomicU64]>,
    /// Their lives.
    epochs: Mutex<BTreeMap<u16, u64>>,
    /// By a part of the branch.
    sent_for: [Mutex<SentFor>; SENT_FOR_PARTS],
    /// Probes that left here, since the node of their flow is away.
    probes: Mutex<FlowsByBranch>,
    /// REGISTERs that other nodes have, and whose answers go over another flow than that which they came over.
    registering: Mutex<FlowsByBranch>,
    hasher: FixedState,
    unanswered: Arc<AtomicU64>,
    /// Of those, the requests of clients on connections.
    requests: Arc<SourceShares>,
    pub(super) registered_flows: RegisteredFlows,
    /// What other nodes are told until they have answered.
    notices: Mutex<Notices>,
    /// Its lock is held while an end is told, so that the numbers leave in their order.
    ends: Mutex<ConnectionEnds>,
    /// Nodes that have not said which of their connections stand.
    pub(super) unchecked: Mutex<UncheckedNodes>,
    /// Nodes that are heard although they are dead by the last view.
    pub(super) next_lives: NextLives,
    /// There was a first view.
    knows_nodes: AtomicBool,
    pub(super) counters: LinkCounters,
    pub(super) handed: HandedNumbers,
    pub(super) questions: Arc<QuestionCounters>,
}

/// What went over the link.
#[derive(Default)]
pub(super) struct LinkCounters {
    /// Requests handed to the node that has their address.
    pub(super) handed_on: Counter,
    /// Those of connections that it did not take, or that found no way; and those of datagrams
    /// that we did not take of other nodes.
    pub(super) not_taken: Counter,
    /// Requests that other nodes handed to us.
    pub(super) taken: Counter,
    /// Messages that other nodes sent over our flows.
    pub(super) sent_for_others: Counter,
    /// Keep-alives of which another node was told.
    pub(super) keepalives_passed_on: Counter,
    /// Messages for flows of other nodes that were lost.
    pub(super) undelivered: Counter,
    /// Requests that were sent for others, and forgotten while a response could come.
    pub(super) responses_forgotten: Counter,
    /// Connections at other nodes of which was asked whether they stand.
    pub(super) connections_checked: Counter,
    /// Those of them, and of our own, that had ended.
    pub(super) connections_ended: Counter,
    /// Those about which their node gave no answer.
    pub(super) connections_unanswered: Counter,
}

/// Which node a request was sent for, by its branch.
#[derive(Default)]
struct SentFor {
    nodes: HashMap<u64, u16>,
    order: VecDeque<(Instant, u64)>,
}

/// Told whether a request was taken.
pub(super) type OnTaken = Box<dyn FnOnce(bool) + Send>;
/// Told what another node answers; `None` if it does not.
pub(super) type OnAnswered = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

impl NodeLink {
    pub(super) fn new(
        broker: Arc<dyn Broker>,
        paths: Option<NodePaths>,
        subjects: String,
        own: Member,
        (seed, source_percent): (u64, u64),
    ) -> Self {
        let requests = SourceShares::new(UNANSWERED_MAX, source_percent, seed);
        Self {
            requests: Arc::new(requests),
            registered_flows: RegisteredFlows::new(seed ^ 2, source_percent),
            broker,
            paths,
            subjects,
            own: own.node.0,
            own_flows: OwnFlows::of_life(own),
            epochs: Mutex::default(),
            live: (0..=u16::MAX / 64).map(|_| AtomicU64::new(0)).collect(),
            sent_for: std::array::from_fn(|_| Mutex::default()),
            probes: Mutex::default(),
            registering: Mutex::default(),
            hasher: FixedState::with_seed(own.node.0.into()),
            unanswered: Arc::default(),
            next_lives: NextLives::default(),
            knows_nodes: AtomicBool::new(false),
            ends: Mutex::default(),
            unchecked: Mutex::default(),
            notices: Mutex::new(Notices::new(own.node, PATIENCE, source_percent as usize)),
            counters: LinkCounters::default(),
            handed: HandedNumbers::of_life(own.epoch),
            questions: Arc::default(),
        }
    }

    pub(in crate::server) fn own(&self) -> u16 {
        self.own
    }

    pub(in crate::server) fn own_flows(&self) -> OwnFlows {
        self.own_flows
    }

    pub(super) fn broker(&self) -> &Arc<dyn Broker> {
        &self.broker
    }

    /// Where this node is told something.
    pub(super) fn subjects_to_hear(&self) -> [String; 2] {
        [self.subject(self.own), self.subject_of_all()]
    }

    /// Where it is asked something that wants an answer of its own.
    pub(super) fn subject_of_questions(&self, node: u16) -> String {
        format!("{}.question", self.subject(node))
    }

    fn subject(&self, node: u16) -> String {
        format!("{}.node.{node}", self.subjects)
    }

    /// Where nodes announce how they are reached directly.
    pub(super) fn subject_of_addresses(&self) -> String {
        format!("{}.address", self.subjects)
    }

    fn subject_of_all(&self) -> String {
        format!("{}.all", self.subjects)
    }

    /// Takes over which nodes live, each in which life, as the database had it then or later. Returns which connections have ended
    /// with their nodes, and which nodes' are to be checked. Only the node's thread calls it.
    pub(super) fn set_live(&self, read_at: Instant, lives: BTreeMap<u16, u64>) -> SettledDoubts {
        let live: BTreeSet<u16> = lives.keys().copied().collect();
        let before = std::mem::replace(&mut *lock(&self.epochs), lives.clone());
        let gone = self.set_live_nodes(&live);
        self.next_lives.view_is(read_at, &live);
        // A life may have ended and the next one begun so soon that nobody saw the node dead.
        let is_other =
            |(node, epoch): &(&u16, &u64)| lives.get(node).is_some_and(|it| it != *epoch);
        let renewed = before.iter().filter(is_other).map(|(node, _)| *node);
        let mut settled = lock(&self.unchecked).settle(read_at, &live);
        for node in gone.into_iter().chain(renewed) {
            lock(&self.ends).begins_anew(NodeNumber(node));
            lock(&self.unchecked).begins_anew(node);
            settled.unsure.insert(node);
        }
        settled
    }

    /// Returns those that do not live any more.
    fn set_live_nodes(&self, live: &BTreeSet<u16>) -> Vec<u16> {
        let words = (0..=u16::MAX).step_by(64);
        let words = words.filter(|first| self.live_word(*first).load(Ordering::Relaxed) != 0);
        let known = words.flat_map(|first| first..=first | 63);
        let gone = known.filter(|node| self.is_live(*node) && !live.contains(node));
        let gone: Vec<u16> = gone.collect();
        for node in &gone {
            self.live_word(*node)
                .fetch_and(!live_bit(*node), Ordering::Relaxed);
        }
        for node in live {
            self.live_word(*node)
                .fetch_or(live_bit(*node), Ordering::Relaxed);
        }
        self.handed.retain(live);
        gone
    }

    /// The last lives of the nodes, each with whether it goes on, as the database had them then or later.
    pub(super) fn view_is(&self, read_at: Instant, lives: &[(Member, bool)]) {
        let nodes = lives.iter().map(|(last, is_live)| (last.node, *is_live));
        lock(&self.notices).view_is(read_at, nodes);
        if let Some(paths) = &self.paths {
            paths.view_is(read_at, lives);
        }
        self.knows_nodes.store(true, Ordering::Release);
    }

    /// Whether it is known who the other nodes are, and so who has to be told what.
    pub(super) fn knows_nodes(&self) -> bool {
        self.knows_nodes.load(Ordering::Acquire)
    }

    /// A connection of ours has ended: all nodes have to know it, now or later.
    pub(super) fn tell_end(&self, now: Instant, flow: Flow) {
        let message = NodeMessage::new(NodeVerb::FlowEnded, self.own, flow);
        let mut ends = lock(&self.ends);
        let number = ends.next(now);
        self.tell_all(&message.numbered(number));
    }

    /// Says how many ends were told, so that a node learns that it has missed some. A node of an earlier build takes it for
    /// the end of a connection that nobody knows.
    pub(super) fn say_ends(&self, now: Instant) {
        if lock(&self.epochs).keys().all(|node| *node == self.own) {
            return;
        }
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        let flow = Flow {
            transport: Transport::Tcp,
            node: self.own,
            ..Flow::udp(nobody, nobody)
        };
        let message = NodeMessage::new(NodeVerb::FlowEnded, self.own, flow);
        let mut ends = lock(&self.ends);
        if let Some(last) = ends.due(now, self.broker.is_connected()) {
            self.tell_all(&message.numbered(last));
        }
    }

    /// Another node has told of ends; whether some were missed.
    pub(super) fn hears_end(&self, told: &NodeMessage<'_>) -> bool {
        let (from, mut ends) = (NodeNumber(told.from), lock(&self.ends));
        match (told.flow.connection, told.number) {
            (0, last) => ends.heard_last(from, last),
            // A node of an earlier build does not number them.
            (_, 0) => false,
            (_, number) => ends.heard_end(from, number),
        }
    }

    /// The client at a flow of another node is trusted from now on, if its connection stands. If that is not known, the node is
    /// asked again for this connection alone: one client that comes and goes must not have all of them asked for.
    pub(super) fn trust(self: &Arc<Self>, flow: Flow) {
        let message = NodeMessage::new(NodeVerb::Trust, self.own, flow);
        let link = Arc::downgrade(self);
        let told = move |stands: bool| {
            if let Some(link) = link.upgrade().filter(|_| !stands) {
                lock(&link.unchecked).ask_for(flow);
            }
        };
        let is_room = self.unanswered.load(Ordering::Relaxed) < UNANSWERED_WITH_TRUST;
        let asked = is_room.then(|| {
            let subject = self.subject(flow.node);
            self.ask(&subject, message.bytes(), Box::new(told))
        });
        if !matches!(asked, Some(Ok(()))) {
            lock(&self.unchecked).ask_for(flow);
        }
    }

    pub(super) fn is_live(&self, node: u16) -> bool {
        self.live_word(node).load(Ordering::Relaxed) & live_bit(node) != 0
    }

    fn live_word(&self, node: u16) -> &AtomicU64 {
        &self.live[usize::from(node / 64)]
    }

    /// Hands a request to the node that has its address, by an epoch of its partition; if somebody has to know whether it was
    /// taken, `taken` is called once, unless there is an error. Without that it costs one message
    /// instead of two.
    pub(super) fn hand_on(
        &self,
        (node, known_in): (u16, u64),
        (flow, request): (Flow, &[u8]),
        taken: Option<OnTaken>,
    ) -> Result<(), BrokerError> {
        let message = NodeMessage::new(NodeVerb::Handle, self.own, flow)
            .known_in(known_in)
            .with_sip(request);
        let sent = match taken {
            Some(taken) => self.ask_for(flow, &self.subject(node), message.bytes(), taken),
            None => {
                self.handed.unconfirmed.increment();
                self.send(node, &message.numbered(self.handed.next(node)))
            }
        };
        if sent.is_ok() {
            self.counters.handed_on.increment();
        }
        sent
    }

    /// What belongs to a connection goes over the broker, in order; what came or leaves in a
    /// datagram goes directly, if it can.
    fn send(&self, node: u16, message: &NodeMessage<'_>) -> Result<(), BrokerError> {
        let is_datagram = !message.flow.transport.is_reliable();
        let paths = self.paths.as_ref().filter(|_| is_datagram);
        match paths.is_some_and(|paths| paths.send(node, message)) {
            true => Ok(()),
            false => self.broker.publish(&self.subject(node), message.bytes()),
        }
    }

    /// As [`ask`](Self::ask), for a client that may not have proved who it is: its source has a share.
    fn ask_for(
        &self,
        flow: Flow,
        subject: &str,
        message: Vec<u8>,
        taken: OnTaken,
    ) -> Result<(), BrokerError> {
        let source = self.requests.take(flow.remote.ip());
        let source = source.ok_or(BrokerError::Full)?;
        let requests = self.requests.clone();
        let answered = Box::new(move |is_taken| {
            requests.give_back(source);
            taken(is_taken);
        });
        let asked = self.ask(subject, message, answered);
        if asked.is_err() {
            self.requests.give_back(source);
        }
        asked
    }

    /// Requests of clients that were not handed on, since their source had its share.
    pub(super) fn over_share_count(&self) -> u64 {
        self.requests.refused_count()
    }

    fn ask(&self, subject: &str, message: Vec<u8>, taken: OnTaken) -> Result<(), BrokerError> {
        let done = move |answer: Option<Vec<u8>>| taken(answer.is_some_and(|it| it == TAKEN));
        self.ask_for_answer(subject, message, Box::new(done))
    }

    /// Asks a node something; unless there is an error, `answered` is called once.
    pub(super) fn ask_node(
        &self,
        node: u16,
        message: &NodeMessage<'_>,
        answered: OnAnswered,
    ) -> Result<(), BrokerError> {
        self.ask_for_answer(&self.subject(node), message.bytes(), answered)
    }

    fn ask_for_answer(
        &self,
        subject: &str,
        message: Vec<u8>,
        answered: OnAnswered,
    ) -> Result<(), BrokerError> {
        if self.unanswered.load(Ordering::Relaxed) >= UNANSWERED_MAX {
            return Err(BrokerError::Full);
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let unanswered = self.unanswered.clone();
        let done = move |answer: Result<Vec<u8>, BrokerError>| {
            unanswered.fetch_sub(1, Ordering::Relaxed);
            answered(answer.ok());
        };
        let asked = (self.broker).request(subject, message, PATIENCE, Box::new(done));
        if asked.is_err() {
            self.unanswered.fetch_sub(1, Ordering::Relaxed);
        }
        asked
    }

    /// Tells the node that has the flow of the message; `false` if it is certainly not told.
    pub(super) fn tell(&self, message: &NodeMessage<'_>) -> bool {
        self.tell_node(message.flow.node, message)
    }

    pub(super) fn tell_node(&self, node: u16, message: &NodeMessage<'_>) -> bool {
        let told = self.send(node, message);
        if told.is_err() {
            self.counters.undelivered.increment();
        }
        told.is_ok()
    }

    /// The connection that a node meant is gone. Whoever else uses it is told when it does: all nodes were told at its end, and
    /// after a start of this one many may ask for connections that are gone.
    pub(super) fn tell_flow_ended(&self, node: u16, flow: Flow) {
        self.tell_node(node, &NodeMessage::new(NodeVerb::FlowEnded, self.own, flow));
    }

    /// Tells all nodes how this one is reached directly, if that is to be told.
    pub(super) fn announce(&self, announcement: Option<Vec<u8>>) {
        if let Some(announcement) = announcement {
            // Without NATS it is announced again.
            let _ = (self.broker).publish(&self.subject_of_addresses(), announcement);
        }
    }

    /// Tells all nodes, this one included.
    pub(super) fn tell_all(&self, message: &NodeMessage<'_>) {
        if self
            .broker
            .publish(&self.subject_of_all(), message.bytes())
            .is_err()
        {
            self.counters.undelivered.increment();
        }
    }

    /// Says whether a request was taken.
    pub(super) fn answer(&self, reply: &str, is_taken: bool) {
        let answer = if is_taken { TAKEN } else { NOT_TAKEN };
        self.answer_with(reply, answer.to_vec());
    }

    pub(super) fn answer_with(&self, reply: &str, answer: Vec<u8>) {
        // Without an answer the other node takes it for lost.
        let _ = self.broker.publish(reply, answer);
    }

    /// A request leaves over our flow for another node: the responses to it are for that node.
    pub(super) fn note_sent(&self, message: &[u8], node: u16, now: Instant) {
        if message.starts_with(b"SIP/2.0 ") {
            return;
        }
        let branch = Message::parse(message).ok().and_then(|it| self.branch(&it));
        if let Some(branch) = branch {
            let forgotten = self.sent_for(branch).insert(branch, node, now);
            self.counters.responses_forgotten.add(forgotten);
        }
    }

    /// The node that a response is for; `None` if it answers a request of our own.
    pub(super) fn asked_by(&self, response: &Message<'_>) -> Option<u16> {
        let branch = self.branch(response)?;
        self.sent_for(branch).nodes.get(&branch).copied()
    }

    /// A message leaves here instead of over its flow, whose node is away. Who answers a probe is there all the same.
    pub(super) fn note_probe(&self, message: &[u8], flow: Flow) {
        if !message.starts_with(b"OPTIONS ") {
            return;
        }
        let branch = Message::parse(message).ok().and_then(|it| self.branch(&it));
        if let Some(branch) = branch {
            lock(&self.probes).insert(branch, flow);
        }
    }

    /// The flow that a probe was meant for whose answer comes over another one, from the same address.
    pub(super) fn probed_instead(&self, answer: &Message<'_>, flow: Flow) -> Option<Flow> {
        let branch = self.branch(answer)?;
        let meant = lock(&self.probes).flow_of(branch);
        meant.filter(|meant| meant.remote == flow.remote && meant.transport == flow.transport)
    }

    /// A REGISTER goes to another node whose answer does not go where it came from, so not over the flow of its keep-alives.
    pub(super) fn note_registering(&self, request: &Message<'_>, flow: Flow) {
        if let Some(branch) = self.branch(request) {
            lock(&self.registering).insert(branch, flow);
        }
    }

    /// The flow of the REGISTER that is answered over this one.
    pub(super) fn registered_over(&self, answer: &Message<'_>, flow: Flow) -> Flow {
        let branch = self.branch(answer);
        let came_over = branch.and_then(|branch| lock(&self.registering).flow_of(branch));
        came_over.unwrap_or(flow)
    }

    fn sent_for(&self, branch: u64) -> MutexGuard<'_, SentFor> {
        lock(&self.sent_for[branch as usize % SENT_FOR_PARTS])
    }

    fn branch(&self, message: &Message<'_>) -> Option<u64> {
        let via = message.via().ok()?;
        Some(self.hasher.hash_one(via.branch()?))
    }
}

impl SentFor {
    /// Returns how many were forgotten before their time.
    fn insert(&mut self, branch: u64, node: u16, now: Instant) -> u64 {
        let mut forgotten = 0;
        while let Some((since, oldest)) = self.order.front() {
            let is_late = now - *since >= REMEMBERED;
            if self.order.len() < SENT_FOR_MAX / SENT_FOR_PARTS && !is_late {
                break;
            }
            forgotten += u64::from(!is_late);
            self.nodes.remove(oldest);
            self.order.pop_front();
        }
        // A retransmission is still the same request.
        if self.nodes.insert(branch, node).is_none() {
            self.order.push_back((now, branch));
        }
        forgotten
    }
}

fn live_bit(node: u16) -> u64 {
    1 << (node % 64)
}

const TAKEN: &[u8] = b"+";
const NOT_TAKEN: &[u8] = b"-";
/// Requests handed on whose answer is awaited.
const UNANSWERED_MAX: u64 = 16_384;
/// With more of them, connections are asked for later: a request that finds no room is refused, and so needs it more.
const UNANSWERED_WITH_TRUST: u64 = UNANSWERED_MAX / 4;
/// How long the other node may take to say whether it has taken a request.
const PATIENCE: Duration = Duration::from_secs(2);
/// Requests sent for other nodes whose responses are passed on.
const SENT_FOR_MAX: usize = 131_072;
/// So many responses are looked up at the same time.
const SENT_FOR_PARTS: usize = 64;
/// Longer than an INVITE may ring (timer C, RFC 3261 §16.6).
const REMEMBERED: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_cluster::{Answered, Receive};
    use std::net::SocketAddr;

    /// Keeps the requests, and has no answers.
    #[derive(Default)]
    struct SlowNode(Mutex<Vec<Answered>>);

    impl Broker for SlowNode {
        fn publish(&self, _: &str, _: Vec<u8>) -> Result<(), BrokerError> {
            Ok(())
        }

        fn request(
            &self,
            _: &str,
            _: Vec<u8>,
            _: Duration,
            done: Answered,
        ) -> Result<(), BrokerError> {
            lock(&self.0).push(done);
            Ok(())
        }

        fn subscribe(&self, _: &str, _: Receive) -> Result<(), BrokerError> {
            Ok(())
        }

        fn is_connected(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_source_has_a_share_of_the_requests_that_wait_for_another_node() {
        let slow = Arc::new(SlowNode::default());
        let own = Member {
            node: NodeNumber(1),
            epoch: 1,
        };
        let link = NodeLink::new(slow.clone(), None, "test".to_owned(), own, (1, 10));
        let is_handed_on = |source: [u8; 4]| {
            let [local, remote] = [[192, 0, 2, 1], source].map(|it| SocketAddr::from((it, 5060)));
            let flow = Flow::udp(local, remote);
            let taken: OnTaken = Box::new(|_| ());
            link.hand_on((2, 1), (flow, b"REGISTER"), Some(taken))
                .is_ok()
        };
        let (greedy, other) = ([198, 51, 100, 1], [203, 0, 113, 1]);
        let handed = (0..UNANSWERED_MAX).filter(|_| is_handed_on(greedy)).count() as u64;
        assert_eq!(handed, UNANSWERED_MAX / 10);
        assert_eq!(link.over_share_count(), UNANSWERED_MAX - handed);
        assert!(is_handed_on(other), "it has its own share");
        assert!(!is_handed_on(greedy));
        for done in std::mem::take(&mut *lock(&slow.0)) {
            done(Err(BrokerError::Late));
        }
        assert_eq!(link.unanswered.load(Ordering::Relaxed), 0);
        assert!(is_handed_on(greedy), "it was given back");
    }

    /// A telephone without `rport` behind a NAT is answered at the port of its Via, and its keep-alives come from another one.
    #[test]
    fn a_flow_is_registered_by_where_the_request_came_from() {
        let own = Member {
            node: NodeNumber(1),
            epoch: 1,
        };
        let slow = Arc::new(SlowNode::default());
        let link = NodeLink::new(slow, None, "test".to_owned(), own, (1, 10));
        let flow = |port| {
            let [local, remote] = [([192, 0, 2, 1], 5060), ([192, 0, 2, 7], port)];
            Flow::udp(SocketAddr::from(local), SocketAddr::from(remote))
        };
        let rest = |branch| {
            format!(
                "Via: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bK{branch}\r\n\
                 From: <sip:alice@example.com>;tag=a\r\nTo: <sip:alice@example.com>\r\n\
                 Call-ID: c\r\nCSeq: 1 REGISTER\r\nContent-Length: 0\r\n\r\n"
            )
        };
        let registered_over = |branch| {
            let answer = format!("SIP/2.0 200 OK\r\n{}", rest(branch));
            link.registered_over(&Message::parse(answer.as_bytes()).unwrap(), flow(5060))
        };
        assert_eq!(registered_over(1), flow(5060));
        let request = format!("REGISTER sip:example.com SIP/2.0\r\n{}", rest(1));
        let request = Message::parse(request.as_bytes()).unwrap();
        link.note_registering(&request, flow(40_000));
        assert_eq!(registered_over(1), flow(40_000));
        assert_eq!(registered_over(2), flow(5060));
    }

    #[test]
    fn requests_that_are_forgotten_before_their_time_are_counted() {
        let (mut sent, now) = (SentFor::default(), Instant::ZERO);
        let room = (SENT_FOR_MAX / SENT_FOR_PARTS) as u64;
        let forgotten = (0..room + 2).map(|branch| sent.insert(branch, 2, now));
        assert_eq!(forgotten.sum::<u64>(), 2);
        assert_eq!(sent.insert(room + 2, 2, now + REMEMBERED), 0);
        assert_eq!(sent.nodes.len(), 1);
    }
}
