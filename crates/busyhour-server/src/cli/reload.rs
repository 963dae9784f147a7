use crate::{config, server::Accounts};
use busyhour_sip::auth::Secret;
use std::{
    borrow::Cow,
    sync::{PoisonError, RwLock},
};

/// The accounts of the configuration. A reload replaces all of them at once.
pub(super) struct Reloadable(RwLock<config::ConfiguredAccounts>);

impl Reloadable {
    pub(super) fn new(accounts: config::ConfiguredAccounts) -> Self {
        Self(RwLock::new(accounts))
    }

    pub(super) fn replace(&self, accounts: config::ConfiguredAccounts) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = accounts;
    }
}

impl Accounts for Reloadable {
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        let accounts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        accounts.secret(username).cloned().map(Cow::Owned)
    }

    fn mailbox(&self, username: &str) -> Option<String> {
        let accounts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        accounts.mailbox(username).map(str::to_owned)
    }
}
