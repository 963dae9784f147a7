//! The database: leases and owners as the model has them, and the rows that commits change. What must
//! hold of commits is checked with each of them.

use busyhour_cluster::{Counted, Grant, Member, Partition, Tables, Timing, View};
use busyhour_registrar::{BindingChange, BindingId, EndedBinding};
use busyhour_store::{SoftState, StoredBinding};
use std::collections::{BTreeMap, BTreeSet};

pub struct Database {
    pub tables: Tables,
    rows: BTreeMap<BindingId, StoredBinding>,
    /// Subscriptions and publications, each with the address of record that it belongs to.
    soft: BTreeMap<BindingId, (Box<str>, SoftState)>,
    /// The PUBLISH requests that were committed.
    pub published: BTreeSet<String>,
    /// Who has committed to a partition in one of its epochs.
    committers: BTreeMap<(Partition, u64), Member>,
    /// The CSeqs that were committed for each device, in their order.
    pub history: BTreeMap<Box<str>, Vec<u32>>,
}

/// What a node wants to be written together.
#[derive(Clone)]
pub struct Group {
    pub member: Member,
    /// How many its life has written before.
    pub number: u64,
    pub grant: Grant,
    pub aor: Box<str>,
    /// Of a registration.
    pub cseq: Option<u32>,
    pub changes: Vec<BindingChange>,
    pub soft: Vec<SoftChange>,
    /// Of a PUBLISH: its Call-ID and CSeq.
    pub published: Option<String>,
}

/// A change of a row other than a binding.
#[derive(Clone)]
pub enum SoftChange {
    Put(SoftState),
    Remove(BindingId),
}

impl Database {
    pub fn new() -> Self {
        Self {
            tables: Tables::with_partitions(Timing::default(), PARTITIONS),
            rows: BTreeMap::new(),
            soft: BTreeMap::new(),
            published: BTreeSet::new(),
            committers: BTreeMap::new(),
            history: BTreeMap::new(),
        }
    }

    pub fn load(&self, partition: Partition) -> (Vec<StoredBinding>, Vec<SoftState>) {
        let rows = self.rows.values();
        let of_it = rows.filter(|row| Partition::of(&row.aor) == partition);
        let soft = self.soft.values();
        let soft = soft.filter(|(aor, _)| Partition::of(aor) == partition);
        let soft = soft.map(|(_, row)| row.clone());
        (of_it.cloned().collect(), soft.collect())
    }

    /// A subscription is over, unless it was renewed since or another member has its partition.
    pub fn purge(&mut self, by: Member, row: EndedBinding, view: &View) {
        let is_it = |(aor, stored): &(Box<str>, SoftState)| {
            stored.expires_at == row.expires_at && view.owner(Partition::of(aor)) == Some(by)
        };
        if self.soft.get(&row.id).is_some_and(is_it) {
            self.soft.remove(&row.id);
        }
    }

    /// What is stored of the publications and subscriptions of a device.
    pub fn soft_of(&self, aor: &str) -> impl Iterator<Item = &SoftState> {
        let of_it = self.soft.values().filter(move |(of, _)| **of == *aor);
        of_it.map(|(_, row)| row)
    }

    pub fn commit(&mut self, seed: u64, group: &Group) -> Counted {
        let grants = [group.grant];
        let counted = self.tables.count(group.member, group.number, &grants);
        if counted == Counted::Now {
            self.write(seed, group);
        }
        counted
    }

    fn write(&mut self, seed: u64, group: &Group) {
        let (grant, member) = (group.grant, group.member);
        let epoch = (grant.partition, grant.epoch);
        let first = *self.committers.entry(epoch).or_insert(member);
        assert_eq!(
            first, member,
            "seed {seed}: two members commit with {grant:?}"
        );
        if let Some(cseq) = group.cseq {
            let aor = &group.aor;
            let history = self.history.entry(aor.clone()).or_default();
            let last = history.last().copied().unwrap_or_default();
            assert!(last < cseq, "seed {seed}: {aor} has {cseq} after {last}");
            history.push(cseq);
        }
        for change in &group.changes {
            self.apply(change);
        }
        for change in &group.soft {
            match change.clone() {
                SoftChange::Put(row) => {
                    self.soft.insert(row.id, (group.aor.clone(), row));
                }
                SoftChange::Remove(row) => drop(self.soft.remove(&row)),
            }
        }
        self.published.extend(group.published.clone());
    }

    fn apply(&mut self, change: &BindingChange) {
        match change.clone() {
            BindingChange::Put {
                id,
                aor,
                contact,
                lease,
            } => {
                let row = StoredBinding {
                    id,
                    aor,
                    contact,
                    lease,
                };
                self.rows.insert(id, row);
            }
            BindingChange::Renew { id, lease } => {
                if let Some(row) = self.rows.get_mut(&id) {
                    row.lease = lease;
                }
            }
            BindingChange::Remove { id } => drop(self.rows.remove(&id)),
        }
    }

    /// The newest CSeq that is stored of a device.
    pub fn stored(&self, aor: &str) -> Option<u32> {
        let rows = self.rows.values().filter(|row| *row.aor == *aor);
        rows.map(|row| row.lease.cseq).max()
    }
}

/// Few, so that a run is short; all devices are in them.
pub const PARTITIONS: usize = 8;
