//! Which connections a node takes for ended when other nodes die and begin again. The test is the database, NATS and the other
//! node, so it decides what happens between what.

use super::{
    connection_checks::{answer_of, flows_of},
    own_flows::OwnFlows,
};
use crate::{
    lock::lock,
    server::{
        Authentication, ClusterMembership, ClusterNodeView, Network, NodeLife, SendError,
        ServerConfig,
        cluster::{
            cluster_node::ClusterNode,
            inbox::node_inbox::NodeEvent,
            node_message::{NodeMessage, NodeVerb},
        },
        core::Core,
    },
};
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_cluster::{
    Answered, Broker, BrokerError, BrokerMessage, Failure, Grant, Life, Member, NodeNumber,
    NodeView, Ownership, PARTITION_COUNT, Partition, PartitionView, Receive, Timing, View,
};
use busyhour_sip::{Flow, Transport};
use busyhour_store::MemoryStore;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// Says that a view is asked for, and waits for it.
struct ToldDatabase {
    asked: mpsc::Sender<()>,
    views: mpsc::Receiver<View>,
}

impl Ownership for ToldDatabase {
    fn beat(&mut self, _: Member) -> Result<View, Failure> {
        // Without a test nobody answers.
        let _ = self.asked.send(());
        self.views.recv().map_err(|_| Failure::Away)
    }

    fn fence(&mut self, _: Member, _: Member) -> Result<bool, Failure> {
        Ok(false)
    }

    fn take(&mut self, _: Member, _: &[Grant]) -> Result<Vec<Grant>, Failure> {
        Ok(Vec::new())
    }

    fn give(&mut self, _: Member, _: &[Grant], _: Member) -> Result<Vec<Grant>, Failure> {
        Ok(Vec::new())
    }

    fn drain(&mut self, _: Member) -> Result<(), Failure> {
        Ok(())
    }

    /// Without an answer no beat is due that a test has not asked for.
    fn undrain(&mut self, _: Member) -> Result<(), Failure> {
        Err(Failure::Away)
    }

    fn pin(&mut self, _: Member, _: Partition, _: Option<NodeNumber>) -> Result<(), Failure> {
        Ok(())
    }

    fn leave(&mut self, _: Member) -> Result<(), Failure> {
        Ok(())
    }
}

/// NATS, and the other node behind it.
#[derive(Default)]
struct OtherNode {
    heard: Mutex<BTreeMap<String, Receive>>,
    published: Mutex<Vec<(String, Vec<u8>)>>,
    /// Its connections that stand.
    standing: Mutex<BTreeSet<u32>>,
    /// It does not say which they are.
    has_no_lease: AtomicBool,
}

impl OtherNode {
    /// It tells node 1 something, which answers on the subject `reply`.
    fn tells(&self, message: &NodeMessage<'_>, reply: Option<&str>) {
        let message = BrokerMessage {
            payload: message.bytes(),
            reply: reply.map(str::to_owned),
        };
        let mut heard = lock(&self.heard);
        heard.get_mut("test.node.1").expect("it listens")(message);
    }
}

impl Broker for OtherNode {
    fn publish(&self, subject: &str, payload: Vec<u8>) -> Result<(), BrokerError> {
        lock(&self.published).push((subject.to_owned(), payload));
        Ok(())
    }

    fn request(
        &self,
        _: &str,
        payload: Vec<u8>,
        _: Duration,
        done: Answered,
    ) -> Result<(), BrokerError> {
        // It tells nothing of devices.
        let asked = NodeMessage::parse(&payload).ok_or(BrokerError::Nobody)?;
        let answer = match asked.what {
            NodeVerb::Stand if self.has_no_lease.load(Ordering::SeqCst) => Vec::new(),
            NodeVerb::Stand => {
                let text = std::str::from_utf8(asked.sip).expect("text");
                let flows = flows_of(text).expect("connections");
                let standing = lock(&self.standing);
                let stands = |flow: &Flow| standing.contains(&flow.connection);
                let ended = flows.iter().enumerate().filter(|(_, flow)| !stands(flow));
                answer_of(&ended.map(|(place, _)| place).collect::<Vec<_>>())
            }
            _ => b"+".to_vec(),
        };
        done(Ok(answer));
        Ok(())
    }

