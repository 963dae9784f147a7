//! An account as another program has it, before it is placed here.

use super::super::AccountStore;
use busyhour_store::{Account, AccountEntry};

/// An account of another program, and where it was found.
pub(super) struct ForeignAccount {
    /// The file and line, or the row.
    pub(super) place: String,
    /// Its domain, if it names one.
    pub(super) domain: Option<String>,
    /// The realm of its hashes, if that is known.
    pub(super) realm: Option<String>,
    /// The account, or why it cannot be taken.
    pub(super) entry: Result<AccountEntry, String>,
}

impl ForeignAccount {
    /// What is wrong with it wherever it is placed.
    pub(super) fn mistake(&self) -> Option<String> {
        let entry = match &self.entry {
            Ok(entry) => entry.clone(),
            Err(reason) => return Some(reason.clone()),
        };
        let user = entry.user.split('@').next().unwrap_or_default().to_owned();
        AccountEntry { user, ..entry }.check("realm").err()
    }

    /// The account as it is here. One without a domain is of `default_domain`.
    pub(super) fn placed(
        self,
        target: &AccountStore,
        default_domain: Option<&str>,
    ) -> Result<Account, String> {
        let mut entry = self.entry?;
        let domain = self.domain.as_deref().or(default_domain);
        if let Some(domain) = domain.filter(|_| !entry.user.contains('@')) {
            entry.user = format!("{}@{}", entry.user, domain.to_lowercase());
        }
        let is_hashed = entry.password.is_none();
        let account = target.checked(entry)?;
        match self
            .realm
            .filter(|realm| is_hashed && *realm != account.realm)
        {
            Some(realm) => Err(format!(
                "its hash is for the realm `{realm}`, but the server challenges it with `{}`: \
                 give its domain that realm (busyhour domain add --realm), or set sip.realm",
                account.realm
            )),
            None => Ok(account),
        }
    }
}
