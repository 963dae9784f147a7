//! Accounts of the store, seen and changed while the server runs.

use crate::server::{Server, tenant::tenant_quota::TenantQuota};
use busyhour_store::{Account, AccountEntry, AccountView, Change, Completion, Refused};
use thiserror::Error;

/// Why an account is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccountError {
    /// What was asked for is no account.
    #[error("{0}")]
    Entry(String),
    /// Its domain has as many as it may have.
    #[error("the domain has {0} accounts already, which is its max_accounts")]
    Full(u64),
    /// Nobody needs an account here.
    #[error("sip.auth is open: the server does not use accounts")]
    Open,
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] Refused),
}

impl Server {
    /// At most `limit` accounts of the store behind the account `after`, by name. Those of
    /// domains with accounts of their own follow, each as `user@domain`; with `domain`, only
    /// those of one.
    pub fn stored_accounts(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> Vec<AccountView> {
        let directory = &self.core.accounts.directory;
        let page = match domain {
            Some(domain) => directory.page_of(domain, after, limit),
            None => directory.page(after, limit),
        };
        page.iter().map(|account| self.view(account)).collect()
    }

    fn view(&self, account: &Account) -> AccountView {
        let mut view = account.view();
        if let Some(name) = self.core.accounts.directory.full_name(account) {
            view.user = name;
        }
        view
    }

    /// An account of the store.
    pub fn stored_account(&self, username: &str) -> Option<AccountView> {
        let account = self.core.accounts.directory.account(username)?;
        Some(self.view(&account))
    }

    /// Stores an account, and replaces one of the same name. A user with a domain that has
    /// accounts of its own is one of that domain. When
    /// `done` reports success, it is in effect for the next request.
    ///
    /// # Errors
    ///
    /// See [`AccountError`]; then `done` is dropped without having been called.
    pub fn put_account(&self, entry: AccountEntry, done: Completion) -> Result<(), AccountError> {
        let account = self.checked(entry)?;
        Ok(self
            .core
            .persistence
            .store()
            .commit(vec![Change::from(account)], done)?)
    }

    /// Disables an account of the store, or enables it; `false` if there is none. Soon after
    /// `done` reports success, its bindings, publications and the subscriptions that it opened
    /// end.
    ///
    /// # Errors
    ///
    /// See [`AccountError`]; then `done` is dropped without having been called.
    pub fn disable_account(
        &self,
        username: &str,
        is_disabled: bool,
        done: Completion,
    ) -> Result<bool, AccountError> {
        self.realm()?;
        let Some(account) = self.core.accounts.directory.account(username) else {
            return Ok(false);
        };
        let changed = Account {
            is_disabled,
            ..account
        };
        let store = self.core.persistence.store();
        store.commit(vec![Change::from(changed)], done)?;
        Ok(true)
    }

    /// Deletes an account of the store. Soon after `done` reports success, its
    /// bindings, publications and the subscriptions that it opened end.
    ///
    /// # Errors
    ///
    /// See [`AccountError`]; then `done` is dropped without having been called.
    pub fn remove_account(&self, username: &str, done: Completion) -> Result<(), AccountError> {
        let own = self.realm()?;
        let (tenant, user) = self.core.domains.parts_of(username);
        let realm = tenant.as_ref().map_or(own, |tenant| &tenant.realm);
        let known = self.core.accounts.directory.account(username);
        let change = Change::RemoveAccount {
            username: known.map_or_else(|| user.to_owned(), |account| account.username),
            realm: realm.to_owned(),
        };
        Ok(self.core.persistence.store().commit(vec![change], done)?)
    }

    fn checked(&self, entry: AccountEntry) -> Result<Account, AccountError> {
        let own = self.realm()?;
        let directory = &self.core.accounts.directory;
        let name = entry.user.clone();
        let (tenant, user) = self.core.domains.parts_of(&name);
        let realm = tenant.as_ref().map_or(own, |tenant| &tenant.realm);
        let domain = tenant.as_ref().map(|tenant| tenant.name.as_str());
        let user = user.to_owned();
        let account = AccountEntry { user, ..entry }.check_in(realm, domain);
        let account = account.map_err(AccountError::Entry)?;
        self.check_names(&name, domain, &account)?;
        let known = directory.account(&name);
        if let Some(other) = known
            .as_ref()
            .filter(|one| one.username != account.username)
        {
            let other = &other.username;
            let reason = format!("`{}` is the same user as `{other}` here", account.username);
            return Err(AccountError::Entry(reason));
        }
        let state = domain.and_then(|domain| self.core.tenants.find(domain));
        let state = state.filter(|_| known.is_none());
        if let Some(state) = state
            && let Some(max) = state.config.max_accounts
            && directory.count_of(realm) as u64 >= max
        {
            state.note_refused(TenantQuota::Accounts);
            return Err(AccountError::Full(max));
        }
        Ok(account)
    }

    /// An alias must not be somebody else's name.
    fn check_names(
        &self,
        name: &str,
        domain: Option<&str>,
        account: &Account,
    ) -> Result<(), AccountError> {
        for alias in &account.aliases {
            let full = match domain {
                Some(domain) if !alias.contains('@') => format!("{alias}@{domain}"),
                _ => alias.clone(),
            };
            let holder = self
                .core
                .domains
                .alias(&full)
                .filter(|holder| holder != name);
            let is_account = self.core.accounts.directory.knows(&full);
            if is_account || holder.is_some() {
                let holder = holder.unwrap_or(full);
                let reason = format!("aliases: `{alias}` is a name of the account `{holder}`");
                return Err(AccountError::Entry(reason));
            }
        }
        Ok(())
    }

    fn realm(&self) -> Result<&str, AccountError> {
        match self.core.admission.is_required() {
            true => Ok(self.core.accounts.directory.realm()),
            false => Err(AccountError::Open),
        }
    }
}
