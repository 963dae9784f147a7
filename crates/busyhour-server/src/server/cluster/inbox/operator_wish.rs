//! What an operator wants of the cluster. It is a transaction of its own, and answered after that.

use busyhour_cluster::{Member, NodeNumber, Partition};
use busyhour_store::Completion;

/// A wish, and who is told what became of it. Dropped without a word when the node's life is over.
pub(in crate::server::cluster) struct OperatorWish {
    pub(in crate::server::cluster) what: Wish,
    pub(in crate::server::cluster) done: Completion,
}

/// What an operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server::cluster) enum Wish {
    /// That a member gives away what it has.
    Drain(Member),
    /// That a node has a partition, or with `None` whoever it falls to.
    Pin(Partition, Option<NodeNumber>),
}
