//! The nodes that made the last changes of keys, except this node.

use super::fold::NodeId;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// The origins of those changes in a shard's table that other nodes made, by
/// version. A change that is not here was made by this node.
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

    /// The node that made the change, if it was another one.
    pub(in crate::bus) fn of(&self, version: u64) -> Option<NodeId> {
        self.origins.get(&version).copied()
    }

    /// Records the origin of a change; `None` for this node.
    pub(in crate::bus) fn note(&mut self, version: u64, origin: Option<NodeId>) {
        match origin {
            Some(origin) => drop(self.origins.insert(version, origin)),
            None => self.forget(version),
        }
    }

    /// Forgets a change that is no longer in the table.
    pub(in crate::bus) fn forget(&mut self, version: u64) {
        if self.origins.remove(&version).is_none() {
            return;
        }
        if self.origins.capacity() > 4 * self.origins.len().max(64) {
            self.origins.shrink_to_fit();
        }
    }
}
