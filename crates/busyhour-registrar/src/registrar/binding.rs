//! One binding: a contact, its lease, and the changes that make it durable.

use super::{Contact, REMOVED_FOR};
use busyhour::clock::{Instant, UnixTime};
use std::time::Duration;

/// Identifies one binding for its whole life, across refreshes and restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingId(pub u64);

/// A contact of an address of record, valid until its lease ends. It takes 40 bytes, since there may be a million.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its id.
    pub id: BindingId,
    /// The part that a refresh leaves alone.
    pub contact: Contact,
    /// When the lease ends, by this process's clock.
    pub expires_at: Instant,
    lease_ends_at: UnixTime,
    cseq: u32,
    /// The lifetime granted, and in the highest bit whether the device took the binding back.
    granted: u32,
}

/// The part of a binding that each refresh replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// CSeq number of the registration that granted it.
    pub cseq: u32,
    /// Lifetime granted, in seconds: bounds the remaining life after a clock step.
    pub granted_s: u32,
    /// When it ends, see [`Now::steady`].
    pub expires_at: UnixTime,
    /// The device took the binding back. It stays until `expires_at` only so
    /// that a late duplicate of an older registration cannot revive it.
    pub removed: bool,
}

/// One durable change of a binding.
///
/// A refresh touches only the narrow [`Lease`], so that a storm of refreshes
/// rewrites few pages; the wide [`Contact`] is written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindingChange {
    /// Stores a binding, and replaces the one with the same id.
    Put {
        /// The binding's id.
        id: BindingId,
        /// Canonical address of record, such as `sip:alice@example.com`.
        aor: Box<str>,
        /// Its lasting part.
        contact: Contact,
        /// Its lease.
        lease: Lease,
    },
    /// Replaces the lease of a stored binding; an unknown id changes nothing.
    Renew {
        /// The binding's id.
        id: BindingId,
        /// Its new lease.
        lease: Lease,
    },
    /// Deletes a binding; an unknown id changes nothing.
    Remove {
        /// The binding's id.
        id: BindingId,
    },
}

/// A binding whose lease has ended, for the store to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedBinding {
    /// Its id.
    pub id: BindingId,
    /// When its lease ended. A row whose lease ends at another time must stay.
    pub expires_at: UnixTime,
}

/// The current time by three clocks: a monotonic one for deadlines, calendar time to
/// show to people, and a steady one for stored leases, which does not change when
/// somebody sets the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time.
    pub now: Instant,
    /// Calendar time.
    pub unix: UnixTime,
    /// Calendar time as the store counts it: setting the clock does not change it.
    pub steady: UnixTime,
}

impl Lease {
    /// The remaining lifetime at `steady`. It is never more than was granted, so that a
    /// clock that was set back while the machine was off does not make a binding
    /// immortal.
    pub fn remaining(&self, steady: UnixTime) -> Duration {
        let granted = Duration::from_secs(self.granted_s.into());
        (self.expires_at - steady).min(granted)
    }
}

impl Binding {
    /// A binding whose lease begins at `moment`.
    pub(super) fn begin(id: BindingId, contact: Contact, grant: Grant, at: Now) -> Self {
        let life = Duration::from_secs(grant.granted_s.into());
        let lease = Lease {
            cseq: grant.cseq,
            granted_s: grant.granted_s,
            expires_at: at.steady + life,
            removed: grant.removed,
        };
        Self::restore((id, contact), lease, at.now + life)
    }

    /// A binding with this lease, which ends at this instant of this process's clock.
    pub(super) fn restore(
        (id, contact): (BindingId, Contact),
        lease: Lease,
        expires_at: Instant,
    ) -> Self {
        Self {
            id,
            contact,
            expires_at,
            lease_ends_at: lease.expires_at,
            cseq: lease.cseq,
            granted: lease.granted_s.min(GRANTED_MAX) | if lease.removed { REMOVED } else { 0 },
        }
    }

    /// The part that a refresh replaces.
    pub fn lease(&self) -> Lease {
        Lease {
            cseq: self.cseq,
            granted_s: self.granted & GRANTED_MAX,
            expires_at: self.lease_ends_at,
            removed: self.is_removed(),
        }
    }

    /// See [`Lease::removed`].
    pub fn is_removed(&self) -> bool {
        self.granted & REMOVED != 0
    }

    /// The same contact, taken back by a registration with this CSeq: the lease stays for
    /// a while, marked.
    pub(super) fn removed(&self, cseq: u32, at: Now) -> Self {
        let grant = Grant {
            cseq,
            granted_s: REMOVED_FOR.as_secs() as u32,
            removed: true,
        };
        Self::begin(self.id, self.contact.clone(), grant, at)
    }

    /// Whether a caller may be sent there.
    pub fn is_active(&self, now: Instant) -> bool {
        !self.is_removed() && self.expires_at > now
    }

    /// As the store has to forget it.
    pub fn ended(&self) -> EndedBinding {
        EndedBinding {
            id: self.id,
            expires_at: self.lease_ends_at,
        }
    }

    pub(super) fn put(&self, aor: &str) -> BindingChange {
        BindingChange::Put {
            id: self.id,
            aor: aor.into(),
            contact: self.contact.clone(),
            lease: self.lease(),
        }
    }

    pub(super) fn renew(&self) -> BindingChange {
        BindingChange::Renew {
            id: self.id,
            lease: self.lease(),
        }
    }
}

/// The highest bit of `Binding::granted`.
const REMOVED: u32 = 1 << 31;
/// Seconds: 68 years, more than is ever granted.
const GRANTED_MAX: u32 = REMOVED - 1;

/// What a registration gives a binding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    pub(super) cseq: u32,
    pub(super) granted_s: u32,
    pub(super) removed: bool,
}
