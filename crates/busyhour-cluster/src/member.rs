//! Who owns: nodes, their lives, and what they are granted.

use crate::Partition;
use std::fmt::{self, Display, Formatter};
use thiserror::Error;

/// The number of a node, from one up; it belongs to the node's name for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNumber(pub u16);

/// One life of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Which node.
    pub node: NodeNumber,
    /// Which of its lives; each has a higher number than those before.
    pub epoch: u64,
}

/// A partition in the hands of its owner.
///
/// The epoch tells this ownership from all others of the partition. Every commit names its grants,
/// and the database compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// Which partition.
    pub partition: Partition,
    /// The partition's epoch.
    pub epoch: u64,
}

/// Why the database did not do what a member asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Failure {
    /// The life of this member is over: its lease ended and another node raised its epoch.
    #[error("the lease of this node has ended, and another node has taken over")]
    LifeOver,
    /// There is no answer, and it is unknown whether it was done.
    #[error("the database gives no answer")]
    Away,
}

impl Display for NodeNumber {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
