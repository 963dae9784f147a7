//! The number of accepted requests that wait for their device, and what it means for
//! the next ones.
//!
//! A server under more load than it can serve must drop the rest where it costs least.
//! That is the kernel's receive buffer: a datagram that does not fit there is dropped
//! before anybody has read it, and those that fit are read in order. So the receivers
//! pause while the maximum of requests waits inside, and every datagram that they read
//! will be served.
//!
//! A client without an answer retransmits. It is better to tell it when, and a
//! telephone that registers anew has less to lose than one that is registered. So while
//! requests queue, newcomers are told to come later. That costs one answer each, so the
//! number of such answers is limited by the number of served requests: see
//! [`Backlog::affords_refusal`]. However many newcomers there are, refusing them costs
//! a small part of the server's time.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Requests that were taken and not begun.
///
/// The counters are independent and publish no other data.
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

    /// How many there are.
    pub(in crate::server) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// A request is accepted; `is_known` says whether its device is known.
    pub(in crate::server) fn enter(&self, is_known: bool) {
        self.len.fetch_add(1, Ordering::Relaxed);
        let earned = if is_known { REFUSAL_COST } else { 1 };
        if self.credit.load(Ordering::Relaxed) < CREDIT_MAX {
            self.credit.fetch_add(earned, Ordering::Relaxed);
        }
    }

    /// A request begins, or was not accepted after all.
    pub(in crate::server) fn leave(&self) {
        self.len.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether more should be read.
    pub(in crate::server) fn has_room(&self) -> bool {
        self.len.load(Ordering::Relaxed) < LEN_MAX
    }

    /// Whether a newcomer that would have to wait behind many may be refused; charges
    /// for the refusal if so. One refusal is paid for by one request of a known device
    /// or by sixteen other requests, so that if all are newcomers, sixteen of seventeen are
    /// still served.
    pub(in crate::server) fn affords_refusal(&self) -> bool {
        let is_long = self.len.load(Ordering::Relaxed) >= LEN_MAX / 2;
        let affords = is_long && self.credit.load(Ordering::Relaxed) >= REFUSAL_COST;
        if affords {
            self.credit.fetch_sub(REFUSAL_COST, Ordering::Relaxed);
        }
        affords
    }
}

/// Ten milliseconds of work if a registration takes ten microseconds, and one second if
/// it takes a millisecond; in that case the measured waits show the overload.
pub(super) const LEN_MAX: usize = 1024;
/// A refusal costs six tenths of a registration.
const REFUSAL_COST: i32 = 16;
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
    fn there_is_room_until_the_bound_is_reached() {
        let backlog = with(LEN_MAX - 1, true);
        assert!(backlog.has_room());
        backlog.enter(true);
        assert!(!backlog.has_room());
        backlog.leave();
        assert!(backlog.has_room());
    }

    #[test]
    fn no_request_is_refused_while_few_wait() {
        assert!(!with(LEN_MAX / 2 - 1, true).affords_refusal());
        assert!(with(LEN_MAX / 2, true).affords_refusal());
    }

    #[test]
    fn few_are_refused_if_all_are_new_devices() {
        let backlog = with(LEN_MAX / 2, false);
        let refused = (0..LEN_MAX).filter(|_| backlog.affords_refusal()).count();
        assert_eq!(refused, LEN_MAX / 2 / REFUSAL_COST as usize);
    }

    #[test]
    fn each_known_request_allows_one_new_one_up_to_a_bound() {
        let backlog = with(10 * LEN_MAX, true);
        let refused = (0..LEN_MAX).filter(|_| backlog.affords_refusal()).count();
        assert_eq!(refused, 1000);
    }
}
