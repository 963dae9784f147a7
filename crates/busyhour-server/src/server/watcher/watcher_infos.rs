//! Who watches what, for those who watch that (RFC 3857).
//!
//! A list is kept from the first subscription to it until the last one has ended, so watchers
//! of an address that nobody asks about cost a look at one number.
//!
//! Nobody is missed, and nobody stays who has gone: a watcher is listed, and taken from its
//! list, under its own lock, and whoever makes a list has put it into the table before he looks
//! at the watchers one after the other, each under its lock. So each of them has found the list
//! in the table, or is found.
//!
//! To publish a list copies it, and it may be long. So a list that changes is published at most
//! once per [`WatcherList::INTERVAL`], as its watchers are not told more often; and a watcher that
//! is only refreshed, of which nobody is told, does not lead to a copy at all. Who subscribes to
//! the list, or refreshes that, gets it as it is now.

use crate::server::{
    expiry_timer::{ExpiryOptions, ExpiryTimer},
    stats::serializer_kind::SerializerKind,
};
use busyhour::{
    bus::{Name, Topic},
    clock::{Clock, Instant},
    runtime::Runtime,
    serializer::Serializer,
    timer::Timers,
};
use busyhour_registrar::watch::{End, ListedWatcher, Package, WatcherInfo, WatcherList};
use foldhash::quality::FixedState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The lists that somebody watches, and their topics.
pub(in crate::server) struct WatcherInfos {
    presence: Topic<WatcherInfo>,
    dialog: Topic<WatcherInfo>,
    message_summary: Topic<WatcherInfo>,
    shards: Box<[InfoShard]>,
    list_count: AtomicUsize,
    /// How many of the lists have a hash that falls here, so that most resources are known to have
    /// none without a lock.
    hashes: Box<[AtomicUsize]>,
    hasher: FixedState,
    clock: Clock,
    timers: Timers,
    itself: Weak<Self>,
}

/// A resource in the package whose watchers are told.
pub(super) type InfoKey = (Package, Name);

struct InfoShard {
    lists: Mutex<InfoTable>,
    /// Publishes what has waited.
    serializer: Serializer,
}

type InfoTable = HashMap<InfoKey, WatchedWatchers, FixedState>;

struct WatchedWatchers {
    list: WatcherList,
    /// Subscriptions to it.
    subscription_count: usize,
    /// Those who were there before it are on it.
    is_filled: bool,
    /// It is not any more as it was published.
    is_stale: bool,
    /// Changes wait until then.
    next_publish_at: Instant,
    /// Set while a change waits.
    timer: ExpiryTimer,
}

/// One subscription to a list, which is kept as long.
pub(super) struct WatcherInfoPlace {
    infos: Arc<WatcherInfos>,
    key: InfoKey,
    /// Nobody has filled the list yet.
    pub(super) needs_filling: bool,
}

impl WatcherInfos {
    /// Addresses come from clients, so the `seed` is secret.
    pub(in crate::server) fn new(
        runtime: &Runtime,
        serializers: &SerializerKind,
        seed: u64,
    ) -> Arc<Self> {
        let topic = |package: Package| runtime.topic(package.name()).cached().build();
        let hasher = FixedState::with_seed(seed);
        let shard = |_| InfoShard {
            lists: Mutex::new(HashMap::with_hasher(hasher.clone())),
            serializer: serializers.ephemeral(),
        };
        let shards = (0..SHARDS).map(shard).collect();
        Arc::new_cyclic(|itself| Self {
            presence: topic(Package::PresenceWatchers),
            dialog: topic(Package::DialogWatchers),
            message_summary: topic(Package::MessageSummaryWatchers),
            shards,
            list_count: AtomicUsize::new(0),
            hashes: (0..HASHES).map(|_| AtomicUsize::new(0)).collect(),
            hasher,
            clock: runtime.clock().clone(),
            timers: runtime.timers().clone(),
            itself: itself.clone(),
        })
    }

    /// Where the watchers of a package are told.
    pub(super) fn topic(&self, package: Package) -> &Topic<WatcherInfo> {
        match package {
            Package::Dialog => &self.dialog,
            Package::MessageSummary => &self.message_summary,
            _ => &self.presence,
        }
    }

    /// Keeps the list of who watches a resource.
    pub(super) fn join(self: &Arc<Self>, package: Package, resource: &Name) -> WatcherInfoPlace {
        let key = (package, resource.clone());
        let mut lists = self.shard(&key).lock();
        let watched = lists.entry(key.clone()).or_insert_with(|| {
            self.list_count.fetch_add(1, Ordering::Relaxed);
            self.place_of(self.hash(package, resource))
                .fetch_add(1, Ordering::Relaxed);
            WatchedWatchers::new(WatcherList::new(resource.clone(), package))
        });
        watched.subscription_count += 1;
        let needs_filling = !watched.is_filled;
        drop(lists);
        WatcherInfoPlace {
            infos: self.clone(),
            key,
            needs_filling,
        }
    }

