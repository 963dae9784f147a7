//! Hints: extensions whose state combines the states of some devices.
//!
//! The combined state is published when it changes, and watchers of the extension
//! subscribe to that topic like any other. The devices are those that were set, in the
//! configuration or over HTTP, and those whose stored accounts name the extension.
//!
//! The table's lock is held while a hint is created or removed, and while the change is
//! given to the store, so that memory and store both end with the last change; no
//! callback takes this lock.

use super::{
    hint::{ExtensionTopic, Hint, HintView, SetBy},
    named_device::{device_in, device_named, device_of, has_accounts},
    overtaken::unless,
    setting_source::SettingSource,
};
use crate::server::{
    ServerConfig,
    access::realm_accounts::Difference,
    change::{changes::Changes, record},
    device::device_context::DeviceContext,
    persistence::Persistence,
    stats::{
        HintStats,
        counters::HintCounters,
        listing::NamedPage,
        queues::SerializerListing,
        serializer_kind::{KindOptions, SerializerKind},
    },
    watcher::{resource_feeds::ResourceFeeds, watchers::Watchers},
};
use busyhour::{
    bus::{Name, Topic},
    runtime::Runtime,
};
use busyhour_registrar::{Domains, watch::ExtensionState};
use busyhour_store::{Change, Completion, EXTENSION_RULE, Refused, SettingKind, is_extension};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard},
};
use thiserror::Error;

/// The table of hints, in the order of their extensions.
pub(in crate::server) struct Hints {
    topic: ExtensionTopic,
    table: Mutex<HintTable>,
    counters: HintCounters,
    count_max: usize,
    pub(in crate::server) kind: SerializerKind,
    /// Where users without a domain are.
    domains: Domains,
    /// The names of our domains.
    domain_names: Vec<String>,
    persistence: Arc<Persistence>,
    devices: Arc<DeviceContext>,
    watchers: Arc<Watchers>,
    resource_feeds: Arc<ResourceFeeds>,
}

/// An extension and its devices, as the configuration names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintConfig {
    /// The user part of the address of record that is watched, with the domain behind it if
    /// that has accounts of its own.
    pub extension: String,
    /// Users of the server's first domain, or whole addresses of record.
    pub devices: Vec<String>,
}

/// Why a hint is not set or removed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HintRefusal {
    /// Not a valid extension.
    #[error("an extension is {EXTENSION_RULE}")]
    Extension,
    /// Not a valid device.
    #[error(
        "device `{0}`: give a user name of sip.domains, or an address of record such as \
         sip:alice@example.com; a user name alone needs sip.domains where sip.listen is a wildcard"
    )]
    Device(String),
    /// It has none or too many of them.
    #[error("a hint has 1 to {DEVICES_MAX} devices")]
    DeviceCount,
    /// The configuration defines it, so it must be changed there.
    #[error("hint {0} is defined in the configuration file: change it there")]
    Configured(String),
    /// Nothing was set, but accounts name it.
    #[error("hint {0} is defined by accounts of the store: change it there")]
    InAccounts(String),
    /// The configuration is to define it while the server runs, but it was set over HTTP.
    #[error("it was set over HTTP: remove it there first, or leave it out of the file")]
    SetOverHttp,
    /// There are as many as may be.
    #[error("there are {0} hints already: remove some, or raise limits.hints")]
    Full(usize),
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] Refused),
}

impl HintConfig {
    /// Its devices on a server of these domains, as addresses of record.
    ///
    /// # Errors
    ///
    /// [`HintRefusal::Extension`], [`HintRefusal::DeviceCount`] or
    /// [`HintRefusal::Device`] if the hint is not possible on such a server.
    ///
    /// ```
    /// use busyhour_registrar::Domains;
    /// use busyhour_server::server::{HintConfig, HintRefusal};
    ///
    /// let hint = HintConfig { extension: "100".into(), devices: vec!["alice".into()] };
    /// let domains = Domains::new(["example.com".to_owned()]);
    /// assert_eq!(hint.check(&domains).unwrap()[0].as_str(), "sip:alice@example.com");
    /// // Whose alice is it here?
    /// let refusal = hint.check(&Domains::default()).unwrap_err();
    /// assert_eq!(refusal, HintRefusal::Device("alice".into()));
    /// ```
    pub fn check(&self, domains: &Domains) -> Result<Vec<Name>, HintRefusal> {
        if let Some(refusal) = self.refusals(domains).into_iter().next() {
            return Err(refusal);
        }
        let devices = self.devices.iter();
        devices
            .map(|device| self.device_named(device, domains))
            .collect()
    }

