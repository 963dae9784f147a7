//! SQLite in WAL mode behind a journal: one writer thread, group commit, one server a database.

mod accounts;
mod backup;
mod behind;
mod call_records;
mod files;
mod folded_rows;
mod journal_beside;
mod lazy_bindings;
mod load;
mod location_view;
mod lock;
mod part;
mod schema;
mod tables;
mod writer;

use super::{
    AccountListener, BindingReader, CallRecordLimits, CallRecordQuery, CallRecordRow, Change,
    Completion, Contents, Durability, EndListener, Refused, SettingKind, SettingListener, Store,
    StoreError, StoreStats,
    journal::{JournalWriter, SyncedFile},
    outside_changes::{AccountWatch, OutsideChanges, SettingWatch},
    queue::{self, Batch, Queue},
};
pub(super) use accounts::SqliteAccounts;
pub use backup::{Backup, BackupFor, back_up, has_account, inspect, restore};
use behind::Behind;
use busyhour::pool::TaskPool;
use busyhour_registrar::EndedBinding;
use files::{FileId, Files};
use lazy_bindings::LazyBindings;
use lock::DatabaseLock;
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};
use writer::SqliteWriter;

/// A database file that one server holds.
///
/// A commit is durable when its record in the journal beside the database has been synchronised to the
/// disk ([`Durability::Full`]). All changes that arrive while one record is on its way go together into
/// the next. The database has them within about a second; [`load`](Store::load) waits for it.
///
/// # Examples
///
/// ```
/// use busyhour_store::{SqliteOptions, SqliteStore, Store};
///
/// let folder = std::env::temp_dir().join(format!("busyhour-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let store = SqliteStore::open(SqliteOptions::new(folder.join("busyhour.db")))?;
/// assert!(store.load()?.bindings.is_empty());
/// drop(store);
/// std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqliteStore {
    queue: Arc<Queue>,
    behind: Arc<Behind>,
    feed: Arc<AccountWatch>,
    settings: Arc<SettingWatch>,
    path: PathBuf,
    eager_bindings_max: usize,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// Where the database is and what a commit promises.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The database file; its folder must exist and be writable.
    pub path: PathBuf,
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// Most changes that may wait for the writer.
    pub queue_capacity: usize,
    /// Whether the database has a view `location`, by which Kamailio's `usrloc` finds
    /// contacts.
    pub location_view: bool,
    /// The bytes of the journal, where none is yet: what is acknowledged while the database is written
    /// or cannot be written has to fit. They are written when it is made.
    pub journal_bytes: u64,
    /// More bindings than this are read while the server serves, where it asks for that ([`Store::load_lazily`]).
    pub eager_bindings_max: usize,
}

impl SqliteStore {
    /// Opens or creates the database, brings its schema up to date and starts
    /// the writer thread `bh-store`. A database made here is for its user alone.
    ///
    /// # Errors
    ///
    /// When another server holds the database, the path cannot be written, the
    /// file is not a database, or a newer program made its schema.
    pub fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        let path = &options.path;
        let lock = DatabaseLock::acquire(path)?;
        make_file(path)?;
        let (mut connection, id) = FileId::while_connecting(path, || connect(path))?;
        let epoch = journal_beside::replay(
            &mut connection,
            path,
            journal_beside::read(path)?.as_deref(),
        )?;
        begin_run(&connection, &options)?;
        let (file, len) = journal_beside::open_or_make(path, options.journal_bytes)?;
        let files = Files::opened(path, id, &journal_beside::path_of(path), lock);
        let queue = Arc::new(Queue::new(options.queue_capacity, Duration::MAX));
        let known = known_epoch(&connection, path, epoch)?;
        let behind = Behind::new(connection, path.clone(), queue.clone(), len);
        let is_synced = options.durability == Durability::Full;
        let mut journal = JournalWriter::new(SyncedFile::new(file, is_synced), is_synced);
        let begun = behind.begin_epoch(&mut journal, known);
        begun.map_err(|error| journal_beside::error(path, error.to_string()))?;
        behind.set_durability(options.durability)?;
        let behind = Arc::new(behind);
        let feed = Arc::new(AccountWatch::default());
        let settings = Arc::new(SettingWatch::default());
        let writer = SqliteWriter::start(
            connect_to_read(path)?,
            (journal, behind.clone()),
            queue.clone(),
            OutsideChanges::new(feed.clone()),
            settings.clone(),
            files,
        );
        let no_thread = |source| part::path_error(path, source);
        let writer = writer.map_err(no_thread)?;
        let thread = thread::Builder::new()
            .name(WRITER_THREAD.to_owned())
            .spawn(move || writer.run())
            .map_err(no_thread)?;
        Ok(Self {
            queue,
            behind,
            feed,
            settings,
            path: options.path,
            eager_bindings_max: options.eager_bindings_max,
            writer: Mutex::new(Some(thread)),
        })
    }
}

impl SqliteOptions {
    /// Full durability and a queue of 65,536 changes for the database at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            durability: Durability::default(),
            queue_capacity: QUEUE_CAPACITY,
            location_view: false,
            journal_bytes: JOURNAL_BYTES,
            eager_bindings_max: EAGER_BINDINGS_MAX,
        }
    }
}

impl Store for SqliteStore {
    fn load(&self) -> Result<Contents, StoreError> {
        self.behind.follow_to_read()?;
        load::contents(&self.path)
    }

