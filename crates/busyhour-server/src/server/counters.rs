//! Counters that only grow, one for everything that can happen to a request.

use busyhour_registrar::Refusal;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows; any thread may add.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn increment(&self) {
        self.add(1);
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What happened to datagrams; the fields of [`TrafficStats`](super::TrafficStats).
#[derive(Debug, Default)]
pub(super) struct TrafficCounters {
    pub(super) received: Counter,
    pub(super) received_bytes: Counter,
    pub(super) sent: Counter,
    pub(super) send_refused: Counter,
    pub(super) undeliverable: Counter,
    pub(super) no_buffer: Counter,
    pub(super) keepalives: Counter,
    pub(super) malformed_silent: Counter,
    pub(super) malformed_answered: Counter,
    pub(super) unsupported: Counter,
    pub(super) options: Counter,
    pub(super) stray_responses: Counter,
    pub(super) retransmissions_answered: Counter,
    pub(super) retransmissions_absorbed: Counter,
    pub(super) dropped_device_queue: Counter,
    pub(super) refused_table_full: Counter,
    pub(super) refused_share: Counter,
    pub(super) log_lines_suppressed: Counter,
    pub(super) unproven_not_answered: Counter,
    pub(super) shed: Counter,
    pub(super) dropped_shutdown: Counter,
}

/// What happened to registrations; the fields of
/// [`RegistrarStats`](super::RegistrarStats).
#[derive(Debug, Default)]
pub(super) struct RegistrarCounters {
    pub(super) requests: Counter,
    pub(super) accepted: Counter,
    pub(super) added: Counter,
    pub(super) refreshed: Counter,
    pub(super) removed: Counter,
    pub(super) expired: Counter,
    pub(super) revoked: Counter,
    pub(super) restored: Counter,
    pub(super) unreachable: Counter,
    pub(super) probed: Counter,
    pub(super) probes_answered: Counter,
    pub(super) challenged: Counter,
    pub(super) replayed: Counter,
    pub(super) forbidden: Counter,
    pub(super) interval_too_brief: Counter,
    pub(super) too_long: Counter,
    pub(super) too_many_contacts: Counter,
    pub(super) rejected: Counter,
    pub(super) store_failures: Counter,
    pub(super) logins_paused: Counter,
}

/// What happened to subscriptions; the fields of [`WatchStats`](super::WatchStats).
#[derive(Debug, Default)]
pub(super) struct WatchCounters {
    pub(super) requests: Counter,
    pub(super) created: Counter,
    pub(super) restored: Counter,
    pub(super) refreshed: Counter,
    pub(super) unsubscribed: Counter,
    pub(super) expired: Counter,
    pub(super) revoked: Counter,
    pub(super) given_up: Counter,
    pub(super) rejected: Counter,
    pub(super) notified: Counter,
    pub(super) retransmitted: Counter,
    pub(super) confirmed: Counter,
    pub(super) conflated: Counter,
    pub(super) over_share: Counter,
    pub(super) unproven: Counter,
    pub(super) too_long: Counter,
}

/// What happened to publications; the fields of [`PublishStats`](super::PublishStats).
#[derive(Debug, Default)]
pub(super) struct PublishCounters {
    pub(super) requests: Counter,
    pub(super) created: Counter,
    pub(super) refreshed: Counter,
    pub(super) modified: Counter,
    pub(super) removed: Counter,
    pub(super) expired: Counter,
    pub(super) revoked: Counter,
    pub(super) condition_failed: Counter,
    pub(super) too_many: Counter,
    pub(super) rejected: Counter,
}

/// What happened to mailboxes; the fields of [`MailboxStats`](super::MailboxStats).
#[derive(Debug, Default)]
pub(super) struct MailboxCounters {
    pub(super) set: Counter,
    pub(super) removed: Counter,
    pub(super) published: Counter,
    pub(super) refused: Counter,
}

/// What happened to hints; the fields of [`HintStats`](super::HintStats).
#[derive(Debug, Default)]
pub(super) struct HintCounters {
    pub(super) set: Counter,
    pub(super) removed: Counter,
    pub(super) refused: Counter,
}

impl PublishCounters {
    pub(super) fn count_refusal(&self, refusal: &Refusal) {
        match refusal {
            Refusal::ConditionFailed => self.condition_failed.increment(),
            Refusal::TooManyPublications => self.too_many.increment(),
            _ => self.rejected.increment(),
        }
    }
}
