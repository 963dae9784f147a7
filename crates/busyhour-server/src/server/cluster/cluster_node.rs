//! This node, for the rest of the server.

use super::{
    ClusterMembership, NodeLife, NodeWay,
    direct::node_paths::NodePaths,
    inbox::{
        node_inbox::{NodeEvent, NodeInbox},
        operator_wish::{OperatorWish, Wish},
    },
    kept::kept_messages::{KeptMessages, kept_question::OnOwner},
    live_states::LiveStates,
    node_link::NodeLink,
    node_thread::{NodeThread, node_turns::NodeTurns},
    partition_routes::{PartitionOwner, PartitionRoutes},
    partitions::{partition_inbox::PartitionInbox, served_partitions},
    view::{AddressOwner, ClusterNodeView, ClusterStats, LastView},
};
use crate::server::{random::random_key, stats::counters::Counter};
use busyhour::{clock::Clock, runtime::Runtime};
use busyhour_cluster::{
    BrokerMessage, Grant, Incarnation, Life, Member, NodeView, Partition, View,
};
use busyhour_store::{Completion, Refused};
use std::{collections::BTreeSet, io, sync::Arc, thread, time::Duration};

/// The node: its routes, what it knows of the others, and the ways to its threads.
pub(in crate::server) struct ClusterNode {
    pub(in crate::server) routes: Arc<PartitionRoutes>,
    pub(in crate::server) link: Arc<NodeLink>,
    pub(in crate::server) live: Arc<LiveStates>,
    /// Requests whose address nobody has at the moment.
    pub(in crate::server) kept: Arc<KeptMessages>,
    /// Those for which there was no room, or for which nobody came.
    pub(super) set_aside: Counter,
    member: Member,
    clock: Clock,
    last_view: Arc<LastView>,
    pub(super) inbox: Arc<NodeInbox>,
    pub(super) partitions: Arc<PartitionInbox>,
    /// Instead of threads, where the database answers at once.
    pub(super) turns: Option<Arc<NodeTurns>>,
}

impl ClusterNode {
    /// Begins to renew the lease, and to have partitions. A source of requests has so many percent of what is kept for the
    /// other nodes.
    pub(in crate::server) fn start(
        mut membership: ClusterMembership,
        runtime: &Runtime,
        source_percent: u64,
    ) -> io::Result<Self> {
        let clock = runtime.clock().clone();
        let routes = Arc::new(PartitionRoutes::new());
        let last_view = Arc::new(LastView::default());
        let inbox = Arc::new(NodeInbox::default());
        let partitions = Arc::new(PartitionInbox::default());
        let settled = inbox.clone();
        routes.tell(Box::new(move |partition| {
            settled.push(NodeEvent::Settled(partition));
        }));
        let announced = inbox.clone();
        let heard = Box::new(move |_| announced.push(NodeEvent::Announced));
        let subject = format!("{}.announce", membership.subjects);
        if let Err(error) = membership.broker.subscribe(&subject, heard) {
            // Each beat tells the same, a little later.
            tracing::warn!(%error, "announcements of other nodes are not heard");
        }
        let served = inbox.clone();
        let heard = Box::new(move |message: BrokerMessage| {
            for grant in served_partitions::from_bytes(&message.payload) {
                served.push(NodeEvent::Served(grant));
            }
        });
        let subject = format!("{}.served", membership.subjects);
        if let Err(error) = membership.broker.subscribe(&subject, heard) {
            // It is given partitions more slowly.
            tracing::warn!(%error, "which partitions other nodes serve is not heard");
        }
        let (subjects, member) = (membership.subjects.clone(), membership.member);
        let salt = random_key(runtime).map_err(io::Error::other)?;
        let paths = membership.direct.take().and_then(|socket| {
            let own = (member, membership.secret, salt);
            NodePaths::new(own, socket, runtime.buffers().clone(), clock.clone())
        });
        if paths.is_none() {
            tracing::warn!(
                event = "nodes_over_nats_only",
                "this node has no socket for datagrams of other nodes, so all goes over NATS, which costs more"
            );
        }
        let broker = membership.broker.clone();
        let shares = (random_number(runtime)?, source_percent);
        let link = Arc::new(NodeLink::new(broker, paths, subjects, member, shares));
        let shares = (random_number(runtime)?, source_percent);
        let kept = Arc::new(KeptMessages::new(runtime, routes.clone(), shares));
        let incarnation = incarnation(runtime, member)?;
        let live = Arc::new(LiveStates::new(
            runtime,
            incarnation,
            membership.broker.clone(),
            &membership.subjects,
        ));
        let mut node = Self {
            routes: routes.clone(),
            link: link.clone(),
            live: live.clone(),
            kept: kept.clone(),
            set_aside: Counter::default(),
            member: membership.member,
            clock: clock.clone(),
            last_view: last_view.clone(),
            inbox: inbox.clone(),
            partitions: partitions.clone(),
            turns: None,
        };
        let has_thread = membership.ownership.blocks();
        let thread = NodeThread::new(
            membership,
            (clock, routes, link, live, last_view),
            kept,
            inbox.clone(),
            partitions,
        );
        if has_thread {
            let builder = thread::Builder::new().name("bh-cluster".into());
            builder.spawn(move || thread.run())?;
        } else {
            node.turns = Some(NodeTurns::begin(runtime, &inbox, thread));
        }
        Ok(node)
    }

