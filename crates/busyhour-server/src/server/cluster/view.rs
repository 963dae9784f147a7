//! What is told of the cluster.

use busyhour_cluster::View;
use serde::Serialize;
use std::{
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};

/// A node, as this one knows it from its last beat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterNodeView {
    /// `cluster.node`.
    pub name: String,
    /// Its number, which belongs to the name for ever.
    pub number: u16,
    /// Which of its lives.
    pub epoch: u64,
    /// How it is.
    pub life: NodeLife,
    /// How many of the 256 partitions it owns.
    pub partitions: u64,
    /// The partitions that an operator has moved to it; it has them while it lives.
    pub pinned: Vec<u8>,
    /// Whether it is the one that answers here.
    pub is_asked: bool,
    /// How messages of the one that answers go to it; of that one, whether it takes datagrams.
    pub way: NodeWay,
}

/// Which node has an address of record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressOwner {
    /// This one, or the server is alone.
    Here,
    /// The node of this name.
    Other(String),
    /// Nobody at the moment; it takes a lease at most until somebody has.
    Nobody,
}

/// How messages go to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeWay {
    /// In datagrams; what belongs to connections goes over NATS.
    Datagrams,
    /// All over NATS, which costs more.
    Nats,
}

/// Whether a node lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeLife {
    /// Its lease is current.
    Up,
    /// The same, and nothing is assigned to it, since it gives its partitions away or is starting.
    Draining,
    /// Its lease is over, and nobody has ended its life yet.
    Late,
    /// It has left, or its life was ended.
    Down,
}

