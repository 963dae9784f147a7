//! `redb` as a journal: a transaction a group, the newest lease by binding.

use crate::{
    durable_log::{Outcome, Setup},
    follower::Log,
    newest::Newest,
    refresh::Refresh,
};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use std::path::Path;

pub struct RedbLog(Database);

impl Log for RedbLog {
    fn open(folder: &Path, _: Setup) -> Outcome<Self> {
        Ok(Self(Database::create(folder.join("log.redb"))?))
    }

    fn recover(folder: &Path, setup: Setup) -> Outcome<(Self, Newest)> {
        let log = Self::open(folder, setup)?;
        let newest = log.newest()?;
        Ok((log, newest))
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
        Ok(Self::recover(folder, setup)?.1.refreshes())
    }
}

impl RedbLog {
    /// The first commit makes the table.
    fn newest(&self) -> Outcome<Newest> {
        let leases = match self.0.begin_read()?.open_table(LEASES) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(Newest::default()),
            leases => leases?,
        };
        let mut newest = Newest::default();
        for row in leases.iter()? {
            let (id, lease) = row?;
            newest.extend(Refresh::from_lease(id.value(), lease.value()));
        }
        Ok(newest)
    }
}

const LEASES: TableDefinition<u64, &[u8]> = TableDefinition::new("leases");
