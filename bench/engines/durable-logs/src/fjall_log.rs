//! `fjall` as a journal: a batch a group, the newest lease by binding.

use crate::{
    durable_log::{Outcome, Setup},
    follower::Log,
    refresh::{Refresh, refreshes_of},
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

pub struct FjallLog {
    database: Database,
    leases: Keyspace,
}

impl Log for FjallLog {
    fn open(folder: &Path, _: Setup) -> Outcome<Self> {
        let database = Database::builder(folder.join("fjall")).open()?;
        let leases = database.keyspace("leases", KeyspaceCreateOptions::default)?;
        Ok(Self { database, leases })
    }

    fn append(&mut self, group: &[Refresh]) -> Outcome<()> {
        let batch = self.database.batch();
        let mut batch = batch.durability(Some(PersistMode::SyncData));
        for one in group {
            batch.insert(&self.leases, one.id.to_be_bytes(), one.lease());
        }
        Ok(batch.commit()?)
    }

    fn seen(folder: &Path, setup: Setup) -> Outcome<u64> {
        let log = Self::open(folder, setup)?;
        let mut seen = 0;
        for row in log.leases.iter() {
            seen += refreshes_of(&row.value()?);
        }
        Ok(seen)
    }
}
