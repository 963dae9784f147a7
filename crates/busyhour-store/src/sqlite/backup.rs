//! Copies of a database: made while a server writes, put back while none runs, and made for the
//! version before.
//!
//! A copy is made in one transaction, so it has each of the server's batches whole or not at all. It is checked, and is on
//! the disk, before it gets its name; a name that exists is never taken.
//!
//! What was acknowledged may be in the journal only. So the journal is read first, then the database is copied, and then
//! what the copy lacks is put into it. The order matters: a record is overwritten only after the database has had it, so
//! each record that was there when the reading began is either in what was read, or in the copy. The result is the state
//! of one moment after the begin, since records are taken in their order and without a gap.
//!
//! A server that runs may write while the journal is read: a record may be read before it is there, and a later one after
//! it. This looks like damage, so the copy is made again before it is called that.

use super::{
    StoreError, journal_beside,
    lock::DatabaseLock,
    part::{Part, keep_as, path_error, sync_folder},
    schema, sqlite_error,
};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// For which program a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupFor {
    /// The version that makes it, and later ones.
    This,
    /// The version whose schema is the one before, so that one can go back.
    Previous,
}

/// What is in a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// The version of its tables.
    pub schema: u32,
    /// Accounts in it.
    pub accounts: u64,
    /// Bindings in it, also those that have ended since.
    pub bindings: u64,
    /// Its size.
    pub bytes: u64,
    /// What the program before does not know, and so was left out: tables with rows, and columns of others.
    pub left_out: Vec<String>,
}

/// Writes a consistent copy of the SQLite database at `database` to `target`; a server may
/// write meanwhile, and does not wait for it.
///
/// # Errors
///
/// [`StoreError::Missing`] without a database, [`StoreError::Exists`] if there is a file at `target`,
/// [`StoreError::Damaged`] if SQLite finds the copy damaged, and what could not be read or written.
///
/// # Examples
///
/// ```
/// use busyhour_store::{BackupFor, SqliteOptions, SqliteStore, back_up, restore};
///
/// let folder = std::env::temp_dir().join(format!("busyhour-backup-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let (database, copy) = (folder.join("busyhour.db"), folder.join("monday.db"));
/// let store = SqliteStore::open(SqliteOptions::new(&database))?;
/// back_up(&database, &copy, BackupFor::This)?; // the store goes on
/// drop(store);
/// std::fs::remove_file(&database)?;
/// assert_eq!(restore(&copy, &database, false)?.accounts, 0);
/// std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn back_up(
    database: &Path,
    target: &Path,
    backup_for: BackupFor,
) -> Result<Backup, StoreError> {
    if matches!(database.try_exists(), Ok(false)) {
        let path = database.to_owned();
        return Err(StoreError::Missing { path });
    }
    refuse_existing(target)?;
    let part = copy_with_journal(database, target)?;
    if backup_for == BackupFor::This {
        let backup = describe(part.path())?;
        part.becomes(target)?;
        return Ok(backup);
    }
    let older = Part::beside(&target.with_added_extension("older"))?;
    let left_out = rewrite(part.path(), older.path())?;
    let backup = Backup {
        left_out,
        ..describe(older.path())?
    };
    older.becomes(target)?;
    Ok(backup)
}

/// Puts a copy in the place of the database, which no server may use. With `replace` the
/// database that was there is kept beside it, under a name that ends in `.replaced`.
///
/// # Errors
///
/// [`StoreError::InUse`] while a server runs, [`StoreError::Exists`] without `replace`,
/// [`StoreError::Damaged`] or [`StoreError::Newer`] if the copy cannot be used; nothing changes then.
pub fn restore(backup: &Path, database: &Path, replace: bool) -> Result<Backup, StoreError> {
    let described = describe(backup)?;
    let lock = DatabaseLock::acquire(database)?;
    lock.give_to_owner_of_folder()?;
    if !replace {
        refuse_existing(database)?;
    }
    let part = Part::beside(database)?;
    copy(backup, part.path())?;
    count_lost_runs(part.path())?;
    // Whatever made the copy, the journal that was beside it is not what is beside it now.
    forget_journal(part.path())?;
    part.give_to_owner_of_folder()?;
    match database.exists() {
        true => {
            keep_aside(database)?;
            part.replaces(database)?;
        }
        false => part.becomes(database)?,
    }
    drop(lock);
    Ok(described)
}

