//! Hints: extensions whose state is that of some devices together.
//!
//! A hint listens to its devices on the bus, on a serializer of its own, and
//! publishes what they do together when that changes. Watchers of the extension
//! are subscribers of that topic like any other.
//!
//! The table's lock is held while a hint is made or ended, so that the last one
//! set is the one that speaks; no callback takes it.

use super::{core::Core, stats::HintStats};
use crate::{
    proto::sip::Uri,
    registrar::{Domains, address_of_record},
    watch::{DeviceState, End, ExtensionState, LineState},
};
use busyhour::{
    bus::{self, Delivery, Name, Topic},
    serializer::Serializer,
};
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard},
};
use thiserror::Error;

/// The table of hints, in the order of their extensions.
pub(super) struct Hints {
    topic: Topic<ExtensionState>,
    table: Mutex<BTreeMap<Name, Arc<Hint>>>,
    count_max: usize,
}

/// An extension and its devices, as the configuration names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintConfig {
    /// The user part of the address of record that is watched.
    pub extension: String,
    /// Users of the server's first domain, or whole addresses of record.
    pub devices: Vec<String>,
}

/// A hint as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintView {
    /// The user part of the address of record that is watched.
    pub extension: Name,
    /// The addresses of record of its devices.
    pub devices: Vec<Name>,
    /// What they do together.
    pub line: LineState,
    /// It stands in the configuration, and not only in memory.
    pub is_configured: bool,
}

/// One page of hints in the order of their extensions.
#[derive(Debug, Clone, Default)]
pub struct HintListing {
    /// The hints.
    pub hints: Vec<HintView>,
    /// Where the next page begins: after this extension. `None` on the last page.
    pub next: Option<Name>,
}

/// Why a hint is not set or removed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HintRefusal {
    /// The extension is none.
    #[error("an extension is 1 to {EXTENSION_LEN_MAX} letters, digits or any of -_.+*")]
    Extension,
    /// A device is none, or too many are named.
    #[error(
        "device `{0}`: give a user name of sip.domains, or an address of record such as sip:alice@example.com"
    )]
    Device(String),
    /// It has none or too many of them.
    #[error("a hint has 1 to {DEVICES_MAX} devices")]
    DeviceCount,
    /// The configuration has it, and is changed there.
    #[error("hint {0} stands in the configuration file: change it there")]
    Configured(String),
    /// There are as many as may be.
    #[error("there are {0} hints already: remove some, or raise limits.hints")]
    Full(usize),
}

struct Hint {
    extension: Name,
    devices: Vec<Name>,
    is_configured: bool,
    serializer: Serializer,
    lines: Mutex<Vec<LineState>>,
    feeds: Mutex<Vec<bus::Subscription<DeviceState>>>,
}

impl Hints {
    pub(super) fn new(topic: Topic<ExtensionState>, count_max: usize) -> Self {
        Self {
            topic,
            table: Mutex::default(),
            count_max,
        }
    }

    pub(super) fn topic(&self) -> &Topic<ExtensionState> {
        &self.topic
    }

    /// Whether the user part of an address of record is an extension with a hint.
    pub(super) fn contain(&self, extension: &str) -> bool {
        self.topic.get(&Name::new(extension)).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.topic.len()
    }

