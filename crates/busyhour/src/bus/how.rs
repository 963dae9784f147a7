use super::Origin;

/// How to publish or to clear.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) may_wait: bool,
    /// Another topic passes it on: a state of all nodes, if that one folds.
    is_forwarded: bool,
    /// The node that speaks; none means this one.
    pub(super) origin: Option<Origin>,
}

/// On what condition a key is cleared.
pub(super) enum Which<'a, E> {
    Any,
    /// This is the version of its last event.
    Version(u64),
    /// This node spoke last; none means this one.
    SaidBy(Option<Origin>),
    /// Its last event is one of these.
    Matching(&'a dyn Fn(&E) -> bool),
}

impl<E> Which<'_, E> {
    /// What says of a last event whether it is meant.
    pub(super) fn is_wanted(&self) -> Option<&dyn Fn(&E) -> bool> {
        match self {
            Self::Matching(is_wanted) => Some(is_wanted),
            Self::Any | Self::Version(_) | Self::SaidBy(_) => None,
        }
    }
}

impl How {
    /// By this node or by another one that is named.
    #[inline(always)]
    pub(super) fn from(origin: Option<Origin>) -> Self {
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
    pub(super) fn forwarded(origin: Option<Origin>) -> Self {
        Self {
            may_wait: false,
            is_forwarded: true,
            origin,
        }
    }

    /// Whose part of a fold it is about; none means this node's.
    pub(super) fn part(self) -> Option<Origin> {
        self.origin.filter(|_| !self.is_forwarded)
    }
}
