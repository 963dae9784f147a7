use super::{fold::NodeParts, origins_by_version::OriginsByVersion};
use crate::bus::Event;

/// What a shard knows of other nodes. While they have said nothing there is
/// none of it, and a publish passes it by.
pub(in crate::bus) struct Nodes<E: Event> {
    /// What each node says, where the topic folds.
    pub(in crate::bus) parts: NodeParts<E>,
    /// Who made the changes that are not this node's.
    pub(in crate::bus) origins: OriginsByVersion,
}

impl<E: Event> Default for Nodes<E> {
    fn default() -> Self {
        Self {
            parts: NodeParts::new(),
            origins: OriginsByVersion::new(),
        }
    }
}

impl<E: Event> Nodes<E> {
    /// Whether all that is known is this node's.
    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.origins.is_empty()
    }
}
