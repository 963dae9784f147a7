//! Lists of resources that watchers subscribe to by one URI: those of the configuration, and
//! those that are set over HTTP.
//!
//! Readers take the whole table as it is, without a lock: it is replaced when a list changes.
//! The lock of writers is held while the change is given to the store, so that memory and store
//! both end with the last change.

use super::{
    list_loops::in_loops,
    named_device::{device_in, has_accounts},
    overtaken::unless,
    setting_source::SettingSource,
};
use crate::server::{
    ServerConfig,
    persistence::Persistence,
    stats::{ListStats, counters::ListCounters, listing::NamedPage},
    watcher::watchers::Watchers,
};
use busyhour::bus::Name;
use busyhour_registrar::{
    Domains,
    watch::{Entry, ListEntry, TooManyResources, expand},
};
use busyhour_store::{Change, Completion, EXTENSION_RULE, Refused, SettingKind, is_extension};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, RwLock},
};
use thiserror::Error;

/// The table of lists, in the order of their names.
pub(in crate::server) struct Lists {
    table: RwLock<Arc<ListTable>>,
    /// Held by whoever changes the table.
    writing: Mutex<()>,
    judged: Mutex<JudgedLists>,
    counters: ListCounters,
    count_max: usize,
    resources_max: usize,
    domains: Domains,
    persistence: Arc<Persistence>,
    watchers: Arc<Watchers>,
}

/// The table that was judged last, and the lists in it that contain themselves.
#[derive(Default)]
struct JudgedLists {
    table: Arc<ListTable>,
    in_loops: BTreeSet<String>,
}

/// The lists by their names.
pub(in crate::server) type ListTable = BTreeMap<String, Arc<StoredList>>;

/// A list as it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct StoredList {
    pub(in crate::server) title: Option<String>,
    /// Addresses of record, of resources and of other lists.
    pub(in crate::server) entries: Arc<[ListEntry]>,
    pub(in crate::server) is_configured: bool,
}

/// A list as the configuration and HTTP name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListConfig {
    /// The user part of the URI that watchers subscribe to; in a domain with accounts of its own,
    /// with that domain behind it: `panel@a.example`.
    pub name: String,
    /// What a panel shows for the list.
    pub title: Option<String>,
    /// Users of the server's first domain, or of the list's own, whole addresses of record, or names
    /// of other lists; each with a name to show before it if it stands in brackets: `Reception <100>`.
    pub entries: Vec<String>,
}

/// A list as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListView {
    /// The user part of the URI that watchers subscribe to.
    pub name: String,
    /// What a panel shows for it.
    pub title: Option<String>,
    /// Its entries.
    pub entries: Vec<ListEntry>,
    /// It is defined in the configuration, and must be changed there.
    pub is_configured: bool,
}

/// Why a list is not set or removed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListRefusal {
    /// Not a valid name.
    #[error(
        "the name of a list is {EXTENSION_RULE}, with a domain that has accounts of its own behind \
         it if the list is of one: panel@a.example"
    )]
    Name,
    /// Not a valid entry.
    #[error(
        "entry `{0}`: give a user name of sip.domains, an address of record such as \
         sip:alice@example.com, or the name of another list, and before it in plain text what a \
         panel shows if it stands in brackets: `Alice <alice>`; a user name alone needs \
         sip.domains where sip.listen is a wildcard"
    )]
    Entry(String),
    /// It has no entries.
    #[error("a list has 1 entry or more")]
    Empty,
    /// It has too many resources.
    #[error("{0} (limits.list_resources)")]
    TooMany(#[from] TooManyResources),
    /// It names itself, or a list that names it.
    #[error("list `{0}` contains itself: its entry `{1}` leads back to it")]
    ContainsItself(String, String),
    /// The configuration defines it, so it must be changed there.
    #[error("list {0} is defined in the configuration file: change it there")]
    Configured(String),
    /// The configuration is to define it while the server runs, but it was set over HTTP.
    #[error("it was set over HTTP: remove it there first, or leave it out of the file")]
    SetOverHttp,
    /// There are as many as may be.
    #[error("there are {0} lists already: remove some, or raise limits.lists")]
    Full(usize),
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] Refused),
}

/// As the store has it.
#[derive(Serialize, Deserialize)]
struct ListRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    entries: Vec<String>,
}

impl ListConfig {
    /// Its entries on a server of these domains.
    fn check(&self, domains: &Domains) -> Result<Vec<ListEntry>, ListRefusal> {
        if let Some(refusal) = self.refusals(domains).into_iter().next() {
            return Err(refusal);
        }
        let entries = self.entries.iter();
        entries.map(|entry| self.read(entry, domains)).collect()
    }

    /// The domain of its name, if that has one.
    fn domain(&self) -> Option<&str> {
        self.name.split_once('@').map(|(_, domain)| domain)
    }

