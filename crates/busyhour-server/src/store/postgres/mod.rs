//! PostgreSQL: one session that writes, group commit, one server a database.
//!
//! The session holds an advisory lock, so that whoever can write is the one
//! server of this database. When it breaks, whether the last COMMIT took is
//! unknown; so that group is kept and written again by the next session, which
//! changes nothing where it did: every statement sets a state. What waits
//! behind it was never sent, and is given up after a while with a clear fate.

mod book;
mod group;
mod load;
mod options;
mod schema;
mod session;
mod writer;

use super::{
    AccountListener, Change, Completion, Contents, Refused, Store, StoreError, StoreStats,
    feed::AccountFeed,
    queue::{Batch, Queue},
};
use session::Session;
use std::{
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use writer::Writer;

pub(super) use book::PostgresBook;
pub use options::{PostgresOptions, masked};

/// A PostgreSQL database that one server holds.
///
/// A commit is durable when COMMIT was answered; what that means is
/// PostgreSQL's `synchronous_commit`, which is `on` for
/// [`Durability::Full`](super::Durability::Full) and `off` for
/// [`Durability::Process`](super::Durability::Process).
///
/// ```no_run
/// use busyhour_server::store::{PostgresOptions, PostgresStore, Store};
///
/// let options = PostgresOptions::new("postgres://busyhour@localhost/busyhour")?;
/// let store = PostgresStore::open(options)?;
/// println!("{} bindings", store.load()?.bindings.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PostgresStore {
    queue: Arc<Queue>,
    feed: Arc<AccountFeed>,
    options: PostgresOptions,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Connects, brings the schema up to date and starts the writer thread
    /// `bh-store`.
    ///
    /// # Errors
    ///
    /// When there is no connection, another server holds the database, or a
    /// newer program made its schema.
    pub fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        let session = first_session(&options)?;
        let queue = Arc::new(Queue::new(options.queue_capacity));
        let feed = Arc::new(AccountFeed::default());
        let writer = Writer::new(session, options.clone(), queue.clone(), feed.clone());
        let thread = thread::Builder::new()
            .name(WRITER_THREAD.to_owned())
            .spawn(move || writer.run())
            .map_err(|source| StoreError::Path {
                path: options.shown().into(),
                source,
            })?;
        Ok(Self {
            queue,
            feed,
            options,
            writer: Mutex::new(Some(thread)),
        })
    }
}

/// The lock of a server that was killed goes when PostgreSQL notices.
fn first_session(options: &PostgresOptions) -> Result<Session, StoreError> {
    let begun = Instant::now();
    loop {
        match Session::open(options) {
            Err(StoreError::InUse { .. }) if begun.elapsed() < LOCK_PATIENCE => {
                thread::sleep(LOCK_PACE);
            }
            outcome => return outcome,
        }
    }
}

impl Store for PostgresStore {
    fn load(&self) -> Result<Contents, StoreError> {
        load::contents(&self.options)
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        self.queue.push(Batch { changes, done })
    }

    fn watch_accounts(&self, revision: u64, listener: AccountListener) {
        self.feed.start(revision, listener);
    }

    fn stats(&self) -> StoreStats {
        self.queue.stats()
    }

    fn close(&self, deadline: Duration) -> bool {
        self.queue.close(deadline)
    }
}

impl Drop for PostgresStore {
    /// Waits for the writer, so that the session is closed and its lock free.
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

const WRITER_THREAD: &str = "bh-store";
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PACE: Duration = Duration::from_millis(100);
