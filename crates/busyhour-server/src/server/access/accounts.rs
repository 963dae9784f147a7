//! The directory of accounts: those of the store, then those of the configuration.

use busyhour_sip::auth::Secret;
use busyhour_store::{Account, AccountNews, AccountRange};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Bound,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Knows the secrets of users.
pub trait Accounts: Send + Sync {
    /// The secret of a user of the server's realm; `None` when there is no
    /// such account. Asked for each request: it must be quick.
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>>;

    /// The mailbox of a user, if it has another name than the user.
    fn mailbox(&self, _username: &str) -> Option<String> {
        None
    }
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
///
/// All accounts of the store; the store reports each change.
pub(in crate::server) struct AccountDirectory {
    realm: String,
    stored: RwLock<Stored>,
    configured: Arc<dyn Accounts>,
}

/// The stored accounts of the realm.
#[derive(Default)]
struct Stored {
    /// In the order of names, so that a page of them costs no more than its length.
    by_user: BTreeMap<String, Account>,
    /// How many have their own limit: usually none, and then no lookup is needed.
    limited_count: usize,
}

impl AccountDirectory {
    pub(in crate::server) fn new(
        realm: &str,
        accounts: Vec<Account>,
        configured: Arc<dyn Accounts>,
    ) -> Self {
        let directory = Self {
            realm: realm.to_owned(),
            stored: RwLock::default(),
            configured,
        };
        directory.learn(AccountNews::Range(AccountRange::all(accounts)));
        directory
    }

    /// Applies a change from the store; returns what it means for those who do not ask
    /// here each time.
    pub(in crate::server) fn learn(&self, news: AccountNews) -> Vec<Difference> {
        match news {
            AccountNews::Put(account) if account.realm == self.realm => {
                let now = account.clone();
                let before = self.write().put(account);
                Difference::between(before.as_ref(), Some(&now))
                    .into_iter()
                    .collect()
            }
            AccountNews::Removed { username, realm } if realm == self.realm => {
                let before = self.write().remove(&username);
                Difference::between(before.as_ref(), None)
                    .into_iter()
                    .collect()
            }
            AccountNews::Range(range) => self.write().put_range(range, &self.realm),
            AccountNews::Put(_) | AccountNews::Removed { .. } => Vec::new(),
        }
    }

    /// The changes from an empty directory to the stored accounts.
    pub(in crate::server) fn differences(&self) -> Vec<Difference> {
        self.read().differences()
    }

    pub(in crate::server) fn realm(&self) -> &str {
        &self.realm
    }

    pub(in crate::server) fn stored_count(&self) -> usize {
        self.read().by_user.len()
    }

    /// The mailbox of a user: its own name unless its account says otherwise.
    pub(in crate::server) fn mailbox(&self, username: &str) -> String {
        let stored = self
            .read()
            .by_user
            .get(username)
            .map(|one| one.mailbox.clone());
        let named = stored.unwrap_or_else(|| self.configured.mailbox(username));
        named.unwrap_or_else(|| username.to_owned())
    }

    pub(in crate::server) fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        let stored = self
            .read()
            .by_user
            .get(username)
            .map(|one| one.secret.clone());
        match stored {
            Some(secret) => Some(Cow::Owned(secret)),
            None => self.configured.secret(username),
        }
    }

    /// Whether there is such an account.
    pub(in crate::server) fn knows(&self, username: &str) -> bool {
        let is_stored = self.read().by_user.contains_key(username);
        is_stored || self.configured.secret(username).is_some()
    }

    /// Contacts that a user may have, if the account has its own limit.
    pub(in crate::server) fn contacts_max(&self, username: &str) -> Option<usize> {
        let stored = self.read();
        if stored.limited_count == 0 {
            return None;
        }
        let limit = stored.by_user.get(username)?.contacts_max?;
        Some(limit as usize)
    }

    /// A stored account.
    pub(in crate::server) fn account(&self, username: &str) -> Option<Account> {
        self.read().by_user.get(username).cloned()
    }

