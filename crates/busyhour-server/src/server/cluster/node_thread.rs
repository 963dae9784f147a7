//! What asks the database for the node. It blocks while the database answers, so it is a thread, on which nothing else is
//! done; where the database answers at once, as in a simulation, tasks take its turns (`node_turns`).

pub(super) mod node_turns;

use super::{
    ClusterMembership,
    inbox::{
        node_inbox::{NodeEvent, NodeInbox},
        operator_wish::{OperatorWish, Wish},
    },
    kept::kept_messages::KeptMessages,
    live_states::LiveStates,
    node_link::NodeLink,
    partition_routes::PartitionRoutes,
    partitions::{partition_inbox::PartitionInbox, served_partitions},
    view::LastView,
};
use busyhour::clock::{Clock, Instant};
use busyhour_cluster::{
    Action, Broker, Failure, Grant, Life, Member, Node, NodeView, Ownership, Partition, Reply,
};
use busyhour_store::CommitError;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

pub(super) struct NodeThread {
    pub(super) node: Node,
    pub(super) ownership: Box<dyn Ownership>,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) announcements: String,
    /// Where nodes say which partitions they serve.
    pub(super) serving: String,
    /// What this one has to say so.
    pub(super) served: Vec<Grant>,
    pub(super) on_end: Box<dyn Fn(String) + Send>,
    pub(super) clock: Clock,
    pub(super) routes: Arc<PartitionRoutes>,
    pub(super) link: Arc<NodeLink>,
    pub(super) live: Arc<LiveStates>,
    pub(super) last_view: Arc<LastView>,
    pub(super) kept: Arc<KeptMessages>,
    pub(super) inbox: Arc<NodeInbox>,
    pub(super) partitions: Arc<PartitionInbox>,
    /// What waits for the answers to changes under way.
    pub(super) closing: BTreeMap<Partition, Grant>,
    /// An operator has had it drained.
    pub(super) is_drained: bool,
    pub(super) is_leaving: bool,
    pub(super) has_ended: bool,
}

impl NodeThread {
    pub(super) fn new(
        membership: ClusterMembership,
        (clock, routes, link, live, last_view): (
            Clock,
            Arc<PartitionRoutes>,
            Arc<NodeLink>,
            Arc<LiveStates>,
            Arc<LastView>,
        ),
        kept: Arc<KeptMessages>,
        inbox: Arc<NodeInbox>,
        partitions: Arc<PartitionInbox>,
    ) -> Self {
        let now = clock.now();
        let since_asked = u64::try_from((membership.since_asked)().as_nanos()).unwrap_or(u64::MAX);
        let asked_at = Instant::from_nanos(now.as_nanos().saturating_sub(since_asked));
        Self {
            node: Node::new(membership.member, membership.timing, asked_at),
            ownership: membership.ownership,
            broker: membership.broker,
            announcements: format!("{}.announce", membership.subjects),
            serving: format!("{}.served", membership.subjects),
            served: Vec::new(),
            on_end: membership.on_end,
            clock,
            routes,
            link,
            live,
            last_view,
            kept,
            inbox,
            partitions,
            closing: BTreeMap::new(),
            is_drained: false,
            is_leaving: false,
            has_ended: false,
        }
    }

    /// Until this life is over, or the server is gone.
    pub(super) fn run(mut self) {
        while self.turn(self.rest()) {}
    }

    /// Until when nothing is due, unless something comes.
    pub(super) fn rest(&self) -> Duration {
        let now = self.clock.now();
        self.node.next_due().map_or(IDLE, |due| due - now)
    }

    /// Does what has come within this time and what is due. `false` if it was the last turn.
    pub(super) fn turn(&mut self, rest: Duration) -> bool {
        let (events, wishes) = self.inbox.take(rest);
        let is_gone = events.contains(&NodeEvent::Gone);
        if !is_gone {
            self.work(events, wishes);
        }
        let is_last = is_gone || self.has_ended;
        if is_last {
            self.inbox.close();
            self.routes.clear();
            self.last_view.end();
        }
        !is_last
    }

