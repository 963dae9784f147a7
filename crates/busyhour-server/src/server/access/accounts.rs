//! The directory of accounts: those of the store, then those of the configuration.

use super::{
    changed_accounts::ChangedAccounts,
    realm_accounts::{Difference, RealmAccounts, in_domain},
};
use busyhour_registrar::{Domains, Tenant, UserNames};
use busyhour_sip::auth::Secret;
use busyhour_store::{Account, AccountNews, AccountRange};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Knows the secrets of users.
pub trait Accounts: Send + Sync {
    /// The secret of a user of the server's realm, or of `user@domain` for a domain with
    /// accounts of its own; `None` when there is no such account. Asked for each request: it
    /// must be quick.
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
/// All accounts of the store, by realm; the store reports each change. An account is named by
/// its user, or by `user@domain` if its domain has accounts of its own.
pub(in crate::server) struct AccountDirectory {
    realm: String,
    domains: Domains,
    stored: RwLock<Stored>,
    configured: Arc<dyn Accounts>,
    /// For whoever keeps something of each account.
    pub(in crate::server) changed: ChangedAccounts,
}

#[derive(Default)]
struct Stored {
    /// Those of the server's realm.
    own: RealmAccounts,
    /// Those of other realms. A realm that no domain has may get one.
    others: BTreeMap<String, RealmAccounts>,
    /// How many say who may watch them: usually none, and then no lookup is needed.
    guarded_count: usize,
    /// How many are disabled: the same.
    disabled_count: usize,
}

impl AccountDirectory {
    pub(in crate::server) fn new(
        realm: &str,
        domains: Domains,
        accounts: Vec<Account>,
        configured: Arc<dyn Accounts>,
    ) -> Self {
        let directory = Self {
            realm: realm.to_owned(),
            domains,
            stored: RwLock::default(),
            configured,
            changed: ChangedAccounts::default(),
        };
        directory.rules_changed();
        directory.learn(AccountNews::Range(AccountRange::all(accounts)));
        directory
    }

    /// Applies a change from the store; returns what it means for those who do not ask
    /// here each time.
    pub(in crate::server) fn learn(&self, news: AccountNews) -> Vec<Difference> {
        let differences = match news {
            AccountNews::Put(account) => {
                let now = account.clone();
                let before = self.write().put(&self.realm, account);
                self.changed.note(|| self.full_name(&now));
                self.difference(before.as_ref(), Some(&now))
                    .into_iter()
                    .collect()
            }
            AccountNews::Removed { username, realm } => {
                let before = self.write().remove(&self.realm, &username, &realm);
                self.changed.note(|| self.full_name(before.as_ref()?));
                self.difference(before.as_ref(), None).into_iter().collect()
            }
            AccountNews::Range(range) => self.put_range(range),
        };
        self.follow_aliases(&differences);
        differences
    }

    /// Between its bounds there are these of each realm, and no others.
    fn put_range(&self, range: AccountRange) -> Vec<Difference> {
        let mut stored = self.write();
        let mut gone = stored.within(&self.realm, &range);
        let mut differences = Vec::new();
        for account in range.accounts {
            gone.remove(&(account.realm.clone(), account.username.clone()));
            let now = account.clone();
            let before = stored.put(&self.realm, account);
            self.changed.note(|| self.full_name(&now));
            differences.extend(self.difference(before.as_ref(), Some(&now)));
        }
        for (realm, username) in gone {
            let before = stored.remove(&self.realm, &username, &realm);
            self.changed.note(|| self.full_name(before.as_ref()?));
            differences.extend(self.difference(before.as_ref(), None));
        }
        differences
    }

    /// The changes from an empty directory to the stored accounts.
    pub(in crate::server) fn differences(&self) -> Vec<Difference> {
        let stored = self.read();
        let others = stored.others.values().flat_map(RealmAccounts::all);
        let all = stored.own.all().chain(others);
        all.filter_map(|account| self.difference(None, Some(account)))
            .collect()
    }

    /// The same for the accounts of one realm other than the server's.
    pub(in crate::server) fn differences_with(&self, realm: &str) -> Vec<Difference> {
        let stored = self.read();
        let accounts = stored
            .others
            .get(realm)
            .into_iter()
            .flat_map(RealmAccounts::all);
        accounts
            .filter_map(|account| self.difference(None, Some(account)))
            .collect()
    }

    /// The same, as if all stored accounts of a realm had just been removed.
    pub(in crate::server) fn differences_without(&self, realm: &str) -> Vec<Difference> {
        let stored = self.read();
        let others = stored
            .others
            .get(realm)
            .into_iter()
            .flat_map(RealmAccounts::all);
        others
            .filter_map(|account| self.difference(Some(account), None))
            .collect()
    }

