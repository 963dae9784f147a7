//! The journal beside a database: where it is, how it is made, and what the database has had of it.

use super::{
    StoreError,
    folded_rows::{FoldedRows, RowChange},
    part::{Part, path_error},
    sqlite_error, tables,
};
use crate::journal::{
    JournalHeader, JournalPosition, RING_BEGIN, RecoveredJournal, recover_journal,
};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
};

/// Beside the file itself, if the path of the database is a link, as SQLite has its log.
pub(super) fn path_of(database: &Path) -> PathBuf {
    let found = database.canonicalize();
    let mut path = found
        .unwrap_or_else(|_| database.to_owned())
        .into_os_string();
    path.push(".journal");
    path.into()
}

/// All bytes of the journal of a database, if it has one.
pub(super) fn read(database: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let path = path_of(database);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(path_error(&path, source)),
    }
}

/// Opens the journal, or makes one of `len` bytes that are all written, so that later writes change
/// nothing but them. Returns its length.
pub(super) fn open_or_make(database: &Path, len: u64) -> Result<(File, u64), StoreError> {
    let path = path_of(database);
    let wrap = |source| path_error(&path, source);
    if matches!(path.try_exists(), Ok(false)) {
        make(database, &path, len)?;
    }
    let file = OpenOptions::new().read(true).write(true).open(&path);
    let file = file.map_err(wrap)?;
    let len = file.metadata().map_err(wrap)?.len();
    Ok((file, len))
}

fn make(database: &Path, path: &Path, len: u64) -> Result<(), StoreError> {
    let part = Part::beside(path)?;
    let header = JournalHeader::new(0, false, true);
    let fill = || {
        let mut file = OpenOptions::new().write(true).open(part.path())?;
        file.write_all(&header.encode())?;
        let mut left = len.saturating_sub(header.encode().len() as u64) as usize;
        while left > 0 {
            let portion = left.min(ZEROS.len());
            file.write_all(&ZEROS[..portion])?;
            left -= portion;
        }
        give_to_owner_of(database, &file)
    };
    fill().map_err(|source| path_error(path, source))?;
    // This also synchronises it.
    part.becomes(path)
}

/// Root may make what the server's user must write; SQLite does the same with its log.
fn give_to_owner_of(database: &Path, file: &File) -> io::Result<()> {
    let (found, owner) = (file.metadata()?, fs::metadata(database)?);
    match found.uid() == owner.uid() {
        true => Ok(()),
        false => fchown(file, Some(owner.uid()), Some(owner.gid())),
    }
}

/// Brings a database up to what is in the `journal` that was beside it. Returns the epoch of the
/// journal; 0 without one.
///
/// # Errors
///
/// When the journal is damaged or belongs to another database; nothing is changed then.
pub(super) fn replay(
    connection: &mut Connection,
    database: &Path,
    journal: Option<&[u8]>,
) -> Result<u64, StoreError> {
    let wrap = |source| sqlite_error(database, source);
    let position = position(connection).map_err(wrap)?;
    let Some(journal) = journal else {
        if position.is_some() {
            warn_of_missing(database);
        }
        return Ok(0);
    };
    let damaged = |reason: String| error(database, format!("{reason}. {MOVE_IT}"));
    let recovered =
        recover_journal(journal, position).map_err(|error| damaged(error.to_string()))?;
    if let Some(position) = position {
        take(connection, position, &recovered).map_err(wrap)?;
    }
    if let Some(cut) = recovered.cut {
        tracing::warn!(%cut, "the last changes before a power cut are lost, as store.durability allows");
    }
    let header = JournalHeader::decode(journal).map_err(|error| damaged(error.to_owned()))?;
    Ok(header.epoch)
}

/// In one transaction, so it may be tried again.
fn take(
    connection: &mut Connection,
    position: JournalPosition,
    recovered: &RecoveredJournal,
) -> rusqlite::Result<()> {
    let Some(last) = recovered.records.last() else {
        return Ok(());
    };
    let mut rows = FoldedRows::default();
    for change in recovered.records.iter().flat_map(|record| &record.changes) {
        rows.push(RowChange::Put(change.clone()));
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tables::apply_rows(&transaction, rows.sorted())?;
    let position = JournalPosition {
        number: last.number,
        end: last.end,
        ..position
    };
    put_position(&transaction, position)?;
    transaction.commit()
}

/// `None` if nothing of a journal is needed, as in a copy or after an orderly end.
pub(super) fn position(connection: &Connection) -> rusqlite::Result<Option<JournalPosition>> {
    if !is_known(connection)? {
        return Ok(None);
    }
    let mut statement = connection.prepare("SELECT epoch, number, end FROM journal")?;
    let row = statement.query_row([], |row| {
        let number = |column| row.get(column).map(i64::cast_unsigned);
        Ok(JournalPosition {
            epoch: number(0)?,
            number: number(1)?,
            end: number(2)?,
        })
    });
    row.optional()
}

pub(super) fn put_position(
    connection: &Connection,
    position: JournalPosition,
) -> rusqlite::Result<()> {
    let values = [position.epoch, position.number, position.end].map(u64::cast_signed);
    let mut statement = connection.prepare_cached(PUT_POSITION)?;
    statement.execute(params![values[0], values[1], values[2]])?;
    Ok(())
}

/// Whatever journal is beside it from now on, the database has had all of it.
pub(super) fn forget_position(connection: &Connection) -> rusqlite::Result<()> {
    match is_known(connection)? {
        true => connection.execute("DELETE FROM journal", []).map(drop),
        false => Ok(()),
    }
}

/// Databases of earlier versions have no such table.
fn is_known(connection: &Connection) -> rusqlite::Result<bool> {
    let found = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'journal')";
    connection.query_row(found, [], |row| row.get(0))
}

/// What is wrong with the journal of a database.
pub(super) fn error(database: &Path, reason: String) -> StoreError {
    let path = path_of(database);
    StoreError::Journal { path, reason }
}

fn warn_of_missing(database: &Path) {
    let path = path_of(database);
    tracing::warn!(
        path = %path.display(),
        event = "journal_is_missing",
        "the journal of the database is not there, although the server did not end in an orderly way: \
         what was acknowledged in the last second before is lost"
    );
}

/// Before anything was written.
pub(super) const BEGIN: JournalPosition = JournalPosition {
    epoch: 0,
    number: 0,
    end: RING_BEGIN,
};
const PUT_POSITION: &str =
    "INSERT OR REPLACE INTO journal (id, epoch, number, end) VALUES (1, ?1, ?2, ?3)";
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
const MOVE_IT: &str = "Put the right file there; or move this one away to start without it: then \
    registrations of the last seconds before the server ended are lost";
