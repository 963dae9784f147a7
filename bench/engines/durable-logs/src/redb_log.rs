//! `redb` as a journal: a transaction a group, the newest lease by binding.

use crate::{
    durable_log::{Outcome, Setup},
    follower::Log,
    refresh::{Refresh, refreshes_of},
};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

pub struct RedbLog(Database);

impl Log for RedbLog {
    fn open(folder: &Path, _: Setup) -> Outcome<Self> {
        Ok(Self(Database::create(folder.join("log.redb"))?))
    }

    /// A commit is durable when it returns, unless it is told not to be.
    fn append(&mut self, group: &[Refresh]) -> Outcome<()> {
        let transaction = self.0.begin_write()?;
        {
            let mut leases = transaction.open_table(LEASES)?;
            for one in group {
                leases.insert(one.id, one.lease().as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn seen(folder: &Path, setup: Setup) -> Outcome<u64> {
        let log = Self::open(folder, setup)?;
        let mut seen = 0;
        for row in log.0.begin_read()?.open_table(LEASES)?.iter()? {
            seen += refreshes_of(row?.1.value());
        }
        Ok(seen)
    }
}

const LEASES: TableDefinition<u64, &[u8]> = TableDefinition::new("leases");