    /// Makes room for a hint: ends the one there is, if it may be. Whether there was none.
    fn make_room(
        &self,
        table: &mut Table,
        extension: &Name,
        is_configured: bool,
    ) -> Result<bool, HintRefusal> {
        match table.get(extension) {
            Some(known) if known.is_configured && !is_configured => {
                Err(HintRefusal::Configured(extension.as_str().to_owned()))
            }
            Some(known) => {
                known.silence();
                Ok(false)
            }
            None if table.len() >= self.count_max && !is_configured => {
                Err(HintRefusal::Full(self.count_max))
            }
            None => Ok(true),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Hint {
    /// Listens to its devices from now on, and tells what they do now.
    fn start(self: &Arc<Self>, core: &Core) {
        for (index, device) in self.devices.iter().enumerate() {
            let state = core.states().get(device);
            lock(&self.lines)[index] = LineState::of(state.as_ref());
        }
        self.tell(core.hints().topic(), &lock(&self.lines));
        let feeds = self.devices.iter().enumerate();
        let feeds = feeds.map(|(index, device)| self.listen(core, index, device.clone()));
        *lock(&self.feeds) = feeds.collect();
    }

    fn listen(
        self: &Arc<Self>,
        core: &Core,
        index: usize,
        device: Name,
    ) -> bus::Subscription<DeviceState> {
        let hint = Arc::downgrade(self);
        let topic = core.hints().topic().clone();
        let feed = core.states().subscribe().key(device).replay().conflate();
        feed.on(&self.serializer).start(move |delivery| {
            let Some(hint) = hint.upgrade() else { return };
            match delivery {
                Delivery::Event(state) => hint.hear(&topic, index, Some(state)),
                Delivery::Cleared(_) => hint.hear(&topic, index, None),
                Delivery::Replayed | Delivery::Lost(_) => {}
            }
        })
    }

    fn hear(&self, topic: &Topic<ExtensionState>, index: usize, state: Option<&DeviceState>) {
        let mut lines = lock(&self.lines);
        let before = LineState::aggregate(lines.iter().copied());
        lines[index] = LineState::of(state);
        if LineState::aggregate(lines.iter().copied()) != before {
            self.tell(topic, &lines);
        }
    }

    fn tell(&self, topic: &Topic<ExtensionState>, lines: &[LineState]) {
        // A watcher that lags is brought up to date from the cache.
        let _ = topic.publish(ExtensionState {
            extension: self.extension.clone(),
            line: LineState::aggregate(lines.iter().copied()),
        });
    }

    /// Says nothing from now on.
    fn silence(&self) {
        let feeds = std::mem::take(&mut *lock(&self.feeds));
        for feed in feeds {
            feed.unsubscribe();
        }
    }

    fn view(&self) -> HintView {
        HintView {
            extension: self.extension.clone(),
            devices: self.devices.clone(),
            line: LineState::aggregate(lock(&self.lines).iter().copied()),
            is_configured: self.is_configured,
        }
    }
}

impl Core {
    pub(super) fn hints(&self) -> &Hints {
        &self.parts.hints
    }

    /// Sets a hint; whether there was none of this extension. Who watches the
    /// address is told to come again where it becomes an extension.
    pub(super) fn set_hint(
        &self,
        config: &HintConfig,
        is_configured: bool,
    ) -> Result<bool, HintRefusal> {
        let set = self.try_set_hint(config, is_configured);
        let counters = &self.counters().hint;
        match &set {
            Ok(is_new) => {
                counters.set.increment();
                if *is_new {
                    self.part_watchers(&config.extension);
                }
            }
            Err(_) => counters.refused.increment(),
        }
        set
    }

    fn try_set_hint(&self, config: &HintConfig, is_configured: bool) -> Result<bool, HintRefusal> {
        if !is_extension(&config.extension) {
            return Err(HintRefusal::Extension);
        }
        if !(1..=DEVICES_MAX).contains(&config.devices.len()) {
            return Err(HintRefusal::DeviceCount);
        }
        let devices = config
            .devices
            .iter()
            .map(|device| self.device_named(device));
        let devices: Vec<_> = devices.collect::<Result<_, _>>()?;
        let extension = Name::new(&config.extension);
        let mut table = self.hints().lock();
        let is_new = self
            .hints()
            .make_room(&mut table, &extension, is_configured)?;
        let hint = Arc::new(Hint {
            extension: extension.clone(),
            lines: Mutex::new(vec![LineState::Invalid; devices.len()]),
            devices,
            is_configured,
            serializer: self.runtime().pool().ephemeral(),
            feeds: Mutex::default(),
        });
        hint.start(self);
        table.insert(extension, hint);
        Ok(is_new)
    }

    /// Removes a hint; `false` when there is none. Its watchers are told to come again.
    pub(super) fn remove_hint(&self, extension: &str) -> Result<bool, HintRefusal> {
        let mut table = self.hints().lock();
        let name = Name::new(extension);
        match table.get(&name) {
            None => return Ok(false),
            Some(hint) if hint.is_configured => {
                return Err(HintRefusal::Configured(extension.to_owned()));
            }
            Some(hint) => hint.silence(),
        }
        table.remove(&name);
        self.hints().topic.clear(&name);
        drop(table);
        self.counters().hint.removed.increment();
        self.part_watchers(extension);
        Ok(true)
    }

    pub(super) fn hint(&self, extension: &str) -> Option<HintView> {
        let table = self.hints().lock();
        table.get(&Name::new(extension)).map(|hint| hint.view())
    }

    pub(super) fn list_hints(&self, after: Option<&str>, limit: usize) -> HintListing {
        let table = self.hints().lock();
        let begin = match after {
            Some(after) => Bound::Excluded(Name::new(after)),
            None => Bound::Unbounded,
        };
        let mut rest = table.range((begin, Bound::Unbounded));
        let hints: Vec<_> = rest
            .by_ref()
            .take(limit)
            .map(|(_, hint)| hint.view())
            .collect();
        let more = rest.next().is_some();
        HintListing {
            next: hints
                .last()
                .filter(|_| more)
                .map(|last| last.extension.clone()),
            hints,
        }
    }

    pub(super) fn hint_stats(&self) -> HintStats {
        let counters = &self.counters().hint;
        HintStats {
            hint_count: self.hints().len() as u64,
            set: counters.set.get(),
            removed: counters.removed.get(),
            refused: counters.refused.get(),
        }
    }

    /// Those who watch the address hear it from another topic from now on: a
    /// subscription that begins anew finds the right one. All of them are looked
    /// at only where there may be one to be found.
    fn part_watchers(&self, extension: &str) {
        if !self.may_be_watched(extension) {
            return;
        }
        for watcher in self.watchers().all() {
            if super::admission::user_of(&watcher.device()) == extension {
                watcher.push_end(End::Deactivated);
            }
        }
    }

    fn may_be_watched(&self, extension: &str) -> bool {
        let domains = &self.config().domains;
        let is_watched = |domain: &String| {
            let device = device_of(&format!("sip:{extension}@{domain}"), &self.parts.domains);
            device.is_none_or(|device| self.states().would_deliver(&device))
        };
        domains.is_empty()
            || domains.iter().any(is_watched)
            || self.hints().topic.would_deliver(&Name::new(extension))
    }

    /// The address of record of a device that a hint names.
    fn device_named(&self, device: &str) -> Result<Name, HintRefusal> {
        let unknown = || HintRefusal::Device(device.to_owned());
        let uri = match (device.contains(':'), self.config().domains.first()) {
            (true, _) => device.to_owned(),
            (false, Some(domain)) => format!("sip:{device}@{domain}"),
            (false, None) => return Err(unknown()),
        };
        device_of(&uri, &self.parts.domains).ok_or_else(unknown)
    }
}

fn device_of(uri: &str, domains: &Domains) -> Option<Name> {
    let uri = Uri::parse(uri)?;
    uri.as_sip()?.user?;
    let device = address_of_record(&uri, domains).ok()?;
    Some(device.into())
}

fn is_extension(extension: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+*".contains(c);
    (1..=EXTENSION_LEN_MAX).contains(&extension.len()) && extension.chars().all(plain)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

type Table = BTreeMap<Name, Arc<Hint>>;

const EXTENSION_LEN_MAX: usize = 64;
/// A group of phones, and not a company.
const DEVICES_MAX: usize = 64;
