//! What clients hear of requests that wait. The test is the database and the network, so it says who has the partitions, and when.

use crate::{
    lock::lock,
    server::{
        Authentication, ClusterMembership, CredentialJudgement, HttpClient, HttpFailure,
        HttpListener, HttpRequest, Network, SendError, ServerConfig, SpanExportConfig,
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
use busyhour_sip::{Flow, Message, Transport};
use busyhour_store::{DiskBehaviour, SimulatedDisk};
use serde_json::Value;
use std::{
    mem,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Who has all partitions by the next view, and by which epoch.
#[derive(Clone, Default)]
struct ToldDatabase(Arc<Mutex<(Option<Member>, u64)>>);

impl Ownership for ToldDatabase {
    fn blocks(&self) -> bool {
        false
    }

    fn beat(&mut self, _: Member) -> Result<View, Failure> {
        let (owner, epoch) = *lock(&self.0);
        let node = |member: Member| NodeView {
            member,
            name: format!("node-{}", member.node.0).into(),
            life: Life::Current,
            // So nothing is taken that the test has not given.
            is_draining: true,
        };
        let partition = PartitionView {
            owner,
            epoch,
            pinned: None,
        };
        Ok(View {
            nodes: [OWN, OTHER].map(node).into(),
            partitions: vec![partition; PARTITION_COUNT],
        })
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

    fn undrain(&mut self, _: Member) -> Result<(), Failure> {
        Ok(())
    }

    fn pin(&mut self, _: Member, _: Partition, _: Option<NodeNumber>) -> Result<(), Failure> {
        Ok(())
    }

    fn leave(&mut self, _: Member) -> Result<(), Failure> {
        Ok(())
    }
}

/// Nobody answers.
struct SilentBroker;

impl Broker for SilentBroker {
    fn publish(&self, _: &str, _: Vec<u8>) -> Result<(), BrokerError> {
        Ok(())
    }

    fn request(&self, _: &str, _: Vec<u8>, _: Duration, _: Answered) -> Result<(), BrokerError> {
        Ok(())
    }

    fn subscribe(&self, _: &str, _: Receive) -> Result<(), BrokerError> {
        Ok(())
    }

    fn is_connected(&self) -> bool {
        true
    }
}

/// What clients hear.
#[derive(Default)]
struct Clients {
    heard: Mutex<Vec<String>>,
    /// What the server says of credentials.
    judged: Mutex<Vec<CredentialJudgement>>,
    /// The next message panics on its way out.
    panics: AtomicBool,
}

impl Network for Clients {
    fn send(&self, _: Flow, message: Buffer) -> Result<(), SendError> {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "on purpose");
        let message = Message::parse(&message).expect("our own");
        let cseq = message.cseq().expect("it has one");
        let said = match message.status() {
            Some(status) => format!("{status} {} {}", cseq.number, cseq.method),
            None => cseq.method.to_string(),
        };
        lock(&self.heard).push(said);
        Ok(())
    }

    fn note_credentials(&self, _: Flow, judgement: CredentialJudgement) {
        lock(&self.judged).push(judgement);
    }
}

/// What the collector of spans is told.
#[derive(Default)]
struct Collector(Mutex<Vec<String>>);

impl HttpClient for Collector {
    fn send(&self, request: HttpRequest, _: HttpListener) -> Result<(), HttpFailure> {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let spans = spans.as_array().expect("spans");
        let is_root = |span: &&Value| span["parentSpanId"].is_null();
        for root in spans.iter().filter(is_root) {
            let is_part = |span: &&Value| span["parentSpanId"] == root["spanId"];
            let parts = spans.iter().filter(is_part).map(|it| it["name"].as_str());
            let parts: Vec<_> = parts.flatten().collect();
            let attributes = root["attributes"].as_array().expect("attributes");
            let is_status = |it: &&Value| it["key"] == "sip.status_code";
            let status = attributes.iter().find(is_status);
            let status = status.and_then(|it| it["value"]["intValue"].as_str());
            let (name, status) = (&root["name"], status.unwrap_or("unanswered"));
            let told = format!("{} {status}: {}", name.as_str().unwrap(), parts.join(" "));
            lock(&self.0).push(told);
        }
        Ok(())
    }
}

/// A node whose partitions are nobody's at first.
struct World {
    runtime: Runtime,
    core: Arc<Core>,
    database: ToldDatabase,
    disk: SimulatedDisk,
    clients: Arc<Clients>,
    collector: Arc<Collector>,
}

impl World {
    fn new() -> Self {
        Self::with(Authentication::Open)
    }

    fn with(authentication: Authentication) -> Self {
        let runtime = Runtime::simulated(1);
        let database = ToldDatabase::default();
        let (clients, collector) = (Arc::<Clients>::default(), Arc::<Collector>::default());
        let membership = ClusterMembership {
            member: OWN,
            timing: Timing::default(),
            since_asked: Box::new(|| Duration::ZERO),
            ownership: Box::new(database.clone()),
            broker: Arc::new(SilentBroker),
            secret: [0; 32],
            direct: None,
            subjects: "test".to_owned(),
            on_end: Box::new(|_| ()),
        };
        let spans = SpanExportConfig::new("http://collector.example:4318", 1);
        let config = ServerConfig {
            domains: vec!["example.com".to_owned()],
            authentication,
            http: collector.clone(),
            spans: Some(spans.expect("an address")),
            ..ServerConfig::default()
        };
        let disk = SimulatedDisk::new(1, DiskBehaviour::default());
        let store = Box::new(disk.open(runtime.clock().clone()));
        let network = clients.clone();
        let core = Core::start(runtime.clone(), config, network, store, Some(membership));
        let world = Self {
            core: core.expect("a server"),
            runtime,
            database,
            disk,
            clients,
            collector,
        };
        world.pass(SECOND);
        world
    }

    fn cluster(&self) -> &ClusterNode {
        self.core.cluster.as_ref().expect("it is in a cluster")
    }

    /// The node learns that it has all partitions; what goes on then is written.
    fn give(&self) {
        self.set_owner(Some(OWN));
        self.pass(SECOND);
        self.write();
    }

    /// The node gives them away, and nobody has them yet: it takes this over before it does anything else.
    fn close(&self) {
        self.set_owner(None);
        self.cluster().routes.clear();
        self.cluster().inbox.push(NodeEvent::Announced);
    }

    fn set_owner(&self, owner: Option<Member>) {
        let mut told = lock(&self.database.0);
        *told = (owner, told.1 + 1);
    }

    fn pass(&self, time: Duration) {
        let simulation = self.runtime.simulation().expect("it is one");
        simulation.run_for(time);
    }

    fn write(&self) {
        while let Some(due) = self.disk.next_due() {
            let clock = self.runtime.clock();
            clock.as_virtual().expect("virtual").advance_to(due);
            self.disk.run_due();
            self.pass(MILLISECOND);
        }
    }

    /// A client sends it: its number is its transaction.
    fn send(&self, transport: Transport, method: &str, number: u32) {
        self.send_in_dialog(transport, method, number, ("", ""));
    }

    fn send_in_dialog(
        &self,
        transport: Transport,
        method: &str,
        number: u32,
        (tag, headers): (&str, &str),
    ) {
        let [local, remote] = ["192.0.2.1:5060", "192.0.2.7:5070"]
            .map(|it| it.parse::<SocketAddr>().expect("an address"));
        let flow = Flow {
            transport,
            connection: u32::from(transport == Transport::Tcp),
            node: OWN.node.0,
            ..Flow::udp(local, remote)
        };
        let (uri, aor) = match method {
            "REGISTER" => ("sip:example.com", "sip:ada@example.com"),
            _ => ("sip:ada@example.com", "sip:ada@example.com"),
        };
        let request = format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{} {remote};branch=z9hG4bK{number}\r\n\
             From: <sip:bob@example.com>;tag=b\r\nTo: <{aor}>{tag}\r\nCall-ID: {}\r\n\
             CSeq: {number} {method}\r\nContact: <sip:ada@{remote}>\r\n{headers}Content-Length: 0\r\n\r\n",
            if transport == Transport::Udp {
                "UDP"
            } else {
                "TCP"
            },
            if method == "CANCEL" { "INVITE" } else { method },
        );
        let datagram = self.runtime.buffers().copy_from(request.as_bytes());
        self.core.receive(flow, &datagram.expect("room"));
    }

    /// The other node has this answer to a REGISTER sent.
    fn hear_answer(&self, status: &str) {
        let [local, remote] = ["192.0.2.1:5060", "192.0.2.7:5070"]
            .map(|it| it.parse::<SocketAddr>().expect("an address"));
        let answer = format!(
            "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP {remote};branch=z9hG4bK2\r\n\
             From: <sip:bob@example.com>;tag=b\r\nTo: <sip:ada@example.com>;tag=c\r\nCall-ID: 2\r\n\
             CSeq: 2 REGISTER\r\nContact: <sip:ada@{remote}>\r\nContent-Length: 0\r\n\r\n"
        );
        let flow = Flow::udp(local, remote);
        let told = NodeMessage::new(NodeVerb::Send, OTHER.node.0, flow);
        self.core.hear(&BrokerMessage {
            payload: told.with_sip(answer.as_bytes()).bytes(),
            reply: None,
        });
    }

    fn register(&self, number: u32) {
        self.send(Transport::Udp, "REGISTER", number);
    }

    /// What clients have heard since they were asked.
    fn heard(&self) -> Vec<String> {
        mem::take(&mut *lock(&self.clients.heard))
    }

    /// What the collector is told.
    fn traced(&self) -> Vec<String> {
        self.pass(Duration::from_secs(2));
        mem::take(&mut *lock(&self.collector.0))
    }

    fn kept(&self) -> [u64; 2] {
        let stats = self.cluster().stats();
        [stats.kept, stats.kept_waiting]
    }
}

/// It was on its way to the disk when the partition left, and the next request of the same telephone has come by then.
#[test]
fn what_could_not_be_committed_goes_on_before_what_came_meanwhile() {
    let world = World::new();
    world.give();
    world.register(1);
    world.close();
    world.register(2);
    assert_eq!(world.kept(), [1, 1], "the second one");
    world.pass(MILLISECOND);
    assert_eq!(
        world.kept(),
        [2, 2],
        "and the first one, which was not begun"
    );
    assert_eq!(world.heard(), [""; 0]);
    world.give();
    assert_eq!(world.heard(), ["200 1 REGISTER", "200 2 REGISTER"]);
    assert_eq!(world.kept(), [2, 0]);
    let first = "REGISTER 200: receive queue registrar partition queue registrar store answer";
    let second = "REGISTER 200: receive partition queue registrar store answer";
    assert_eq!(world.traced(), [first, second]);
}

/// It has the partition again a moment later, as when nobody could take it.
#[test]
fn the_span_of_a_refresh_that_could_not_be_stored_tells_what_its_watcher_got() {
    let world = World::new();
    world.give();
    let subscribe = |number, tag: &str| {
        let headers = "Event: presence\r\nExpires: 600\r\n";
        world.send_in_dialog(Transport::Udp, "SUBSCRIBE", number, (tag, headers));
    };
    subscribe(1, "");
    world.pass(MILLISECOND);
    world.write();
    assert_eq!(world.heard(), ["200 1 SUBSCRIBE", "NOTIFY"]);
    assert_eq!(world.traced().len(), 1);
    let watcher = world.core.watchers.all().pop().expect("there is one");
    subscribe(2, &format!(";tag={}", watcher.tag()));
    world.cluster().routes.clear();
    world.pass(MILLISECOND);
    assert_eq!(world.kept()[0], 1);
    world.pass(SECOND);
    world.write();
    assert!(world.heard().contains(&"200 2 SUBSCRIBE".to_owned()));
    let told = world.traced();
    let is_subscribe = |it: &&String| it.starts_with("SUBSCRIBE");
    let told: Vec<_> = told.iter().filter(is_subscribe).collect();
    let expected = "SUBSCRIBE 200: receive queue watcher partition queue watcher store answer";
    assert_eq!(told, [expected]);
}

/// A turn that a panic kept would hold up its partition until the server ends.
#[test]
fn a_panic_ends_neither_its_turn_nor_those_behind_it() {
    let world = World::new();
    world.send(Transport::Udp, "OPTIONS", 1);
    world.register(2);
    assert_eq!(world.kept(), [2, 2]);
    world.clients.panics.store(true, Ordering::SeqCst);
    world.give();
    assert!(!world.clients.panics.load(Ordering::SeqCst), "it did panic");
    assert_eq!(world.heard(), ["200 2 REGISTER"]);
    assert_eq!(world.kept(), [2, 0]);
    // Later ones do not wait.
    world.register(3);
    world.pass(MILLISECOND);
    world.write();
    assert_eq!(world.heard(), ["200 3 REGISTER"]);
    assert_eq!(world.kept(), [2, 0]);
}

/// Without 100 a caller sends copies, and has not to be told if this node dies (RFC 3261 §17.1.1.2).
#[test]
fn a_caller_hears_nothing_while_the_invite_waits_and_then_how_the_call_ends() {
    let world = World::new();
    world.send(Transport::Udp, "INVITE", 1);
    world.pass(SECOND);
    world.send(Transport::Udp, "INVITE", 1);
    world.pass(SECOND);
    assert_eq!(world.heard(), [""; 0]);
    assert_eq!(world.kept(), [1, 1], "its copy is not kept beside it");
    world.give();
    assert_eq!(world.heard(), ["404 1 INVITE"], "nobody has that address");
    let told = world.traced();
    assert_eq!(told, ["INVITE 404: receive partition location"]);
}

#[test]
fn credentials_that_go_to_another_node_are_judged_there() {
    let world = World::with(Authentication::default());
    world.set_owner(Some(OTHER));
    world.pass(SECOND);
    let shown = ("", "Authorization: Digest username=\"ada\"\r\n");
    world.register(1);
    world.send_in_dialog(Transport::Udp, "REGISTER", 2, shown);
    world.send_in_dialog(Transport::Udp, "SUBSCRIBE", 3, shown);
    assert_eq!(world.cluster().stats().handed_on, 3);
    let judged = || mem::take(&mut *lock(&world.clients.judged));
    assert_eq!(judged(), [CredentialJudgement::Elsewhere]);
    world.hear_answer("401 Unauthorized");
    assert_eq!(judged(), []);
    world.hear_answer("200 OK");
    assert_eq!(judged(), [CredentialJudgement::AcceptedElsewhere]);
    assert_eq!(world.heard(), ["401 2 REGISTER", "200 2 REGISTER"]);
}

#[test]
fn where_nobody_is_asked_for_credentials_an_acknowledgement_accepts_none() {
    let world = World::new();
    world.hear_answer("200 OK");
    assert_eq!(world.heard(), ["200 2 REGISTER"]);
    assert_eq!(*lock(&world.clients.judged), []);
}

/// A caller should not cancel what nobody has answered yet (RFC 3261 §9.1), and some do.
#[test]
fn the_cancel_of_an_invite_that_waits_comes_behind_it() {
    let world = World::new();
    world.give();
    world.register(1);
    world.pass(MILLISECOND);
    world.write();
    assert_eq!(world.heard(), ["200 1 REGISTER"]);
    // Until its next beat it takes nobody for the owner.
    world.cluster().routes.clear();
    world.send(Transport::Udp, "INVITE", 2);
    world.send(Transport::Udp, "CANCEL", 2);
    world.pass(MILLISECOND);
    assert_eq!(world.heard(), [""; 0]);
    assert_eq!(world.kept(), [2, 2]);
    world.pass(SECOND);
    let expected = ["100 2 INVITE", "INVITE", "200 2 CANCEL"];
    assert_eq!(world.heard()[..3], expected);
    // The telephone never answers, so the call ends with its time.
    world.pass(Duration::from_secs(40));
    let mut heard = world.heard();
    // It is sent again, since the caller does not acknowledge it.
    heard.retain(|it| it.ends_with(" 2 INVITE"));
    heard.dedup();
    assert_eq!(heard, ["487 2 INVITE"]);
}

/// Nobody sends a copy over a connection, so its client has to be told; one of a datagram is not.
#[test]
fn a_client_over_a_connection_is_told_that_nobody_has_come() {
    let statuses = [(Transport::Tcp, "503"), (Transport::Udp, "unanswered")];
    for (transport, status) in statuses {
        let world = World::new();
        world.send(transport, "REGISTER", 1);
        world.pass(Duration::from_secs(3));
        let heard = world.heard();
        match transport {
            Transport::Tcp => assert_eq!(heard, ["503 1 REGISTER"]),
            _ => assert_eq!(heard, [""; 0]),
        }
        let told = world.traced();
        assert_eq!(told, [format!("REGISTER {status}: receive partition")]);
        let stats = world.cluster().stats();
        assert_eq!((stats.kept_late, stats.kept_waiting), (1, 0));
        assert_eq!(stats.kept_time_max_ns, 2_000_000_000);
    }
}

const OWN: Member = Member {
    node: NodeNumber(1),
    epoch: 1,
};
const OTHER: Member = Member {
    node: NodeNumber(2),
    epoch: 1,
};
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
