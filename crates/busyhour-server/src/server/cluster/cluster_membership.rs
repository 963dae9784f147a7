use busyhour_cluster::{Broker, Member, Ownership, Timing};
use std::{fmt, sync::Arc, time::Instant};

/// The life of a node that has joined a cluster, and what it goes on with.
pub struct ClusterMembership {
    /// Which life of which node.
    pub member: Member,
    /// How long leases last.
    pub timing: Timing,
    /// From before it asked to join.
    pub asked_at: Instant,
    /// Where leases and owners are kept.
    pub ownership: Box<dyn Ownership>,
    /// What carries messages between nodes.
    pub broker: Arc<dyn Broker>,
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
