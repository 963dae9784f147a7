//! The store, and what rows need beside it: ids, the end of their lives, and the share
//! of the changes that wait for the disk.

use super::{
    load::shares::{Excess, Holder, Shares},
    server_clock::ServerClock,
};
use busyhour_registrar::BindingId;
use busyhour_store::{SoftState, SoftStateKind, Store};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Everything that the server keeps goes through here.
pub(super) struct Persistence {
    store: Box<dyn Store>,
    clock: Arc<ServerClock>,
    next_id: AtomicU64,
    /// See [`Contents::run`](busyhour_store::Contents::run).
    run: u64,
    /// Changes that wait for the disk.
    waiting: Shares,
}

impl Persistence {
    pub(super) fn new(
        store: Box<dyn Store>,
        clock: Arc<ServerClock>,
        first_id: u64,
        run: u64,
        waiting: Shares,
    ) -> Self {
        Self {
            store,
            clock,
            next_id: AtomicU64::new(first_id),
            run,
            waiting,
        }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) fn run(&self) -> u64 {
        self.run
    }

    /// An id that no row had before.
    pub(super) fn next_id(&self) -> BindingId {
        BindingId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Charges a holder for changes that are going to wait.
    pub(super) fn charge(&self, holder: Holder, change_count: u64) -> Result<(), Excess> {
        self.waiting.take(holder, change_count)
    }

    /// They wait no more.
    pub(super) fn discharge(&self, holder: Holder, change_count: u64) {
        self.waiting.give_back(holder, change_count);
    }

    /// The row of something that lasts `granted_s` seconds from now on.
    pub(super) fn soft_state(
        &self,
        id: BindingId,
        kind: SoftStateKind,
        value: String,
        granted_s: u32,
    ) -> SoftState {
        SoftState {
            id,
            kind,
            value: value.into(),
            granted_s,
            expires_at: self.clock.moment().steady + Duration::from_secs(granted_s.into()),
        }
    }

    /// Stores the difference between the clock and the steady calendar. If that fails,
    /// the next check tries again.
    pub(super) fn keep_clock(&self) {
        let Some(base) = self.clock.steady.news(self.clock.clock()) else {
            return;
        };
        let (change, clock) = (base.change(), self.clock.clone());
        let note = move |outcome: Result<(), _>| {
            if outcome.is_ok() {
                clock.steady.stored(&base);
            }
        };
        let _tried_again_in_a_second = self.store.commit(vec![change], Box::new(note));
    }
}
