//! Who said the last of each key, where that was another node.

use super::fold::NodeId;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// The nodes that made the changes of a shard that its table holds, by the
/// changes' versions. A change that is not here is this node's.
pub(in crate::bus) struct OriginsByVersion {
    origins: HashMap<u64, NodeId, FixedState>,
}

impl OriginsByVersion {
    pub(in crate::bus) fn new() -> Self {
        Self {
            origins: HashMap::default(),
        }
    }

    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// The other node that made the change.
    pub(in crate::bus) fn of(&self, version: u64) -> Option<NodeId> {
        self.origins.get(&version).copied()
    }

    /// Takes note of who makes a change; none is this node.
    pub(in crate::bus) fn note(&mut self, version: u64, origin: Option<NodeId>) {
        match origin {
            Some(origin) => drop(self.origins.insert(version, origin)),
            None => self.forget(version),
        }
    }

    /// Forgets of a change that the table no longer holds.
    pub(in crate::bus) fn forget(&mut self, version: u64) {
        if self.origins.remove(&version).is_none() {
            return;
        }
        if self.origins.capacity() > 4 * self.origins.len().max(64) {
            self.origins.shrink_to_fit();
        }
    }
}