    /// Whether anybody watches a list. A watcher asks under its lock; see above.
    pub(super) fn are_any(&self) -> bool {
        self.list_count.load(Ordering::Relaxed) > 0
    }

    /// Whether anybody may watch the list of this resource; most that nobody watches are told from
    /// others by one number. A watcher asks under its lock, as with [`are_any`](Self::are_any).
    pub(super) fn may_have(&self, package: Package, resource: &Name) -> bool {
        let hash = self.hash(package, resource);
        self.place_of(hash).load(Ordering::Relaxed) > 0
    }

    /// A watcher is there, or was refreshed. `watcher` makes it if somebody watches the list.
    pub(super) fn lives(&self, key: &InfoKey, watcher: impl FnOnce() -> ListedWatcher) {
        self.change(key, |list| list.lives(watcher()));
    }

    /// A watcher has gone.
    pub(super) fn ended(&self, key: &InfoKey, id: u64, end: End) {
        let now = self.clock.now();
        self.change(key, |list| list.ended(id, end, now));
    }

    /// Changes are published in the order in which they are made. `change` returns whether it is
    /// told.
    fn change(&self, key: &InfoKey, change: impl FnOnce(&mut WatcherList) -> bool) {
        let shard = self.shard(key);
        let mut lists = shard.lock();
        let Some(watched) = lists.get_mut(key) else {
            return;
        };
        let is_told = change(&mut watched.list);
        watched.is_stale = true;
        if !is_told || !watched.is_filled {
            return;
        }
        if self.clock.now() >= watched.next_publish_at || self.put_off(watched, key).is_none() {
            self.publish(watched, key.0);
        }
    }

    /// Publishes the list when it is time; `None` if there is no timer for that.
    fn put_off(&self, watched: &mut WatchedWatchers, key: &InfoKey) -> Option<()> {
        let at = watched.next_publish_at;
        if watched.timer.fires_by(at) {
            return Some(());
        }
        let (infos, waiting) = (self.itself.clone(), key.clone());
        let fire = move || {
            if let Some(infos) = infos.upgrade() {
                infos.publish_waiting(&waiting);
            }
        };
        let serializer = &self.shard(key).serializer;
        let set = watched.timer.set(at, WAIT, &self.timers, serializer, fire);
        set.ok()
    }

    fn publish_waiting(&self, key: &InfoKey) {
        let mut lists = self.shard(key).lock();
        let Some(watched) = lists.get_mut(key) else {
            return;
        };
        if !watched.is_stale || !watched.is_filled {
            return;
        }
        // Too early it may be one that was taken back too late, or the one that is awaited. So that is set anew.
        let is_early = self.clock.now() < watched.next_publish_at;
        watched.timer.clear(&self.timers);
        if !is_early || self.put_off(watched, key).is_none() {
            self.publish(watched, key.0);
        }
    }

    fn publish(&self, watched: &mut WatchedWatchers, package: Package) {
        watched.timer.clear(&self.timers);
        watched.is_stale = false;
        watched.next_publish_at = self.clock.now() + WatcherList::INTERVAL;
        // The last value is kept for who cannot be told it now.
        let _ = self.topic(package).publish(watched.list.info());
    }

    fn leave(&self, key: &InfoKey) {
        let mut lists = self.shard(key).lock();
        let Some(watched) = lists.get_mut(key) else {
            return;
        };
        watched.subscription_count -= 1;
        if watched.subscription_count > 0 {
            return;
        }
        watched.timer.clear(&self.timers);
        lists.remove(key);
        self.list_count.fetch_sub(1, Ordering::Relaxed);
        self.place_of(self.hash(key.0, &key.1))
            .fetch_sub(1, Ordering::Relaxed);
        let _ = self.topic(key.0).remove(&key.1);
        if lists.capacity() > 4 * lists.len().max(16) {
            lists.shrink_to_fit();
        }
    }

    fn shard(&self, key: &InfoKey) -> &InfoShard {
        // The tables of the shards use the low bits.
        let hash = self.hash(key.0, &key.1) >> 32;
        &self.shards[hash as usize % SHARDS]
    }

    fn hash(&self, package: Package, resource: &Name) -> u64 {
        self.hasher.hash_one((package, resource))
    }

