//! How many requests have been taken and wait for their device, and what that
//! means for those who come next.
//!
//! A server that is offered more than it can do must leave the rest where it
//! costs least. That is the kernel's receive buffer: what finds no room there is
//! gone before anybody has read it, and what does find room is the oldest and
//! comes first. So the receivers rest while as much waits inside as may, and
//! what they have taken is work that will be done.
//!
//! A client without an answer sends again. It is kinder to tell it when, and a
//! telephone that registers anew has less to lose than one that is registered;
//! so of those who are heard while the queue stands, newcomers are told to come
//! later. That costs an answer each, so it is paid for by those whom it makes
//! room for: see [`Backlog::affords_refusal`]. However many newcomers there
//! are, telling them costs a small part of what the server can do.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Requests that were taken and not begun.
///
/// Each figure stands for itself and nothing is read by way of them.
#[derive(Debug)]
pub(in crate::server) struct Backlog {
    len: AtomicUsize,
    /// What may yet be spent on refusals.
    credit: AtomicI32,
}

impl Backlog {
    pub(in crate::server) fn new() -> Self {
        Self {
            len: AtomicUsize::new(0),
            credit: AtomicI32::new(0),
        }
    }

    /// A request is taken; of one whose device is known, if `is_known`.
    pub(in crate::server) fn enter(&self, is_known: bool) {
        self.len.fetch_add(1, Ordering::Relaxed);
        let earned = if is_known { REFUSAL_COST } else { 1 };
        if self.credit.load(Ordering::Relaxed) < CREDIT_MAX {
            self.credit.fetch_add(earned, Ordering::Relaxed);
        }
    }

    /// A request is begun, or was not taken after all.
    pub(in crate::server) fn leave(&self) {
        self.len.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether more should be read.
    pub(in crate::server) fn has_room(&self) -> bool {
        self.len.load(Ordering::Relaxed) < LEN_MAX
    }

    /// Whether a newcomer may be refused, for one that would have to wait
    /// behind many, and charges for it if so. One is paid for by one request of
    /// a known device or by eight of others, so that where all are newcomers
    /// eight of nine are still served.
    pub(in crate::server) fn affords_refusal(&self) -> bool {
        let is_long = self.len.load(Ordering::Relaxed) >= LEN_MAX / 2;
        let affords = is_long && self.credit.load(Ordering::Relaxed) >= REFUSAL_COST;
        if affords {
            self.credit.fetch_sub(REFUSAL_COST, Ordering::Relaxed);
        }
        affords
    }
}

/// Ten milliseconds of work where registrations take ten microseconds, and a
/// second where they take one millisecond; then their waits tell.
const LEN_MAX: usize = 1024;
const REFUSAL_COST: i32 = 8;
/// A thousand refusals.
const CREDIT_MAX: i32 = 1000 * REFUSAL_COST;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(count: usize, is_known: bool) -> Backlog {
        let backlog = Backlog::new();
        (0..count).for_each(|_| backlog.enter(is_known));
        backlog
    }

    #[test]
    fn there_is_room_until_as_much_waits_as_may() {
        let backlog = with(LEN_MAX - 1, true);
        assert!(backlog.has_room());
        backlog.enter(true);
        assert!(!backlog.has_room());
        backlog.leave();
        assert!(backlog.has_room());
    }

    #[test]
    fn nobody_is_refused_while_few_wait() {
        assert!(!with(LEN_MAX / 2 - 1, true).affords_refusal());
        assert!(with(LEN_MAX / 2, true).affords_refusal());
    }

    #[test]
    fn where_all_are_newcomers_few_are_refused() {
        let backlog = with(LEN_MAX / 2, false);
        let refused = (0..LEN_MAX).filter(|_| backlog.affords_refusal()).count();
        assert_eq!(refused, LEN_MAX / 2 / REFUSAL_COST as usize);
    }

    #[test]
    fn what_is_known_pays_for_one_each_up_to_a_bound() {
        let backlog = with(10 * LEN_MAX, true);
        let refused = (0..LEN_MAX).filter(|_| backlog.affords_refusal()).count();
        assert_eq!(refused, 1000);
    }
}
