use crate::server::Network;
use busyhour_cluster::{Broker, Member, Ownership, Timing};
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

/// The life of a node that has joined a cluster, and what it goes on with.
pub struct ClusterMembership {
    /// Which life of which node.
    pub member: Member,
    /// How long leases last.
    pub timing: Timing,
    /// How long ago it asked to join.
    pub since_asked: Box<dyn Fn() -> Duration + Send>,
    /// Where leases and owners are kept.
    pub ownership: Box<dyn Ownership>,
    /// What carries messages between nodes.
    pub broker: Arc<dyn Broker>,
    /// What all nodes of the cluster know, and nobody else.
    pub secret: [u8; 32],
    /// How other nodes are reached without the broker; `None` if they are not.
    pub direct: Option<NodeSocket>,
    /// What the subjects of this cluster's messages begin with.
    pub subjects: String,
    /// Told when this life is over against the node's will; the program has to end then.
    pub on_end: Box<dyn Fn(String) + Send>,
}

impl fmt::Debug for ClusterMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMembership")
            .field("member", &self.member)
            .finish_non_exhaustive()
    }
}

/// The socket for datagrams between nodes.
pub struct NodeSocket {
    /// Sends them; what comes is given to [`Server::node_datagram`](crate::server::Server::node_datagram).
    pub network: Arc<dyn Network>,
    /// Where other nodes reach this one.
    pub address: SocketAddr,
}