    pub(in crate::server) fn member(&self) -> Member {
        self.member
    }

    /// A number that no other life of a node begins with, and room for four billion behind it.
    pub(in crate::server) fn first_id(&self) -> u64 {
        u64::from(self.member.node.0) << 48 | (self.member.epoch & 0xffff) << 32
    }

    /// What these partitions have is in memory.
    pub(super) fn loaded(&self, grants: impl IntoIterator<Item = Grant>) {
        for grant in grants {
            self.inbox.push(NodeEvent::Loaded(grant));
        }
    }

    /// The server is ready: from now on it may be assigned partitions.
    pub(super) fn can_serve(&self) {
        self.inbox.push(NodeEvent::CanServe);
    }

    /// Gives everything away and ends this life; `false` if the deadline passed first.
    pub(in crate::server) fn leave(&self, deadline: Duration) -> bool {
        self.inbox.push(NodeEvent::LeaveWanted);
        self.last_view.wait_for_end(deadline)
    }

    /// Lets a node give its partitions to the others; it goes on living. `false` if no node of
    /// this name lives; otherwise `done` is told when that is in the database.
    ///
    /// # Errors
    ///
    /// When too many such wishes wait, or the life of this node is over.
    pub(in crate::server) fn drain(&self, name: &str, done: Completion) -> Result<bool, Refused> {
        let is_it = |node: &&NodeView| &*node.name == name && node.life != Life::Over;
        match self.find(is_it) {
            Some(member) => self.wish(Wish::Drain(member), done),
            None => Ok(false),
        }
    }

    /// Lets a node have a partition from now on while it lives, or with `None` whoever it falls to.
    /// `false` if no node ever had this name; otherwise `done` is told when that is in the database.
    ///
    /// # Errors
    ///
    /// As for [`drain`](Self::drain).
    pub(in crate::server) fn move_partition(
        &self,
        partition: Partition,
        to: Option<&str>,
        done: Completion,
    ) -> Result<bool, Refused> {
        let number = to.map(|to| self.find(|node| &*node.name == to));
        if number == Some(None) {
            return Ok(false);
        }
        let number = number.flatten().map(|member| member.node);
        self.wish(Wish::Pin(partition, number), done)
    }

    pub(super) fn find(&self, is_it: impl Fn(&&NodeView) -> bool) -> Option<Member> {
        let kept = self.last_view.get();
        let node = kept.as_ref()?.nodes.iter().find(is_it)?;
        Some(node.member)
    }

