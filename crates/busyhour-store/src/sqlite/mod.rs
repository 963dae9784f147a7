//! SQLite in WAL mode: one writer thread, group commit, one server a database.

mod accounts;
mod backup;
mod call_records;
mod files;
mod load;
mod location_view;
mod lock;
mod part;
mod schema;
mod writer;

use super::{
    AccountListener, CallRecordLimits, CallRecordQuery, CallRecordRow, Change, Completion,
    Contents, Durability, EndListener, Refused, SettingKind, SettingListener, Store, StoreError,
    StoreStats,
    outside_changes::{AccountWatch, OutsideChanges, SettingWatch},
    queue::{Batch, Queue},
};
pub(super) use accounts::SqliteAccounts;
pub use backup::{Backup, BackupFor, back_up, has_account, inspect, restore};
use busyhour::pool::TaskPool;
use busyhour_registrar::EndedBinding;
use files::{FileId, Files};
use lock::DatabaseLock;
use rusqlite::Connection;
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
/// A commit is durable when its transaction has been synchronised to the disk
/// ([`Durability::Full`]). All changes that arrive while one transaction is on
/// its way go together into the next.
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
    feed: Arc<AccountWatch>,
    settings: Arc<SettingWatch>,
    path: PathBuf,
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
        let lock = DatabaseLock::acquire(&options.path)?;
        make_file(&options.path)?;
        let (connection, id) = FileId::while_connecting(&options.path, || connect(&options.path))?;
        begin_run(&connection, &options)?;
        let files = Files::opened(&options.path, id, lock);
        let queue = Arc::new(Queue::new(options.queue_capacity, Duration::MAX));
        let feed = Arc::new(AccountWatch::default());
        let settings = Arc::new(SettingWatch::default());
        let outside_changes = OutsideChanges::new(feed.clone());
        let writer = SqliteWriter::new(
            connection,
            queue.clone(),
            outside_changes,
            settings.clone(),
            files,
        );
        let thread = thread::Builder::new()
            .name(WRITER_THREAD.to_owned())
            .spawn(move || writer.run())
            .map_err(|source| StoreError::Path {
                path: options.path.clone(),
                source,
            })?;
        Ok(Self {
            queue,
            feed,
            settings,
            path: options.path,
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
        }
    }
}

impl Store for SqliteStore {
    fn load(&self) -> Result<Contents, StoreError> {
        load::contents(&self.path)
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        self.queue.push(Batch::of(changes, done))
    }

    fn purge(&self, ended: &[EndedBinding]) {
        self.queue.purge(ended);
    }

    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
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
        self.queue.stats()
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

/// Counts this start of a server on the database, and sets the durability of its
/// commits.
fn begin_run(connection: &Connection, options: &SqliteOptions) -> Result<(), StoreError> {
    let wrap = |source| sqlite_error(&options.path, source);
    // This commit is always synchronous, whatever the durability of other commits.
    schema::count_run(connection).map_err(wrap)?;
    location_view::set(connection, options.location_view).map_err(wrap)?;
    match options.durability {
        Durability::Full => Ok(()),
        Durability::Process => connection
            .pragma_update(None, "synchronous", "OFF")
            .map_err(wrap),
    }
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
/// A checkpoint each 16 MiB of log: rare enough to stay out of the latency.
const CHECKPOINT_PAGES: u32 = 4_096;