    /// At most `limit` stored accounts behind the user `after`, by name.
    pub(in crate::server) fn page(&self, after: Option<&str>, limit: usize) -> Vec<Account> {
        let stored = self.read();
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = stored.by_user.range::<str, _>((begin, Bound::Unbounded));
        behind
            .take(limit)
            .map(|(_, account)| account.clone())
            .collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Stored> {
        self.stored.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Stored> {
        self.stored.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    /// The account of that name before.
    fn put(&mut self, account: Account) -> Option<Account> {
        self.limited_count += usize::from(account.contacts_max.is_some());
        let before = self.by_user.insert(account.username.clone(), account);
        self.purge(before)
    }

    fn remove(&mut self, username: &str) -> Option<Account> {
        let before = self.by_user.remove(username);
        self.purge(before)
    }

    fn purge(&mut self, before: Option<Account>) -> Option<Account> {
        let was_limited = before
            .as_ref()
            .is_some_and(|account| account.contacts_max.is_some());
        self.limited_count -= usize::from(was_limited);
        before
    }

    /// Between its bounds there are these of the realm, and no others.
    fn put_range(&mut self, range: AccountRange, realm: &str) -> Vec<Difference> {
        let had = self.by_user.range::<str, _>(range.users_of(realm));
        let mut gone: BTreeSet<String> = had.map(|(username, _)| username.clone()).collect();
        let mut differences = Vec::new();
        for account in range.accounts {
            if account.realm == realm {
                gone.remove(&account.username);
                let now = account.clone();
                let before = self.put(account);
                differences.extend(Difference::between(before.as_ref(), Some(&now)));
            }
        }
        for username in gone {
            let before = self.remove(&username);
            differences.extend(Difference::between(before.as_ref(), None));
        }
        differences
    }

    fn differences(&self) -> Vec<Difference> {
        let accounts = self.by_user.values();
        accounts
            .filter_map(|account| Difference::between(None, Some(account)))
            .collect()
    }
}

/// What changed about an account, as far as it concerns others than those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Difference {
    pub(in crate::server) username: String,
    /// Extensions that it names no more.
    pub(in crate::server) hints_gone: Vec<String>,
    /// Extensions that it names now and did not before.
    pub(in crate::server) hints_new: Vec<String>,
    /// It has another mailbox than before.
    pub(in crate::server) has_moved: bool,
    /// The store has it no more.
    pub(in crate::server) is_gone: bool,
}

impl Difference {
    /// `None` where nothing is different.
    fn between(before: Option<&Account>, now: Option<&Account>) -> Option<Self> {
        let hints = |account: Option<&Account>| account.map_or(&[][..], |one| &one.hints).to_vec();
        let (had, has) = (hints(before), hints(now));
        let without = |some: &[String], others: &[String]| -> Vec<String> {
            let some = some.iter().filter(|hint| !others.contains(hint));
            some.cloned().collect()
        };
        let difference = Self {
            username: now.or(before)?.username.clone(),
            hints_gone: without(&had, &has),
            hints_new: without(&has, &had),
            has_moved: before.and_then(|one| one.mailbox.as_ref())
                != now.and_then(|one| one.mailbox.as_ref()),
            is_gone: now.is_none(),
        };
        let is_one = difference.has_moved
            || difference.is_gone
            || !difference.hints_gone.is_empty()
            || !difference.hints_new.is_empty();
        is_one.then_some(difference)
    }
}

impl fmt::Debug for AccountDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountDirectory")
            .field("stored_count", &self.stored_count())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_store::AccountKey;

    fn account(username: &str, contacts_max: Option<u32>) -> Account {
        Account {
            username: username.into(),
            realm: "r".into(),
            secret: Secret::plaintext("x"),
            contacts_max,
            mailbox: None,
            hints: Vec::new(),
        }
    }

    #[test]
    fn limits_are_found_while_accounts_are_added_and_removed() {
        let directory =
            AccountDirectory::new("r", vec![account("a", Some(2))], Arc::new(NoAccounts));
        assert_eq!(directory.contacts_max("a"), Some(2));
        directory.learn(AccountNews::Put(account("b", None)));
        directory.learn(AccountNews::Put(account("a", None)));
        assert_eq!(directory.contacts_max("a"), None);
        assert_eq!(directory.read().limited_count, 0);
        let removed = AccountNews::Removed {
            username: "a".into(),
            realm: "r".into(),
        };
        directory.learn(removed);
        assert!(directory.secret("a").is_none());
        assert_eq!(directory.stored_count(), 1);
    }

    #[test]
    fn accounts_of_another_realm_do_not_count() {
        let directory =
            AccountDirectory::new("other", vec![account("a", None)], Arc::new(NoAccounts));
        directory.learn(AccountNews::Put(account("b", None)));
        assert_eq!(directory.stored_count(), 0);
    }

    #[test]
    fn a_range_replaces_only_accounts_between_its_ends() {
        let names = ["a", "b", "c", "d"].map(|name| account(name, Some(1)));
        let directory = AccountDirectory::new("r", names.to_vec(), Arc::new(NoAccounts));
        let key = |username: &str| AccountKey {
            username: username.into(),
            realm: "r".into(),
        };
        let moved = Account {
            mailbox: Some("box".into()),
            ..account("c", None)
        };
        let differences = directory.learn(AccountNews::Range(AccountRange {
            after: Some(key("a")),
            until: Some(key("c")),
            accounts: vec![moved],
        }));
        let users = directory.page(None, 9).into_iter().map(|one| one.username);
        assert!(users.eq(["a", "c", "d"]));
        assert_eq!(directory.read().limited_count, 2);
        let [c, b] = &differences[..] else {
            panic!("{differences:?}");
        };
        assert!(c.username == "c" && c.has_moved && !c.is_gone);
        assert!(b.username == "b" && b.is_gone);
    }

    #[test]
    fn each_page_continues_the_one_before() {
        let names = ["c", "a", "d", "b"];
        let accounts = names.map(|name| account(name, None)).to_vec();
        let directory = AccountDirectory::new("r", accounts, Arc::new(NoAccounts));
        let page = |after| directory.page(after, 2);
        let users = |page: Vec<Account>| page.into_iter().map(|one| one.username);
        assert!(users(page(None)).eq(["a", "b"]));
        assert!(users(page(Some("b"))).eq(["c", "d"]));
        assert!(users(page(Some("d"))).next().is_none());
    }
}
