//! SQLite alone: one transaction a group, in the table itself.

use crate::{
    durable_log::{DurableLog, Outcome, Setup},
    lease_table::LeaseTable,
    refresh::Refresh,
};
use std::path::Path;

pub struct SqliteAlone(LeaseTable);

impl DurableLog for SqliteAlone {
    fn open(folder: &Path, setup: Setup) -> Outcome<Self> {
        Ok(Self(LeaseTable::make(folder, setup.bindings)?))
    }

    fn commit(&mut self, group: &[Refresh]) -> Outcome<()> {
        self.0.renew(group.iter().copied())
    }

    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn seen(folder: &Path, _: Setup) -> Outcome<u64> {
        LeaseTable::open(folder)?.refreshes()
    }
}