    /// What a change means; nothing where no domain of ours has the account.
    fn difference(&self, before: Option<&Account>, now: Option<&Account>) -> Option<Difference> {
        let account = now.or(before)?;
        let (name, domain) = self.name_of(account)?;
        Difference::between(name, domain, before, now)
    }

    /// How an account is named here, and its domain if that has accounts of its own.
    pub(in crate::server) fn name_of(&self, account: &Account) -> Option<(String, Option<String>)> {
        if account.realm == self.realm {
            return Some((account.username.clone(), None));
        }
        let tenant = self.domains.tenant_of_realm(&account.realm)?;
        let user = tenant.names.written(&account.username);
        Some((format!("{user}@{}", tenant.name), Some(tenant.name.clone())))
    }

    /// Other names of accounts lead to them, unless they are accounts themselves.
    pub(in crate::server) fn follow_aliases(&self, differences: &[Difference]) {
        for difference in differences {
            for alias in &difference.aliases_gone {
                if self.domains.alias(alias).as_ref() == Some(&difference.username) {
                    self.domains.set_alias(alias, None);
                }
            }
            for alias in &difference.aliases_new {
                match self.knows(alias) {
                    true => tracing::warn!(
                        alias,
                        account = difference.username,
                        "an alias has no effect: there is an account of this name"
                    ),
                    false => self.domains.set_alias(alias, Some(&difference.username)),
                }
            }
        }
    }

    /// The domains have changed: which names mean the same is found out anew.
    pub(in crate::server) fn rules_changed(&self) {
        let tenants = self.domains.tenants();
        let own = tenants.iter().find(|tenant| tenant.has_server_accounts);
        let names = |tenant: Option<&Arc<Tenant>>| {
            tenant.map_or_else(UserNames::default, |tenant| tenant.names.clone())
        };
        let mut stored = self.write();
        stored.own.write_names_as(names(own));
        for (realm, accounts) in &mut stored.others {
            accounts.write_names_as(names(self.domains.tenant_of_realm(realm).as_ref()));
        }
        drop(stored);
        self.changed.note_all();
    }

    /// An account by the name by which [`page`](Self::page) goes on behind it; `None` where no domain of ours has it.
    pub(in crate::server) fn full_name(&self, account: &Account) -> Option<String> {
        if account.realm == self.realm {
            return Some(account.username.clone());
        }
        let tenant = self.domains.tenant_of_realm(&account.realm)?;
        Some(format!("{}@{}", account.username, tenant.name))
    }

    /// At most `limit` names of stored accounts behind the name `after`.
    pub(in crate::server) fn names(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        let page = self.page(after, limit);
        page.iter()
            .filter_map(|account| self.full_name(account))
            .collect()
    }

    /// Whether a stored account is disabled; `None` if there is none.
    pub(in crate::server) fn is_stored_disabled(&self, name: &str) -> Option<bool> {
        self.with(name, |account| account.is_disabled)
    }

    pub(in crate::server) fn realm(&self) -> &str {
        &self.realm
    }

    pub(in crate::server) fn domains(&self) -> &Domains {
        &self.domains
    }

    /// Accounts of the server's realm.
    pub(in crate::server) fn stored_count(&self) -> usize {
        self.read().own.len()
    }

    /// Accounts of a realm.
    pub(in crate::server) fn count_of(&self, realm: &str) -> usize {
        let stored = self.read();
        match realm == self.realm {
            true => stored.own.len(),
            false => stored.others.get(realm).map_or(0, RealmAccounts::len),
        }
    }

    /// The mailbox of an account: its own name unless its account says otherwise. A mailbox
    /// of a domain with accounts of its own has the domain behind its name.
    pub(in crate::server) fn mailbox(&self, name: &str) -> String {
        let stored = self.with(name, |account| account.mailbox.clone());
        let named = stored.unwrap_or_else(|| self.configured.mailbox(name));
        match (named, self.domains.parts_of(name).0) {
            (Some(named), Some(tenant)) => in_domain(&named, &tenant.name),
            (Some(named), None) => named,
            (None, _) => name.to_owned(),
        }
    }

    pub(in crate::server) fn secret(&self, name: &str) -> Option<Cow<'_, Secret>> {
        match self.with(name, |account| account.secret.clone()) {
            Some(secret) => Some(Cow::Owned(secret)),
            None => self.configured.secret(name),
        }
    }

    /// Whether there is such an account.
    pub(in crate::server) fn knows(&self, name: &str) -> bool {
        self.with(name, |_| ()).is_some() || self.configured.secret(name).is_some()
    }

