//! `fjall` as a journal: a batch a group, the newest lease by binding.

use crate::{
    durable_log::{Outcome, Setup},
    follower::Log,
    newest::Newest,
    refresh::Refresh,
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

    fn recover(folder: &Path, setup: Setup) -> Outcome<(Self, Newest)> {
        let log = Self::open(folder, setup)?;
        let newest = log.newest()?;
        Ok((log, newest))
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
        Ok(Self::recover(folder, setup)?.1.refreshes())
    }
}

impl FjallLog {
    fn newest(&self) -> Outcome<Newest> {
        let refresh = |row: fjall::Guard| {
            let (id, lease) = row.into_inner()?;
            let id = u64::from_be_bytes((*id).try_into()?);
            Refresh::from_lease(id, &lease).ok_or_else(|| "a lease is too short".into())
        };
        self.leases.iter().map(refresh).collect()
    }
}
