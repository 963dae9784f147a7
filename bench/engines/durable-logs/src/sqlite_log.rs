//! SQLite as a journal: each group is one row of a table of fixed length in a database of its own, so that few pages change.

use crate::{
    durable_log::{Outcome, Setup},
    follower::Log,
    lease_table::connect,
    refresh::Refresh,
};
use rusqlite::{Connection, params};
use std::path::Path;

pub struct SqliteLog {
    connection: Connection,
    number: i64,
    bytes: Vec<u8>,
}

impl Log for SqliteLog {
    fn open(folder: &Path) -> Outcome<Self> {
        let connection = connect(&folder.join("log.db"))?;
        connection
            .execute_batch("CREATE TABLE log (slot INTEGER PRIMARY KEY, number, refreshes BLOB)")?;
        Ok(Self {
            connection,
            number: 0,
            bytes: Vec::new(),
        })
    }

    fn append(&mut self, group: &[Refresh]) -> Outcome<()> {
        self.bytes.clear();
        group.iter().for_each(|one| one.append_to(&mut self.bytes));
        self.number += 1;
        let mut put = self
            .connection
            .prepare_cached("INSERT OR REPLACE INTO log VALUES (?1, ?2, ?3)")?;
        put.execute(params![self.number % SLOTS, self.number, self.bytes])?;
        Ok(())
    }

    /// By the highest number, when no row of the last ones is missing.
    fn seen(folder: &Path, setup: Setup) -> Outcome<u64> {
        let connection = connect(&folder.join("log.db"))?;
        let (last, rows): (i64, i64) = connection.query_row(
            "SELECT max(number), count(*) FROM log WHERE number > (SELECT max(number) FROM log) - ?1",
            [SLOTS],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        if rows != last.min(SLOTS) {
            return Err("a row of the log is missing".into());
        }
        Ok(last as u64 * setup.group)
    }
}

/// 16 MiB of groups of 256, as long as the store's journal.
const SLOTS: i64 = 2048;