    /// The extension, and its domain if that is named.
    fn parts(&self) -> (&str, Option<&str>) {
        match self.extension.split_once('@') {
            Some((extension, domain)) => (extension, Some(domain)),
            None => (&self.extension, None),
        }
    }

    /// A user without a domain is of the domain of the extension.
    fn device_named(&self, device: &str, domains: &Domains) -> Result<Name, HintRefusal> {
        let named = device_in(self.parts().1, device, domains);
        named.ok_or_else(|| HintRefusal::Device(device.to_owned()))
    }

    /// All that [`check`](Self::check) refuses.
    pub fn refusals(&self, domains: &Domains) -> Vec<HintRefusal> {
        let (extension, domain) = self.parts();
        let is_one =
            is_extension(extension) && domain.is_none_or(|name| has_accounts(domains, name));
        let extension = (!is_one).then_some(HintRefusal::Extension);
        let mut refusals = Vec::from_iter(extension);
        match (1..=DEVICES_MAX).contains(&self.devices.len()) {
            true => {
                let devices = self.devices.iter();
                let named = devices.map(|device| self.device_named(device, domains));
                refusals.extend(named.filter_map(Result::err));
            }
            false => refusals.push(HintRefusal::DeviceCount),
        }
        refusals
    }
}

#[derive(Default)]
struct HintTable {
    hints: BTreeMap<Name, Arc<Hint>>,
    /// For each extension that stored accounts name, the devices of those accounts.
    named: BTreeMap<Name, BTreeSet<Name>>,
}

