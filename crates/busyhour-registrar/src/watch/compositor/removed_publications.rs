//! The publications that were taken back lately, so that the request that did it is answered again as it was.
//!
//! Its publisher may not know that it was done: the answer was lost with the owner of the device that gave it. The same
//! request comes to the next owner then, or to the server after a restart, and there is no publication any more that it
//! could have changed. RFC 3903 would have it answered 412.

use crate::registrar::EndedBinding;
use crate::watch::{Package, Publish};
use busyhour::clock::Instant;
use std::{collections::VecDeque, time::Duration};

/// The last ones, in the order in which they were taken back.
#[derive(Debug, Default)]
pub(super) struct RemovedPublications(VecDeque<RemovedPublication>);

/// One of them.
#[derive(Debug)]
pub(super) struct RemovedPublication {
    /// The entity-tag that was in the answer.
    pub(super) etag: Box<str>,
    /// The request that took it back.
    pub(super) request: u64,
    /// The request that began it: one more copy of that must not begin another one.
    pub(super) begun_by: Option<u64>,
    pub(super) package: Package,
    /// When it is forgotten.
    pub(super) until: Instant,
    /// Its row in a store.
    pub(super) row: Option<EndedBinding>,
}

impl RemovedPublications {
    pub(super) fn has_room(&self) -> bool {
        self.0.len() < REMOVED_MAX
    }

    pub(super) fn remember(&mut self, removed: RemovedPublication) {
        self.0.push_back(removed);
    }

    /// The one that this request has taken back, or had begun.
    pub(super) fn by(&self, publish: &Publish<'_>, now: Instant) -> Option<&RemovedPublication> {
        self.0.iter().find(|removed| {
            publish.is_one_of([Some(removed.request), removed.begun_by])
                && removed.package == publish.package
                && removed.until > now
        })
    }

    /// Forgets those whose time is over; returns how many, and puts their rows to `rows`.
    pub(super) fn expire(&mut self, now: Instant, rows: &mut Vec<EndedBinding>) -> usize {
        let before = self.0.len();
        self.0.retain(|removed| {
            let is_known = removed.until > now;
            if !is_known {
                rows.extend(removed.row);
            }
            is_known
        });
        before - self.0.len()
    }

    /// When the next one is forgotten.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.0.iter().map(|removed| removed.until).min()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// As long as a request may be sent again (64 × T1, RFC 3261 §17.1.2.2).
pub(super) const REMEMBERED_FOR: Duration = Duration::from_secs(32);
/// Of one address of record.
const REMOVED_MAX: usize = 16;
