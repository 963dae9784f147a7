//! The bindings of one address of record.

use super::{Binding, BindingChange, BindingId, Contact, Lease, Moment};
use busyhour::clock::Instant;
use std::{sync::Arc, time::Duration};

/// The bindings of one address of record, removed ones included until they
/// have outlived every duplicate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bindings {
    pub(super) list: Vec<Binding>,
}

/// What ran out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// What the store has to forget.
    pub changes: Vec<BindingChange>,
    /// How many of them were active until now.
    pub active_count: usize,
}

impl Bindings {
    /// Takes a stored binding back in. Returns `false`, and takes nothing, when
    /// its lease is over: the store may forget it.
    pub fn restore(
        &mut self,
        id: BindingId,
        contact: Arc<Contact>,
        lease: Lease,
        at: Moment,
    ) -> bool {
        let remaining = lease.remaining(at.unix);
        if remaining.is_zero() {
            return false;
        }
        self.list.push(Binding {
            id,
            contact,
            lease,
            expires_at: at.now + remaining,
        });
        true
    }

    /// The bindings that are valid at `now`, in the order in which they were made.
    pub fn active(&self, now: Instant) -> impl Iterator<Item = &Binding> {
        self.list
            .iter()
            .filter(move |binding| binding.is_active(now))
    }

    /// Whether nothing is left, not even a removed lease.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// When the next lease ends.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.list.iter().map(|binding| binding.expires_at).min()
    }

    /// Drops every lease that has ended at `now`.
    pub fn expire(&mut self, now: Instant) -> Expired {
        let mut expired = Expired::default();
        self.list.retain(|binding| {
            let alive = binding.expires_at > now;
            if !alive {
                expired.active_count += usize::from(!binding.lease.removed);
                expired
                    .changes
                    .push(BindingChange::Remove { id: binding.id });
            }
            alive
        });
        expired
    }
}

/// For how long a removed lease is remembered: no duplicate of a request is
/// younger than the 64 × T1 for which its client retransmits (RFC 3261 §17.1.2.2).
pub const REMOVED_FOR: Duration = Duration::from_secs(32);
