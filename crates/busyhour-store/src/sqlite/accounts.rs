//! Accounts for tools, in transactions of their own.

use super::{StoreError, connect, load, sqlite_error, tables};
use crate::{Account, AccountAdmin, SettingKind, WhenMissing};
use rusqlite::{Connection, TransactionBehavior};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// A connection beside the server's.
///
/// SQLite has no queue of writers: a program that finds another one writing tries again
/// some time later, at most every 25 ms in the first tenth of a second. A program that
/// writes one group after the other without a pause keeps all others out, for seconds.
/// So a group waits for as long as the one before it took, and for longer than the
/// pause of a waiting program.
pub(crate) struct SqliteAccounts {
    connection: Connection,
    path: PathBuf,
    /// When the next group may be written.
    rests_until: Option<Instant>,
}

impl SqliteAccounts {
    pub(crate) fn open(path: &Path, when_missing: WhenMissing) -> Result<Self, StoreError> {
        // Only where it is certain: a folder that may not be read is another error.
        let is_missing = matches!(path.try_exists(), Ok(false));
        if is_missing && when_missing == WhenMissing::Refuse {
            let path = path.to_owned();
            return Err(StoreError::Missing { path });
        }
        Ok(Self {
            connection: connect(path)?,
            path: path.to_owned(),
            rests_until: None,
        })
    }

    /// The first group finds nothing to wait for.
    fn rest(&mut self) {
        if let Some(until) = self.rests_until.take() {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
    }

    fn put_all(&mut self, accounts: &[Account]) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for account in accounts {
            tables::put_account(&transaction, account)?;
        }
        transaction.commit()
    }
}

impl AccountAdmin for SqliteAccounts {
    fn put(&mut self, accounts: &[Account]) -> Result<(), StoreError> {
        self.rest();
        let begun = Instant::now();
        let put = self.put_all(accounts);
        self.rests_until = Some(Instant::now() + begun.elapsed().max(REST_MIN));
        put.map_err(|source| sqlite_error(&self.path, source))
    }

    fn remove(&mut self, username: &str, realm: &str) -> Result<bool, StoreError> {
        let removed = tables::remove_account(&self.connection, username, realm);
        removed
            .map(|count| count > 0)
            .map_err(|source| sqlite_error(&self.path, source))
    }

    /// In one transaction, since each is a wait for the disk.
    fn remove_all(&mut self, usernames: &[String], realm: &str) -> Result<u64, StoreError> {
        self.rest();
        let begun = Instant::now();
        let mut remove = || -> rusqlite::Result<u64> {
            let transaction = self
                .connection
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut count = 0;
            for username in usernames {
                count += tables::remove_account(&transaction, username, realm)? as u64;
            }
            transaction.commit()?;
            Ok(count)
        };
        let removed = remove();
        self.rests_until = Some(Instant::now() + begun.elapsed().max(REST_MIN));
        removed.map_err(|source| sqlite_error(&self.path, source))
    }

    fn all(&mut self) -> Result<Vec<Account>, StoreError> {
        let read = load::accounts(&self.connection);
        read.map_err(|source| sqlite_error(&self.path, source))
    }

    fn put_setting(
        &mut self,
        kind: SettingKind,
        name: &str,
        value: &str,
    ) -> Result<(), StoreError> {
        let put = tables::put_setting(&self.connection, kind, name, value);
        put.map_err(|source| sqlite_error(&self.path, source))
    }

    fn remove_setting(&mut self, kind: SettingKind, name: &str) -> Result<bool, StoreError> {
        let removed = tables::remove_setting(&self.connection, kind, name);
        removed
            .map(|count| count > 0)
            .map_err(|source| sqlite_error(&self.path, source))
    }

    fn settings(&mut self, kind: SettingKind) -> Result<BTreeMap<String, String>, StoreError> {
        let read = load::settings_of(&self.connection, kind);
        read.map_err(|source| sqlite_error(&self.path, source))
    }
}

/// Longer than any of the first pauses of a waiting program
/// (`sqliteDefaultBusyCallback`).
const REST_MIN: Duration = Duration::from_millis(30);
