//! SQLite as a journal: each group is one row of a table of fixed length in a database of its own, so that few pages change.

use crate::{
    durable_log::{Outcome, Setup},
    follower::Log,
    lease_table::{begin_log_again, connect},
    newest::Newest,
    refresh::{LOG_BYTES, REFRESH_LEN, Refresh, record_len},
};
use rusqlite::{Connection, params};
use std::path::Path;

pub struct SqliteLog {
    connection: Connection,
    slots: i64,
    number: i64,
    bytes: Vec<u8>,
}

impl Log for SqliteLog {
    /// All rows are there from the begin, as long as those that replace them, and so is SQLite's own log.
    fn open(folder: &Path, setup: Setup) -> Outcome<Self> {
        let mut connection = connect(&folder.join("log.db"))?;
        connection
            .execute_batch("CREATE TABLE log (slot INTEGER PRIMARY KEY, number, refreshes BLOB)")?;
        let slots = slots(setup);
        let nothing = vec![0_u8; setup.group as usize * REFRESH_LEN];
        let transaction = connection.transaction()?;
        for number in FIRST - slots..FIRST {
            put(&transaction, number % slots, number, &nothing)?;
        }
        transaction.commit()?;
        begin_log_again(&connection)?;
        Ok(Self {
            connection,
            slots,
            number: FIRST,
            bytes: Vec::new(),
        })
    }

    fn recover(folder: &Path, setup: Setup) -> Outcome<(Self, Newest)> {
        let last = last(folder, setup)?;
        let log = Self {
            connection: connect(&folder.join("log.db"))?,
            slots: slots(setup),
            number: last + 1,
            bytes: Vec::new(),
        };
        let newest = log.newest()?;
        Ok((log, newest))
    }

    fn append(&mut self, group: &[Refresh]) -> Outcome<()> {
        self.bytes.clear();
        group.iter().for_each(|one| one.append_to(&mut self.bytes));
        let slot = self.number % self.slots;
        put(&self.connection, slot, self.number, &self.bytes)?;
        self.number += 1;
        Ok(())
    }

    fn seen(folder: &Path, setup: Setup) -> Outcome<u64> {
        Ok((last(folder, setup)? + 1 - FIRST) as u64 * setup.group)
    }
}

impl SqliteLog {
    fn newest(&self) -> Outcome<Newest> {
        let mut newest = Newest::default();
        let mut rows = self.connection.prepare("SELECT refreshes FROM log")?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            newest.extend(Refresh::all_in(row.get_ref(0)?.as_blob()?));
        }
        Ok(newest)
    }
}

/// The highest number, when no row of the last ones is missing.
fn last(folder: &Path, setup: Setup) -> Outcome<i64> {
    let connection = connect(&folder.join("log.db"))?;
    let (last, rows): (i64, i64) = connection.query_row(
        "SELECT max(number), count(*) FROM log WHERE number > (SELECT max(number) FROM log) - ?1",
        [slots(setup)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    match rows == slots(setup) {
        true => Ok(last),
        false => Err("a row of the log is missing".into()),
    }
}

fn put(connection: &Connection, slot: i64, number: i64, refreshes: &[u8]) -> Outcome<()> {
    let mut put = connection.prepare_cached("INSERT OR REPLACE INTO log VALUES (?1, ?2, ?3)")?;
    put.execute(params![slot, number, refreshes])?;
    Ok(())
}

/// As many groups as the store's journal has room for.
fn slots(setup: Setup) -> i64 {
    (LOG_BYTES / record_len(setup.group as usize)) as i64
}

/// The number of the first group. SQLite has six bytes for each number from here on, so a row keeps its length when another takes its place.
const FIRST: i64 = 1 << 40;
