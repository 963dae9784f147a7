#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod account;
mod account_range;
mod account_admin;
mod bindings;
mod call_records;
mod change;
mod expired_rows;
mod error;
mod foreign_table;
mod journal;
mod memory;
mod migrations;
mod outside_changes;
mod postgres;
mod queue;
mod setting;
mod simulated;
mod soft_state;
mod sqlite;
mod completion_notifier;
mod watermarks;

use busyhour::pool::TaskPool;
use busyhour_cluster::Grant;
use busyhour_registrar::EndedBinding;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use account::{
    ADDRESS_RULE, Account, AccountEntry, AccountView, EXTENSION_RULE, MAILBOX_RULE, WATCHER_RULE,
    check_username, is_address, is_domain, is_extension, is_mailbox_name, is_watcher,
};
pub use account_admin::{AccountAdmin, WhenMissing, open_accounts, open_postgres_accounts};
pub use account_range::{AccountKey, AccountRange};
pub use bindings::binding_reader::{AddressHash, BindingReader, BindingRows};
pub use call_records::{CallRecordLimits, CallRecordQuery, CallRecordRow};
pub use change::{Change, StoredBinding};
pub use error::{CommitError, Refused, StoreError};
pub use foreign_table::{ForeignRow, read_postgres_table, read_sqlite_table};
pub use journal::{
    JournalDamage, JournalPosition, JournalRecord, RecoveredJournal, recover_journal,
};
pub use memory::MemoryStore;
pub use postgres::{JoinError, PostgresOptions, PostgresOwnership, PostgresStore, masked};
pub use setting::SettingKind;
pub use simulated::{DiskBehaviour, SimulatedDisk, SimulatedStore};
pub use soft_state::{SoftState, SoftStateKind};
pub use sqlite::{
    Backup, BackupFor, SqliteOptions, SqliteStore, back_up, has_account, inspect, restore,
};

/// Durable bindings, accounts and settings behind one interface.
///
/// Batches become durable in the order in which they were handed over, each
/// whole or not at all.
pub trait Store: Send + Sync {
    /// Reads everything that is durable.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or holds something it cannot have written.
    fn load(&self) -> Result<Contents, StoreError>;

    /// As [`load`](Self::load), but leaves out the bindings where they are many and can be read while the server
    /// serves; then the reader is given, and [`Contents::last_id`] is the highest id of a binding.
    ///
    /// # Errors
    ///
    /// As for `load`.
    fn load_lazily(&self) -> Result<(Contents, Option<Arc<dyn BindingReader>>), StoreError> {
        Ok((self.load()?, None))
    }

    /// The bindings and soft states of some partitions, for a node of a cluster that was granted
    /// them. Nothing else is read. Where the store is one server's, there is nothing to add.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load), and when the database knows an earlier grant of one of them: it is not the one that granted
    /// it, as a primary that was left behind by a failover.
    fn load_partitions(&self, _grants: &[Grant]) -> Result<Contents, StoreError> {
        Ok(Contents::default())
    }

    /// No partitions are read for a while: what is kept for that, as a connection, may go.
    fn close_partition_reader(&self) {}

    /// Hands over a batch; `done` is called exactly once, from any thread,
    /// when the batch is durable or has failed.
    ///
    /// Never blocks. The completion may run before this call returns.
    ///
    /// # Errors
    ///
    /// When the queue is full or the store is closed; then `done` is dropped
    /// without having been called and nothing of the batch is stored.
    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused>;

    /// As [`commit`](Self::commit) by a node of a cluster: the batch is written only if the node
    /// has this grant when it is. Where the store is one server's, it is just committed.
    ///
    /// # Errors
    ///
    /// As for `commit`.
    fn commit_granted(
        &self,
        grant: Grant,
        changes: Vec<Change>,
        done: Completion,
    ) -> Result<(), Refused> {
        let _one_server_has_all = grant;
        self.commit(changes, done)
    }

    /// Whether a batch is already as durable as it will ever be when
    /// [`commit`](Self::commit) returns, so that the caller need not wait for `done`.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Deletes the rows of ended bindings and soft states later, in small batches after
    /// the changes that somebody waits for.
    ///
    /// A row is deleted only if its lease still ends at the given time; and a node of a cluster
    /// deletes no soft state of a partition that it does not have. There is no
    /// completion, and correctness does not depend on it: a row whose time is over is
    /// not restored, so if a crash leaves a row behind, the next start finds and
    /// deletes it.
    fn purge(&self, ended: &[EndedBinding]);