impl Hints {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        (config, domains): (&ServerConfig, Domains),
        persistence: Arc<Persistence>,
        devices: Arc<DeviceContext>,
        (watchers, resource_feeds): (Arc<Watchers>, Arc<ResourceFeeds>),
        changes: Arc<Changes>,
    ) -> Self {
        Self {
            topic: ExtensionTopic {
                states: runtime.topic("extension-state").cached().build(),
                changes,
            },
            table: Mutex::default(),
            counters: HintCounters::default(),
            count_max: config.limits.hints_max,
            kind: SerializerKind::new(runtime, OPTIONS),
            domains,
            domain_names: config.domains.clone(),
            persistence,
            devices,
            watchers,
            resource_feeds,
        }
    }

    pub(in crate::server) fn topic(&self) -> &Topic<ExtensionState> {
        &self.topic.states
    }

    /// Whether the user part of an address of record is an extension with a hint.
    pub(in crate::server) fn contain(&self, extension: &str) -> bool {
        self.topic().get(&Name::new(extension)).is_some()
    }

    /// Adds a hint of the configuration or of the store.
    pub(in crate::server) fn take(
        &self,
        config: &HintConfig,
        set_by: SetBy,
    ) -> Result<(), HintRefusal> {
        self.try_set(config, (set_by, SettingSource::Store), || Ok(()))
            .map(drop)
    }

    /// Whether the configuration may define this hint from now on, on a server of these domains.
    pub(in crate::server) fn check_configured(
        &self,
        config: &HintConfig,
        domains: &Domains,
    ) -> Result<(), HintRefusal> {
        let set = config.check(domains)?;
        let extension = Name::new(&config.extension);
        let table = self.lock();
        let known = table.hints.get(&extension).and_then(|it| it.set.as_ref());
        if matches!(known, Some((_, SetBy::Http))) {
            return Err(HintRefusal::SetOverHttp);
        }
        table.devices(&extension, &set).map(drop)
    }

    /// Replaces the hints of the configuration, which were checked. One that stays as it is goes on
    /// without a word to its watchers.
    pub(in crate::server) fn replace_configured(&self, configs: &[HintConfig]) {
        let wanted: BTreeSet<_> = configs.iter().map(|it| Name::new(&it.extension)).collect();
        for extension in self.configured() {
            if !wanted.contains(&extension) {
                self.unset(self.lock(), &extension);
            }
        }
        for config in configs
            .iter()
            .filter(|config| !self.has(config, SetBy::Configuration))
        {
            if let Err(refusal) = self.take(config, SetBy::Configuration) {
                let hint = &config.extension;
                tracing::warn!(hint, %refusal, "a hint of the configuration has no effect");
            }
        }
    }

    fn configured(&self) -> Vec<Name> {
        let table = self.lock();
        let configured = table.hints.iter().filter(|(_, hint)| hint.is_configured());
        configured.map(|(extension, _)| extension.clone()).collect()
    }

    /// Restores a stored setting, unless the configuration defines the hint now or a later change
    /// is on its way.
    pub(in crate::server) fn restore(
        &self,
        extension: &str,
        devices: &str,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let config = HintConfig {
            extension: extension.to_owned(),
            devices: devices.split(' ').map(str::to_owned).collect(),
        };
        if self.has(&config, SetBy::Http) {
            return Ok(());
        }
        let restored = self.try_set(&config, (SetBy::Http, SettingSource::Store), || {
            unless(is_overtaken)
        });
        restored.map(drop).map_err(|refusal| refusal.to_string())
    }

    /// Whether this is what was set there.
    fn has(&self, config: &HintConfig, set_by: SetBy) -> bool {
        let Ok(wanted) = config.check(&self.domains) else {
            return false;
        };
        let table = self.lock();
        let hint = table.hints.get(&Name::new(&config.extension));
        hint.is_some_and(|hint| hint.set == Some((wanted, set_by)))
    }

    /// Sets a hint and stores it; returns whether the extension had none before. If the
    /// address becomes an extension, its watchers are asked to subscribe again.
    pub(in crate::server) fn set(
        &self,
        config: &HintConfig,
        done: Completion,
    ) -> Result<bool, HintRefusal> {
        let keep = || {
            let put = Change::PutSetting {
                kind: SettingKind::Hint,
                name: config.extension.clone(),
                value: config.devices.join(" "),
            };
            self.persistence.store().commit(vec![put], done)
        };
        self.count(self.try_set(config, (SetBy::Http, SettingSource::Request), keep))
    }

    fn count(&self, set: Result<bool, HintRefusal>) -> Result<bool, HintRefusal> {
        let counters = &self.counters;
        match set {
            Ok(_) => counters.set.increment(),
            Err(_) => counters.refused.increment(),
        }
        set
    }

    fn try_set(
        &self,
        config: &HintConfig,
        (set_by, source): (SetBy, SettingSource),
        keep: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<bool, HintRefusal> {
        let set = config.check(&self.domains)?;
        let extension = Name::new(&config.extension);
        let mut table = self.lock();
        self.check(&table, &extension, (set_by, source))?;
        let devices = table.devices(&extension, &set)?;
        keep()?;
        let is_new = self.put(&mut table, &extension, devices, Some((set, set_by)));
        drop(table);
        if is_new {
            self.move_watchers(&config.extension);
        }
        Ok(is_new)
    }

    /// Removes the devices that were set for a hint; `false` if there is no such hint.
    /// If no devices are left, its watchers are asked to subscribe again.
    pub(in crate::server) fn remove(
        &self,
        extension: &str,
        done: Completion,
    ) -> Result<bool, HintRefusal> {
        let keep = || {
            let forget = Change::RemoveSetting {
                kind: SettingKind::Hint,
                name: extension.to_owned(),
            };
            self.persistence.store().commit(vec![forget], done)
        };
        let is_removed = self.try_remove(extension, keep)?;
        if is_removed {
            self.counters.removed.increment();
        }
        Ok(is_removed)
    }

    /// As [`remove`](Self::remove), for what is not in the store any more, unless a later change is
    /// on its way.
    pub(in crate::server) fn forget(&self, extension: &str, is_overtaken: &dyn Fn() -> bool) {
        // What is refused was not set over HTTP here.
        let _ = self.try_remove(extension, || unless(is_overtaken));
    }

    fn try_remove(
        &self,
        extension: &str,
        keep: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<bool, HintRefusal> {
        let table = self.lock();
        let name = Name::new(extension);
        match table.hints.get(&name).map(|hint| &hint.set) {
            None => return Ok(false),
            Some(None) => return Err(HintRefusal::InAccounts(extension.to_owned())),
            Some(Some((_, SetBy::Configuration))) => {
                return Err(HintRefusal::Configured(extension.to_owned()));
            }
            Some(Some((_, SetBy::Http))) => {}
        }
        keep()?;
        self.unset(table, &name);
        Ok(true)
    }

    /// Leaves an extension the devices of accounts that name it. If there are none, its watchers
    /// are asked to subscribe again.
    fn unset(&self, mut table: MutexGuard<'_, HintTable>, extension: &Name) {
        // There are fewer than before, so the limit holds.
        let devices = table.devices(extension, &[]).unwrap_or_default();
        let is_gone = devices.is_empty();
        self.put(&mut table, extension, devices, None);
        drop(table);
        if is_gone {
            self.move_watchers(extension.as_str());
        }
    }

    /// Applies the extensions that the accounts of the store name.
    pub(in crate::server) fn follow_accounts(&self, differences: &[Difference]) {
        let mut homeless = Vec::new();
        for difference in differences {
            let (gone, new) = (&difference.hints_gone, &difference.hints_new);
            if gone.is_empty() && new.is_empty() {
                continue;
            }
            let Some(device) = device_named(&difference.username, &self.domains) else {
                self.counters.refused.add(new.len() as u64);
                homeless.extend(new.first().map(|hint| (&*difference.username, &**hint)));
                continue;
            };
            gone.iter()
                .for_each(|extension| self.name(extension, &device, false));
            new.iter()
                .for_each(|extension| self.name(extension, &device, true));
        }
        warn_of_homeless(&homeless);
    }

    fn name(&self, extension: &str, device: &Name, is_named: bool) {
        let name = Name::new(extension);
        let mut table = self.lock();
        let was_there = table.hints.contains_key(&name);
        if is_named && !was_there && table.hints.len() >= self.count_max {
            return self.counters.refused.increment();
        }
        table.name(&name, device, is_named);
        let set = table.hints.get(&name).and_then(|hint| hint.set.clone());
        let wanted = set.as_ref().map_or(&[][..], |(devices, _)| devices);
        let Ok(devices) = table.devices(&name, wanted) else {
            table.name(&name, device, false);
            return self.counters.refused.increment();
        };
        self.put(&mut table, &name, devices, set);
        let is_there = table.hints.contains_key(&name);
        drop(table);
        if was_there != is_there {
            self.move_watchers(extension);
        }
    }

    /// Replaces a hint; without devices there is no hint. Returns whether there was
    /// none before.
    fn put(
        &self,
        table: &mut HintTable,
        extension: &Name,
        devices: Vec<Name>,
        set: Option<(Vec<Name>, SetBy)>,
    ) -> bool {
        let before = table.hints.remove(extension);
        if let Some(before) = &before {
            before.silence();
        }
        if devices.is_empty() {
            let told = || record::hint(extension, true, None);
            self.topic.changes.hints.tell(told);
            // A watcher that lags is brought up to date from the cache.
            let _ = self.topic.states.remove(extension);
            return before.is_none();
        }
        let serializer = self.kind.ephemeral();
        let hint = Arc::new(Hint::new(extension.clone(), devices, set, serializer));
        hint.start(&self.topic, &self.devices);
        table.hints.insert(extension.clone(), hint);
        before.is_none()
    }

    /// What waits for the hints' serializers.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        let mut hints = self.kind.listing();
        for (extension, hint) in &self.lock().hints {
            hints.add(hint.queue_stats(), || extension.to_string());
        }
        hints
    }

    pub(in crate::server) fn get(&self, extension: &str) -> Option<HintView> {
        let table = self.lock();
        let hint = table.hints.get(&Name::new(extension));
        hint.map(|hint| hint.view())
    }

    /// The extensions of those that HTTP has set.
    pub(in crate::server) fn set_names(&self) -> Vec<String> {
        let table = self.lock();
        let is_set = |hint: &Arc<Hint>| matches!(hint.set, Some((_, SetBy::Http)));
        let set = table.hints.iter().filter(|(_, hint)| is_set(hint));
        set.map(|(extension, _)| extension.to_string()).collect()
    }

    pub(in crate::server) fn list(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<HintView> {
        let table = self.lock();
        NamedPage::of(&table.hints, after, limit, domain, |_, hint| {
            Some(hint.view())
        })
    }

    /// Tells the states of the next extensions behind this one to those who read changes;
    /// returns the last of them.
    pub(in crate::server) fn tell_states(&self, after: Option<&Name>) -> Option<Name> {
        let table = self.lock();
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = table.hints.range((behind, Bound::Unbounded));
        let mut last = None;
        for (extension, hint) in next.take(PORTION_LEN) {
            hint.tell_state(&self.topic.changes);
            last = Some(extension.clone());
        }
        last
    }

    pub(in crate::server) fn stats(&self) -> HintStats {
        let counters = &self.counters;
        HintStats {
            hint_count: self.topic().len() as u64,
            set: counters.set.get(),
            removed: counters.removed.get(),
            refused: counters.refused.get(),
        }
    }

    /// All watchers are searched only if there may be one of this extension.
    fn move_watchers(&self, extension: &str) {
        if self.may_be_watched(extension) {
            self.watchers.move_extension(extension);
            self.resource_feeds.move_extension(extension);
        }
    }

    fn may_be_watched(&self, extension: &str) -> bool {
        let domains = &self.domain_names;
        let is_watched = |domain: &String| {
            let device = device_of(&format!("sip:{extension}@{domain}"), &self.domains);
            device.is_none_or(|device| self.devices.topics.states.would_deliver(&device))
        };
        domains.is_empty()
            || extension.contains('@')
            || domains.iter().any(is_watched)
            || self.topic().would_deliver(&Name::new(extension))
    }

    /// Whether a hint may be set: not if the configuration defines it, and not beyond
    /// the limit of hints.
    fn check(
        &self,
        table: &HintTable,
        extension: &Name,
        (set_by, source): (SetBy, SettingSource),
    ) -> Result<(), HintRefusal> {
        let count_max = source.count_max(self.count_max);
        match table.hints.get(extension) {
            _ if set_by == SetBy::Configuration => Ok(()),
            Some(known) if known.is_configured() => {
                Err(HintRefusal::Configured(extension.as_str().to_owned()))
            }
            None if table.hints.len() >= count_max => Err(HintRefusal::Full(self.count_max)),
            Some(_) | None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HintTable> {
        self.table
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl HintTable {
    /// An account names an extension now, or no longer names it.
    fn name(&mut self, extension: &Name, device: &Name, is_named: bool) {
        let named = self.named.entry(extension.clone()).or_default();
        match is_named {
            true => named.insert(device.clone()),
            false => named.remove(device),
        };
        if named.is_empty() {
            self.named.remove(extension);
        }
    }

    /// The devices of an extension: the set ones and those of accounts, without
    /// duplicates.
    fn devices(&self, extension: &Name, set: &[Name]) -> Result<Vec<Name>, HintRefusal> {
        let named = self.named.get(extension).into_iter().flatten();
        let mut devices: Vec<Name> = Vec::new();
        for device in set.iter().chain(named) {
            if !devices.contains(device) {
                devices.push(device.clone());
            }
            if devices.len() > DEVICES_MAX {
                return Err(HintRefusal::DeviceCount);
            }
        }
        Ok(devices)
    }
}

/// One log line for many users whose accounts name hints without effect.
fn warn_of_homeless(users: &[(&str, &str)]) {
    if let Some((user, hint)) = users.first() {
        let (count, reason) = (users.len(), HintRefusal::Device((*user).to_owned()));
        tracing::warn!(count, user, hint, %reason, "hints of accounts have no effect");
    }
}

/// A hint has one turn of the event bus for each of its devices at most.
const OPTIONS: KindOptions = KindOptions {
    name: "hint",
    low: 2,
    high: 16,
    unlabelled: "events",
};
/// Extensions whose states are told at a time.
const PORTION_LEN: usize = 1000;
/// A group of phones, and not a company.
const DEVICES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::core::Core;

    #[test]
    fn a_refused_hint_of_an_account_leaves_nothing_behind() {
        let core = Core::simulated(&Runtime::simulated(1), 100);
        let config = HintConfig {
            extension: "100".to_owned(),
            devices: (0..DEVICES_MAX)
                .map(|number| format!("u{number}"))
                .collect(),
        };
        core.hints.take(&config, SetBy::Configuration).unwrap();
        core.hints
            .name("100", &Name::new("sip:alice@example.com"), true);
        assert_eq!(core.hints.stats().refused, 1);
        assert!(core.hints.lock().named.is_empty());
    }
}
