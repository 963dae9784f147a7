//! Who has an account: the store's accounts, and those of another source behind them.

use crate::{
    auth::{Algorithm, HexDigest, Secret},
    store::Account,
};
use std::{borrow::Cow, collections::HashMap, fmt, sync::Arc};

/// Knows the secrets of users.
pub trait Accounts: Send + Sync {
    /// The secret of a user of the server's realm; `None` when there is no
    /// such account. Asked for each request: it must be quick.
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>>;
}

/// Nobody has an account.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAccounts;

impl Accounts for NoAccounts {
    fn secret(&self, _username: &str) -> Option<Cow<'_, Secret>> {
        None
    }
}

/// The accounts a server asks: the store's first, then its configuration's.
pub(super) struct Directory {
    stored: HashMap<String, Secret>,
    configured: Arc<dyn Accounts>,
}

impl Directory {
    /// The stored accounts of `realm`. Hashes of unknown algorithms or of a
    /// wrong length are as good as absent.
    pub(super) fn new(realm: &str, accounts: Vec<Account>, configured: Arc<dyn Accounts>) -> Self {
        let ours = accounts
            .into_iter()
            .filter(|account| account.realm == realm);
        let stored = ours.map(|account| (account.username.clone(), secret(&account)));
        Self {
            stored: stored.collect(),
            configured,
        }
    }

    pub(super) fn stored_count(&self) -> usize {
        self.stored.len()
    }

    pub(super) fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        match self.stored.get(username) {
            Some(secret) => Some(Cow::Borrowed(secret)),
            None => self.configured.secret(username),
        }
    }
}

fn secret(account: &Account) -> Secret {
    Secret::hashed(account.hashes.iter().filter_map(|hash| {
        let algorithm = Algorithm::from_name(&hash.algorithm)?;
        let digest = HexDigest::from_hex(algorithm, &hash.hex)?;
        Some((algorithm, digest))
    }))
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory")
            .field("stored_count", &self.stored.len())
            .finish_non_exhaustive()
    }
}