/// How this node of a cluster is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClusterStats {
    /// Whether its lease holds; without it nothing is answered.
    pub has_lease: bool,
    /// Whether NATS can be reached.
    pub is_broker_connected: bool,
    /// How often messages came from NATS faster than they were taken, so that some were lost, or a piece of a large one was missing.
    pub nats_lost: u64,
    /// Partitions that are served here now.
    pub partitions_served: u64,
    /// Partitions that this node owns, by its last beat.
    pub partitions_owned: u64,
    /// Partitions that nobody owns, by its last beat.
    pub partitions_orphaned: u64,
    /// Requests handed to the node that has their address of record.
    pub handed_on: u64,
    /// Those that came over a connection and that it did not take, or whose answer did not come within
    /// 2 s; and datagrams of other nodes that this one did not take.
    pub not_taken: u64,
    /// Requests that other nodes handed to this one.
    pub taken: u64,
    /// Messages that left over flows of this node for others.
    pub sent_for_others: u64,
    /// Messages for flows of other nodes that were lost, since neither NATS nor the other node could be
    /// reached.
    pub undelivered: u64,
    /// Requests in datagrams that were handed on, of which no node says whether they were taken.
    pub handed_unconfirmed: u64,
    /// Such requests of other nodes that did not come here: 4,096 later ones have been said, or their
    /// node is gone.
    pub handed_lost: u64,
    /// Nodes that are reached by datagrams, without NATS.
    pub nodes_direct: u64,
    /// Messages that went to other nodes by datagrams.
    pub sent_directly: u64,
    /// Those of them that were longer than a packet, and went in pieces.
    pub sent_in_pieces: u64,
    /// Datagrams that no living node has sealed for this one, that came twice, or for which there was no buffer.
    pub direct_refused: u64,
    /// Long messages of other nodes that are lost, since a piece of them has not come within 2 s or there was no room.
    pub pieces_lost: u64,
    /// Those of them for which there was no room, since most of what waited was of their source.
    pub pieces_over_share: u64,
    /// Ends of calls that other nodes were told and have not answered yet; they are told again.
    pub notices_waiting: u64,
    /// Those that were given up, since 4,096 others waited: such a lamp is lit until the session of the call ends.
    pub notices_given_up: u64,
    /// Those of them whose source had more than its share of what waited.
    pub notices_over_share: u64,
    /// Connections at other nodes of which this one has asked whether they stand: those of telephones and watchers
    /// whose partition it was granted, and those whose end it may have missed.
    pub connections_checked: u64,
    /// Those that had ended.
    pub connections_ended: u64,
    /// Those about which their node gave no answer; it is asked again.
    pub connections_unanswered: u64,
    /// Keep-alives of telephones at this node that the nodes were told which have them.
    pub keepalives_passed_on: u64,
    /// Flows of telephones that are registered in datagrams, whose keep-alives are passed on.
    pub flows_known: u64,
    /// Flows of telephones whose keep-alives are not passed on any more, for want of room.
    pub flows_forgotten: u64,
    /// Flows of telephones whose keep-alives are not passed on, since their source has its share.
    pub flows_over_share: u64,
    /// Requests over connections that were not handed on, since those of their source that wait are its share.
    pub handed_over_share: u64,
    /// Requests that left over flows of this node for others, and were forgotten for want of room while a response could
    /// come.
    pub responses_forgotten: u64,
    /// Requests whose address of record nobody had at the moment, and that did not wait, or that nobody served while they waited:
    /// over connections they are answered 503, and datagrams are dropped, since they are sent again.
    pub set_aside: u64,
    /// Requests that have waited, since their partition was on its way from one node to another; one that had to wait again counts again.
    pub kept: u64,
    /// Those that wait now.
    pub kept_waiting: u64,
    /// Copies of requests that waited.
    pub kept_copies: u64,
    /// Requests that did not wait, since there was no room, or their source had its share of it.
    pub kept_refused: u64,
    /// Those that nobody served within 2 s after their last copy.
    pub kept_late: u64,
    /// Half of what waited, requests and questions over HTTP, waited no longer than this; late ones are among them.
    pub kept_time_p50_ns: u64,
    /// 99 of 100 waited no longer than this.
    pub kept_time_p99_ns: u64,
    /// None waited longer than this.
    pub kept_time_max_ns: u64,
    /// Requests of the HTTP interface that other nodes were asked for their part of.
    pub http_asked: u64,
    /// Those to which no answer came within 5 s, or that could not be sent.
    pub http_unanswered: u64,
    /// Such requests of other nodes.
    pub http_answered: u64,
    /// Whether everything is known that the other nodes have said of devices; otherwise a hint, a
    /// list or a lamp may show an old state of another node's device.
    pub is_whole: bool,
    /// Whether a node lives whose program is of another version, so that it and this one do not tell each
    /// other what their devices do.
    pub is_version_mixed: bool,
    /// Messages of such nodes.
    pub other_version_heard: u64,
    /// Messages that no version of this program says.
    pub unreadable: u64,
    /// How often all that a node has said was read again, since something had been missed.
    pub resyncs: u64,
    /// States that this node tells the others: devices that they watch, devices of theirs that it
    /// watches, and dialogs of their devices that it carries.
    pub states_told: u64,
    /// Devices of other nodes that are watched here.
    pub states_watched: u64,
    /// Those of which no owner has said anything yet, as just after this node has joined.
    pub states_awaited: u64,
    /// Messages about states that could not be sent; who misses them reads all again.
    pub states_not_sent: u64,
    /// Messages about states for which there was no room, which are read again.
    pub states_not_taken: u64,
    /// States that were not told to the others, since they were larger than 8 MiB.
    pub states_too_large: u64,
    /// Nodes that live and do not drain.
    pub nodes_up: u64,
}

/// What the last beat has read, and whether the node's life is over.
#[derive(Default)]
pub(super) struct LastView {
    kept: Mutex<KeptView>,
    ended: Condvar,
}

#[derive(Default)]
pub(super) struct KeptView {
    view: Option<View>,
    has_ended: bool,
}

impl KeptView {
    pub(super) fn as_ref(&self) -> Option<&View> {
        self.view.as_ref()
    }
}

impl LastView {
    pub(super) fn get(&self) -> MutexGuard<'_, KeptView> {
        self.kept
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn set(&self, view: Option<&View>) {
        self.get().view = view.cloned();
    }

    pub(super) fn end(&self) {
        self.get().has_ended = true;
        self.ended.notify_all();
    }

    /// `false` if the deadline passed first.
    pub(super) fn wait_for_end(&self, deadline: Duration) -> bool {
        let waited = (self.ended).wait_timeout_while(self.get(), deadline, |kept| !kept.has_ended);
        waited
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .0
            .has_ended
    }
}