    /// Whether there is such an account, but it may do nothing.
    pub(in crate::server) fn is_disabled(&self, name: &str) -> bool {
        self.read().disabled_count > 0
            && self.with(name, |account| account.is_disabled) == Some(true)
    }

    /// Contacts that an account may have, if it has its own limit.
    pub(in crate::server) fn contacts_max(&self, name: &str) -> Option<usize> {
        let (tenant, user) = self.domains.parts_of(name);
        let stored = self.read();
        let accounts = stored.of(tenant.as_deref())?;
        if accounts.limited_count() == 0 {
            return None;
        }
        let limit = accounts.find(user)?.contacts_max?;
        Some(limit as usize)
    }

    /// Who may watch an account, if it says so itself.
    pub(in crate::server) fn watchers(&self, name: &str) -> Option<Vec<String>> {
        if self.read().guarded_count == 0 {
            return None;
        }
        self.with(name, |account| account.watchers.clone())?
    }

    /// A stored account.
    pub(in crate::server) fn account(&self, name: &str) -> Option<Account> {
        self.with(name, Account::clone)
    }

    fn with<R>(&self, name: &str, read: impl FnOnce(&Account) -> R) -> Option<R> {
        let (tenant, user) = self.domains.parts_of(name);
        let stored = self.read();
        stored.of(tenant.as_deref())?.find(user).map(read)
    }

    /// At most `limit` stored accounts behind the user `after`, by name: those of the server,
    /// and then those of each domain with accounts of its own.
    pub(in crate::server) fn page(&self, after: Option<&str>, limit: usize) -> Vec<Account> {
        let (tenant, user) = match after {
            Some(name) => self.domains.parts_of(name),
            None => (None, ""),
        };
        let after = after.map(|_| user);
        let stored = self.read();
        let mut page = match tenant {
            None => stored.own.page(after, limit),
            Some(_) => Vec::new(),
        };
        for one in self.domains.tenants() {
            let is_passed = tenant.as_ref().is_some_and(|tenant| one.name < tenant.name);
            let accounts = stored.others.get(&one.realm);
            let Some(accounts) = accounts.filter(|_| !is_passed && !one.has_server_accounts) else {
                continue;
            };
            let is_first = tenant
                .as_ref()
                .is_some_and(|tenant| one.name == tenant.name);
            let rest = limit.saturating_sub(page.len());
            page.extend(accounts.page(after.filter(|_| is_first), rest));
        }
        page
    }