    fn subscribe(&self, subject: &str, receive: Receive) -> Result<(), BrokerError> {
        lock(&self.heard).insert(subject.to_owned(), receive);
        Ok(())
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn lost_count(&self) -> u64 {
        7
    }
}

/// The connections of node 1, of which one has ended.
#[derive(Default)]
struct OwnSockets {
    asked_for: AtomicU64,
    ended: Option<Flow>,
}

impl Network for OwnSockets {
    fn send(&self, flow: Flow, _: Buffer) -> Result<(), SendError> {
        match self.ended == Some(flow) {
            true => Err(SendError::FlowFailed),
            false => Ok(()),
        }
    }

    fn mark_trusted(&self, flow: Flow) -> bool {
        self.asked_for.fetch_add(1, Ordering::SeqCst);
        self.ended != Some(flow)
    }
}

/// Node 1, which has all partitions; the test is the rest of the cluster.
struct NodeOne {
    runtime: Runtime,
    core: Arc<Core>,
    other: Arc<OtherNode>,
    sockets: Arc<OwnSockets>,
    asked: mpsc::Receiver<()>,
    views: mpsc::Sender<View>,
}

impl NodeOne {
    /// It has its first view.
    fn begin(sockets: OwnSockets) -> Self {
        let runtime = Runtime::simulated(1);
        let (ask, asked) = mpsc::channel();
        let (views, answers) = mpsc::channel();
        let (other, sockets) = (Arc::new(OtherNode::default()), Arc::new(sockets));
        let membership = ClusterMembership {
            member: member(1, 1),
            // Only the test says when there is a beat.
            timing: Timing::of_lease(Duration::from_secs(100_000)),
            since_asked: Box::new(|| Duration::ZERO),
            ownership: Box::new(ToldDatabase {
                asked: ask,
                views: answers,
            }),
            broker: other.clone(),
            secret: [0; 32],
            direct: None,
            subjects: "test".to_owned(),
            on_end: Box::new(|_| ()),
        };
        let config = ServerConfig {
            domains: vec!["example.com".to_owned()],
            authentication: Authentication::Open,
            ..ServerConfig::default()
        };
        let (network, store) = (sockets.clone(), Box::new(MemoryStore::new()));
        let core = Core::start(runtime.clone(), config, network, store, Some(membership));
        let node = Self {
            core: core.expect("a server"),
            runtime,
            other,
            sockets,
            asked,
            views,
        };
        node.asked.recv().expect("a beat");
        node.answer(2, Life::Current);
        node.wait_until(|| node.cluster().routes.served_count() == PARTITION_COUNT as u64);
        node
    }

    fn cluster(&self) -> &ClusterNode {
        self.core.cluster.as_ref().expect("it is in a cluster")
    }

    /// A view is asked for, and was read after that.
    fn begin_beat(&self) {
        self.cluster().inbox.push(NodeEvent::Announced);
        self.asked.recv().expect("a beat");
    }

    /// The node has taken over that the other one has a life with this number.
    fn answer(&self, epoch: u64, life: Life) {
        self.views.send(view(epoch, life)).expect("it listens");
        let shown = match life {
            Life::Over => NodeLife::Down,
            _ => NodeLife::Draining,
        };
        self.wait_until(|| {
            let nodes = self.cluster().list();
            let is_it = |it: &ClusterNodeView| (it.number, it.epoch, it.life) == (2, epoch, shown);
            nodes.iter().any(is_it)
        });
    }

    fn beat(&self, epoch: u64, life: Life) {
        self.begin_beat();
        self.answer(epoch, life);
    }