    fn load_lazily(&self) -> Result<(Contents, Option<Arc<dyn BindingReader>>), StoreError> {
        self.behind.follow_to_read()?;
        match load::contents_but_bindings(&self.path, self.eager_bindings_max)? {
            Some(contents) => {
                let later = LazyBindings::new(self.path.clone(), self.queue.clone());
                Ok((contents, Some(Arc::new(later))))
            }
            None => Ok((load::contents(&self.path)?, None)),
        }
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        self.queue.push(Batch::of(changes, done))
    }

    fn purge(&self, ended: &[EndedBinding]) {
        self.queue.purge(ended);
    }

    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
        self.behind.follow_to_read()?;
        call_records::read(&self.path, query)
    }

    fn remove_old_call_records(&self, limits: CallRecordLimits) {
        self.queue.remove_old_call_records(limits);
    }

    fn watch_accounts(&self, revision: u64, listener: AccountListener) {
        self.feed.start(revision, listener);
    }

    fn watch_settings(&self, kind: SettingKind, listener: SettingListener) {
        self.settings.start(kind, listener);
    }

    fn lend_to(&self, pool: &TaskPool) {
        self.queue.lend_to(pool);
    }

    fn watch_end(&self, listener: EndListener) {
        self.queue.watch_end(listener);
    }

    fn stats(&self) -> StoreStats {
        let mut stats = self.queue.stats();
        self.behind.tell(&mut stats);
        stats
    }

    fn close(&self, deadline: Duration) -> bool {
        self.queue.close(deadline)
    }
}

impl Drop for SqliteStore {
    /// Waits for the writer, so that the database is closed and its lock free.
    fn drop(&mut self) {
        self.queue.close(Duration::ZERO);
        let writer = self.writer.get_mut();
        let writer = writer.unwrap_or_else(|poisoned| poisoned.into_inner());
        // The last handle may go in a completion, which is the writer itself.
        let is_other = |writer: &mut JoinHandle<()>| writer.thread().id() != thread::current().id();
        if let Some(writer) = writer.take_if(is_other) {
            // The writer's own panic is already on standard error.
            let _ = writer.join();
        }
    }
}

/// A connection whose commits are on the disk before they are acknowledged.
fn connect(path: &Path) -> Result<Connection, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    make_file(path)?;
    let mut connection = Connection::open(path).map_err(wrap)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(wrap)?;
    for (pragma, value) in [("journal_mode", "WAL"), ("synchronous", "FULL")] {
        connection
            .pragma_update(None, pragma, value)
            .map_err(wrap)?;
    }
    connection
        .pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
        .map_err(wrap)?;
    schema::migrate(&mut connection, path)?;
    warn_of_readers(path);
    Ok(connection)
}

/// For what is read while others write.
fn connect_to_read(path: &Path) -> Result<Connection, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(path, flags).map_err(wrap)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(wrap)?;
    Ok(connection)
}

/// Counts this start of a server on the database.
fn begin_run(connection: &Connection, options: &SqliteOptions) -> Result<(), StoreError> {
    let wrap = |source| sqlite_error(&options.path, source);
    schema::count_run(connection).map_err(wrap)?;
    location_view::set(connection, options.location_view).map_err(wrap)
}

/// No journal of this database has had a higher epoch, wherever it is now.
fn known_epoch(connection: &Connection, path: &Path, of_journal: u64) -> Result<u64, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    let position = journal_beside::position(connection).map_err(wrap)?;
    let of_database = position.map_or(0, |position| position.epoch);
    let of_run = schema::run(connection).map_err(wrap)? << 16;
    Ok(of_database.max(of_journal).max(of_run))
}

/// Creates the file if there is none, for its owner alone, since it contains secrets;
/// SQLite gives the files beside it the same mode.
///
/// An existing file is not opened: closing it would release SQLite's locks on it, even
/// those of other connections of this process.
fn make_file(path: &Path) -> Result<(), StoreError> {
    if path.exists() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let made = options.open(path).map(drop);
    made.map_err(|source| StoreError::Path {
        path: path.to_owned(),
        source,
    })
}

/// Warns if users other than the owner can read an existing database.
fn warn_of_readers(path: &Path) {
    let found = fs::metadata(path);
    if found.is_ok_and(|found| found.mode() & READABLE_BY_ALL != 0) {
        let path = path.display();
        tracing::warn!(
            %path,
            "every user of this machine can read the database and the secrets in it; \
             run chmod 600 on it"
        );
    }
}

pub(crate) fn sqlite_error(path: &Path, source: rusqlite::Error) -> StoreError {
    StoreError::Sqlite {
        path: path.to_owned(),
        source,
    }
}

const READABLE_BY_ALL: u32 = 0o004;
const WRITER_THREAD: &str = "bh-store";
const QUEUE_CAPACITY: usize = 65_536;
/// How long the writer waits for a tool that holds the database for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// A checkpoint each MiB of log: nobody waits for it, but a write of the journal meanwhile waits for the disk, so it is to be short.
const CHECKPOINT_PAGES: u32 = 256;
/// Some 40,000 registrations.
const JOURNAL_BYTES: u64 = 16 << 20;
/// They take a third of a second at most, where a million take 4.6 to 6.3 s (docs/checks.md).
const EAGER_BINDINGS_MAX: usize = 50_000;