    /// Reads records of calls, the one with the highest id first. It may block for as long
    /// as the database takes to look at every record.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError>;

    /// Deletes old records of calls later, in small batches after the changes that
    /// somebody waits for. There is no completion; a later call replaces the limits.
    fn remove_old_call_records(&self, limits: CallRecordLimits);

    /// From now on calls `listener` for every change of accounts, whichever program
    /// makes it; `revision` is that of the [`Contents`] which the listener knows.
    ///
    /// It is called for this store's own changes before their completion, and for those
    /// of other programs soon after they happen. The listener is called by the store's
    /// thread and must be quick.
    fn watch_accounts(&self, revision: u64, listener: AccountListener);

    /// From now on calls `listener` with all settings of `kind` within about a second after
    /// they change, whichever program changes them; for tokens and domains, of which there
    /// are few. Stores that no tool can change do not call it.
    fn watch_settings(&self, kind: SettingKind, listener: SettingListener) {
        let _ = kind;
        drop(listener);
    }

    /// From now on tells `follower` within about a second what becomes of mailboxes, hints and
    /// lists, whichever server of the same database changes them; `revision` is that of the
    /// [`Contents`] which the follower knows, and without one all are told. Only a database that several
    /// servers use does that.
    fn follow_settings(&self, revision: Option<u64>, follower: Box<dyn SettingFollower>) {
        let _ = revision;
        drop(follower);
    }

    /// Lets a store with its own thread run there, under little load, the tasks that
    /// completions push to `pool`. Other stores do nothing.
    fn lend_to(&self, pool: &TaskPool) {
        let _nobody_to_lend = pool;
    }

    /// Calls `listener` once with the reason if the store stops without being closed;
    /// then nothing becomes durable any more, and the server must not acknowledge
    /// anything.
    fn watch_end(&self, listener: EndListener);

    /// Counters and gauges of the store.
    fn stats(&self) -> StoreStats;

    /// Makes everything durable that was handed over, and refuses later batches.
    /// Returns `false` if the deadline passed first.
    fn close(&self, deadline: Duration) -> bool;
}

/// What a commit promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives a power cut: the log is synchronised at each commit.
    #[default]
    Full,
    /// Survives `kill -9` of the server, but a power cut may lose the last commits.
    Process,
}

/// Called once with the fate of a batch.
pub type Completion = Box<dyn FnOnce(Result<(), CommitError>) + Send>;

/// Told why a store has ended.
pub type EndListener = Box<dyn FnOnce(CommitError) + Send>;

/// Told of all settings of a kind.
pub type SettingListener = Box<dyn Fn(&SettingRows) + Send + Sync>;

/// Told of each setting that may be another than before.
///
/// The database's order counts: what was set last there is told last, also to the server that has
/// set it, and also if that is what it was told before. So servers that set one thing at the same
/// time have the same value in the end.
pub trait SettingFollower: Send + Sync {
    /// What it follows.
    fn kinds(&self) -> &[SettingKind];

    /// The names of the settings of a kind that it has from the store or has given to it. Asked
    /// for when the store does not know what has changed, and so reads all.
    fn names(&self, kind: SettingKind) -> Vec<String>;

    /// A setting is so, or is none any more. It is not taken if `is_overtaken`, which has to be
    /// asked under the lock under which the server itself changes the setting and gives that to the
    /// store: then a later change is on its way, and it is told again after that.
    ///
    /// # Errors
    ///
    /// If it has no effect here, such as where there is no room. It is told again when something
    /// else has changed, and now and then, until it is taken.
    fn take(
        &self,
        kind: SettingKind,
        name: &str,
        value: Option<&str>,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Result<(), SettingRefused>;

    /// What was read together has been told: what several settings are together can be judged now.
    fn caught_up(&self) {}
}

/// Why a follower does not take a setting. It is told again later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRefused(pub String);

/// The settings of a kind as they are stored, by their names.
pub type SettingRows = BTreeMap<String, String>;

/// Told of each change of accounts.
pub type AccountListener = Box<dyn Fn(AccountNews) + Send + Sync>;

/// What became of accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountNews {
    /// One is there, new or changed.
    Put(Account),
    /// One is gone.
    Removed {
        /// See [`Account::username`].
        username: String,
        /// See [`Account::realm`].
        realm: String,
    },
    /// Other programs changed many accounts; all are read again, in batches.
    Range(AccountRange),
}