    fn read(&self, entry: &str, domains: &Domains) -> Result<ListEntry, ListRefusal> {
        read_entry(entry, self.domain(), domains)
    }

    /// The resources that its entries name, without what a panel shows for them.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| split_entry(entry).1)
    }

    /// All that is wrong with it on a server of these domains, whatever other lists there are.
    pub fn refusals(&self, domains: &Domains) -> Vec<ListRefusal> {
        let user = self.name.split('@').next().unwrap_or_default();
        let is_here = self.domain().is_none_or(|name| has_accounts(domains, name));
        let is_one = is_extension(user) && is_here;
        let mut refusals = Vec::from_iter((!is_one).then_some(ListRefusal::Name));
        refusals.extend(self.entries.is_empty().then_some(ListRefusal::Empty));
        let entries = self.entries.iter();
        refusals.extend(entries.filter_map(|entry| self.read(entry, domains).err()));
        refusals
    }
}

impl Lists {
    pub(in crate::server) fn new(
        (config, domains): (&ServerConfig, Domains),
        persistence: Arc<Persistence>,
        watchers: Arc<Watchers>,
    ) -> Self {
        Self {
            table: RwLock::default(),
            writing: Mutex::default(),
            judged: Mutex::default(),
            counters: ListCounters::default(),
            count_max: config.limits.lists_max,
            resources_max: config.watch.list_resources_max,
            domains,
            persistence,
            watchers,
        }
    }

    /// The table as it is now.
    pub(in crate::server) fn snapshot(&self) -> Arc<ListTable> {
        let table = self.table.read();
        table
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }

    /// Adds the lists of the configuration, which may name each other in any order.
    pub(in crate::server) fn take(
        &self,
        configs: &[ListConfig],
    ) -> Result<(), (String, ListRefusal)> {
        let _writing = self.lock();
        let table = self.planned(configs, &self.domains)?;
        self.put(table);
        Ok(())
    }

    /// Replaces the lists of the configuration, which were checked. Those who watch one that
    /// changed are told its full state.
    pub(in crate::server) fn replace_configured(&self, configs: &[ListConfig]) {
        let before = self.snapshot();
        if let Err((list, refusal)) = self.take(configs) {
            tracing::warn!(list, %refusal, "the lists of the configuration have no effect");
        }
        let now = self.snapshot();
        let is_new = |name: &str| now.contains_key(name) && !before.contains_key(name);
        self.watchers.resolve_lists(is_new);
    }

    /// The table with these in place of the lists of the configuration before, on a server of these
    /// domains.
    pub(in crate::server) fn planned(
        &self,
        configs: &[ListConfig],
        domains: &Domains,
    ) -> Result<ListTable, (String, ListRefusal)> {
        let mut table = ListTable::clone(&self.snapshot());
        table.retain(|_, list| !list.is_configured);
        for config in configs {
            let named = |refusal| (config.name.clone(), refusal);
            if table.get(&config.name).is_some_and(|it| !it.is_configured) {
                return Err(named(ListRefusal::SetOverHttp));
            }
            let entries = config.check(domains).map_err(named)?;
            let list = Arc::new(StoredList::new(config, entries, true));
            table.insert(config.name.clone(), list);
        }
        for config in configs {
            let checked = check_loops(&table, &config.name, self.resources_max, domains);
            checked.map_err(|refusal| (config.name.clone(), refusal))?;
        }
        Ok(table)
    }

    /// Restores a stored setting, unless the configuration defines the list now or a later change
    /// is on its way.
    pub(in crate::server) fn restore(
        &self,
        name: &str,
        value: &str,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let row: ListRow = serde_json::from_str(value).map_err(|error| error.to_string())?;
        let config = ListConfig {
            name: name.to_owned(),
            title: row.title,
            entries: row.entries,
        };
        if self.has(&config) {
            return Ok(());
        }
        let restored = self.try_set(&config, SettingSource::Store, || unless(is_overtaken));
        restored.map(drop).map_err(|refusal| refusal.to_string())
    }

    /// Whether this is what HTTP has set.
    fn has(&self, config: &ListConfig) -> bool {
        let Ok(entries) = config.check(&self.domains) else {
            return false;
        };
        let table = self.snapshot();
        let known = table.get(&config.name);
        known.is_some_and(|known| **known == StoredList::new(config, entries, false))
    }