    /// What was asked of the thread for partitions before is done, and what follows from it.
    fn settle(&self) {
        let before = self.sockets.asked_for.load(Ordering::SeqCst);
        let own = HashSet::from([flow(1, 1)]);
        self.cluster().partitions.check_flows(own);
        self.wait_until(|| self.sockets.asked_for.load(Ordering::SeqCst) > before);
        let simulation = self.runtime.simulation().expect("it is one");
        simulation.run_for(Duration::from_secs(1));
    }

    /// A REGISTER that came to the other node over a connection.
    fn registers(&self, user: &str, flow: Flow) {
        let (remote, aor) = (flow.remote, format!("sip:{user}@example.com"));
        let register = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP {remote};branch=z9hG4bK{user}\r\n\
             From: <{aor}>;tag=a\r\nTo: <{aor}>\r\nCall-ID: {user}\r\nCSeq: 1 REGISTER\r\n\
             Contact: <sip:{user}@{remote};transport=tcp>\r\nContent-Length: 0\r\n\r\n"
        );
        let message = NodeMessage::new(NodeVerb::Handle, 2, flow);
        (self.other).tells(&message.with_sip(register.as_bytes()), None);
        self.wait_until(|| self.reaches(user, flow));
    }

    fn reaches(&self, user: &str, flow: Flow) -> bool {
        let device = self
            .core
            .devices
            .table
            .find(&format!("sip:{user}@example.com"));
        let contact = device.and_then(|it| it.contact_over(flow, self.core.clock.now()));
        contact.is_some_and(|contact| contact.is_reachable())
    }