/// All that a store holds, as the server reads it at its start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    /// Every stored binding in the order of its id, expired ones included.
    pub bindings: Vec<StoredBinding>,
    /// Subscriptions and publications in the order of their ids, ended ones included.
    pub soft_states: Vec<SoftState>,
    /// Accounts that may register.
    pub accounts: Vec<Account>,
    /// Counts the changes of accounts, see [`Store::watch_accounts`].
    pub account_revision: u64,
    /// Counts the servers that opened it, the one that reads this included.
    pub run: u64,
    /// The highest id of a record of a call; 0 if there is none.
    pub last_call_record: u64,
    /// The highest id of a row that is not in here, since another node of a cluster may have it, or it is read later.
    pub last_id: u64,
    /// Counts the changes of settings, see [`Store::follow_settings`].
    pub setting_revision: u64,
    /// What was set while a server ran, by kind and name.
    pub settings: BTreeMap<(SettingKind, String), String>,
}

impl Contents {
    /// The highest id of a row, whether it is in here or not; 0 if there is none.
    pub fn highest_id(&self) -> u64 {
        let bindings = self.bindings.iter().map(|row| row.id.0);
        let ids = bindings.chain(self.soft_states.iter().map(|row| row.id.0));
        ids.fold(self.last_id, u64::max)
    }
}

/// What a store has done and holds in its queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StoreStats {
    /// Changes handed over and not yet durable.
    pub queued_len: u64,
    /// The highest `queued_len` seen.
    pub queued_high_water: u64,
    /// Most changes that may wait.
    pub queue_capacity: u64,
    /// The `queued_len` at which an alert begins: half of the capacity.
    pub high_watermark: u64,
    /// The one at which it ends: an eighth of the capacity.
    pub low_watermark: u64,
    /// Whether there is an alert.
    pub is_high: bool,
    /// Alerts that have begun.
    pub alerts_raised: u64,
    /// For how long the first change has waited, those on their way included, in
    /// nanoseconds.
    pub oldest_waiting_ns: u64,
    /// How long the current transaction has lasted, in nanoseconds; 0 if there is none.
    pub running_for_ns: u64,
    /// Batches refused because the queue was full or the store closed.
    pub refused: u64,
    /// Changes made durable.
    pub committed: u64,
    /// Changes whose transaction failed.
    pub failed: u64,
    /// Transactions made durable; `committed / transactions` is the group size.
    pub transactions: u64,
    /// The largest group of changes in one transaction.
    pub transaction_len_max: u64,
    /// Time spent in transactions, in nanoseconds.
    pub transaction_ns_total: u64,
    /// The longest transaction, in nanoseconds.
    pub transaction_ns_max: u64,
    /// How long the current transaction has lasted, in nanoseconds, if that is longer
    /// than the store's commit timeout, so that the changes behind it are refused;
    /// otherwise 0.
    pub stalled_ns: u64,
    /// Bindings whose lease has ended, and whose rows wait to be removed.
    pub ended_len: u64,
    /// The highest `ended_len` seen.
    pub ended_high_water: u64,
    /// Such rows removed.
    pub ended_removed: u64,
    /// Such rows left to the next start, since too many waited.
    pub ended_dropped: u64,
    /// Old records of calls removed.
    pub call_records_removed: u64,
    /// Settings of other nodes that have no effect here at the moment, such as those for which there
    /// is no room; at most 1,000 are counted.
    pub settings_refused: u64,
    /// Batches of accounts that were read, since other programs had changed many.
    pub account_portions: u64,
    /// The largest such batch; changes never wait for more than one.
    pub account_portion_len_max: u64,
    /// The bytes that a journal in front of the database has; 0 without one.
    pub journal_bytes: u64,
    /// Those of them with changes that the database has not yet.
    pub journal_used: u64,
    /// Groups that were written to the journal.
    pub journal_groups: u64,
    /// How far apart groups begin at the moment, in nanoseconds; 0 if each is written at once, as it is while few changes come.
    pub commit_delay_ns: u64,
    /// Groups that had to wait for room in it.
    pub journal_waits: u64,
    /// How long the oldest change has waited in it for the database, in nanoseconds.
    pub behind_ns: u64,
    /// Transactions by which the database took what was in the journal.
    pub behind_transactions: u64,
    /// Rows that they have changed: several changes of one row become one.
    pub behind_rows: u64,
    /// Such transactions that failed.
    pub behind_failed: u64,
    /// Why the last one failed, empty if it did not.
    pub behind_error: String,
    /// The last failure, empty when there was none.
    pub last_error: String,
    /// Why nothing can be stored at the moment, such as a deleted database file; empty
    /// if the store works.
    pub lost: String,
}