    /// Sets a list and stores it; returns whether there was none before. Those who watch it, or
    /// a list that names it, are told the full state.
    pub(in crate::server) fn set(
        &self,
        config: &ListConfig,
        done: Completion,
    ) -> Result<bool, ListRefusal> {
        let keep = || {
            let row = ListRow {
                title: config.title.clone(),
                entries: config.entries.clone(),
            };
            let put = Change::PutSetting {
                kind: SettingKind::List,
                name: config.name.clone(),
                value: serde_json::to_string(&row).unwrap_or_default(),
            };
            self.persistence.store().commit(vec![put], done)
        };
        let set = self.try_set(config, SettingSource::Request, keep);
        match set {
            Ok(_) => self.counters.set.increment(),
            Err(_) => self.counters.refused.increment(),
        }
        set
    }

    fn try_set(
        &self,
        config: &ListConfig,
        source: SettingSource,
        keep: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<bool, ListRefusal> {
        let entries = config.check(&self.domains)?;
        let writing = self.lock();
        let mut table = ListTable::clone(&self.snapshot());
        let known = table.get(&config.name);
        if known.is_some_and(|known| known.is_configured) {
            return Err(ListRefusal::Configured(config.name.clone()));
        }
        let is_new = known.is_none();
        if is_new && table.len() >= source.count_max(self.count_max) {
            return Err(ListRefusal::Full(self.count_max));
        }
        table.insert(
            config.name.clone(),
            Arc::new(StoredList::new(config, entries, false)),
        );
        if source == SettingSource::Request {
            self.check_loops(&table, &config.name)?;
        }
        keep()?;
        self.put(table);
        drop(writing);
        self.watchers
            .resolve_lists(|name| is_new && name == config.name);
        Ok(is_new)
    }

    /// Removes a list; `false` if there is none. Its watchers are told that it is gone.
    ///
    /// # Errors
    ///
    /// [`ListRefusal::Configured`], [`ListRefusal::Store`].
    pub(in crate::server) fn remove(
        &self,
        name: &str,
        done: Completion,
    ) -> Result<bool, ListRefusal> {
        let keep = || {
            let forget = Change::RemoveSetting {
                kind: SettingKind::List,
                name: name.to_owned(),
            };
            self.persistence.store().commit(vec![forget], done)
        };
        let is_removed = self.try_remove(name, keep)?;
        if is_removed {
            self.counters.removed.increment();
        }
        Ok(is_removed)
    }

    /// As [`remove`](Self::remove), for what is not in the store any more, unless a later change is
    /// on its way.
    pub(in crate::server) fn forget(&self, name: &str, is_overtaken: &dyn Fn() -> bool) {
        // What is refused was not set over HTTP here.
        let _ = self.try_remove(name, || unless(is_overtaken));
    }

    fn try_remove(
        &self,
        name: &str,
        keep: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<bool, ListRefusal> {
        let writing = self.lock();
        let mut table = ListTable::clone(&self.snapshot());
        match table.remove(name) {
            None => return Ok(false),
            Some(list) if list.is_configured => {
                return Err(ListRefusal::Configured(name.to_owned()));
            }
            Some(_) => {}
        }
        keep()?;
        self.put(table);
        drop(writing);
        self.watchers.resolve_lists(|_| false);
        Ok(true)
    }

    pub(in crate::server) fn get(&self, name: &str) -> Option<ListView> {
        let table = self.snapshot();
        table.get(name).map(|list| list.view(name))
    }

    /// The names of those that HTTP has set.
    pub(in crate::server) fn set_names(&self) -> Vec<String> {
        let table = self.snapshot();
        let set = table.iter().filter(|(_, list)| !list.is_configured);
        set.map(|(name, _)| name.clone()).collect()
    }

    pub(in crate::server) fn list(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<ListView> {
        let table = self.snapshot();
        let named = table.iter().map(|(name, list)| (Name::new(name), list));
        let named: BTreeMap<_, _> = named.collect();
        NamedPage::of(&named, after, limit, domain, |name, list| {
            Some(list.view(name))
        })
    }

    /// Tells of lists that contain themselves since the last time: nodes have set several lists at the
    /// same time, and each was right by what its node knew.
    pub(in crate::server) fn judge_loops(&self) {
        let table = self.snapshot();
        let mut judged = self.judged();
        if Arc::ptr_eq(&table, &judged.table) {
            return;
        }
        let in_loops = in_loops(&table, &self.domains);
        for list in in_loops.difference(&judged.in_loops) {
            self.counters.loops.increment();
            tracing::warn!(
                event = "list_contains_itself",
                list,
                "a list leads back to itself, since several were set at the same time; the entry that \
                 leads back counts for nothing: take it out of one of them"
            );
        }
        *judged = JudgedLists { table, in_loops };
    }

    fn judged(&self) -> MutexGuard<'_, JudgedLists> {
        self.judged
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(in crate::server) fn stats(&self) -> ListStats {
        let counters = &self.counters;
        ListStats {
            list_count: self.snapshot().len() as u64,
            loops: counters.loops.get(),
            set: counters.set.get(),
            removed: counters.removed.get(),
            refused: counters.refused.get(),
            ..ListStats::default()
        }
    }

    fn check_loops(&self, table: &ListTable, name: &str) -> Result<(), ListRefusal> {
        check_loops(table, name, self.resources_max, &self.domains)
    }

    fn put(&self, table: ListTable) {
        let mut current = self
            .table
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        *current = Arc::new(table);
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.writing
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl StoredList {
    fn new(config: &ListConfig, entries: Vec<ListEntry>, is_configured: bool) -> Self {
        Self {
            title: config.title.clone(),
            entries: entries.into(),
            is_configured,
        }
    }

    fn view(&self, name: &str) -> ListView {
        ListView {
            name: name.to_owned(),
            title: self.title.clone(),
            entries: self.entries.to_vec(),
            is_configured: self.is_configured,
        }
    }
}

/// Whether the list `name` has too many resources, or leads back to itself.
fn check_loops(
    table: &ListTable,
    name: &str,
    resources_max: usize,
    domains: &Domains,
) -> Result<(), ListRefusal> {
    let Some(list) = table.get(name) else {
        return Ok(());
    };
    let mut culprit = None;
    let is = |entry: &ListEntry| {
        let user = domains.account_of(&entry.uri);
        if user == name {
            culprit.get_or_insert_with(|| entry.uri.clone());
        }
        match table.get(user) {
            Some(inner) => Entry::List(user.to_owned(), inner.entries.clone()),
            None => Entry::Resource(entry.uri.clone()),
        }
    };
    expand(&list.entries, resources_max, is)?;
    match culprit {
        Some(entry) => Err(ListRefusal::ContainsItself(name.to_owned(), entry)),
        None => Ok(()),
    }
}

/// `alice`, `sip:alice@example.com`, or either in brackets behind what a panel shows.
fn read_entry(
    text: &str,
    domain: Option<&str>,
    domains: &Domains,
) -> Result<ListEntry, ListRefusal> {
    let (name, resource) = split_entry(text);
    let refusal = || ListRefusal::Entry(text.to_owned());
    let name = name.filter(|name| !name.is_empty());
    if name.is_some_and(|name| name.len() > NAME_LEN_MAX) {
        return Err(refusal());
    }
    let address = device_in(domain, resource, domains).ok_or_else(refusal)?;
    Ok(ListEntry {
        uri: address.as_str().to_owned(),
        name: name.map(str::to_owned),
    })
}

/// What a panel shows, and the resource.
fn split_entry(text: &str) -> (Option<&str>, &str) {
    let inner = text.trim().strip_suffix('>');
    match inner.and_then(|inner| inner.split_once('<')) {
        Some((name, resource)) => (Some(name.trim().trim_matches('"')), resource.trim()),
        None => (None, text.trim()),
    }
}

/// More than a panel shows, in bytes.
const NAME_LEN_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn domains() -> Domains {
        Domains::new(["example.com".to_owned()])
    }

    fn table(lists: &[(&str, &[&str])]) -> ListTable {
        let list = |(name, entries): &(&str, &[&str])| {
            let config = ListConfig {
                name: (*name).to_owned(),
                title: None,
                entries: entries.iter().map(|entry| (*entry).to_owned()).collect(),
            };
            let entries = config.check(&domains()).unwrap();
            (
                config.name.clone(),
                Arc::new(StoredList::new(&config, entries, true)),
            )
        };
        lists.iter().map(list).collect()
    }

    #[test]
    fn a_list_that_leads_back_to_itself_is_refused() {
        let table = table(&[
            ("a", &["x", "b"]),
            ("b", &["c"]),
            ("c", &["y", "a"]),
            ("d", &["a", "x"]),
        ]);
        let refusal = check_loops(&table, "a", 100, &domains()).unwrap_err();
        let expected = "list `a` contains itself: its entry `sip:a@example.com` leads back to it";
        assert_eq!(refusal.to_string(), expected);
        assert!(
            check_loops(&table, "d", 100, &domains()).is_ok(),
            "others may name what loops"
        );
        assert!(matches!(
            check_loops(&table, "d", 3, &domains()),
            Err(ListRefusal::TooMany(_))
        ));
    }

    #[test]
    fn an_entry_may_have_a_name() {
        let read = |text| read_entry(text, None, &domains()).map(|entry| (entry.name, entry.uri));
        let alice = || "sip:alice@example.com".to_owned();
        assert_eq!(read("alice").unwrap(), (None, alice()));
        assert_eq!(
            read("Alice A. <alice>").unwrap(),
            (Some("Alice A.".into()), alice())
        );
        assert_eq!(
            read("\"Al\" <sip:alice@example.com>").unwrap(),
            (Some("Al".into()), alice())
        );
        for wrong in ["", "<>", "sip:alice@elsewhere.org", "a b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
