//! The stored accounts of one realm.

use busyhour_registrar::UserNames;
use busyhour_store::Account;
use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

/// The stored accounts of a realm.
#[derive(Default)]
pub(super) struct RealmAccounts {
    /// In the order of names, so that a page of them costs no more than its length.
    by_user: BTreeMap<String, Account>,
    /// How many have their own limit: usually none, and then no lookup is needed.
    limited_count: usize,
    names: UserNames,
    /// The users whose names are written in another way than they are stored.
    rewritten: HashMap<String, String>,
}

impl RealmAccounts {
    pub(super) fn len(&self) -> usize {
        self.by_user.len()
    }

    pub(super) fn limited_count(&self) -> usize {
        self.limited_count
    }

    /// Every account, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Account> {
        self.by_user.values()
    }

    /// The account of a user, whose name is written by the rules of its domain.
    pub(super) fn find(&self, user: &str) -> Option<&Account> {
        let found = self.by_user.get(user);
        found.or_else(|| self.by_user.get(self.rewritten.get(user)?))
    }

    /// At most `limit` accounts behind the user `after`.
    pub(super) fn page(&self, after: Option<&str>, limit: usize) -> Vec<Account> {
        let after = after.map(|after| self.rewritten.get(after).map_or(after, |user| user));
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.by_user.range::<str, _>((begin, Bound::Unbounded));
        let page = behind.take(limit);
        page.map(|(_, account)| account.clone()).collect()
    }

    pub(super) fn users_in<'a>(
        &'a self,
        bounds: (Bound<&str>, Bound<&str>),
    ) -> impl Iterator<Item = &'a str> {
        let range = self.by_user.range::<str, _>(bounds);
        range.map(|(user, _)| user.as_str())
    }

    /// The account of that name before.
    pub(super) fn put(&mut self, account: Account) -> Option<Account> {
        self.limited_count += usize::from(account.contacts_max.is_some());
        self.note_name(&account.username);
        let before = self.by_user.insert(account.username.clone(), account);
        self.purge(before)
    }

    pub(super) fn remove(&mut self, username: &str) -> Option<Account> {
        let before = self.by_user.remove(username);
        let written = self.names.written(username);
        if self
            .rewritten
            .get(&*written)
            .is_some_and(|user| user == username)
        {
            self.rewritten.remove(&*written);
        }
        self.purge(before)
    }

    /// From now on names mean the same by these rules.
    pub(super) fn write_names_as(&mut self, names: UserNames) {
        if self.names == names {
            return;
        }
        self.names = names;
        self.rewritten.clear();
        let users: Vec<String> = self.by_user.keys().cloned().collect();
        users.iter().for_each(|user| self.note_name(user));
    }

    /// Of two users whose names are written alike, the first one counts.
    fn note_name(&mut self, user: &str) {
        if self.names.are_exact() {
            return;
        }
        let written = self.names.written(user);
        if written != user {
            let known = self.rewritten.entry(written.into_owned());
            known.or_insert_with(|| user.to_owned());
        }
    }

    fn purge(&mut self, before: Option<Account>) -> Option<Account> {
        let was_limited = before
            .as_ref()
            .is_some_and(|account| account.contacts_max.is_some());
        self.limited_count -= usize::from(was_limited);
        before
    }
}

/// What changed about an account, as far as it concerns others than those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Difference {
    /// The account, as it is named here.
    pub(in crate::server) username: String,
    /// Extensions that it names no more.
    pub(in crate::server) hints_gone: Vec<String>,
    /// Extensions that it names now and did not before.
    pub(in crate::server) hints_new: Vec<String>,
    /// Other names that lead to it no more.
    pub(in crate::server) aliases_gone: Vec<String>,
    /// Other names that lead to it now and did not before.
    pub(in crate::server) aliases_new: Vec<String>,
    /// Others may watch it than before.
    pub(in crate::server) has_other_watchers: bool,
    /// It has another mailbox than before.
    pub(in crate::server) has_moved: bool,
    /// The store has it no more, or it is disabled since.
    pub(in crate::server) is_gone: bool,
}

impl Difference {
    /// `None` where nothing is different. Hints and aliases are of its `domain`, if that has
    /// accounts of its own.
    pub(super) fn between(
        username: String,
        domain: Option<String>,
        before: Option<&Account>,
        now: Option<&Account>,
    ) -> Option<Self> {
        let placed = |name: &String, is_address: bool| match &domain {
            Some(domain) if !is_address => in_domain(name, domain),
            _ => name.clone(),
        };
        let hints = |account: Option<&Account>| -> Vec<String> {
            let hints = account.into_iter().flat_map(|one| &one.hints);
            hints.map(|hint| placed(hint, false)).collect()
        };
        let aliases = |account: Option<&Account>| -> Vec<String> {
            let aliases = account.into_iter().flat_map(|one| &one.aliases);
            aliases
                .map(|alias| placed(alias, alias.contains('@')))
                .collect()
        };
        let (had, has) = (hints(before), hints(now));
        let (was_called, is_called) = (aliases(before), aliases(now));
        let watchers = |account: Option<&Account>| account.and_then(|one| one.watchers.clone());
        let is_disabled = |account: Option<&Account>| account.is_some_and(|one| one.is_disabled);
        let difference = Self {
            username,
            hints_gone: without(&had, &has),
            hints_new: without(&has, &had),
            aliases_gone: without(&was_called, &is_called),
            aliases_new: without(&is_called, &was_called),
            has_other_watchers: before.is_some() && watchers(before) != watchers(now),
            has_moved: before.and_then(|one| one.mailbox.as_ref())
                != now.and_then(|one| one.mailbox.as_ref()),
            is_gone: now.is_none() || !is_disabled(before) && is_disabled(now),
        };
        difference.is_one().then_some(difference)
    }

    fn is_one(&self) -> bool {
        let lists = [
            &self.hints_gone,
            &self.hints_new,
            &self.aliases_gone,
            &self.aliases_new,
        ];
        self.has_moved
            || self.is_gone
            || self.has_other_watchers
            || lists.iter().any(|list| !list.is_empty())
    }
}

/// Those of the first list that the second one does not have.
fn without(some: &[String], others: &[String]) -> Vec<String> {
    let some = some.iter().filter(|one| !others.contains(one));
    some.cloned().collect()
}

/// A name within a domain: with the domain behind it, unless it has that already.
pub(in crate::server) fn in_domain(name: &str, domain: &str) -> String {
    match name.rsplit_once('@') {
        Some((_, own)) if own == domain => name.to_owned(),
        _ => format!("{name}@{domain}"),
    }
}
