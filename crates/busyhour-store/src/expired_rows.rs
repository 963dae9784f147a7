//! Ended rows that the store deletes when it has time.
//!
//! A million leases may end at one instant. Deleting their rows takes seconds, and
//! nothing depends on it: a row whose time is over is not restored. So the rows wait
//! here and are deleted in batches, each in its own transaction, in turn with the
//! groups of changes that somebody waits for. An acknowledged change never shares a
//! transaction with them, and waits for at most one batch.
//!
//! The cost of a batch is the number of pages that it touches. Rows that end together
//! were mostly written together, but they end in the order of a hash. So they are
//! collected first, until no more come for a while, and then deleted from the lowest id
//! to the highest, like an elevator: rows behind the current id wait for the next
//! round.
//!
//! A batch has at least as many rows as groups have added since the last one. So rows
//! are deleted as fast as they are added, and the number that waits here does not grow
//! as long as the store writes at all.

use super::{Change, queue::Batch};
use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, EndedBinding};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// What waits to be removed.
pub(super) struct ExpiredRows {
    /// In the order of the tables.
    rows: BTreeMap<BindingId, UnixTime>,
    /// On their way to the disk.
    taken: usize,
    /// Where the next batch begins.
    next: BindingId,
    /// Rows that groups have added since the last batch.
    added: usize,
    /// A group was written since the last batch.
    is_its_turn: bool,
    /// Since when they gather, and none was removed.
    gather_since: Option<Instant>,
    /// While they gather, and after a failure.
    rests_until: Option<Instant>,
    high_water: usize,
    removed: u64,
    dropped: u64,
}

impl ExpiredRows {
    pub(super) fn new() -> Self {
        Self {
            rows: BTreeMap::new(),
            taken: 0,
            next: LOWEST,
            added: 0,
            is_its_turn: false,
            gather_since: None,
            rests_until: None,
            high_water: 0,
            removed: 0,
            dropped: 0,
        }
    }

    pub(super) fn push(&mut self, ended: &[EndedBinding]) {
        self.gather(Instant::now());
        for one in ended {
            if self.rows.len() >= ROWS_MAX {
                self.dropped += 1;
                continue;
            }
            self.rows.insert(one.id, one.expires_at);
        }
        self.high_water = self.high_water.max(self.rows.len() + self.taken);
    }

    fn gather(&mut self, now: Instant) {
        if self.rows.is_empty() && self.taken == 0 {
            self.gather_since = Some(now);
        }
        if let Some(since) = self.gather_since {
            self.rests_until = Some((now + QUIET).min(since + GATHERING_MAX));
        }
    }

    /// Whether a batch may be tried.
    pub(super) fn is_due(&self) -> bool {
        let rests = |until: Instant| Instant::now() < until;
        !self.rows.is_empty() && !self.rests_until.is_some_and(rests)
    }

    /// Whether a batch goes before the groups that wait.
    pub(super) fn is_its_turn(&self) -> bool {
        self.is_its_turn && self.is_due()
    }

    /// A group goes first.
    pub(super) fn request_yield(&mut self, group: &[Batch]) {
        let changes = group.iter().flat_map(|batch| &batch.changes);
        let is_row = |change: &&Change| {
            matches!(
                change,
                Change::Binding(BindingChange::Put { .. }) | Change::PutSoftState(_)
            )
        };
        self.added += changes.filter(is_row).count();
        self.is_its_turn = true;
    }

    pub(super) fn take(&mut self) -> Vec<EndedBinding> {
        let len = std::mem::take(&mut self.added).max(BATCH_LEN);
        self.is_its_turn = false;
        self.gather_since = None;
        if self.rows.range(self.next..).next().is_none() {
            self.next = LOWEST;
        }
        let one = |(&id, &expires_at)| EndedBinding { id, expires_at };
        let batch = self.rows.range(self.next..).take(len).map(one);
        let batch: Vec<EndedBinding> = batch.collect();
        for ended in &batch {
            self.rows.remove(&ended.id);
            self.next = BindingId(ended.id.0 + 1);
        }
        self.taken = batch.len();
        batch
    }

    /// What was taken is gone.
    pub(super) fn count_removed(&mut self) {
        self.removed += std::mem::take(&mut self.taken) as u64;
    }

