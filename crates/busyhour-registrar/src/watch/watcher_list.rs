//! The watchers of one resource in one package, for who watches the watchers (RFC 3857).

use super::{End, ListedWatcher, Package, WatcherEvent, WatcherInfo};
use busyhour::{bus::Name, clock::Instant};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Who watches a resource, and who has lately ceased to.
///
/// It has at most [`LISTED_MAX`](Self::LISTED_MAX) watchers. Who finds no place is listed when
/// it refreshes its subscription and there is one.
#[derive(Debug)]
pub struct WatcherList {
    resource: Name,
    package: Package,
    watchers: BTreeMap<u64, ListedWatcher>,
    /// With the time at which they ended, the oldest first.
    ended: VecDeque<(Instant, ListedWatcher)>,
}

impl WatcherList {
    /// Watchers that are listed at most.
    pub const LISTED_MAX: usize = 1_000;

    /// The least time between two changes that are told (RFC 3857 §4.10).
    pub const INTERVAL: Duration = Duration::from_secs(5);

    /// Nobody watches `resource`.
    pub fn new(resource: Name, package: Package) -> Self {
        Self {
            resource,
            package,
            watchers: BTreeMap::new(),
            ended: VecDeque::new(),
        }
    }

    /// A subscription began, or was refreshed. Returns whether that is told: a refresh is not.
    pub fn lives(&mut self, watcher: ListedWatcher) -> bool {
        let is_listed = self.watchers.contains_key(&watcher.id);
        let has_place = is_listed || self.watchers.len() < Self::LISTED_MAX;
        if has_place {
            self.watchers.insert(watcher.id, watcher);
        }
        has_place && !is_listed
    }

    /// A subscription has ended. Returns whether that is told: it was listed.
    pub fn ended(&mut self, id: u64, end: End, now: Instant) -> bool {
        let is_old = |(at, _): &(Instant, ListedWatcher)| now - *at > ENDED_FOR;
        while self.ended.len() >= ENDED_MAX || self.ended.front().is_some_and(is_old) {
            self.ended.pop_front();
        }
        let Some(watcher) = self.watchers.remove(&id) else {
            return false;
        };
        let ended = Some(WatcherEvent::from(end));
        self.ended
            .push_back((now, ListedWatcher { ended, ..watcher }));
        true
    }

    /// What is told of it.
    pub fn info(&self) -> WatcherInfo {
        let ended = self.ended.iter().map(|(_, watcher)| watcher);
        WatcherInfo {
            resource: self.resource.clone(),
            package: self.package,
            watchers: self.watchers.values().chain(ended).cloned().collect(),
        }
    }
}

/// A body that tells of it has left by then: it waits five seconds for the one before it, and
/// that one 32 for its answer.
const ENDED_FOR: Duration = Duration::from_secs(60);
const ENDED_MAX: usize = 64;