    fn place_of(&self, hash: u64) -> &AtomicUsize {
        &self.hashes[(hash >> 40) as usize % HASHES]
    }
}

impl InfoShard {
    fn lock(&self) -> MutexGuard<'_, InfoTable> {
        self.lists
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl WatchedWatchers {
    fn new(list: WatcherList) -> Self {
        Self {
            list,
            subscription_count: 0,
            is_filled: false,
            is_stale: true,
            next_publish_at: Instant::ZERO,
            timer: ExpiryTimer::default(),
        }
    }
}

impl WatcherInfoPlace {
    /// Adds a watcher that was there before the list; nothing is published yet.
    pub(super) fn note(&self, watcher: ListedWatcher) {
        self.with(|watched| {
            watched.list.lives(watcher);
        });
    }

    /// All that were there are noted.
    pub(super) fn is_filled(&self) {
        self.with(|watched| watched.is_filled = true);
    }

    /// The list as it is now, which is published before if it has changed.
    pub(super) fn info(&self) -> Option<WatcherInfo> {
        self.with(|watched| {
            if watched.is_stale {
                self.infos.publish(watched, self.key.0);
            }
        });
        self.infos.topic(self.key.0).get(&self.key.1)
    }

    fn with(&self, act: impl FnOnce(&mut WatchedWatchers)) {
        let mut lists = self.infos.shard(&self.key).lock();
        if let Some(watched) = lists.get_mut(&self.key) {
            act(watched);
        }
    }
}

impl Drop for WatcherInfoPlace {
    fn drop(&mut self) {
        self.infos.leave(&self.key);
    }
}

const SHARDS: usize = 64;
/// With a hundred lists, one resource in forty is looked up for nothing.
const HASHES: usize = 4096;
/// Without slack, so that who waits for the end of his interval as well is told at once.
const WAIT: ExpiryOptions = ExpiryOptions {
    label: "watcher info",
    slack: Duration::ZERO,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::stats::serializer_kind::KindOptions;

    /// Whether a timer comes too early is up to the clock of the machine.
    #[test]
    fn a_change_that_waits_is_told_though_its_timer_came_too_early() {
        let runtime = Runtime::simulated(1);
        let infos = WatcherInfos::new(&runtime, &SerializerKind::new(&runtime, KIND), 7);
        let key = (Package::Presence, Name::new("sip:ada@example.com"));
        let place = infos.join(key.0, &key.1);
        place.is_filled();
        let is_stale = || infos.shard(&key).lock()[&key].is_stale;
        let came = |id| {
            let watcher = || ListedWatcher {
                id,
                uri: "sip:bob@example.com".into(),
                opened_at: None,
                expires_at: Instant::FAR_FUTURE,
                ended: None,
            };
            infos.lives(&key, watcher);
        };
        came(1);
        assert!(!is_stale());
        came(2);
        infos.shard(&key).lock()[&key].timer.lose(runtime.timers());
        infos.publish_waiting(&key);
        assert!(is_stale(), "it is not yet time");
        let simulation = runtime.simulation().expect("it is simulated");
        simulation.run_for(WatcherList::INTERVAL);
        assert!(!is_stale());
    }

    /// A list of 5,000 lamps is refreshed: one of them has watchers that somebody asks about.
    #[test]
    fn resources_that_nobody_asks_about_are_known_without_a_lock() {
        let runtime = Runtime::simulated(1);
        let infos = WatcherInfos::new(&runtime, &SerializerKind::new(&runtime, KIND), 7);
        let names: Vec<_> = (0..5_000)
            .map(|number| Name::new(&format!("sip:{number}@example.com")))
            .collect();
        let found = |package: Package| {
            let found = names.iter().filter(|name| infos.may_have(package, name));
            found.cloned().collect::<Vec<_>>()
        };
        assert_eq!(found(Package::Dialog), [""; 0]);
        let [one, same] = [(); 2].map(|()| infos.join(Package::Dialog, &names[3]));
        assert!(found(Package::Dialog).contains(&names[3]));
        assert!(found(Package::Dialog).len() < 20, "about one in 4,096");
        let others: Vec<_> = names[..100]
            .iter()
            .map(|name| infos.join(Package::Dialog, name))
            .collect();
        let asked = found(Package::Dialog);
        assert!(names[..100].iter().all(|name| asked.contains(name)));
        drop((one, others));
        assert!(
            found(Package::Dialog).contains(&names[3]),
            "until the last one"
        );
        drop(same);
        assert_eq!(found(Package::Dialog), [""; 0]);
    }

    const KIND: KindOptions = KindOptions {
        name: "test",
        low: 1,
        high: 2,
        unlabelled: "test",
    };
}