    /// The other nodes that live and have partitions, also those that are drained.
    pub(super) fn other_owners(&self) -> BTreeSet<Member> {
        let view = self.last_view.get();
        let view = view.as_ref().into_iter();
        let is_current = |view: &View, member: Member| {
            let mut nodes = view.nodes.iter();
            nodes.any(|node| node.member == member && node.life == Life::Current)
        };
        let owners = view.flat_map(|view| {
            let owners = (view.partitions.iter()).filter_map(|partition| partition.owner);
            owners.filter(|owner| is_current(view, *owner))
        });
        owners
            .filter(|owner| owner.node != self.member().node)
            .collect()
    }

    fn wish(&self, what: Wish, done: Completion) -> Result<bool, Refused> {
        self.inbox.wish(OperatorWish { what, done }).map(|()| true)
    }

    /// Who has an address of record.
    pub(in crate::server) fn owner_of(&self, aor: &str) -> AddressOwner {
        let owner = match self.routes.owner(aor, self.clock.now()) {
            PartitionOwner::Here => return AddressOwner::Here,
            PartitionOwner::Nobody => return AddressOwner::Nobody,
            PartitionOwner::At { node, .. } => node,
        };
        let kept = self.last_view.get();
        let mut nodes = kept.as_ref().into_iter().flat_map(|view| &view.nodes);
        match nodes.find(|node| node.member.node == owner) {
            Some(node) => AddressOwner::Other(node.name.to_string()),
            None => AddressOwner::Nobody,
        }
    }

    /// Tells when somebody has an address of record: at once, if somebody has it. What is to be told is dropped if nobody
    /// has it in time.
    pub(in crate::server) fn tell_of_owner(&self, aor: &str, is_of_node: bool, told: OnOwner) {
        self.kept.ask(Partition::of(aor), is_of_node, told);
    }

    /// Every node of the cluster, by its number.
    pub(in crate::server) fn list(&self) -> Vec<ClusterNodeView> {
        let view = self.last_view.get();
        let Some(view) = view.as_ref() else {
            return Vec::new();
        };
        let owners: Vec<_> = view
            .iter()
            .map(|(partition, _)| view.owner(partition))
            .collect();
        let node = |node: &NodeView| ClusterNodeView {
            name: node.name.to_string(),
            number: node.member.node.0,
            epoch: node.member.epoch,
            life: match (node.life, node.is_draining) {
                (Life::Current, false) => NodeLife::Up,
                (Life::Current, true) => NodeLife::Draining,
                (Life::Late, _) => NodeLife::Late,
                (Life::Over, _) => NodeLife::Down,
            },
            partitions: owners
                .iter()
                .filter(|owner| **owner == Some(node.member))
                .count() as u64,
            pinned: (view.iter())
                .filter(|(_, found)| found.pinned == Some(node.member.node))
                .map(|(partition, _)| partition.0)
                .collect(),
            is_asked: node.member == self.member,
            way: self.way_to(node.member),
        };
        view.nodes.iter().map(node).collect()
    }

    /// How messages go to a node; of this one, whether others may send it datagrams.
    fn way_to(&self, member: Member) -> NodeWay {
        let paths = self.link.paths.as_ref();
        match paths.is_some_and(|paths| member == self.member || paths.is_open_to(member)) {
            true => NodeWay::Datagrams,
            false => NodeWay::Nats,
        }
    }

