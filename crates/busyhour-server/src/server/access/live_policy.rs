//! The policy of registrations, which changes while registrations come.

use busyhour_registrar::RegistrationPolicy;
use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

/// Each registration reads it, so it has no lock. One that comes while it is replaced may see one
/// value of before beside one of after; each of them is right by itself.
pub(super) struct LivePolicy {
    default_ns: AtomicU64,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    contacts_max: AtomicUsize,
    contact_bytes_max: AtomicUsize,
}

impl LivePolicy {
    pub(super) fn new(policy: &RegistrationPolicy) -> Self {
        Self {
            default_ns: AtomicU64::new(nanos(policy.expires_default)),
            min_ns: AtomicU64::new(nanos(policy.expires_min)),
            max_ns: AtomicU64::new(nanos(policy.expires_max)),
            contacts_max: AtomicUsize::new(policy.contacts_max),
            contact_bytes_max: AtomicUsize::new(policy.contact_bytes_max),
        }
    }

    pub(super) fn get(&self) -> RegistrationPolicy {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        RegistrationPolicy {
            expires_default: time(&self.default_ns),
            expires_min: time(&self.min_ns),
            expires_max: time(&self.max_ns),
            contacts_max: self.contacts_max.load(Ordering::Relaxed),
            contact_bytes_max: self.contact_bytes_max.load(Ordering::Relaxed),
        }
    }

    pub(super) fn set(&self, policy: &RegistrationPolicy) {
        let (contacts, bytes) = (policy.contacts_max, policy.contact_bytes_max);
        self.default_ns
            .store(nanos(policy.expires_default), Ordering::Relaxed);
        self.min_ns
            .store(nanos(policy.expires_min), Ordering::Relaxed);
        self.max_ns
            .store(nanos(policy.expires_max), Ordering::Relaxed);
        self.contacts_max.store(contacts, Ordering::Relaxed);
        self.contact_bytes_max.store(bytes, Ordering::Relaxed);
    }
}

/// A longer time than 584 years is as good as that.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
