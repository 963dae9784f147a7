use super::{NodeId, cache::Expected};

/// How to publish or to remove.
#[derive(Clone, Copy)]
pub(super) struct PublishOptions {
    pub(super) may_wait: bool,
    /// Forwarded from another topic; if that topic folds, this is the state of
    /// all its nodes.
    is_forwarded: bool,
    /// The node that publishes or removes; `None` for this node.
    pub(super) origin: Option<NodeId>,
    /// Publishes only if this is the key's last value.
    pub(super) expected: Option<Expected>,
}

/// The condition under which a key is removed.
pub(super) enum RemoveCondition<'a, E> {
    Any,
    /// The last event of the key has this version.
    Version(u64),
    /// This node published last; `None` for this node.
    PublishedBy(Option<NodeId>),
    /// The last event satisfies this.
    Matching(&'a dyn Fn(&E) -> bool),
}

impl<E> RemoveCondition<'_, E> {
    /// The predicate on the last event, if the condition has one.
    pub(super) fn is_wanted(&self) -> Option<&dyn Fn(&E) -> bool> {
        match self {
            Self::Matching(is_wanted) => Some(is_wanted),
            Self::Any | Self::Version(_) | Self::PublishedBy(_) => None,
        }
    }
}

impl PublishOptions {
    /// By this node (`None`) or by another one.
    #[inline(always)]
    pub(super) fn from(origin: Option<NodeId>) -> Self {
        Self {
            may_wait: true,
            is_forwarded: false,
            origin,
            expected: None,
        }
    }

    /// By this node, if the key's last value is still this one.
    #[inline(always)]
    pub(super) fn expecting(expected: Expected) -> Self {
        Self {
            expected: Some(expected),
            ..Self::from(None)
        }
    }

    /// By this node, without waiting for room.
    pub(super) fn at_once() -> Self {
        Self {
            may_wait: false,
            ..Self::from(None)
        }
    }

    /// Forwarded by another topic.
    pub(super) fn forwarded(origin: Option<NodeId>) -> Self {
        Self {
            may_wait: false,
            is_forwarded: true,
            origin,
            expected: None,
        }
    }

    /// The node whose part of a fold changes; `None` for this node.
    pub(super) fn part(self) -> Option<NodeId> {
        self.origin.filter(|_| !self.is_forwarded)
    }
}
