//! Accounts and settings for tools: beside a running server, without its lock.

use super::{
    Account, PostgresOptions, SettingKind, StoreError, postgres::PostgresAccounts,
    sqlite::SqliteAccounts,
};
use std::{collections::BTreeMap, path::Path};

/// The accounts of a store, for a tool that runs beside the server or without
/// one. A server that runs notices changes within about a second.
///
/// ```
/// use busyhour_store::{open_accounts, AccountEntry, WhenMissing};
///
/// let folder = std::env::temp_dir().join(format!("busyhour-book-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let mut book = open_accounts(&folder.join("busyhour.db"), WhenMissing::Create)?;
/// let entry = AccountEntry {
///     user: "alice".into(),
///     password: Some("wonder".into()),
///     ..AccountEntry::default()
/// };
/// book.put(&[entry.check("busyhour")?])?;
/// assert_eq!(book.all()?.len(), 1);
/// assert!(book.remove("alice", "busyhour")?);
/// drop(book);
/// std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AccountAdmin {
    /// Stores accounts in one transaction, replacing those of the same name.
    ///
    /// # Errors
    ///
    /// When the store cannot be written; then none is stored.
    fn put(&mut self, accounts: &[Account]) -> Result<(), StoreError>;

    /// Deletes an account; `false` if there is none of this name.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    fn remove(&mut self, username: &str, realm: &str) -> Result<bool, StoreError>;

    /// Deletes those of `usernames` that exist; returns how many did.
    ///
    /// # Errors
    ///
    /// When the store cannot be written; some may be deleted then.
    fn remove_all(&mut self, usernames: &[String], realm: &str) -> Result<u64, StoreError> {
        let mut count = 0;
        for username in usernames {
            count += u64::from(self.remove(username, realm)?);
        }
        Ok(count)
    }

    /// Every account of every realm, in the order of names.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn all(&mut self) -> Result<Vec<Account>, StoreError>;

    /// Stores a setting, replacing the one of the same kind and name.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    fn put_setting(&mut self, kind: SettingKind, name: &str, value: &str)
    -> Result<(), StoreError>;

    /// Deletes a setting; `false` if there is none of this kind and name.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    fn remove_setting(&mut self, kind: SettingKind, name: &str) -> Result<bool, StoreError>;

    /// The settings of a kind, by their names.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn settings(&mut self, kind: SettingKind) -> Result<BTreeMap<String, String>, StoreError>;
}

/// What to do where there is no store yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenMissing {
    /// Make it.
    Create,
    /// Say so, and make nothing.
    Refuse,
}

/// Opens the accounts of the SQLite database at `path`, which is brought up to
/// date when need be.
///
/// # Errors
///
/// [`StoreError::Missing`] when there is none and none is to be made; otherwise as for [`SqliteStore::open`](super::SqliteStore::open), but another server
/// may hold the database.
pub fn open_accounts(
    path: &Path,
    when_missing: WhenMissing,
) -> Result<Box<dyn AccountAdmin>, StoreError> {
    Ok(Box::new(SqliteAccounts::open(path, when_missing)?))
}

/// Opens the accounts of a PostgreSQL database, which is brought up to date
/// when need be.
///
/// # Errors
///
/// [`StoreError::Missing`] when the database has no tables and none are to be made;
/// or when there is no connection, or a newer program made the schema.
pub fn open_postgres_accounts(
    options: PostgresOptions,
    when_missing: WhenMissing,
) -> Result<Box<dyn AccountAdmin>, StoreError> {
    Ok(Box::new(PostgresAccounts::open(options, when_missing)?))
}
