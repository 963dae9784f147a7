//! Accounts of the store, seen and changed while the server runs.

use crate::server::Server;
use busyhour_store::{Account, AccountEntry, AccountView, Change, Completion, Refused};
use thiserror::Error;

/// Why an account is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccountError {
    /// What was asked for is no account.
    #[error("{0}")]
    Entry(String),
    /// Nobody needs an account here.
    #[error("sip.auth is open: the server does not use accounts")]
    Open,
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] Refused),
}

impl Server {
    /// At most `limit` accounts of the store behind the user `after`, by name.
    pub fn stored_accounts(&self, after: Option<&str>, limit: usize) -> Vec<AccountView> {
        let page = self.core.accounts.directory.page(after, limit);
        page.iter().map(Account::view).collect()
    }

    /// An account of the store.
    pub fn stored_account(&self, username: &str) -> Option<AccountView> {
        let account = self.core.accounts.directory.account(username)?;
        Some(account.view())
    }

    /// Stores an account of the server's realm, and replaces one of the same name. When
    /// `done` reports success, it is in effect for the next request.
    ///
    /// # Errors
    ///
    /// See [`AccountError`]; then `done` is dropped without having been called.
    pub fn put_account(&self, entry: AccountEntry, done: Completion) -> Result<(), AccountError> {
        let account = entry.check(self.realm()?).map_err(AccountError::Entry)?;
        Ok(self
            .core
            .persistence
            .store()
            .commit(vec![Change::PutAccount(account)], done)?)
    }

    /// Deletes an account of the store. Soon after `done` reports success, its
    /// bindings, publications and the subscriptions that it opened end.
    ///
    /// # Errors
    ///
    /// See [`AccountError`]; then `done` is dropped without having been called.
    pub fn remove_account(&self, username: &str, done: Completion) -> Result<(), AccountError> {
        let change = Change::RemoveAccount {
            username: username.to_owned(),
            realm: self.realm()?.to_owned(),
        };
        Ok(self.core.persistence.store().commit(vec![change], done)?)
    }

    fn realm(&self) -> Result<&str, AccountError> {
        match self.core.admission.is_required() {
            true => Ok(self.core.accounts.directory.realm()),
            false => Err(AccountError::Open),
        }
    }
}
