//! Accounts for tools, in transactions of their own.

use super::{SqliteOptions, StoreError, connect, load, sqlite_error, writer};
use crate::store::{Account, AccountBook, SettingKind, WhenMissing};
use rusqlite::{Connection, TransactionBehavior};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// A connection beside the server's.
pub(in crate::store) struct SqliteBook {
    connection: Connection,
    path: PathBuf,
}

impl SqliteBook {
    pub(in crate::store) fn open(
        path: &Path,
        when_missing: WhenMissing,
    ) -> Result<Self, StoreError> {
        // Only where it is certain: a folder that may not be read is another error.
        let is_missing = matches!(path.try_exists(), Ok(false));
        if is_missing && when_missing == WhenMissing::Refuse {
            let path = path.to_owned();
            return Err(StoreError::Missing { path });
        }
        Ok(Self {
            connection: connect(&SqliteOptions::new(path))?,
            path: path.to_owned(),
        })
    }
}

impl AccountBook for SqliteBook {
    fn put(&mut self, accounts: &[Account]) -> Result<(), StoreError> {
        let wrap = |source| sqlite_error(&self.path, source);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(wrap)?;
        for account in accounts {
            writer::put_account(&transaction, account).map_err(wrap)?;
        }
        transaction.commit().map_err(wrap)
    }

    fn remove(&mut self, username: &str, realm: &str) -> Result<bool, StoreError> {
        let removed = writer::remove_account(&self.connection, username, realm);
        removed
            .map(|count| count > 0)
            .map_err(|source| sqlite_error(&self.path, source))
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
        let put = writer::put_setting(&self.connection, kind, name, value);
        put.map_err(|source| sqlite_error(&self.path, source))
    }

    fn remove_setting(&mut self, kind: SettingKind, name: &str) -> Result<bool, StoreError> {
        let removed = writer::remove_setting(&self.connection, kind, name);
        removed
            .map(|count| count > 0)
            .map_err(|source| sqlite_error(&self.path, source))
    }

    fn settings(&mut self, kind: SettingKind) -> Result<BTreeMap<String, String>, StoreError> {
        let read = load::settings_of(&self.connection, kind);
        read.map_err(|source| sqlite_error(&self.path, source))
    }
}
