//! The database: leases and owners as the model has them, and the rows that commits change. What must
//! hold of commits is checked with each of them.

use busyhour_cluster::{Counted, Grant, Member, Partition, Tables, Timing};
use busyhour_registrar::{BindingChange, BindingId};
use busyhour_store::StoredBinding;
use std::collections::BTreeMap;

pub struct Database {
    pub tables: Tables,
    rows: BTreeMap<BindingId, StoredBinding>,
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
    pub cseq: u32,
    pub changes: Vec<BindingChange>,
}

impl Database {
    pub fn new() -> Self {
        Self {
            tables: Tables::with_partitions(Timing::default(), PARTITIONS),
            rows: BTreeMap::new(),
            committers: BTreeMap::new(),
            history: BTreeMap::new(),
        }
    }

    pub fn load(&self, partition: Partition) -> Vec<StoredBinding> {
        let rows = self.rows.values();
        let of_it = rows.filter(|row| Partition::of(&row.aor) == partition);
        of_it.cloned().collect()
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
        let history = self.history.entry(group.aor.clone()).or_default();
        let last = history.last().copied().unwrap_or_default();
        let (aor, cseq) = (&group.aor, group.cseq);
        assert!(last < cseq, "seed {seed}: {aor} has {cseq} after {last}");
        history.push(cseq);
        for change in &group.changes {
            self.apply(change);
        }
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
