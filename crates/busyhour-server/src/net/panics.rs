//! A panic while handling a message drops that message, and nothing else.
//!
//! The thread that receives for everybody must not end because of one sender's message.
//! State that the panic left half done is behind locks, which other threads can still
//! take, as after a panic in a task of the pool. So the panic is caught, counted and
//! logged, and the next message follows.

use busyhour_sip::Flow;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How often it happened on one socket, or on all connections.
#[derive(Debug, Default)]
pub(super) struct Panics {
    count: AtomicU64,
    told_at: Mutex<Option<Instant>>,
}

impl Panics {
    /// Deals with what came on this flow.
    pub(super) fn contain(&self, flow: Flow, deal: impl FnOnce()) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(deal)) else {
            return;
        };
        let count = 1 + self.count.fetch_add(1, Ordering::Relaxed);
        if self.is_to_be_told() {
            let (transport, source) = (flow.transport, flow.remote);
            let reason = reason(&*panic);
            tracing::error!(
                ?transport,
                %source,
                reason,
                count,
                "a message of this sender caused a panic and was dropped; please report this bug"
            );
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// An attacker who can cause panics must not fill the log.
    fn is_to_be_told(&self) -> bool {
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told_at.is_none_or(|told_at| told_at.elapsed() >= TOLD_EVERY);
        if is_due {
            *told_at = Some(Instant::now());
        }
        is_due
    }
}

fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it did not say why")
}

const TOLD_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_panics_are_counted_and_one_a_minute_is_logged() {
        let panics = Panics::default();
        let here = "127.0.0.1:5060".parse().unwrap();
        for number in 1..=3 {
            panics.contain(Flow::udp(here, here), || panic!("number {number}"));
            assert_eq!(panics.count(), number);
            assert!(!panics.is_to_be_told(), "it was just told");
        }
        panics.contain(Flow::udp(here, here), || ());
        assert_eq!(panics.count(), 3);
    }

    #[test]
    fn the_reason_of_a_panic_is_logged_for_any_payload() {
        assert_eq!(reason(&"one"), "one");
        assert_eq!(reason(&String::from("two")), "two");
        assert_eq!(reason(&3), "it did not say why");
    }
}
