//! Where a setting comes from, and what may be refused of it.

/// Where a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingSource {
    /// Somebody wants it set now, and is told if that is not possible.
    Request,
    /// The store has it, from another node or an earlier run. All nodes have to have the same, so it
    /// is refused only where there is no room at all.
    Store,
}

impl SettingSource {
    /// How many may be there. Nodes that are asked at the same time may all have the last place to give,
    /// and what they promised is kept.
    pub(super) fn count_max(self, limit: usize) -> usize {
        match self {
            Self::Request => limit,
            Self::Store => limit.saturating_mul(2),
        }
    }
}