    fn work(&mut self, events: Vec<NodeEvent>, wishes: Vec<OperatorWish>) {
        let mut actions = Vec::new();
        let (mut settled, mut served) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                // They are given away together.
                NodeEvent::Settled(partition) => settled.push(partition),
                NodeEvent::Served(grant) => served.push(grant),
                other => actions.extend(self.take(other)),
            }
        }
        actions.extend(self.settle(settled));
        actions.extend(self.node.on_served(self.clock.now(), served));
        self.follow(actions);
        for wish in wishes {
            // Who waits for the others is told when they are dropped.
            if self.has_ended {
                break;
            }
            self.grant(wish);
            // Each is a transaction of its own, and the lease goes on meanwhile.
            self.follow(Vec::new());
        }
    }

    fn take(&mut self, event: NodeEvent) -> Vec<Action> {
        let now = self.clock.now();
        match event {
            NodeEvent::Announced => self.node.on_announced(now),
            // An operator's wish counts, and others would give away what nobody serves until the server has started.
            NodeEvent::CanServe if self.is_drained => {}
            NodeEvent::CanServe => return self.node.on_ready().into_iter().collect(),
            NodeEvent::LeaveWanted => {
                self.is_leaving = true;
                self.node.on_leave_wanted(now);
            }
            // Collected before.
            NodeEvent::Gone | NodeEvent::Settled(_) | NodeEvent::Served(_) => {}
            NodeEvent::Loaded(grant) => return self.node.on_loaded(grant),
        }
        Vec::new()
    }

    /// Does what the node asks for, in its order, and what follows from it.
    fn follow(&mut self, actions: Vec<Action>) {
        let mut waiting = VecDeque::from(actions);
        let mut loads = Vec::new();
        self.follow_routes();
        loop {
            // To give many partitions away takes longer than a lease, which goes on meanwhile.
            for due in self.node.on_time(self.clock.now()).into_iter().rev() {
                waiting.push_front(due);
            }
            let Some(action) = waiting.pop_front() else {
                break;
            };
            if let Action::Load(grant) = action {
                loads.push(grant);
                continue;
            }
            // What was granted together is read together.
            self.load(&mut loads);
            let more = self.act(action);
            // Nothing is given away, or taken out of memory, that is still routed here.
            self.follow_routes();
            waiting.extend(more);
        }
        self.load(&mut loads);
        self.say_served();
        self.follow_nodes();
        self.link.send_notices(self.clock.now());
        self.link.say_ends(self.clock.now());
        let (nodes, flows) = self.link.take_unchecked(self.clock.now());
        nodes.iter().for_each(|node| self.partitions.check(*node));
        self.partitions.check_flows(flows);
        self.last_view.set(self.node.view());
        let read_at = self.node.view_read_at();
        self.live.beat(self.clock.now(), read_at, self.node.view());
    }

    /// What waits for partitions goes on to those who serve them now.
    fn follow_routes(&self) {
        self.routes.follow(&self.node, self.clock.now());
        self.kept.look();
    }

    /// Who has given them to this node gives it more then.
    fn say_served(&mut self) {
        let served = std::mem::take(&mut self.served);
        if !served.is_empty() {
            // Who does not hear it waits for a beat.
            let said = served_partitions::to_bytes(&served);
            let _ = self.broker.publish(&self.serving, said);
        }
    }

    /// Who reaches devices through a node that is gone has to know it.
    fn follow_nodes(&self) {
        let Some(view) = self.node.view() else { return };
        let is_live = |node: &&NodeView| node.life != Life::Over;
        let live = view.nodes.iter().filter(is_live);
        let live = live.map(|it| (it.member.node.0, it.member.epoch)).collect();
        let read_at = self.node.view_read_at();
        let settled = self.link.set_live(read_at, live);
        self.partitions.are_over(settled.over);
        for node in settled.unsure {
            self.partitions.check(node);
        }
        let nodes = view.nodes.iter();
        let lives: Vec<_> = nodes.map(|it| (it.member, it.life != Life::Over)).collect();
        self.link.view_is(read_at, &lives);
    }

    fn act(&mut self, action: Action) -> Vec<Action> {
        let member = self.node.member();
        let reply = match action {
            Action::Beat => Reply::Beaten(self.ownership.beat(member)),
            Action::Fence(other) => self.fence(member, other),
            Action::Take(seen) => Reply::Taken(self.ownership.take(member, &seen)),
            Action::Give(grants, to) => {
                let given = self.ownership.give(member, &grants, to);
                Reply::Given(grants, to, given)
            }
            Action::Drain => Reply::Drained(self.ownership.drain(member)),
            Action::Undrain => Reply::Undrained(self.ownership.undrain(member)),
            Action::Leave => {
                // If there is no answer, the lease ends by itself.
                let _ = self.ownership.leave(member);
                return Vec::new();
            }
            Action::Close(grants) => {
                // It has to be out of service before anybody looks whether something is under way.
                self.follow_routes();
                let partitions = grants.iter().map(|grant| grant.partition).collect();
                let closing = grants.into_iter().map(|grant| (grant.partition, grant));
                self.closing.extend(closing);
                return self.settle(partitions);
            }
            Action::Unload(grant) => {
                self.closing.remove(&grant.partition);
                self.partitions.unload(grant.partition);
                return Vec::new();
            }
            Action::Announce => {
                // The next beat tells the others, too.
                let _ = self.broker.publish(&self.announcements, Vec::new());
                return Vec::new();
            }
            Action::SayServed(grant) => {
                self.served.push(grant);
                return Vec::new();
            }
            Action::End => {
                self.end();
                return Vec::new();
            }
            // Collected before.
            Action::Load(_) => return Vec::new(),
        };
        self.node.on_reply(self.clock.now(), reply)
    }

    /// The others see it in their next beat, or as soon as they hear that there is something new.
    fn grant(&mut self, wish: OperatorWish) {
        let member = self.node.member();
        let granted = match wish.what {
            Wish::Drain(other) => self.ownership.drain(other),
            Wish::Pin(partition, node) => self.ownership.pin(member, partition, node),
        };
        match granted {
            Ok(()) => {
                if wish.what == Wish::Drain(member) {
                    self.is_drained = true;
                    self.node.on_drained();
                }
                self.announce();
                (wish.done)(Ok(()));
            }
            Err(error) => {
                let what = wish.what;
                tracing::warn!(?what, %error, "what an operator wants of the cluster is not done");
                (wish.done)(Err(CommitError::new(reason(&error))));
            }
        }
    }

    fn announce(&mut self) {
        // The next beat tells the others, too.
        let _ = self.broker.publish(&self.announcements, Vec::new());
        self.node.on_announced(self.clock.now());
    }

    fn fence(&mut self, member: Member, other: Member) -> Reply {
        let ended = self.ownership.fence(member, other);
        if ended == Ok(true) {
            let (node, epoch) = (other.node.0, other.epoch);
            tracing::warn!(
                event = "node_taken_over",
                node,
                epoch,
                "a node's lease has ended; its partitions are taken over"
            );
        }
        Reply::Ended(ended)
    }

    /// Goes on with those of them that were to be closed and of which nothing is under way.
    fn settle(&mut self, mut partitions: Vec<Partition>) -> Vec<Action> {
        let is_closing = |partition: &Partition| self.closing.contains_key(partition);
        partitions.retain(|it| is_closing(it) && self.routes.is_settled(*it));
        let closed = (partitions.iter()).filter_map(|it| self.closing.remove(it));
        let closed: Vec<Grant> = closed.collect();
        match closed.is_empty() {
            true => Vec::new(),
            false => self.node.on_settled(closed),
        }
    }

    fn load(&self, grants: &mut Vec<Grant>) {
        if !grants.is_empty() {
            self.partitions.load(std::mem::take(grants));
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.routes.clear();
        if !self.is_leaving {
            tracing::error!(event = "life_of_node_is_over", "{LIFE_OVER}");
            (self.on_end)(LIFE_OVER.to_owned());
        }
    }
}

