use super::{fold::NodeParts, origins_by_version::OriginsByVersion};
use crate::bus::Event;

/// What a shard stores about other nodes. It exists only once another node has
/// published, so other publishes skip it.
pub(in crate::bus) struct Nodes<E: Event> {
    /// The state of each node, if the topic folds.
    pub(in crate::bus) parts: NodeParts<E>,
    /// The nodes that made the changes, other than this node.
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
    /// Whether nothing is known of other nodes.
    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.origins.is_empty()
    }
}
