//! The resources that are watched, alone or on lists, each with one subscription on the bus, whoever watches it.
//!
//! From a resource to the lamps that show it:
//!
//! ```text
//! topic ─► ResourceFeed ─┬─► its watchers
//!                        └─► each ListHub that has the resource ─► its watchers
//! ```
//!
//! A hub is a list with what its watchers share: watchers of equal lists have one hub. So a
//! change costs what the lists are that have the resource, and their watchers: not what is on
//! these lists. This table holds feeds and hubs weakly: a watcher owns its feed or its hub, and a hub its
//! feeds.

use super::{list_hub::ListHub, resource_feed::ResourceFeed};
use crate::lock::lock;
use crate::server::{
    load::shares::Shares,
    stats::{
        queues::SerializerListing,
        serializer_kind::{KindOptions, SerializerKind},
    },
};
use busyhour::{bus::Name, runtime::Runtime, serializer::Serializer};
use busyhour_registrar::{
    user_of,
    watch::{Package, ResourceList},
};
use foldhash::quality::FixedState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard, Weak},
};

/// The table of feeds and hubs.
pub(in crate::server) struct ResourceFeeds {
    pub(in crate::server) kind: SerializerKind,
    /// Resources that subscriptions to lists have, each as often as it is on one.
    pub(in crate::server) lamps: Shares,
    serializers: Box<[Serializer]>,
    feeds: Box<[Mutex<FeedTable>]>,
    hubs: Mutex<HashMap<HubKey, Weak<ListHub>, FixedState>>,
    hasher: FixedState,
}

/// Which topic a feed listens to, and for which of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::server) enum FeedKey {
    /// What the device or the extension of this address does.
    Line(Name),
    /// What waits in the mailbox of this name.
    Mailbox(Name),
}

/// A list as its watchers are told it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::server) struct HubKey {
    pub(in crate::server) package: Package,
    pub(in crate::server) list: Arc<ResourceList>,
}

type FeedTable = HashMap<FeedKey, Weak<ResourceFeed>, FixedState>;

impl ResourceFeeds {
    /// Names come from clients, so the `seed` is secret.
    pub(in crate::server) fn new(runtime: &Runtime, lamps: Shares, seed: u64) -> Self {
        let kind = SerializerKind::new(runtime, OPTIONS);
        let hasher = FixedState::with_seed(seed);
        Self {
            serializers: (0..SERIALIZERS).map(|_| kind.ephemeral()).collect(),
            kind,
            lamps,
            feeds: (0..SHARDS)
                .map(|_| Mutex::new(HashMap::with_hasher(hasher.clone())))
                .collect(),
            hubs: Mutex::new(HashMap::with_hasher(hasher.clone())),
            hasher,
        }
    }

    /// The feed of this key, made by `make` on the key's serializer if there is none.
    pub(super) fn feed(
        &self,
        key: &FeedKey,
        make: impl FnOnce(Serializer) -> Arc<ResourceFeed>,
    ) -> (Arc<ResourceFeed>, bool) {
        let mut shard = self.shard(key);
        if let Some(known) = shard.get(key).and_then(Weak::upgrade) {
            return (known, false);
        }
        let place = self.hasher.hash_one(key) as usize / SHARDS % SERIALIZERS;
        let feed = make(self.serializers[place].clone());
        shard.insert(key.clone(), Arc::downgrade(&feed));
        (feed, true)
    }

    /// The feed of this key, if its resource is watched, alone or on a list.
    pub(super) fn find_feed(&self, key: &FeedKey) -> Option<Arc<ResourceFeed>> {
        self.shard(key).get(key).and_then(Weak::upgrade)
    }

    /// The feed of this key has ended.
    pub(super) fn forget_feed(&self, key: &FeedKey) {
        let mut shard = self.shard(key);
        if shard.get(key).is_some_and(|feed| feed.strong_count() == 0) {
            shard.remove(key);
        }
        if shard.capacity() > 4 * shard.len().max(16) {
            shard.shrink_to_fit();
        }
    }

