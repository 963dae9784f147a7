//! The store, and what rows need beside it: ids, the end of their lives, and the share
//! of the changes that wait for the disk.

use super::{
    cluster::partition_routes::{ChangeUnderWay, PartitionOwner, PartitionRoutes},
    load::shares::{Excess, Holder, Shares},
    runs::Runs,
    server_clock::ServerClock,
};
use busyhour_cluster::Grant;
use busyhour_registrar::BindingId;
use busyhour_store::{Change, Completion, Refused, SoftState, SoftStateKind, Store};
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
    ids: RowIds,
    /// In a cluster: which changes may be made here.
    routes: Option<Arc<PartitionRoutes>>,
    runs: Runs,
    /// Changes that wait for the disk.
    waiting: Shares,
}

/// A change of an address of record may be made here. In a cluster nobody is given its partition before the change has its
/// answer, or this is dropped.
pub(super) struct ChangeGrant(Option<(ChangeUnderWay, Grant)>);

/// The numbers of rows. In a cluster each node has those that end with its own number, so that
/// no two nodes give one twice.
pub(super) struct RowIds {
    next: AtomicU64,
    step: u64,
}

impl RowIds {
    /// All numbers behind this one.
    pub(super) fn behind(last: u64) -> Self {
        Self {
            next: AtomicU64::new(last + 1),
            step: 1,
        }
    }

    /// Those of a node behind this one.
    pub(super) fn of_node(node: u16, last: u64) -> Self {
        Self {
            next: AtomicU64::new(first_of_node(node, last)),
            step: NODES,
        }
    }

    fn next(&self) -> u64 {
        self.next.fetch_add(self.step, Ordering::Relaxed)
    }

    /// Later ones are behind this one.
    fn go_behind(&self, last: u64) {
        if self.step == NODES {
            let node = (self.next.load(Ordering::Relaxed) % NODES) as u16;
            let first = first_of_node(node, last);
            self.next.fetch_max(first, Ordering::Relaxed);
        }
    }
}

fn first_of_node(node: u16, last: u64) -> u64 {
    (last / NODES + 1) * NODES + u64::from(node)
}

/// As many numbers as nodes may have.
const NODES: u64 = 1 << 16;

impl Persistence {
    pub(super) fn new(
        store: Box<dyn Store>,
        clock: Arc<ServerClock>,
        (ids, runs): (RowIds, Runs),
        waiting: Shares,
        routes: Option<Arc<PartitionRoutes>>,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            routes,
            runs,
            waiting,
        }
    }

    /// Whether changes of an address of record are made here: always, but in a cluster.
    pub(super) fn has_address(&self, aor: &str) -> bool {
        let now = self.clock.now();
        let owner = self.routes.as_ref().map(|routes| routes.owner(aor, now));
        owner.is_none_or(|owner| owner == PartitionOwner::Here)
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// An id that no row had before.
    pub(super) fn next_id(&self) -> BindingId {
        BindingId(self.ids.next())
    }

    /// Rows that come from now on have ids behind this one.
    pub(super) fn number_after(&self, last: u64) {
        self.ids.go_behind(last);
    }

    /// Commits changes of an address of record. In a cluster they are refused unless the address
    /// is this node's when they are written.
    ///
    /// # Errors
    ///
    /// As of [`Store::commit`]; and when another node has the address.
    pub(super) fn commit(
        &self,
        aor: &str,
        changes: Vec<Change>,
        done: Completion,
    ) -> Result<(), Refused> {
        let grant = self.begin(aor).ok_or(Refused::Closed)?;
        self.commit_granted(grant, changes, done)
    }

    /// Before a change of an address of record; `None` if another node has its partition, or will have it.
    pub(super) fn begin(&self, aor: &str) -> Option<ChangeGrant> {
        match &self.routes {
            Some(routes) => routes.begin(aor).map(|begun| ChangeGrant(Some(begun))),
            None => Some(ChangeGrant(None)),
        }
    }

    /// As [`commit`](Self::commit), for changes that may be made here.
    ///
    /// # Errors
    ///
    /// As of [`Store::commit`].
    pub(super) fn commit_granted(
        &self,
        grant: ChangeGrant,
        changes: Vec<Change>,
        done: Completion,
    ) -> Result<(), Refused> {
        let Some((under_way, grant)) = grant.0 else {
            return self.store.commit(changes, done);
        };
        let counted = Box::new(move |outcome| {
            // Until `done` has returned, also if it panics.
            let _under_way = under_way;
            done(outcome);
        });
        self.store.commit_granted(grant, changes, counted)
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
        // The nodes of a cluster have clocks that agree, and one calendar.
        if self.routes.is_some() {
            return;
        }
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
