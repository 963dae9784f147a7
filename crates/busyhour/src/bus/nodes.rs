use super::{Event, fold::NodeParts, speakers::Speakers};

/// What a shard knows of other nodes. While they have said nothing there is
/// none of it, and a publish passes it by.
pub(super) struct Nodes<E: Event> {
    /// What each node says, where the topic folds.
    pub(super) parts: NodeParts<E>,
    /// Who made the changes that are not this node's.
    pub(super) speakers: Speakers,
}

impl<E: Event> Default for Nodes<E> {
    fn default() -> Self {
        Self {
            parts: NodeParts::new(),
            speakers: Speakers::new(),
        }
    }
}

impl<E: Event> Nodes<E> {
    /// Whether all that is known is this node's.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.speakers.is_empty()
    }
}
