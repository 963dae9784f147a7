//! All nodes and partitions, as the database had them at one moment.

use crate::{Member, NodeNumber, Partition};

/// What a beat reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// Every node that ever joined, by its number.
    pub nodes: Vec<NodeView>,
    /// Every partition, in order.
    pub partitions: Vec<PartitionView>,
}

/// A node as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeView {
    /// Its last life.
    pub member: Member,
    /// Its name.
    pub name: Box<str>,
    /// Whether that life goes on.
    pub life: Life,
    /// It is about to leave, so it gives everything away.
    pub is_draining: bool,
}

/// Whether a member lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Life {
    /// Its lease is current.
    Current,
    /// Its lease is over, and anybody may end its life.
    Late,
    /// It has left, or its life was ended.
    Over,
}

/// A partition as the database knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionView {
    /// Its last owner, whose life may be over.
    pub owner: Option<Member>,
    /// Counts its owners.
    pub epoch: u64,
    /// The node that should have it while it lives, since an operator said so.
    pub pinned: Option<NodeNumber>,
}

impl View {
    /// The owner of a partition; `None` if it is an orphan.
    pub fn owner(&self, partition: Partition) -> Option<Member> {
        let owner = self.partitions.get(partition.index())?.owner?;
        let is_alive = |node: &&NodeView| node.member == owner && node.life != Life::Over;
        self.nodes.iter().find(is_alive).map(|node| node.member)
    }

    /// The nodes that may be given partitions, by their numbers.
    pub fn candidates(&self) -> impl Iterator<Item = Member> {
        let is_candidate = |node: &&NodeView| node.life == Life::Current && !node.is_draining;
        self.nodes
            .iter()
            .filter(is_candidate)
            .map(|node| node.member)
    }

    /// All partitions with what is known of them.
    pub fn iter(&self) -> impl Iterator<Item = (Partition, PartitionView)> {
        (0..=u8::MAX)
            .map(Partition)
            .zip(self.partitions.iter().copied())
    }
}
