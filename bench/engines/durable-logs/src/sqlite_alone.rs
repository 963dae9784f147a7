//! SQLite alone: one transaction a group, in the table itself.

use crate::{
    durable_log::{DurableLog, Outcome, Setup},
    lease_table::LeaseTable,
    newest::Newest,
    refresh::Refresh,
};
use std::path::Path;

pub struct SqliteAlone(LeaseTable);

impl DurableLog for SqliteAlone {
    fn open(folder: &Path, setup: Setup) -> Outcome<Self> {
        Ok(Self(LeaseTable::make(folder, setup.bindings)?))
    }

    fn recover(folder: &Path, _: Setup) -> Outcome<(Self, Newest)> {
        let table = LeaseTable::open(folder)?;
        let newest = table.newest()?;
        Ok((Self(table), newest))
    }

    fn commit(&mut self, group: &[Refresh]) -> Outcome<()> {
        self.0.renew(group.iter().copied())
    }

    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn seen(folder: &Path, _: Setup) -> Outcome<u64> {
        Ok(LeaseTable::open(folder)?.newest()?.refreshes())
    }
}
