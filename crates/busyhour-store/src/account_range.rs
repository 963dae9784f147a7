//! Accounts between two names, as the store gives them when there are too many to
//! be read in one go.

use super::Account;
use std::ops::Bound;

/// All the accounts there are between two names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountRange {
    /// It begins behind this one; `None` before all.
    pub after: Option<AccountKey>,
    /// It ends with this one; `None` behind all.
    pub until: Option<AccountKey>,
    /// In the order of their keys.
    pub accounts: Vec<Account>,
}

/// What an account is found by, in the order in which stores give them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountKey {
    /// See [`Account::username`].
    pub username: String,
    /// See [`Account::realm`].
    pub realm: String,
}

impl AccountRange {
    /// Every account there is.
    pub fn all(accounts: Vec<Account>) -> Self {
        Self {
            accounts,
            ..Self::default()
        }
    }

    /// What was read behind `after` by a query that gives at most `limit`.
    pub(super) fn read(after: Option<AccountKey>, accounts: Vec<Account>, limit: usize) -> Self {
        let last = accounts.get(limit.max(1) - 1);
        let until = last.map(AccountKey::of);
        Self {
            after,
            until,
            accounts,
        }
    }

    /// Between which users of `realm` it lies.
    ///
    /// ```
    /// use busyhour_store::{AccountKey, AccountRange};
    /// use std::ops::Bound::{Excluded, Included};
    ///
    /// let key = |name: &str| AccountKey { username: name.into(), realm: "r".into() };
    /// let (after, until) = (Some(key("alice")), Some(key("bob")));
    /// let range = AccountRange { after, until, accounts: Vec::new() };
    /// assert_eq!(range.users_of("r"), (Excluded("alice"), Included("bob")));
    /// assert_eq!(range.users_of("s"), (Included("alice"), Excluded("bob")));
    /// ```
    pub fn users_of(&self, realm: &str) -> (Bound<&str>, Bound<&str>) {
        let begin =
            self.after
                .as_ref()
                .map_or(Bound::Unbounded, |key| match realm > key.realm.as_str() {
                    true => Bound::Included(key.username.as_str()),
                    false => Bound::Excluded(key.username.as_str()),
                });
        let end =
            self.until
                .as_ref()
                .map_or(Bound::Unbounded, |key| match realm <= key.realm.as_str() {
                    true => Bound::Included(key.username.as_str()),
                    false => Bound::Excluded(key.username.as_str()),
                });
        (begin, end)
    }
}

impl AccountKey {
    fn of(account: &Account) -> Self {
        Self {
            username: account.username.clone(),
            realm: account.realm.clone(),
        }
    }
}
