//! What a NOTIFY says of its subscription: Event and Subscription-State.

use crate::watch::{NotifyRates, WatcherEvent};
use busyhour::clock::Instant;
use std::fmt::{self, Display, Formatter};

/// Why a subscription is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The watcher unsubscribed or only fetched the state.
    Unsubscribed,
    /// Its lifetime passed without a refresh.
    Expired,
    /// The server shuts down.
    Deactivated,
    /// Who opened it has no account any more.
    Rejected,
    /// What it watches is not there any more.
    NoResource,
    /// The watcher answered a NOTIFY with this status.
    Refused(u16),
    /// The watcher did not answer a NOTIFY in 32 s.
    Unanswered,
}

impl From<End> for WatcherEvent {
    fn from(end: End) -> Self {
        match end {
            End::Deactivated => Self::Deactivated,
            End::Rejected => Self::Rejected,
            End::NoResource => Self::NoResource,
            End::Unsubscribed | End::Expired | End::Refused(_) | End::Unanswered => Self::Timeout,
        }
    }
}

/// How far a subscription is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::watch) enum Phase {
    Active,
    /// The last NOTIFY is owed or on its way; if it cannot be written by the given time
    /// for lack of a state or a buffer, it is given up.
    Ending(End, Instant),
    Over(End),
}

/// The value of Event: a package and an id.
pub(in crate::watch) struct EventValue<'s>(
    pub(in crate::watch) &'s str,
    pub(in crate::watch) Option<&'s str>,
);

/// The value of Subscription-State.
#[derive(Clone, Copy)]
pub(in crate::watch) struct StateValue {
    pub(in crate::watch) phase: Phase,
    pub(in crate::watch) left_s: u32,
    pub(in crate::watch) rates: NotifyRates,
    /// It lives for one NOTIFY more, which has to follow.
    pub(in crate::watch) owes_more: bool,
}

impl Display for EventValue<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        match self.1 {
            Some(id) => write!(f, ";id={id}"),
            None => Ok(()),
        }
    }
}

impl Display for StateValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rates = self.rates;
        match self.phase {
            Phase::Active => write!(f, "active;expires={}{rates}", self.left_s),
            Phase::Ending(..) if self.owes_more => write!(f, "active;expires=0{rates}"),
            Phase::Ending(End::Deactivated, _) => f.write_str("terminated;reason=deactivated"),
            Phase::Ending(End::Rejected, _) => f.write_str("terminated;reason=rejected"),
            Phase::Ending(End::NoResource, _) => f.write_str("terminated;reason=noresource"),
            Phase::Ending(..) | Phase::Over(_) => f.write_str("terminated;reason=timeout"),
        }
    }
}