    pub(in crate::server) fn stats(&self) -> ClusterStats {
        let (nodes, counters) = (self.list(), &self.link.counters);
        let kept = self.kept.figures();
        let (live, states) = (&self.live.counters, self.live.figures());
        let questions = &self.link.questions;
        let of_paths = |figure: fn(&NodePaths) -> u64| self.link.paths.as_ref().map_or(0, figure);
        ClusterStats {
            has_lease: self.routes.has_lease(self.clock.now()),
            is_broker_connected: self.link.broker().is_connected(),
            nats_lost: self.link.broker().lost_count(),
            partitions_served: self.routes.served_count(),
            partitions_owned: nodes
                .iter()
                .filter(|it| it.is_asked)
                .map(|it| it.partitions)
                .sum(),
            partitions_orphaned: PARTITIONS
                .saturating_sub(nodes.iter().map(|it| it.partitions).sum()),
            handed_on: counters.handed_on.get(),
            not_taken: counters.not_taken.get(),
            taken: counters.taken.get(),
            sent_for_others: counters.sent_for_others.get(),
            undelivered: counters.undelivered.get(),
            handed_unconfirmed: self.link.handed.unconfirmed.get(),
            handed_lost: self.link.handed.lost.get(),
            notices_waiting: self.link.notices_waiting(),
            notices_given_up: self.link.notices_given_up(),
            notices_over_share: self.link.notices_over_share(),
            nodes_direct: of_paths(NodePaths::open_count),
            sent_directly: of_paths(|paths| paths.counters.sent.get()),
            sent_in_pieces: of_paths(|paths| paths.counters.sent_in_pieces.get()),
            pieces_lost: of_paths(|paths| paths.counters.pieces_lost.get()),
            pieces_over_share: of_paths(|paths| paths.counters.pieces_over_share.get()),
            direct_refused: of_paths(|paths| paths.counters.refused.get()),
            connections_checked: counters.connections_checked.get(),
            connections_ended: counters.connections_ended.get(),
            connections_unanswered: counters.connections_unanswered.get(),
            keepalives_passed_on: counters.keepalives_passed_on.get(),
            flows_known: self.link.registered_flows.len(),
            flows_forgotten: self.link.registered_flows.forgotten_count(),
            flows_over_share: self.link.registered_flows.over_share_count(),
            handed_over_share: self.link.over_share_count(),
            responses_forgotten: counters.responses_forgotten.get(),
            set_aside: self.set_aside.get(),
            kept: kept.kept,
            kept_waiting: kept.waiting,
            kept_copies: kept.copies,
            kept_refused: kept.refused,
            kept_late: kept.late,
            kept_time_p50_ns: kept.time_p50_ns,
            kept_time_p99_ns: kept.time_p99_ns,
            kept_time_max_ns: kept.time_max_ns,
            http_asked: questions.asked.get(),
            http_unanswered: questions.unanswered.get(),
            http_answered: questions.heard.get(),
            is_whole: states.is_whole,
            is_version_mixed: self.live.other_versions.are_there(),
            other_version_heard: self.live.other_versions.heard.get(),
            unreadable: self.live.other_versions.unreadable.get(),
            resyncs: states.resyncs,
            states_told: states.told,
            states_watched: states.watched,
            states_awaited: states.unheard,
            states_not_sent: live.not_sent.get(),
            states_not_taken: live.not_taken.get(),
            states_too_large: states.too_large,
            nodes_up: nodes.iter().filter(|it| it.life == NodeLife::Up).count() as u64,
        }
    }
}

impl Drop for ClusterNode {
    /// Its threads end; the lease does by itself, unless the node has left.
    fn drop(&mut self) {
        self.inbox.push(NodeEvent::Gone);
        self.partitions.end();
    }
}

/// This process, for those who hear its live states.
fn incarnation(runtime: &Runtime, member: Member) -> io::Result<Incarnation> {
    Ok(Incarnation::new(member, random_number(runtime)?))
}

fn random_number(runtime: &Runtime) -> io::Result<u64> {
    let random = random_key(runtime).map_err(io::Error::other)?;
    let random = random.first_chunk().copied().map(u64::from_le_bytes);
    Ok(random.unwrap_or_default())
}

const PARTITIONS: u64 = busyhour_cluster::PARTITION_COUNT as u64;