/// Why a wish is not granted.
fn reason(error: &Failure) -> &'static str {
    match error {
        Failure::LifeOver => "that node's life is over",
        Failure::Away => {
            "the database gave no answer, so nobody knows whether this was done: see `cluster status`, \
             and ask again"
        }
    }
}

/// While an answer is awaited that never comes; it bounds nothing else.
const IDLE: Duration = Duration::from_secs(1);
const LIFE_OVER: &str = "the lease of this node has ended, and another node has taken over; it \
    has to start again";

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::runtime::Runtime;
    use busyhour_cluster::{Answered, BrokerError, Incarnation, NodeNumber, Receive, Timing, View};
    use std::sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    };

    /// A database that answers beats so, and counts what else is asked of it.
    struct CountingDatabase {
        beat: Failure,
        asked: Arc<AtomicU64>,
    }

    impl Ownership for CountingDatabase {
        fn beat(&mut self, _: Member) -> Result<View, Failure> {
            Err(self.beat)
        }

        fn fence(&mut self, _: Member, _: Member) -> Result<bool, Failure> {
            Err(Failure::LifeOver)
        }

        fn take(&mut self, _: Member, _: &[Grant]) -> Result<Vec<Grant>, Failure> {
            Err(Failure::LifeOver)
        }

        fn give(&mut self, _: Member, _: &[Grant], _: Member) -> Result<Vec<Grant>, Failure> {
            Err(Failure::LifeOver)
        }

        fn drain(&mut self, _: Member) -> Result<(), Failure> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        /// The first time there is no answer.
        fn undrain(&mut self, _: Member) -> Result<(), Failure> {
            match self.asked.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Failure::Away),
                _ => Ok(()),
            }
        }

        fn pin(&mut self, _: Member, _: Partition, _: Option<NodeNumber>) -> Result<(), Failure> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn leave(&mut self, _: Member) -> Result<(), Failure> {
            Ok(())
        }
    }

    struct NoBroker;

    impl Broker for NoBroker {
        fn publish(&self, _: &str, _: Vec<u8>) -> Result<(), BrokerError> {
            Err(BrokerError::Away)
        }

        fn request(
            &self,
            _: &str,
            _: Vec<u8>,
            _: Duration,
            _: Answered,
        ) -> Result<(), BrokerError> {
            Err(BrokerError::Away)
        }

        fn subscribe(&self, _: &str, _: Receive) -> Result<(), BrokerError> {
            Err(BrokerError::Away)
        }

        fn is_connected(&self) -> bool {
            false
        }
    }

    /// The thread of a node with such a database, its inbox, and how much was asked of that.
    fn thread(beat: Failure) -> (NodeThread, Arc<NodeInbox>, Arc<AtomicU64>) {
        let runtime = Runtime::simulated(1);
        let (clock, asked) = (runtime.clock().clone(), Arc::new(AtomicU64::new(0)));
        let broker: Arc<dyn Broker> = Arc::new(NoBroker);
        let membership = ClusterMembership {
            member: MEMBER,
            timing: Timing::default(),
            since_asked: Box::new(|| Duration::ZERO),
            ownership: Box::new(CountingDatabase {
                beat,
                asked: asked.clone(),
            }),
            broker: broker.clone(),
            secret: [0; 32],
            direct: None,
            subjects: "test".to_owned(),
            on_end: Box::new(|_| ()),
        };
        let link = NodeLink::new(broker.clone(), None, "test".to_owned(), MEMBER, (1, 10));
        let live = LiveStates::new(&runtime, Incarnation::new(MEMBER, 1), broker, "test");
        let inbox = Arc::new(NodeInbox::default());
        let routes = Arc::new(PartitionRoutes::new());
        let kept = KeptMessages::new(&runtime, routes.clone(), (1, 10));
        let thread = NodeThread::new(
            membership,
            (
                clock,
                routes,
                Arc::new(link),
                Arc::new(live),
                Arc::default(),
            ),
            Arc::new(kept),
            inbox.clone(),
            Arc::default(),
        );
        (thread, inbox, asked)
    }

    #[test]
    fn a_node_whose_life_is_over_grants_no_wish_any_more() {
        let (thread, inbox, asked) = thread(Failure::LifeOver);
        let (told, fates) = mpsc::channel();
        for what in [Wish::Drain(MEMBER), Wish::Pin(Partition(7), None)] {
            let told = told.clone();
            let done = Box::new(move |done| told.send(done).expect("it is heard"));
            assert!(inbox.wish(OperatorWish { what, done }).is_ok());
        }
        drop(told);
        thread.run();
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        assert!(
            fates.recv().is_err(),
            "nothing was done, and nobody says so"
        );
    }

    /// Others would give away what nobody serves until the server has read what it needs. An operator who wants it drained is not
    /// overruled.
    #[test]
    fn a_node_is_assigned_nothing_before_it_can_serve() {
        for is_drained in [false, true] {
            let (mut thread, _, asked) = thread(Failure::Away);
            thread.is_drained = is_drained;
            let beat = |thread: &mut NodeThread| {
                let beaten = thread.node.on_reply(thread.clock.now(), draining());
                thread.follow(beaten);
            };
            beat(&mut thread);
            assert_eq!(asked.load(Ordering::Relaxed), 0, "it cannot serve");
            let ready = thread.take(NodeEvent::CanServe);
            thread.follow(ready);
            let counts = match is_drained {
                // The first time there is no answer.
                false => [2, 3, 4],
                true => [0; 3],
            };
            for count in counts {
                beat(&mut thread);
                let asked = asked.load(Ordering::Relaxed);
                assert_eq!(asked, count, "with each view that shows it as drained");
            }
        }
    }

    /// A view in which the node is marked as draining.
    fn draining() -> Reply {
        Reply::Beaten(Ok(View {
            nodes: vec![NodeView {
                member: MEMBER,
                name: "alpha".into(),
                life: Life::Current,
                is_draining: true,
            }],
            partitions: Vec::new(),
        }))
    }

    const MEMBER: Member = Member {
        node: NodeNumber(1),
        epoch: 1,
    };
}