    fn wait_until(&self, is_so: impl Fn() -> bool) {
        let simulation = self.runtime.simulation().expect("it is one");
        for _ in 0..PATIENCE {
            simulation.run_for(Duration::from_millis(1));
            if is_so() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("it does not come about");
    }
}

fn member(node: u16, epoch: u64) -> Member {
    let node = NodeNumber(node);
    Member { node, epoch }
}

/// The other node takes no partition.
fn view(epoch: u64, life: Life) -> View {
    let node = |member: Member, life| NodeView {
        member,
        name: format!("node-{}", member.node.0).into(),
        life,
        is_draining: member.node.0 == 2,
    };
    let partition = PartitionView {
        owner: Some(member(1, 1)),
        epoch: 1,
        pinned: None,
    };
    View {
        nodes: vec![
            node(member(1, 1), Life::Current),
            node(member(2, epoch), life),
        ],
        partitions: vec![partition; PARTITION_COUNT],
    }
}

fn flow(node: u16, connection: u32) -> Flow {
    let address = |last, port| SocketAddr::from(([192, 0, 2, last], port));
    Flow {
        transport: Transport::Tcp,
        connection,
        node,
        ..Flow::udp(address(1, 5060), address(7, 40_000 + connection as u16))
    }
}

/// The race: the view by which the other node is dead was read before its next life began, whose connections are known by then.
#[test]
fn a_connection_of_the_next_life_is_kept_when_the_end_of_the_last_one_is_learned_late() {
    let node = NodeOne::begin(OwnSockets::default());
    let [first, next] = [flow(2, 1001), flow(2, 2001)];
    node.registers("ada", first);
    node.begin_beat();
    node.registers("bob", next);
    node.answer(3, Life::Over);
    node.settle();
    assert!(node.reaches("bob", next), "its process lives");
    lock(&node.other.standing).insert(next.connection);
    node.beat(4, Life::Current);
    node.wait_until(|| !node.reaches("ada", first));
    node.settle();
    assert!(node.reaches("bob", next));
    // That life ends, too: one view shows it, and what was known by then has ended by the next one.
    lock(&node.other.standing).clear();
    node.beat(5, Life::Over);
    node.settle();
    assert!(node.reaches("bob", next), "it may be one of the next life");
    node.beat(5, Life::Over);
    node.wait_until(|| !node.reaches("bob", next));
}

/// A process that stood still reads what is meant for the next life of its node.
#[test]
fn without_a_lease_a_node_says_of_no_connection_that_it_has_ended() {
    let ended = flow(1, 666);
    let node = NodeOne::begin(OwnSockets {
        ended: Some(OwnFlows::of_life(member(1, 1)).bare(ended)),
        ..OwnSockets::default()
    });
    let question = format!("666 {} {}\n", ended.local_text(), ended.remote);
    let ask = || {
        lock(&node.other.published).clear();
        let stand = NodeMessage::new(NodeVerb::Stand, 2, ended);
        (node.other).tells(&stand.with_sip(question.as_bytes()), Some("reply"));
        let trust = NodeMessage::new(NodeVerb::Trust, 2, ended);
        node.other.tells(&trust, None);
        let send = NodeMessage::new(NodeVerb::Send, 2, ended);
        node.other
            .tells(&send.with_sip(b"SIP/2.0 200 OK\r\n\r\n"), None);
        let all = std::mem::take(&mut *lock(&node.other.published));
        let told = |subject: &str| {
            let its = all.iter().filter(|(on, _)| on == subject);
            its.map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>()
        };
        (told("reply"), told("test.node.2").len())
    };
    assert_eq!(ask(), (vec![answer_of(&[0])], 2));
    // A beat brings it back.
    node.wait_until(|| {
        node.cluster().routes.clear();
        ask() == (vec![Vec::new()], 0)
    });
}

/// It answers, and says nothing: that is no word about its connections.
#[test]
fn a_node_that_answers_a_question_with_nothing_counts_as_one_that_has_not_answered() {
    let node = NodeOne::begin(OwnSockets::default());
    let ada = flow(2, 1001);
    node.registers("ada", ada);
    node.other.has_no_lease.store(true, Ordering::SeqCst);
    node.cluster().partitions.check(2);
    let unanswered = || node.cluster().link.counters.connections_unanswered.get();
    node.wait_until(|| unanswered() == 1);
    node.settle();
    assert!(
        node.reaches("ada", ada),
        "nobody has said that it has ended"
    );
    node.other.has_no_lease.store(false, Ordering::SeqCst);
    node.beat(2, Life::Current);
    node.wait_until(|| !node.reaches("ada", ada));
    assert_eq!(unanswered(), 1);
    let stats = node.cluster().stats();
    assert_eq!((stats.connections_unanswered, stats.nats_lost), (1, 7));
}

/// Its next life has begun after the last view was read, and hands on a request over one of its connections.
#[test]
fn an_answer_goes_over_a_connection_of_the_next_life_while_its_node_is_dead_by_the_last_view() {
    let node = NodeOne::begin(OwnSockets::default());
    let [next, before] = [flow(2, 2001), flow(2, 1001)];
    node.beat(3, Life::Over);
    let sends = |flow| {
        let datagram = node.runtime.buffers().copy_from(b"SIP/2.0 200 OK\r\n\r\n");
        let network = node.core.responder.network();
        network.send(flow, datagram.expect("room"))
    };
    assert_eq!(sends(before), Err(SendError::FlowFailed), "it is dead");
    node.registers("bob", next);
    let answered = || {
        let all = lock(&node.other.published);
        let told = all.iter().filter(|(on, _)| on == "test.node.2");
        let mut told = told.filter_map(|(_, bytes)| NodeMessage::parse(bytes));
        told.any(|it| it.what == NodeVerb::Send && it.sip.starts_with(b"SIP/2.0 200 "))
    };
    node.wait_until(answered);
    node.beat(4, Life::Current);
    node.beat(4, Life::Over);
    assert_eq!(sends(next), Err(SendError::FlowFailed), "it is dead again");
}

/// Polls of a millisecond.
const PATIENCE: usize = 30_000;