    /// At most `limit` stored accounts of a domain behind the user `after`.
    pub(in crate::server) fn page_of(
        &self,
        domain: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<Account> {
        let tenants = self.domains.tenants();
        let Some(tenant) = tenants.iter().find(|tenant| tenant.name == domain) else {
            return Vec::new();
        };
        let after = after.map(|name| self.domains.parts_of(name).1);
        let stored = self.read();
        let accounts = stored.of(Some(&**tenant));
        accounts.map_or_else(Vec::new, |accounts| accounts.page(after, limit))
    }

    fn read(&self) -> RwLockReadGuard<'_, Stored> {
        self.stored.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Stored> {
        self.stored.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    fn of(&self, tenant: Option<&Tenant>) -> Option<&RealmAccounts> {
        match tenant.filter(|tenant| !tenant.has_server_accounts) {
            None => Some(&self.own),
            Some(tenant) => self.others.get(&tenant.realm),
        }
    }

    /// The account of that name before.
    fn put(&mut self, own_realm: &str, account: Account) -> Option<Account> {
        self.guarded_count += usize::from(account.watchers.is_some());
        self.disabled_count += usize::from(account.is_disabled);
        let before = match account.realm == own_realm {
            true => self.own.put(account),
            false => (self.others.entry(account.realm.clone()).or_default()).put(account),
        };
        self.forget(before)
    }

    fn remove(&mut self, own_realm: &str, username: &str, realm: &str) -> Option<Account> {
        let before = match realm == own_realm {
            true => self.own.remove(username),
            false => self.others.get_mut(realm)?.remove(username),
        };
        self.forget(before)
    }

    fn forget(&mut self, before: Option<Account>) -> Option<Account> {
        let was = |is: fn(&Account) -> bool| usize::from(before.as_ref().is_some_and(is));
        self.guarded_count -= was(|account| account.watchers.is_some());
        self.disabled_count -= was(|account| account.is_disabled);
        before
    }

    /// Realm and user of all accounts in a range.
    fn within(&self, own_realm: &str, range: &AccountRange) -> BTreeSet<(String, String)> {
        let others = self
            .others
            .iter()
            .map(|(realm, accounts)| (realm.as_str(), accounts));
        let realms = [(own_realm, &self.own)].into_iter().chain(others);
        let keys = realms.flat_map(|(realm, accounts)| {
            let users = accounts.users_in(range.users_of(realm));
            users.map(move |user| (realm.to_owned(), user.to_owned()))
        });
        keys.collect()
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
            aliases: Vec::new(),
            watchers: None,
            is_disabled: false,
        }
    }

    #[test]
    fn a_disabled_account_is_known_and_ends_as_if_it_were_gone() {
        let directory = AccountDirectory::new(
            "r",
            Domains::default(),
            vec![account("a", None)],
            Arc::new(NoAccounts),
        );
        assert!(!directory.is_disabled("a"));
        let disabled = Account {
            is_disabled: true,
            ..account("a", None)
        };
        let told = directory.learn(AccountNews::Put(disabled.clone()));
        assert!(told[0].is_gone);
        assert!(directory.is_disabled("a") && directory.knows("a"));
        assert!(directory.learn(AccountNews::Put(disabled)).is_empty());
        assert!(
            directory
                .learn(AccountNews::Put(account("a", None)))
                .is_empty()
        );
        assert!(!directory.is_disabled("a"));
        assert_eq!(directory.read().disabled_count, 0);
    }

    #[test]
    fn limits_are_found_while_accounts_are_added_and_removed() {
        let directory = AccountDirectory::new(
            "r",
            Domains::default(),
            vec![account("a", Some(2))],
            Arc::new(NoAccounts),
        );
        assert_eq!(directory.contacts_max("a"), Some(2));
        directory.learn(AccountNews::Put(account("b", None)));
        directory.learn(AccountNews::Put(account("a", None)));
        assert_eq!(directory.contacts_max("a"), None);
        assert_eq!(directory.read().own.limited_count(), 0);
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
        let directory = AccountDirectory::new(
            "other",
            Domains::default(),
            vec![account("a", None)],
            Arc::new(NoAccounts),
        );
        directory.learn(AccountNews::Put(account("b", None)));
        assert_eq!(directory.stored_count(), 0);
    }

    #[test]
    fn a_range_replaces_only_accounts_between_its_ends() {
        let names = ["a", "b", "c", "d"].map(|name| account(name, Some(1)));
        let directory = AccountDirectory::new(
            "r",
            Domains::default(),
            names.to_vec(),
            Arc::new(NoAccounts),
        );
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
        assert_eq!(directory.read().own.limited_count(), 2);
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
        let directory =
            AccountDirectory::new("r", Domains::default(), accounts, Arc::new(NoAccounts));
        let page = |after| directory.page(after, 2);
        let users = |page: Vec<Account>| page.into_iter().map(|one| one.username);
        assert!(users(page(None)).eq(["a", "b"]));
        assert!(users(page(Some("b"))).eq(["c", "d"]));
        assert!(users(page(Some("d"))).next().is_none());
    }

    #[test]
    fn accounts_of_a_domain_are_found_by_their_address_and_rules() {
        let domains = Domains::new(["example.com".to_owned()]);
        let of_a = |username: &str| Account {
            realm: "a.example".into(),
            hints: vec!["200".into()],
            aliases: vec!["sales".into()],
            ..account(username, Some(2))
        };
        let accounts = vec![account("alice", None), of_a("Alice")];
        let directory = AccountDirectory::new("r", domains, accounts, Arc::new(NoAccounts));
        assert!(
            !directory.knows("alice@a.example"),
            "no domain has its realm"
        );
        let folding = Tenant {
            names: UserNames {
                fold_case: true,
                ..UserNames::default()
            },
            ..Tenant::new("a.example")
        };
        directory.domains().replace_tenants([folding]);
        directory.rules_changed();
        assert!(directory.knows("alice@a.example") && directory.knows("alice"));
        assert_eq!(directory.contacts_max("alice@a.example"), Some(2));
        assert_eq!(directory.contacts_max("alice"), None);
        assert_eq!(directory.mailbox("alice@a.example"), "alice@a.example");
        let found = directory.differences();
        let [difference] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(difference.username, "alice@a.example");
        assert_eq!(difference.hints_new, ["200@a.example"]);
        assert_eq!(difference.aliases_new, ["sales@a.example"]);
        let pages = [None, Some("alice"), Some("alice@a.example")].map(|after| {
            let page = directory.page(after, 1);
            page.first().map(|one| one.realm.clone())
        });
        assert_eq!(pages, [Some("r".into()), Some("a.example".into()), None]);
        assert_eq!(directory.page_of("a.example", None, 9).len(), 1);
        assert_eq!(directory.differences_without("a.example").len(), 1);
    }
}
