//! The tables of the store, in SQLite with the store's settings.

use crate::{durable_log::Outcome, newest::Newest, refresh::Refresh};
use rusqlite::{Connection, Row, params};
use std::path::Path;

pub struct LeaseTable(Connection);

impl LeaseTable {
    /// Makes the tables with so many bindings.
    pub fn make(folder: &Path, bindings: u64) -> Outcome<Self> {
        let mut connection = connect(&folder.join("alone.db"))?;
        connection.execute_batch(TABLES)?;
        let transaction = connection.transaction()?;
        {
            let mut contact = transaction.prepare(PUT_CONTACT)?;
            let mut lease = transaction.prepare(PUT_LEASE)?;
            for id in 1..=bindings as i64 {
                contact.execute([id])?;
                let first = Refresh {
                    id: id as u64,
                    cseq: 1,
                };
                lease.execute(params![
                    id,
                    first.cseq,
                    Refresh::GRANTED_S,
                    first.expires_at_ns() as i64
                ])?;
            }
        }
        transaction.commit()?;
        begin_log_again(&connection)?;
        Ok(Self(connection))
    }

    pub fn open(folder: &Path) -> Outcome<Self> {
        Ok(Self(connect(&folder.join("alone.db"))?))
    }

    /// Renews leases in one transaction.
    pub fn renew(&mut self, group: impl Iterator<Item = Refresh>) -> Outcome<()> {
        let transaction = self.0.transaction()?;
        {
            let mut renew = transaction.prepare_cached(RENEW_LEASE)?;
            for one in group {
                let expires = one.expires_at_ns() as i64;
                renew.execute(params![
                    one.id as i64,
                    one.cseq,
                    Refresh::GRANTED_S,
                    expires,
                    false
                ])?;
            }
        }
        Ok(transaction.commit()?)
    }

    pub fn newest(&self) -> Outcome<Newest> {
        let mut leases = self.0.prepare("SELECT id, cseq FROM lease")?;
        let refresh = |row: &Row| {
            let (id, cseq) = (row.get::<_, i64>(0)? as u64, row.get(1)?);
            Ok(Refresh { id, cseq })
        };
        let newest: Result<Newest, _> = leases.query_map([], refresh)?.collect();
        Ok(newest?)
    }
}

/// As the store does.
pub fn connect(path: &Path) -> Outcome<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 256)?;
    Ok(connection)
}

/// SQLite writes its log again from its begin. The log keeps its length from here on: a checkpoint never makes it shorter.
pub fn begin_log_again(connection: &Connection) -> Outcome<()> {
    let is_busy: bool =
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0))?;
    match is_busy {
        true => Err("a checkpoint was not finished".into()),
        false => Ok(()),
    }
}

const TABLES: &str = "
    CREATE TABLE contact (
        id INTEGER PRIMARY KEY, aor TEXT NOT NULL, uri TEXT NOT NULL, parameters TEXT NOT NULL, q_milli INTEGER,
        call_id TEXT NOT NULL, path TEXT NOT NULL, user_agent TEXT NOT NULL, remote TEXT NOT NULL, local TEXT NOT NULL
    );
    CREATE TABLE lease (
        id INTEGER PRIMARY KEY, cseq INTEGER NOT NULL, granted_s INTEGER NOT NULL, expires_at_ns INTEGER NOT NULL,
        removed INTEGER NOT NULL
    );";
const PUT_CONTACT: &str = "INSERT INTO contact VALUES (?1, 'sip:device' || ?1 || '@example.com', \
    'sip:device' || ?1 || '@192.0.2.1:5062', '', NULL, ?1 || '-call@192.0.2.1', '', 'a telephone of some make', \
    '192.0.2.1:5062', '192.0.2.2:5060')";
const PUT_LEASE: &str = "INSERT INTO lease VALUES (?1, ?2, ?3, ?4, 0)";
const RENEW_LEASE: &str =
    "UPDATE lease SET cseq = ?2, granted_s = ?3, expires_at_ns = ?4, removed = ?5 WHERE id = ?1";
