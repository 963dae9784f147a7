//! Counters that only grow, one for everything that can happen to a request.

use busyhour_registrar::{Refusal, Tally};
use busyhour_sip::Message;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows; any thread may add.
#[derive(Debug, Default)]
pub(in crate::server) struct Counter(AtomicU64);

impl Counter {
    pub(in crate::server) fn increment(&self) {
        self.add(1);
    }

    pub(in crate::server) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(in crate::server) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What happened to datagrams; the fields of [`TrafficStats`](super::TrafficStats).
#[derive(Debug, Default)]
pub(in crate::server) struct TrafficCounters {
    pub(in crate::server) received: Counter,
    pub(in crate::server) received_bytes: Counter,
    pub(in crate::server) sent: Counter,
    pub(in crate::server) send_refused: Counter,
    pub(in crate::server) undeliverable: Counter,
    pub(in crate::server) no_buffer: Counter,
    pub(in crate::server) keepalives: Counter,
    pub(in crate::server) malformed_silent: Counter,
    pub(in crate::server) malformed_answered: Counter,
    pub(in crate::server) options: Counter,
    pub(in crate::server) bodies_decoded: Counter,
    pub(in crate::server) bodies_refused: Counter,
    pub(in crate::server) stray_responses: Counter,
    pub(in crate::server) retransmissions_answered: Counter,
    pub(in crate::server) retransmissions_absorbed: Counter,
    pub(in crate::server) dropped_device_queue: Counter,
    pub(in crate::server) refused_table_full: Counter,
    pub(in crate::server) refused_share: Counter,
    pub(in crate::server) unproven_not_answered: Counter,
    pub(in crate::server) dropped_shutdown: Counter,
}

/// What happened to registrations.
#[derive(Debug, Default)]
pub(in crate::server) struct RegistrarCounters {
    pub(in crate::server) requests: Counter,
    pub(in crate::server) accepted: Counter,
    pub(in crate::server) added: Counter,
    pub(in crate::server) refreshed: Counter,
    pub(in crate::server) removed: Counter,
    pub(in crate::server) expired: Counter,
    pub(in crate::server) revoked: Counter,
    pub(in crate::server) restored: Counter,
    pub(in crate::server) handed_over: Counter,
    pub(in crate::server) unreadable: Counter,
    pub(in crate::server) forbidden: Counter,
    pub(in crate::server) interval_too_brief: Counter,
    pub(in crate::server) too_long: Counter,
    pub(in crate::server) too_many_contacts: Counter,
    pub(in crate::server) rejected: Counter,
    pub(in crate::server) store_failures: Counter,
}

/// What happened to the flows of devices.
#[derive(Debug, Default)]
pub(in crate::server) struct FlowCounters {
    pub(in crate::server) unreachable: Counter,
    pub(in crate::server) verified: Counter,
    pub(in crate::server) cut_off: Counter,
    pub(in crate::server) probed: Counter,
    pub(in crate::server) probes_answered: Counter,
    pub(in crate::server) kept_alive: Counter,
}

/// What happened to credentials.
#[derive(Debug, Default)]
pub(in crate::server) struct AdmissionCounters {
    pub(in crate::server) challenged: Counter,
    pub(in crate::server) replayed: Counter,
    pub(in crate::server) logins_paused: Counter,
}

/// What happened to subscriptions; the fields of [`WatchStats`](super::WatchStats).
#[derive(Debug, Default)]
pub(in crate::server) struct WatchCounters {
    pub(in crate::server) requests: Counter,
    pub(in crate::server) created: Counter,
    pub(in crate::server) restored: Counter,
    pub(in crate::server) refreshed: Counter,
    pub(in crate::server) unsubscribed: Counter,
    pub(in crate::server) expired: Counter,
    pub(in crate::server) revoked: Counter,
    pub(in crate::server) given_up: Counter,
    pub(in crate::server) rejected: Counter,
    pub(in crate::server) notified: Counter,
    pub(in crate::server) retransmitted: Counter,
    pub(in crate::server) told_anew: Counter,
    pub(in crate::server) cut: Counter,
    pub(in crate::server) confirmed: Counter,
    pub(in crate::server) conflated: Counter,
    pub(in crate::server) over_share: Counter,
    pub(in crate::server) unproven: Counter,
    pub(in crate::server) too_long: Counter,
}

/// What happened to publications; the fields of [`PublishStats`](super::PublishStats).
#[derive(Debug, Default)]
pub(in crate::server) struct PublishCounters {
    pub(in crate::server) requests: Counter,
    pub(in crate::server) created: Counter,
    pub(in crate::server) refreshed: Counter,
    pub(in crate::server) modified: Counter,
    pub(in crate::server) removed: Counter,
    pub(in crate::server) expired: Counter,
    pub(in crate::server) revoked: Counter,
    pub(in crate::server) unregistered: Counter,
    pub(in crate::server) repeated: Counter,
    pub(in crate::server) not_remembered: Counter,
    pub(in crate::server) condition_failed: Counter,
    pub(in crate::server) too_many: Counter,
    pub(in crate::server) rejected: Counter,
}

/// What happened to mailboxes; the fields of [`MailboxStats`](super::MailboxStats).
#[derive(Debug, Default)]
pub(in crate::server) struct MailboxCounters {
    pub(in crate::server) set: Counter,
    pub(in crate::server) removed: Counter,
    pub(in crate::server) published: Counter,
    pub(in crate::server) refused: Counter,
}

/// What happened to hints; the fields of [`HintStats`](super::HintStats).
#[derive(Debug, Default)]
pub(in crate::server) struct HintCounters {
    pub(in crate::server) set: Counter,
    pub(in crate::server) removed: Counter,
    pub(in crate::server) refused: Counter,
}

/// What happened to lists; the fields of [`ListStats`](super::ListStats).
#[derive(Debug, Default)]
pub(in crate::server) struct ListCounters {
    pub(in crate::server) set: Counter,
    pub(in crate::server) removed: Counter,
    pub(in crate::server) refused: Counter,
    pub(in crate::server) loops: Counter,
}

impl TrafficCounters {
    /// The body of a request was read, or refused.
    pub(in crate::server) fn count_body<T>(
        &self,
        message: &Message<'_>,
        read: &Result<T, Refusal>,
    ) {
        let counter = match read {
            _ if !message.is_body_encoded() => return,
            Ok(_) => &self.bodies_decoded,
            Err(_) => &self.bodies_refused,
        };
        counter.increment();
    }
}

impl RegistrarCounters {
    pub(in crate::server) fn count_accepted(&self, tally: Tally) {
        self.accepted.increment();
        self.added.add(tally.added);
        self.refreshed.add(tally.refreshed);
        self.removed.add(tally.removed);
    }

