//! The database behind its journal: changes wait here until the database has them.

use super::{
    StoreError,
    folded_rows::{FoldedRows, RowChange},
    journal_beside::{self, BEGIN},
    sqlite_error, tables,
};
use crate::{
    CallRecordLimits, Change, CommitError, Durability, StoreStats,
    journal::{JournalPosition, JournalRing, JournalWriter, SyncedFile},
    queue::{Queue, Taken},
};
use busyhour_registrar::{BindingChange, EndedBinding};
use rusqlite::{Connection, TransactionBehavior};
use std::{
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Shared by the thread that writes the journal, the one that [follows](Self::run) with the database,
/// and those who read the database.
///
/// Whoever has the lock of the database may take that of the changes that wait, and never the other
/// way round.
pub(super) struct Behind {
    path: PathBuf,
    queue: Arc<Queue>,
    waiting: Mutex<Waiting>,
    /// Something is to be done, or it ends.
    due: Condvar,
    /// The database has followed, or cannot.
    moved: Condvar,
    /// Held for a transaction.
    database: Mutex<Database>,
    /// The files are lost: nothing is removed.
    is_halted: AtomicBool,
}

/// What is in the journal, and not in the database.
struct Waiting {
    groups: Vec<Vec<Change>>,
    /// Of the last group.
    position: JournalPosition,
    ring: JournalRing,
    /// New rows in the groups: these cost the most.
    added: usize,
    /// When the first of the groups came.
    since: Option<Instant>,
    /// The same of what is being written.
    written_since: Option<Instant>,
    /// It is written before its time.
    is_urgent: bool,
    closes: bool,
    /// Why the last try failed.
    failed: Option<CommitError>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    groups: u64,
    waits: u64,
    transactions: u64,
    rows: u64,
    failed: u64,
}

struct Database {
    /// `None` once it has ended.
    connection: Option<Connection>,
    /// Taken from those that wait, and written with the next transaction that succeeds.
    rows: FoldedRows,
    /// Of the last group in the rows.
    position: JournalPosition,
    /// The position that it has.
    written: JournalPosition,
}

impl Behind {
    /// With a journal of `len` bytes, of which nothing is needed.
    pub(super) fn new(connection: Connection, path: PathBuf, queue: Arc<Queue>, len: u64) -> Self {
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Self {
            path,
            queue,
            waiting: Mutex::new(Waiting {
                groups: Vec::new(),
                position: BEGIN,
                ring: JournalRing::new(len),
                added: 0,
                since: None,
                written_since: None,
                is_urgent: false,
                closes: false,
                failed: None,
                counts: Counts::default(),
            }),
            due: Condvar::new(),
            moved: Condvar::new(),
            database: Mutex::new(Database {
                connection: Some(connection),
                rows: FoldedRows::default(),
                position: BEGIN,
                written: BEGIN,
            }),
            is_halted: AtomicBool::new(false),
        }
    }

    /// From now on, whatever was so until now.
    pub(super) fn set_durability(&self, durability: Durability) -> Result<(), StoreError> {
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Process => "OFF",
        };
        let database = self.database.lock();
        let database = database.unwrap_or_else(|poisoned| poisoned.into_inner());
        let set = database.connection.as_ref().map_or(Ok(()), |connection| {
            connection.pragma_update(None, "synchronous", synchronous)
        });
        set.map_err(|source| sqlite_error(&self.path, source))
    }

    /// Follows until [`stop`](Self::stop), or until some thread has panicked while it wrote the database.
    pub(super) fn run(&self) {
        let mut rest = PERIOD;
        while !self.rest(rest) && !self.database.is_poisoned() {
            rest = self.step();
        }
    }

    /// Lets [`run`](Self::run) return.
    pub(super) fn stop(&self) {
        self.lock().closes = true;
        self.due.notify_all();
    }

    /// Removes nothing for as long as the files of the database are lost.
    pub(super) fn halt(&self, is_halted: bool) {
        self.is_halted.store(is_halted, Ordering::Relaxed);
    }

    /// Where a record of `len` bytes may be written. Waits for the database if there is no room.
    ///
    /// # Errors
    ///
    /// When the database cannot follow, or not in time.
    pub(super) fn place(&self, len: u64) -> Result<u64, CommitError> {
        let mut waiting = self.lock();
        if let Some(at) = waiting.ring.place(len) {
            return Ok(at);
        }
        waiting.counts.waits += 1;
        waiting.failed = None;
        waiting.is_urgent = true;
        self.due.notify_all();
        let is_full =
            |waiting: &mut Waiting| waiting.ring.place(len).is_none() && waiting.failed.is_none();
        let waited = self.moved.wait_timeout_while(waiting, PATIENCE, is_full);
        let (waiting, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        let slow = || CommitError::new(TOO_SLOW);
        let why = || waiting.failed.clone().unwrap_or_else(slow);
        waiting.ring.place(len).ok_or_else(why)
    }

    /// Whether a record may have so many bytes.
    pub(super) fn is_room_for(&self, len: u64) -> bool {
        len <= self.lock().ring.room() / 4
    }

    /// Takes over a group whose record, of this number, was written at a place.
    pub(super) fn push(&self, changes: Vec<Change>, number: u64, at: u64, len: u64) {
        let mut waiting = self.lock();
        waiting.position.number = number;
        waiting.position.end = waiting.ring.fill(at, len);
        waiting.added += changes.iter().filter(|change| adds_row(change)).count();
        waiting.groups.push(changes);
        waiting.since.get_or_insert_with(Instant::now);
        waiting.counts.groups += 1;
        let is_much = waiting.ring.used() > waiting.ring.room() / 2;
        if !waiting.is_urgent && (is_much || waiting.added >= MANY) {
            waiting.is_urgent = true;
            drop(waiting);
            self.due.notify_all();
        }
    }

    /// Brings the database up to everything that was pushed.
    ///
    /// # Errors
    ///
    /// When the database cannot be written.
    pub(super) fn follow(&self) -> Result<(), CommitError> {
        let mut database = self.take()?;
        match database.has_all() {
            true => Ok(()),
            false => self.write(&mut database, |_| Ok(())),
        }
    }

    /// As [`follow`](Self::follow), for those who read.
    pub(super) fn follow_to_read(&self) -> Result<(), StoreError> {
        self.follow().map_err(|error| {
            let reason = format!("the database cannot take what is in it: {error}");
            journal_beside::error(&self.path, reason)
        })
    }

    /// Brings the database up to everything that was pushed, and lets `write` write more in the same
    /// transaction.
    ///
    /// # Errors
    ///
    /// When the database cannot be written; then it is as it was.
    pub(super) fn write_through<T>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CommitError> {
        self.transact(&[], write)
    }

    /// Begins a new epoch of the journal, higher than `known`; the database has everything of the one
    /// before.
    ///
    /// # Errors
    ///
    /// When one of both cannot be written: then nothing may be appended.
    pub(super) fn begin_epoch(
        &self,
        journal: &mut JournalWriter<SyncedFile>,
        known: u64,
    ) -> Result<(), CommitError> {
        let mut database = self.take()?;
        let before = database.position;
        let epoch = before.epoch.max(known) + 1;
        database.position = JournalPosition { epoch, ..BEGIN };
        // Nobody else has the database until the ring is that of the new epoch.
        if let Err(error) = self.write(&mut database, |_| Ok(())) {
            database.position = before;
            return Err(error);
        }
        drop(database);
        journal.begin(epoch).map_err(|error| failed_journal(&error))
    }

    /// Ends in an orderly way, if the database can be written: then nothing of the journal is needed. It is
    /// [closed](Self::close) afterwards.
    pub(super) fn finish(&self, journal: &mut JournalWriter<SyncedFile>) {
        let finished = self.follow().and_then(|()| {
            journal.end().map_err(|error| failed_journal(&error))?;
            self.write_through(journal_beside::forget_position)
        });
        if let Err(error) = finished {
            tracing::warn!(%error, "the database could not take all of its journal; the next start does that");
        }
    }

    /// Closes the database. The last connection to be closed takes the log of SQLite into the database and removes it, if it
    /// is one that writes; so all others of the writer have to be closed before. If somebody else reads, the log stays, and
    /// has nothing that the database has not, unless he is in the middle of a transaction.
    pub(super) fn close(&self) {
        if let Ok(mut database) = self.database.lock()
            && let Some(connection) = database.connection.take()
        {
            let _ = connection.busy_timeout(Duration::ZERO);
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    /// Fills in what the store tells of it.
    pub(super) fn tell(&self, stats: &mut StoreStats) {
        let waiting = self.lock();
        let since = waiting.written_since.or(waiting.since);
        stats.journal_bytes = waiting.ring.room();
        stats.journal_used = waiting.ring.used();
        stats.journal_groups = waiting.counts.groups;
        stats.journal_waits = waiting.counts.waits;
        stats.behind_ns = since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        stats.behind_transactions = waiting.counts.transactions;
        stats.behind_rows = waiting.counts.rows;
        stats.behind_failed = waiting.counts.failed;
        stats.behind_error = waiting
            .failed
            .as_ref()
            .map_or_else(String::new, CommitError::to_string);
    }

    /// Waits until something is urgent, or that long; `true` when it ends.
    fn rest(&self, rest: Duration) -> bool {
        let is_idle = |waiting: &mut Waiting| !waiting.closes && !waiting.is_urgent;
        let waited = self.due.wait_timeout_while(self.lock(), rest, is_idle);
        let (waiting, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        waiting.closes
    }

    /// Does what is due; returns how long it may rest then.
    fn step(&self) -> Duration {
        let is_halted = self.is_halted.load(Ordering::Relaxed);
        let removal = (!is_halted).then(|| self.queue.take_removal()).flatten();
        match removal {
            Some(Taken::Ended(batch)) => self.remove_ended(&batch),
            Some(Taken::OldCallRecords(limits)) => self.remove_old_call_records(limits),
            _ if self.is_nothing_new() => PERIOD,
            _ => self.follow_or_rest(),
        }
    }

    fn is_nothing_new(&self) -> bool {
        let waiting = self.lock();
        waiting.groups.is_empty() && waiting.written_since.is_none()
    }

    fn follow_or_rest(&self) -> Duration {
        let before = self.lock().failed.is_some();
        if let Err(error) = self.follow()
            && !before
        {
            tracing::error!(%error, event = "database_is_behind", "{BEHIND}");
        }
        PERIOD
    }

    /// Nobody waits for this.
    fn remove_ended(&self, batch: &[EndedBinding]) -> Duration {
        let outcome = self.transact(batch, |_| Ok(()));
        if let Err(error) = &outcome {
            tracing::warn!(%error, "ended rows cannot be deleted now; trying again later");
        }
        self.queue.finish_ended(batch, outcome.is_ok());
        rest_after(outcome.is_ok())
    }

    /// Nobody waits for this.
    fn remove_old_call_records(&self, limits: CallRecordLimits) -> Duration {
        let remove = |connection: &Connection| super::call_records::remove_old(connection, limits);
        let outcome = self.write_through(remove);
        if let Err(error) = &outcome {
            tracing::warn!(%error, "old records of calls cannot be deleted now; trying again later");
        }
        let is_done = outcome.is_ok();
        self.queue.finish_call_records(outcome.ok());
        rest_after(is_done)
    }

    /// Writes what waits, removes what has ended, and writes more, in one transaction.
    fn transact<T>(
        &self,
        ended: &[EndedBinding],
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CommitError> {
        let mut database = self.take()?;
        for one in ended {
            database.rows.push(RowChange::Ended(*one));
        }
        self.write(&mut database, write)
    }

    /// The database, with what waits for it.
    fn take(&self) -> Result<MutexGuard<'_, Database>, CommitError> {
        let Ok(mut database) = self.database.lock() else {
            // What that thread had taken is in the journal, for the next start.
            return Err(CommitError::new(
                "a thread panicked while it wrote the database",
            ));
        };
        let groups = self.lock().give(&mut database);
        // This takes a while for very many changes, so no lock is held that a commit needs.
        for change in groups.into_iter().flatten() {
            database.rows.push(RowChange::Put(change));
        }
        Ok(database)
    }

    fn write<T>(
        &self,
        database: &mut Database,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CommitError> {
        let outcome = match database.write(write) {
            Some(outcome) => outcome
                .map_err(|source| CommitError::new(sqlite_error(&self.path, source).to_string())),
            None => Err(CommitError::new("the database is closed")),
        };
        self.note(database, &outcome);
        outcome
    }

    fn note<T>(&self, database: &mut Database, outcome: &Result<T, CommitError>) {
        let mut waiting = self.lock();
        match outcome {
            Ok(_) => {
                waiting.counts.transactions += 1;
                waiting.counts.rows += database.rows.len() as u64;
                waiting.has_followed(database.position);
                (waiting.failed, waiting.written_since) = (None, None);
            }
            Err(error) => {
                waiting.counts.failed += 1;
                waiting.failed = Some(error.clone());
            }
        }
        drop(waiting);
        self.moved.notify_all();
        if outcome.is_ok() {
            database.rows.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Waiting {
    /// The groups up to the position that the database shall have next.
    fn give(&mut self, database: &mut Database) -> Vec<Vec<Change>> {
        database.position = self.position;
        let since = self.since.take();
        self.written_since = self.written_since.or(since);
        (self.added, self.is_urgent) = (0, false);
        std::mem::take(&mut self.groups)
    }

    /// The database has everything up to a position, or has begun a new epoch there.
    fn has_followed(&mut self, position: JournalPosition) {
        if position.epoch == self.position.epoch {
            let is_all = position == self.position;
            return self.ring.release_until(position.end, is_all);
        }
        self.position = position;
        self.ring = JournalRing::new(self.ring.room() + BEGIN.end);
    }
}

impl Database {
    /// Whether nothing is to be written.
    fn has_all(&self) -> bool {
        self.rows.len() == 0 && self.position == self.written
    }

    /// `None` once it has ended.
    fn write<T>(
        &mut self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Option<rusqlite::Result<T>> {
        let connection = self.connection.as_mut()?;
        let transact = || {
            // Immediate: a transaction that reads first could not write after another program has
            // written.
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior)?;
            tables::apply_rows(&transaction, self.rows.sorted())?;
            if self.position != self.written {
                journal_beside::put_position(&transaction, self.position)?;
            }
            let written = write(&transaction)?;
            transaction.commit()?;
            Ok(written)
        };
        let outcome = transact();
        if outcome.is_ok() {
            self.written = self.position;
        }
        Some(outcome)
    }
}

fn adds_row(change: &Change) -> bool {
    match change {
        Change::Binding(change) => matches!(change, BindingChange::Put { .. }),
        Change::PutSoftState(_) | Change::PutCallRecord(_) => true,
        _ => false,
    }
}

pub(super) fn failed_journal(error: &std::io::Error) -> CommitError {
    CommitError::new(format!("the journal cannot be written: {error}"))
}

fn rest_after(is_done: bool) -> Duration {
    match is_done {
        true => BREATH,
        false => PERIOD,
    }
}

const BEHIND: &str = "the database cannot be written, so registrations are only in its journal; when that \
    is full, they are answered 503";
const TOO_SLOW: &str = "the journal is full, and the database does not take what is in it in time";
/// How far the database is behind at most, if the disk is fast enough and little is new.
const PERIOD: Duration = Duration::from_secs(1);
/// So many new rows are written before that: the more they are, the longer the disk is busy with them.
const MANY: usize = 1_000;
/// Between two removals, for other programs that wait to write.
const BREATH: Duration = Duration::from_millis(2);
/// How long a group waits for room in the journal.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than there are, so that none is ever compiled twice.
const STATEMENTS: usize = 32;
