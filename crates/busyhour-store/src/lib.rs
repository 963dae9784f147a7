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
mod change;
mod expired_rows;
mod error;
mod account_watch;
mod memory;
mod postgres;
mod queue;
mod setting;
mod simulated;
mod soft_state;
mod sqlite;
mod completion_notifier;
mod token_watch;

use busyhour::pool::TaskPool;
use busyhour_registrar::EndedBinding;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

pub use account::{
    Account, AccountEntry, AccountView, EXTENSION_RULE, MAILBOX_RULE, check_username, is_extension,
    is_mailbox_name,
};
pub use account_admin::{AccountAdmin, WhenMissing, open_accounts, open_postgres_accounts};
pub use account_range::{AccountKey, AccountRange};
pub use change::{Change, StoredBinding};
pub use error::{CommitError, Refused, StoreError};
pub use memory::MemoryStore;
pub use postgres::{PostgresOptions, PostgresStore, masked};
pub use setting::SettingKind;
pub use simulated::{DiskBehaviour, SimulatedDisk, SimulatedStore};
pub use soft_state::{SoftState, SoftStateKind};
pub use sqlite::{SqliteOptions, SqliteStore};

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

    /// Whether a batch that [`commit`](Self::commit) takes is as durable as it
    /// ever will be when that returns, so that nobody need wait for `done`.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Has the rows of bindings and soft states that have ended removed at the store's
    /// leisure, in small batches behind whatever somebody waits for.
    ///
    /// A row goes only where its lease still ends as it did. Nobody is told, and
    /// none has to go: what has ended by its time is not restored, so a row that
    /// stays behind in a crash is found at the next start, and forgotten then.
    fn purge(&self, ended: &[EndedBinding]);

    /// From now on tells `listener` of every change of accounts, whichever program makes
    /// it; `revision` is that of the [`Contents`] which it knows.
    ///
    /// Changes of this store's own are told before their completion is called,
    /// those of other programs soon after. The listener is called by the
    /// store's thread and must be quick.
    fn watch_accounts(&self, revision: u64, listener: AccountListener);

    /// From now on tells `listener` of all tokens, whenever they are others than
    /// before, whichever program changes them, within about a second. Stores that no tool can
    /// change tell nothing.
    fn watch_tokens(&self, listener: TokenListener) {
        drop(listener);
    }

    /// From now on a store that has a thread of its own may do there what
    /// completions push to `pool`, while few wait for it. Others do nothing.
    fn lend_to(&self, pool: &TaskPool) {
        let _nobody_to_lend = pool;
    }

    /// Calls `listener` once with the reason should the store come to an end that
    /// nobody asked for; then nothing becomes durable any more, and the server
    /// has nothing left to promise.
    fn watch_end(&self, listener: EndListener);

    /// Counters and gauges of the store.
    fn stats(&self) -> StoreStats;

    /// Makes all that was handed over durable, then refuses whatever comes later.
    /// Returns `false` when the deadline passed first.
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

/// Told of all tokens.
pub type TokenListener = Box<dyn Fn(&TokenRows) + Send + Sync>;

/// Tokens as they are stored, by their names.
pub type TokenRows = BTreeMap<String, String>;

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
    /// Other programs changed many, and all are read anew, some at a time.
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
    /// What was set while a server ran, by kind and name.
    pub settings: BTreeMap<(SettingKind, String), String>,
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
    /// How long the transaction under way has lasted, in nanoseconds, once that is
    /// longer than the store's commit timeout and what waits behind it is refused; else 0.
    pub stalled_ns: u64,
    /// Bindings whose lease has ended, and whose rows wait to be removed.
    pub ended_len: u64,
    /// The highest `ended_len` seen.
    pub ended_high_water: u64,
    /// Such rows removed.
    pub ended_removed: u64,
    /// Such rows left to the next start, since too many waited.
    pub ended_dropped: u64,
    /// Portions of all accounts read, since other programs had changed many.
    pub account_portions: u64,
    /// The largest of them; what is to be stored never waits for more.
    pub account_portion_len_max: u64,
    /// The last failure, empty when there was none.
    pub last_error: String,
    /// Why nothing can be stored at the moment, such as a database file that was
    /// deleted; empty when it can.
    pub lost: String,
}
