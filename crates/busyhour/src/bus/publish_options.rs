use super::NodeId;

/// How to publish or to remove.
#[derive(Clone, Copy)]
pub(super) struct PublishOptions {
    pub(super) may_wait: bool,
    /// Another topic passes it on: a state of all nodes, if that one folds.
    is_forwarded: bool,
    /// The node that speaks; none means this one.
    pub(super) origin: Option<NodeId>,
}

/// On what condition a key is cleared.
pub(super) enum RemoveCondition<'a, E> {
    Any,
    /// This is the version of its last event.
    Version(u64),
    /// This node spoke last; none means this one.
    SaidBy(Option<NodeId>),
    /// Its last event is one of these.
    Matching(&'a dyn Fn(&E) -> bool),
}

impl<E> RemoveCondition<'_, E> {
    /// What says of a last event whether it is meant.
    pub(super) fn is_wanted(&self) -> Option<&dyn Fn(&E) -> bool> {
        match self {
            Self::Matching(is_wanted) => Some(is_wanted),
            Self::Any | Self::Version(_) | Self::SaidBy(_) => None,
        }
    }
}

impl PublishOptions {
    /// By this node or by another one that is named.
    #[inline(always)]
    pub(super) fn from(origin: Option<NodeId>) -> Self {
        Self {
            may_wait: true,
            is_forwarded: false,
            origin,
        }
    }

    /// By this node, on behalf of nobody who could wait.
    pub(super) fn at_once() -> Self {
        Self {
            may_wait: false,
            ..Self::from(None)
        }
    }

    /// By a topic that passes it on.
    pub(super) fn forwarded(origin: Option<NodeId>) -> Self {
        Self {
            may_wait: false,
            is_forwarded: true,
            origin,
        }
    }

    /// Whose part of a fold it is about; none means this node's.
    pub(super) fn part(self) -> Option<NodeId> {
        self.origin.filter(|_| !self.is_forwarded)
    }
}
