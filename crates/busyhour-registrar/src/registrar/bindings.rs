//! The bindings of one address of record.

mod binding_list;

use self::binding_list::BindingList;
use super::{Binding, BindingId, Contact, EndedBinding, Lease, Now, Reach};
use busyhour::clock::Instant;
use busyhour_sip::Flow;
use std::time::Duration;

/// The bindings of one address of record, removed ones included until they
/// have outlived every duplicate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bindings {
    pub(super) list: BindingList,
}

/// What ran out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// What the store has to forget.
    pub ended: Vec<EndedBinding>,
    /// How many of them were active until now.
    pub active_count: usize,
}

/// What became of a stored binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// It is back.
    Taken,
    /// The binding is restored; this other one had ended, and the store may delete it.
    InsteadOf(Binding),
    /// Its lease is over: the store may forget it.
    Over,
}

impl Bindings {
    /// Restores a stored binding; call it in the order of the ids. A binding over a
    /// connection that has [ended](Contact::without_connection) is unreachable. All others are
    /// unverified: the device may have gone meanwhile, or its address belong to another.
    ///
    /// If two bindings have the same contact, the one with the lower id had ended
    /// before the other began; otherwise the other would have been a refresh of it. Its
    /// row was not yet deleted, and the clock has been set back since.
    pub fn restore(&mut self, id: BindingId, contact: Contact, lease: Lease, at: Now) -> Restored {
        let remaining = lease.remaining(at.steady);
        if remaining.is_zero() {
            return Restored::Over;
        }
        let has_ended = || contact.flow().connection == 0;
        let is_cut = contact.transport().is_reliable() && contact.depends_on_flow() && has_ended();
        let reach = match is_cut {
            true => Reach::Unreachable,
            false => Reach::Unverified,
        };
        let restored = Binding::restore((id, contact.with_reach(reach)), lease, at.now + remaining);
        let is_same = |before: &Binding| before.contact.is_replaced_by(&restored.contact);
        if let Some(index) = self.list.iter().position(is_same) {
            return Restored::InsteadOf(std::mem::replace(&mut self.list[index], restored));
        }
        let before = std::mem::take(&mut self.list).into_iter();
        self.list = before.chain([restored]).collect();
        Restored::Taken
    }

    /// The bindings that are valid at `now`, in the order in which they were made.
    pub fn active(&self, now: Instant) -> impl Iterator<Item = &Binding> {
        self.list
            .iter()
            .filter(move |binding| binding.is_active(now))
    }

    /// Every binding, removed ones included.
    pub fn all(&self) -> impl Iterator<Item = &Binding> {
        self.list.iter()
    }

    /// The bindings that callers can be sent to at `now`.
    pub fn reachable(&self, now: Instant) -> impl Iterator<Item = &Binding> {
        self.active(now)
            .filter(|binding| binding.contact.is_reachable())
    }

    /// Notes what is known of the bindings of this flow, and returns what was known before of
    /// those where that is another; `None` if nothing changes.
    ///
    /// The bindings stay: a registration over another flow makes the contact reachable
    /// again, and until then the lease shows that the device intends to return. A connection that has ended never stands
    /// again: an answer that says otherwise is from before its end.
    pub fn set_reach(&mut self, flow: Flow, reach: Reach) -> Option<Reach> {
        let mut before = None;
        for binding in &mut *self.list {
            let contact = &mut binding.contact;
            let was = contact.reach();
            let has_ended = was == Reach::Unreachable && flow.transport.is_reliable();
            if was != reach && !has_ended && contact.flow() == flow && contact.depends_on_flow() {
                *contact = contact.with_reach(reach);
                // What watchers see counts more.
                let is_seen = was.is_believed() != reach.is_believed();
                if !binding.is_removed() && (before.is_none() || is_seen) {
                    before = Some(was);
                }
            }
        }
        before
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
        let is_over = |binding: &Binding| binding.expires_at <= now;
        for binding in self.list.iter().filter(|binding| is_over(binding)) {
            expired.active_count += usize::from(!binding.is_removed());
            expired.ended.push(binding.ended());
        }
        if !expired.ended.is_empty() {
            let all = std::mem::take(&mut self.list).into_iter();
            self.list = all.filter(|binding| !is_over(binding)).collect();
        }
        expired
    }
}

/// For how long a removed lease is remembered: no duplicate of a request is
/// younger than the 64 × T1 for which its client retransmits (RFC 3261 §17.1.2.2).
pub const REMOVED_FOR: Duration = Duration::from_secs(32);
