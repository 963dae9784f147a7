//! State with a lifetime other than bindings: subscriptions and publications.

use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingId, EndedBinding};
use std::time::Duration;

/// State that ends unless its owner prolongs it. The store knows only what it needs to
/// find and delete it.
///
/// ```
/// use busyhour::clock::UnixTime;
/// use busyhour_registrar::BindingId;
/// use busyhour_store::{SoftState, SoftStateKind};
///
/// let row = SoftState {
///     id: BindingId(7),
///     kind: SoftStateKind::Subscription,
///     value: "{}".into(),
///     granted_s: 60,
///     expires_at: UnixTime::from_secs(1_800_000_060),
/// };
/// assert_eq!(row.remaining(UnixTime::from_secs(1_800_000_050)).as_secs(), 10);
/// assert_eq!(row.remaining(UnixTime::from_secs(1)).as_secs(), 60, "the clock was set back");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftState {
    /// Its id. Bindings take ids from the same sequence, so an id names one row.
    pub id: BindingId,
    /// What it is.
    pub kind: SoftStateKind,
    /// Everything that its owner needs to restore it, as one text.
    pub value: Box<str>,
    /// Lifetime granted, in seconds: bounds the remaining life after a clock step.
    pub granted_s: u32,
    /// When it ends, see [`Now::steady`](busyhour_registrar::Now::steady).
    pub expires_at: UnixTime,
}

/// What a [`SoftState`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoftStateKind {
    /// A watcher's subscription.
    Subscription,
    /// What a device publishes.
    Publication,
}

impl SoftState {
    /// What is left at `steady`, and never more than was granted.
    pub fn remaining(&self, steady: UnixTime) -> Duration {
        let granted = Duration::from_secs(self.granted_s.into());
        (self.expires_at - steady).min(granted)
    }

    /// What the store needs to delete it once it has ended.
    pub fn ended(&self) -> EndedBinding {
        EndedBinding {
            id: self.id,
            expires_at: self.expires_at,
        }
    }
}

impl SoftStateKind {
    /// As it stands in a row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Subscription => "subscription",
            Self::Publication => "publication",
        }
    }

    /// The kind of a row; `None` if this version does not know it.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Subscription, Self::Publication];
        all.into_iter().find(|kind| kind.name() == name)
    }
}