    pub(super) fn count_refused(&self, refusal: &Refusal) {
        match refusal {
            Refusal::IntervalTooBrief(_) => self.interval_too_brief.increment(),
            Refusal::Forbidden(_) | Refusal::NotFound | Refusal::NotServed(_) => {
                self.forbidden.increment();
            }
            Refusal::TooManyContacts => self.too_many_contacts.increment(),
            Refusal::TooLongToKeep | Refusal::TooLongToAnswer => self.too_long.increment(),
            _ => self.rejected.increment(),
        }
    }

    /// Bindings have ended by themselves, or with their account.
    pub(in crate::server) fn count_ended(&self, active_count: usize, is_revoked: bool) {
        let counter = match is_revoked {
            true => &self.revoked,
            false => &self.expired,
        };
        counter.add(active_count as u64);
    }

    /// Bindings that are valid now.
    pub(in crate::server) fn binding_count(&self) -> u64 {
        let begun = self.added.get() + self.restored.get();
        let ended = self.removed.get() + self.expired.get() + self.revoked.get();
        begun.saturating_sub(ended + self.handed_over.get())
    }
}

impl PublishCounters {
    pub(in crate::server) fn count_refusal(&self, refusal: &Refusal) {
        match refusal {
            Refusal::ConditionFailed => self.condition_failed.increment(),
            Refusal::TooManyPublications => self.too_many.increment(),
            _ => self.rejected.increment(),
        }
    }
}
