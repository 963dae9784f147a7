//! SQLite as a journal: each group is one row of a table of fixed length in a database of its own, so that few pages change.

use crate::{
    durable_log::{Outcome, Setup},
    follower::Log,
    lease_table::{begin_log_again, connect},
    refresh::{REFRESH_LEN, Refresh},
};
use rusqlite::{Connection, params};
use std::path::Path;

pub struct SqliteLog {
    connection: Connection,
    number: i64,
    bytes: Vec<u8>,
}

impl Log for SqliteLog {
    /// All rows are there from the begin, as long as those that replace them, and so is SQLite's own log.
    fn open(folder: &Path, setup: Setup) -> Outcome<Self> {
        let mut connection = connect(&folder.join("log.db"))?;
        connection
            .execute_batch("CREATE TABLE log (slot INTEGER PRIMARY KEY, number, refreshes BLOB)")?;
        let nothing = vec![0_u8; setup.group as usize * REFRESH_LEN];
        let transaction = connection.transaction()?;
        for number in FIRST - SLOTS..FIRST {
            put(&transaction, number, &nothing)?;
        }
        transaction.commit()?;
        begin_log_again(&connection)?;
        Ok(Self {
            connection,
            number: FIRST,
            bytes: Vec::new(),
        })
    }

    fn append(&mut self, group: &[Refresh]) -> Outcome<()> {
        self.bytes.clear();
        group.iter().for_each(|one| one.append_to(&mut self.bytes));
        put(&self.connection, self.number, &self.bytes)?;
        self.number += 1;
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
        if rows != SLOTS {
            return Err("a row of the log is missing".into());
        }
        Ok((last + 1 - FIRST) as u64 * setup.group)
    }
}

fn put(connection: &Connection, number: i64, refreshes: &[u8]) -> Outcome<()> {
    let mut put = connection.prepare_cached("INSERT OR REPLACE INTO log VALUES (?1, ?2, ?3)")?;
    put.execute(params![number % SLOTS, number, refreshes])?;
    Ok(())
}

/// 16 MiB of groups of 256, as long as the store's journal.
const SLOTS: i64 = 2048;
/// The number of the first group. SQLite has six bytes for each number from here on, so a row keeps its length when another takes its place.
const FIRST: i64 = 1 << 40;