/// A copy of the database with what is in its journal.
fn copy_with_journal(database: &Path, target: &Path) -> Result<Part, StoreError> {
    let mut tries = 0;
    loop {
        let journal = journal_beside::read(database)?;
        let part = Part::beside(target)?;
        copy(database, part.path())?;
        tries += 1;
        match detach(part.path(), database, journal.as_deref()) {
            Ok(()) => return Ok(part),
            Err(StoreError::Journal { .. }) if tries < TRIES_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// Puts what is in the journal of a database into a copy of it, which needs no journal then.
fn detach(copy: &Path, database: &Path, journal: Option<&[u8]>) -> Result<(), StoreError> {
    let wrap = |source| sqlite_error(copy, source);
    let mut connection = Connection::open(copy).map_err(wrap)?;
    journal_beside::replay(&mut connection, database, journal)?;
    journal_beside::forget_position(&connection).map_err(wrap)
}

/// SQLite writes what one transaction sees, without holes, into the empty file.
fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let connection = open_to_read(from)?;
    let done = connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
    done.map(drop).map_err(|source| sqlite_error(from, source))
}

fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let connection = opened.map_err(|source| sqlite_error(path, source))?;
    let wait = connection.busy_timeout(super::BUSY_TIMEOUT);
    wait.map_err(|source| sqlite_error(path, source))?;
    Ok(connection)
}

/// Looks at a database as it is, without bringing it up to date, and checks it from its first to its
/// last page. A server may use it meanwhile.
///
/// # Errors
///
/// As for [`restore`], of the database itself.
pub fn inspect(database: &Path) -> Result<Backup, StoreError> {
    match database.try_exists() {
        Ok(false) => Err(StoreError::Missing {
            path: database.to_owned(),
        }),
        _ => describe(database),
    }
}

/// Whether an account of this user is in a database, which is looked at as it is.
///
/// # Errors
///
/// As for [`inspect`], but the database is not checked.
pub fn has_account(database: &Path, user: &str) -> Result<bool, StoreError> {
    let connection = open_to_read(database)?;
    let query = "SELECT EXISTS (SELECT 1 FROM account WHERE username = ?1)";
    let found = connection.query_row(query, [user], |row| row.get(0));
    found.map_err(|source| sqlite_error(database, source))
}

/// Checks a copy from its first to its last page, and counts what is in it.
fn describe(path: &Path) -> Result<Backup, StoreError> {
    let damaged = |reason: String| StoreError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let bytes = fs::metadata(path).map_err(|source| path_error(path, source))?;
    let connection = open_to_read(path)?;
    let one = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
    let verdict = connection.query_row("PRAGMA integrity_check(1)", [], |row| {
        row.get::<_, String>(0)
    });
    match verdict {
        Ok(verdict) if verdict == "ok" => {}
        Ok(verdict) => return Err(damaged(verdict)),
        Err(error) => return Err(damaged(error.to_string())),
    }
    let version = one("PRAGMA user_version").map_err(|source| sqlite_error(path, source))?;
    let schema = u32::try_from(version).unwrap_or(u32::MAX);
    schema::check_known(schema, path)?;
    let not_ours = |_| damaged("it is no database of busyhour".into());
    Ok(Backup {
        schema,
        accounts: one("SELECT count(*) FROM account").map_err(not_ours)? as u64,
        bindings: one("SELECT count(*) FROM lease").map_err(not_ours)? as u64,
        bytes: bytes.len(),
        left_out: Vec::new(),
    })
}

/// Writes what is in the database at `newer` into tables as the version before makes them, at
/// `older`. Says what found no place there.
fn rewrite(newer: &Path, older: &Path) -> Result<Vec<String>, StoreError> {
    let mut connection = schema::previous(older)?;
    let wrap = |source| sqlite_error(older, source);
    let attach = "ATTACH ?1 AS newer";
    connection
        .execute(attach, [newer.to_string_lossy()])
        .map_err(wrap)?;
    let left_out = schema::take_over(&mut connection).map_err(wrap)?;
    connection.execute("DETACH newer", []).map_err(wrap)?;
    Ok(left_out)
}

/// Names of dialogs are made of the number of this start. Those between the copy and now
/// would come again.
fn count_lost_runs(path: &Path) -> Result<(), StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let connection = Connection::open(path).map_err(wrap)?;
    let count = "UPDATE revision SET count = count + ?1 WHERE name = 'run'";
    match connection.execute(count, [RUNS_SKIPPED]) {
        // The tables of the first version have no such row.
        Err(error) if error.to_string().contains("no such table") => Ok(()),
        counted => counted.map(drop).map_err(wrap),
    }
}

