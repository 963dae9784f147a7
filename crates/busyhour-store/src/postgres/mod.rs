//! PostgreSQL: one session that writes, group commit, one server a database.
//!
//! The session holds an advisory lock, so that the session that can write is the one
//! server of this database. When the session breaks, it is unknown whether the last
//! group was committed. So the group is kept until the next session, which sees by the
//! count of groups whether it was written, and writes it if not (`fencing_token.rs`).
//! The changes behind it were never sent; after a while they are refused, and are
//! certainly not stored. If another server has had the database in between, this server
//! stops: it refuses everything from then on.

mod accounts;
mod call_records;
mod cluster_schema;
mod group;
mod load;
mod location_view;
mod options;
mod ownership;
mod partition_reader;
mod passfile;
mod schema;
mod session;
mod settings;
mod tls;
mod fencing_token;
mod member_token;
mod writer;

use super::{
    AccountListener, CallRecordLimits, CallRecordQuery, CallRecordRow, Change, Completion,
    Contents, EndListener, Refused, SettingFollower, SettingKind, SettingListener, Store,
    StoreError, StoreStats,
    outside_changes::{AccountWatch, FollowedSettings, OutsideChanges, SettingWatch},
    queue::{Batch, Queue},
};
use busyhour::pool::TaskPool;
use busyhour_cluster::Grant;
use busyhour_registrar::EndedBinding;
use fencing_token::FencingToken;
use partition_reader::PartitionReader;
use session::Session;
use settings::setting_reader::SettingReader;
use std::{
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use writer::PostgresWriter;

pub(super) use accounts::PostgresAccounts;
pub use options::{PostgresOptions, masked};
pub use ownership::{JoinError, PostgresOwnership};

/// A PostgreSQL database that one server holds.
///
/// A commit is durable when PostgreSQL has answered; how durable depends on
/// `synchronous_commit`, which is `on` for
/// [`Durability::Full`](super::Durability::Full) and `off` for
/// [`Durability::Process`](super::Durability::Process).
///
/// ```no_run
/// use busyhour_store::{PostgresOptions, PostgresStore, Store};
///
/// let options = PostgresOptions::new("postgres://busyhour@localhost/busyhour")?;
/// let store = PostgresStore::open(options)?;
/// println!("{} bindings", store.load()?.bindings.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PostgresStore {
    queue: Arc<Queue>,
    feed: Arc<AccountWatch>,
    settings: Arc<SettingWatch>,
    followed: Arc<FollowedSettings>,
    options: PostgresOptions,
    partition_reader: PartitionReader,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Connects, brings the schema up to date and starts three threads:
    /// `bh-store`, which writes, `bh-store-guard`, which refuses what waits
    /// too long behind a write, and `bh-settings`, which reads what others have set.
    ///
    /// # Errors
    ///
    /// When there is no connection, another server holds the database, or a
    /// newer program made its schema.
    pub fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        let (session, fencing_token) = first_session(&options)?;
        let queue = Arc::new(Queue::new(options.queue_capacity, options.commit_timeout));
        let feed = Arc::new(AccountWatch::default());
        let settings = Arc::new(SettingWatch::default());
        let followed = Arc::new(FollowedSettings::default());
        let writer = PostgresWriter::new(
            session,
            fencing_token,
            options.clone(),
            queue.clone(),
            OutsideChanges::new(feed.clone()),
        );
        let reader = SettingReader::new(
            options.clone(),
            queue.clone(),
            settings.clone(),
            followed.clone(),
        );
        let guarded = queue.clone();
        // Starts the guard first: it ends with the writer, even if the writer never
        // ran.
        // The reader too, and nobody waits for it: it may itself wait for a database that does not
        // answer.
        start_thread(READER_THREAD, &options, move || reader.run())?;
        let threads = vec![
            start_thread(GUARD_THREAD, &options, move || guarded.watchdog())?,
            start_thread(WRITER_THREAD, &options, move || writer.run())?,
        ];
        Ok(Self {
            queue,
            feed,
            settings,
            followed,
            options,
            partition_reader: PartitionReader::default(),
            threads: Mutex::new(threads),
        })
    }
}

/// PostgreSQL releases the lock of a killed server when it notices the end of the
/// session.
fn first_session(options: &PostgresOptions) -> Result<(Session, FencingToken), StoreError> {
    let begun = Instant::now();
    loop {
        match Session::first(options) {
            Err(StoreError::InUse { .. }) if begun.elapsed() < options.lock_patience => {
                thread::sleep(LOCK_PACE);
            }
            outcome => return outcome,
        }
    }
}

fn start_thread(
    name: &str,
    options: &PostgresOptions,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map_err(|source| StoreError::Path {
        path: options.path(),
        source,
    })
}

impl Store for PostgresStore {
    fn load(&self) -> Result<Contents, StoreError> {
        load::contents(&self.options)
    }

    fn load_partitions(&self, grants: &[Grant]) -> Result<Contents, StoreError> {
        self.partition_reader.read(&self.options, grants)
    }

    fn close_partition_reader(&self) {
        self.partition_reader.rest();
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        let done = self.followed.note(&changes, done);
        self.queue.push(Batch::of(changes, done))
    }

    fn commit_granted(
        &self,
        grant: Grant,
        changes: Vec<Change>,
        done: Completion,
    ) -> Result<(), Refused> {
        let done = self.followed.note(&changes, done);
        let grant = Some(grant);
        self.queue.push(Batch {
            grant,
            changes,
            done,
        })
    }

    fn purge(&self, ended: &[EndedBinding]) {
        self.queue.purge(ended);
    }

    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
        call_records::read(&self.options, query)
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

    fn follow_settings(&self, revision: Option<u64>, follower: Box<dyn SettingFollower>) {
        self.followed.start(revision, follower);
    }

    fn lend_to(&self, pool: &TaskPool) {
        self.queue.lend_to(pool);
    }

    fn watch_end(&self, listener: EndListener) {
        self.queue.watch_end(listener);
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            settings_refused: self.followed.refused_len() as u64,
            ..self.queue.stats()
        }
    }

    fn close(&self, deadline: Duration) -> bool {
        self.queue.close(deadline)
    }
}

impl Drop for PostgresStore {
    /// Waits for the writer, so that the session is closed and its lock free, but
    /// not for ever: it may itself wait for a database that does not answer.
    fn drop(&mut self) {
        self.queue.close(Duration::ZERO);
        let threads = self.threads.get_mut();
        let threads = threads.unwrap_or_else(|poisoned| poisoned.into_inner());
        // The last handle may go in a completion, which is one of them.
        let is_own = |one: &JoinHandle<()>| one.thread().id() == thread::current().id();
        if threads.iter().any(is_own) || !self.queue.wait_for_end(END_PATIENCE) {
            return;
        }
        for thread in threads.drain(..) {
            // Its own panic is already on standard error.
            let _ = thread.join();
        }
    }
}

const WRITER_THREAD: &str = "bh-store";
const GUARD_THREAD: &str = "bh-store-guard";
const READER_THREAD: &str = "bh-settings";
/// Longer than any COMMIT that will be answered at all.
const END_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PACE: Duration = Duration::from_millis(100);