    /// The batch was not deleted; it is tried again after a pause.
    pub(super) fn put_back(&mut self, batch: &[EndedBinding]) {
        self.taken = 0;
        self.push(batch);
        self.rests_until = Some(Instant::now() + REST);
    }

    /// Fills in what a store tells of them.
    pub(super) fn tell(&self, stats: &mut super::StoreStats) {
        stats.ended_len = (self.rows.len() + self.taken) as u64;
        stats.ended_high_water = self.high_water as u64;
        stats.ended_removed = self.removed;
        stats.ended_dropped = self.dropped;
    }
}

const LOWEST: BindingId = BindingId(0);
/// So few that changes which arrive in the meantime hardly wait.
const BATCH_LEN: usize = 256;
/// Four times a million devices; they take about 100 MB. Rows beyond that stay in the
/// store until the next start, which deletes them.
const ROWS_MAX: usize = 1 << 22;
/// The collecting ends when no row came for this time, or the first has waited for this
/// time.
const QUIET: Duration = Duration::from_secs(1);
const GATHERING_MAX: Duration = Duration::from_secs(10);
/// Before a batch that failed is tried again.
const REST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_registrar::{Contact, ContactParts, Lease};
    use busyhour_sip::Flow;

    fn ended(id: u64) -> EndedBinding {
        EndedBinding {
            id: BindingId(id),
            expires_at: UnixTime::from_secs(id),
        }
    }

    fn ids(batch: &[EndedBinding]) -> Vec<u64> {
        batch.iter().map(|one| one.id.0).collect()
    }

    fn group(rows: u64) -> Vec<Batch> {
        let contact = Contact::new(ContactParts {
            uri: "sip:a@192.0.2.1",
            parameters: "",
            q_milli: None,
            call_id: "call",
            path: "",
            user_agent: "",
            flow: Flow::udp(
                "192.0.2.2:5060".parse().unwrap(),
                "192.0.2.1:5060".parse().unwrap(),
            ),
        });
        let lease = Lease {
            cseq: 1,
            granted_s: 60,
            expires_at: UnixTime::from_secs(60),
            removed: false,
        };
        let put = |id| BindingChange::Put {
            id: BindingId(id),
            aor: "sip:a@example.com".into(),
            contact: contact.clone(),
            lease,
        };
        let changes = (0..rows).map(put).map(Change::from).collect();
        let done = Box::new(|_| ());
        vec![Batch::of(changes, done)]
    }

    #[test]
    fn expired_rows_are_removed_in_the_order_of_the_table_in_batches() {
        let mut rows = ExpiredRows::new();
        assert!(!rows.is_due());
        let all: Vec<_> = (0..600).rev().map(ended).collect();
        rows.push(&all);
        assert!(!rows.is_due(), "they gather");
        rows.rests_until = None;
        assert!(rows.is_due() && !rows.is_its_turn(), "groups go first");
        assert!(ids(&rows.take()).into_iter().eq(0..256));
        // Behind the elevator.
        rows.push(&[ended(7)]);
        assert!(ids(&rows.take()).into_iter().eq(256..512));
        assert!(ids(&rows.take()).into_iter().eq(512..600));
        assert_eq!(ids(&rows.take()), [7]);
        assert!(!rows.is_due());
    }

    #[test]
    fn after_each_group_as_many_rows_are_removed_as_were_added() {
        let mut rows = ExpiredRows::new();
        rows.push(&(0..2000).map(ended).collect::<Vec<_>>());
        rows.request_yield(&group(1));
        assert!(!rows.is_its_turn(), "they gather");
        rows.rests_until = None;
        assert!(rows.is_its_turn());
        assert_eq!(rows.take().len(), BATCH_LEN);
        assert!(!rows.is_its_turn());
        rows.request_yield(&group(300));
        rows.request_yield(&group(400));
        assert_eq!(rows.take().len(), 700);
        assert_eq!(rows.take().len(), BATCH_LEN);
    }

    #[test]
    fn a_failed_removal_is_tried_again_later() {
        let mut rows = ExpiredRows::new();
        rows.push(&[ended(1), ended(2)]);
        let batch = rows.take();
        rows.put_back(&batch);
        assert!(!rows.is_due() && !rows.is_its_turn());
        rows.rests_until = None;
        assert!(rows.is_due());
        assert_eq!(ids(&rows.take()), [1, 2]);
    }
}