fn forget_journal(path: &Path) -> Result<(), StoreError> {
    let connection = Connection::open(path);
    let forgotten = connection.and_then(|connection| journal_beside::forget_position(&connection));
    forgotten.map_err(|source| sqlite_error(path, source))
}

/// Keeps the database under another name as well, and moves what is beside it there: at
/// each moment the database is there with all that was committed.
fn keep_aside(database: &Path) -> Result<(), StoreError> {
    // A damaged one may not allow it; then its parts belong together under the other name.
    let _ = take_in_journal(database);
    let _ = checkpoint(database);
    let free = (1..).map(|number: u32| match number {
        1 => database.with_added_extension("replaced"),
        _ => database.with_added_extension(format!("replaced-{number}")),
    });
    let mut free = free.filter(|path| !path.exists());
    let kept = free.next().unwrap_or_else(|| database.to_owned());
    keep_as(database, &kept).map_err(|source| path_error(&kept, source))?;
    let beside = ["-wal", "-shm"];
    let beside = beside.map(|suffix| (with_suffix(database, suffix), with_suffix(&kept, suffix)));
    let journal = (
        journal_beside::path_of(database),
        journal_beside::path_of(&kept),
    );
    for (from, to) in beside.into_iter().chain([journal]) {
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved.map_err(|source| path_error(&from, source))?,
        }
    }
    sync_folder(database).map_err(|source| path_error(database, source))
}

/// Takes what was acknowledged from the journal into the database.
fn take_in_journal(database: &Path) -> Result<(), StoreError> {
    let journal = journal_beside::read(database)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(database, flags);
    let mut connection = connection.map_err(|source| sqlite_error(database, source))?;
    journal_beside::replay(&mut connection, database, journal.as_deref()).map(drop)
}

/// Takes what was committed from the log beside the database into it.
fn checkpoint(database: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(super::BUSY_TIMEOUT)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn refuse_existing(path: &Path) -> Result<(), StoreError> {
    match path.symlink_metadata() {
        Ok(_) => Err(StoreError::Exists {
            path: path.to_owned(),
        }),
        Err(_) => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Of a copy beside a server that runs.
const TRIES_MAX: usize = 5;
/// More than anybody starts a server between two copies.
const RUNS_SKIPPED: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_kept_aside_is_still_there_with_what_was_committed() {
        let folder = tempfile::TempDir::new().unwrap();
        let database = folder.path().join("busyhour.db");
        let open = Connection::open(&database).unwrap();
        let write = "PRAGMA journal_mode = WAL; CREATE TABLE account (user); \
                     INSERT INTO account VALUES ('alice')";
        open.execute_batch(write).unwrap();
        // As after a process that was killed: the row is in the log.
        std::mem::forget(open);
        keep_aside(&database).unwrap();
        let rows = |path: &Path| {
            let connection = open_to_read(path).unwrap();
            let count = "SELECT count(*) FROM account";
            connection
                .query_row(count, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!(rows(&database), 1);
        let part = Part::beside(&database).unwrap();
        let new = Connection::open(part.path()).unwrap();
        new.execute_batch("CREATE TABLE account (user)").unwrap();
        drop(new);
        part.replaces(&database).unwrap();
        assert_eq!(rows(&database), 0);
        assert_eq!(rows(&folder.path().join("busyhour.db.replaced")), 1);
    }
}