    /// The hub of a list, made by `make` on a serializer if there is none; `true` if it is new.
    pub(super) fn hub(
        &self,
        key: HubKey,
        make: impl FnOnce(HubKey, Serializer) -> Arc<ListHub>,
    ) -> (Arc<ListHub>, bool) {
        let mut hubs = lock(&self.hubs);
        if let Some(known) = hubs.get(&key).and_then(Weak::upgrade) {
            return (known, false);
        }
        let place = self.hasher.hash_one(&*key.list.uri) as usize % SERIALIZERS;
        let hub = make(key.clone(), self.serializers[place].clone());
        hubs.insert(key, Arc::downgrade(&hub));
        (hub, true)
    }

    /// The hub of this list has ended.
    pub(super) fn forget_hub(&self, key: &HubKey) {
        let mut hubs = lock(&self.hubs);
        if hubs.get(key).is_some_and(|hub| hub.strong_count() == 0) {
            hubs.remove(key);
        }
    }

    /// Accounts have other mailboxes: who watches a list of mailboxes from now on gets a hub that listens to those.
    pub(in crate::server) fn forget_mailbox_hubs(&self) {
        lock(&self.hubs).retain(|key, _| key.package != Package::MessageSummary);
    }

    /// An address has become an extension, or is none any more: what shows it needs another
    /// topic.
    pub(in crate::server) fn move_extension(&self, extension: &str) {
        // Of a domain with accounts of its own it has the domain behind it.
        let is_it = |name: &Name| {
            let address = name.split_once(':').map_or("", |(_, address)| address);
            user_of(name) == extension || address == extension
        };
        let is_of = |key: &FeedKey| matches!(key, FeedKey::Line(name) if is_it(name));
        for shard in &self.feeds {
            let feeds: Vec<_> = lock(shard)
                .iter()
                .filter(|(key, _)| is_of(key))
                .filter_map(|(_, feed)| feed.upgrade())
                .collect();
            // Under no lock: the last one to let go of a feed ends it.
            feeds.iter().for_each(|feed| feed.restart());
        }
    }

    /// What waits for the serializers of feeds.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        self.kind.listing_of_parts(&self.serializers)
    }

    /// Resources with a feed, and lists with a hub.
    pub(in crate::server) fn counts(&self) -> (usize, usize) {
        let feeds = self.feeds.iter().map(|shard| lock(shard).len()).sum();
        (feeds, lock(&self.hubs).len())
    }

    fn shard(&self, key: &FeedKey) -> MutexGuard<'_, FeedTable> {
        lock(&self.feeds[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

const SHARDS: usize = 64;
/// Few: a feed only passes on to many, or to lists, that something has changed.
const SERIALIZERS: usize = 16;
/// All feeds of a part may have news at once.
const OPTIONS: KindOptions = KindOptions {
    name: "resource feed",
    low: 256,
    high: 4096,
    unlabelled: "events",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::core::Core;

    /// Those who watched before are told to subscribe again, and one of them may be quicker than the end of the others.
    #[test]
    fn who_subscribes_to_mailboxes_after_an_account_has_moved_does_not_join_those_before() {
        let runtime = Runtime::simulated(1);
        let core = Core::simulated(&runtime, 10);
        let open = |package| {
            let list = ResourceList {
                uri: "sip:all@example.com".into(),
                name: None,
                resources: Box::default(),
            };
            let list = Arc::new(list);
            ListHub::open(&core.watching, HubKey { package, list })
        };
        let packages = [Package::MessageSummary, Package::Dialog];
        let before = packages.map(open);
        core.watching.resource_feeds.forget_mailbox_hubs();
        let after = packages.map(open);
        let is_same = [0, 1].map(|place| Arc::ptr_eq(&before[place], &after[place]));
        assert_eq!(is_same, [false, true]);
        drop(before);
        assert_eq!(core.watching.resource_feeds.counts(), (0, 2));
    }
}
