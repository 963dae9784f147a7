//! All live subscriptions, by our tag of the dialog.

use super::{
    Watcher, resource_index::ResourceIndex, watcher_connections::WatcherConnections,
    watcher_infos::WatcherInfos,
};
use crate::lock::lock;
use crate::server::{
    access::realm_accounts::Difference,
    load::shares::{Excess, Shares},
    random::Secrets,
    sip::{responder::Responder, transactions::TransactionKey},
    stats::{
        WatchStats,
        counters::WatchCounters,
        queues::SerializerListing,
        serializer_kind::{KindOptions, SerializerKind},
    },
};
use busyhour::{bus::Name, runtime::Runtime};
use busyhour_cluster::{PARTITION_COUNT, Partition};
use busyhour_registrar::{
    Domains, Refusal,
    watch::{End, Package, Subscribe},
};
use busyhour_sip::{Flow, Message};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

/// The table of watchers, in shards with a lock each.
pub(in crate::server) struct Watchers {
    pub(in crate::server) kind: SerializerKind,
    pub(in crate::server) counters: WatchCounters,
    /// Bytes of NOTIFY requests that wait for their answer.
    pub(super) notifies: Shares,
    /// Who watches what, for those who watch that.
    pub(super) infos: Arc<WatcherInfos>,
    pub(super) index: ResourceIndex,
    pub(in crate::server) connections: WatcherConnections,
    shards: Box<[Mutex<WatcherTable>]>,
    last_id: AtomicU64,
    list_changes: AtomicU64,
    /// In a cluster, the same by the partition of whom they watch; otherwise nothing. Its lock is
    /// taken after that of a shard.
    partitions: Box<[Mutex<WatchersById>]>,
    shares: Shares,
    secrets: Arc<Secrets>,
    /// Bytes that a subscription may keep of its SUBSCRIBE.
    dialog_bytes_max: usize,
    domains: Domains,
    responder: Arc<Responder>,
}

impl Watchers {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        shares: Shares,
        notifies: Shares,
        (dialog_bytes_max, last_id): (usize, Option<u64>),
        secrets: Arc<Secrets>,
        (domains, responder): (Domains, Arc<Responder>),
    ) -> Self {
        let kind = SerializerKind::new(runtime, OPTIONS);
        Self {
            counters: WatchCounters::default(),
            notifies,
            infos: WatcherInfos::new(runtime, &kind, secrets.seed("watcher infos")),
            kind,
            index: ResourceIndex::new(secrets.seed("watched resources")),
            connections: WatcherConnections::new(secrets.seed("connections of watchers")),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            last_id: AtomicU64::new(last_id.unwrap_or(0)),
            list_changes: AtomicU64::new(0),
            partitions: match last_id {
                Some(_) => (0..PARTITION_COUNT).map(|_| Mutex::default()).collect(),
                None => Box::default(),
            },
            shares,
            secrets,
            dialog_bytes_max,
            domains,
            responder,
        }
    }

    /// The places of all watchers.
    pub(in crate::server) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The memory of NOTIFY requests that wait for their answer.
    pub(in crate::server) fn notifies(&self) -> &Shares {
        &self.notifies
    }

    /// What waits for the watchers' serializers.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        let mut watchers = self.kind.listing();
        for watcher in self.all() {
            watchers.add(watcher.queue_stats(), || watcher.describe());
        }
        watchers
    }

    /// An id that no watcher had before, and the tag of that watcher.
    pub(in crate::server) fn new_tag(&self) -> (u64, String) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        (id, Watcher::make_tag(id, self.secrets.tag(id)))
    }

    /// Whether a subscription may keep so much.
    pub(in crate::server) fn check_kept_len(
        &self,
        subscribe: &Subscribe<'_>,
    ) -> Result<(), Refusal> {
        if subscribe.kept_len() <= self.dialog_bytes_max {
            return Ok(());
        }
        self.counters.too_long.increment();
        Err(Refusal::TooLongToKeep)
    }

    pub(in crate::server) fn refuse(
        &self,
        request: &Message<'_>,
        flow: Flow,
        transaction: TransactionKey,
        refusal: &Refusal,
    ) {
        self.counters.rejected.increment();
        self.responder.refuse(request, flow, transaction, refusal);
    }

    pub(in crate::server) fn insert(&self, watcher: &Arc<Watcher>) -> Result<(), Excess> {
        self.shares.take(watcher.holder(), 1)?;
        self.put(watcher);
        self.index.insert(watcher);
        Ok(())
    }

    /// Whether there was none with its id.
    fn put(&self, watcher: &Arc<Watcher>) -> bool {
        let (id, partition) = (watcher.id(), self.partition_of(watcher));
        let row = WatcherRow {
            watcher: watcher.clone(),
            partition,
        };
        let mut shard = self.shard(id);
        let is_new = shard.insert(id, row).is_none();
        if let Some(partition) = partition {
            lock(&self.partitions[partition.index()]).insert(id, watcher.clone());
        }
        is_new
    }

    fn partition_of(&self, watcher: &Watcher) -> Option<Partition> {
        (!self.partitions.is_empty()).then(|| Partition::of(&watcher.device()))
    }

    /// Adds a restored watcher, even if there is no room; new watchers get higher ids.
    pub(in crate::server) fn put_back(&self, watcher: &Arc<Watcher>) {
        if self.partitions.is_empty() {
            self.last_id.fetch_max(watcher.id(), Ordering::Relaxed);
        }
        // In a cluster it may have the id of another node.
        if self.put(watcher) {
            self.shares.take_anyway(watcher.holder(), 1);
        }
        self.index.insert(watcher);
    }

    /// The watcher with this tag of ours.
    pub(in crate::server) fn find(&self, tag: &str) -> Option<Arc<Watcher>> {
        let id = Watcher::id_in_tag(tag)?;
        let watcher = self.shard(id).get(&id)?.watcher.clone();
        (watcher.tag() == tag).then_some(watcher)
    }

    pub(in crate::server) fn remove(&self, id: u64) {
        let mut shard = self.shard(id);
        let Some(removed) = shard.remove(&id) else {
            return;
        };
        if let Some(partition) = removed.partition {
            lock(&self.partitions[partition.index()]).remove(&id);
        }
        drop(shard);
        self.index.remove(&removed.watcher);
        self.shares.give_back(removed.watcher.holder(), 1);
    }

    /// Those who watch a resource in a package, in the order of their ids.
    pub(super) fn of(&self, package: Package, resource: &Name) -> Vec<Arc<Watcher>> {
        let ids = self.index.ids(self.index.hash(package, resource));
        let find = |id: u64| Some(self.shard(id).get(&id)?.watcher.clone());
        ids.into_iter().filter_map(find).collect()
    }

    /// Every watcher, in the order of their ids.
    pub(in crate::server) fn all(&self) -> Vec<Arc<Watcher>> {
        let mut all = Vec::with_capacity(self.len());
        self.in_shards(|watchers| all.extend(watchers));
        all.sort_unstable_by_key(|watcher| watcher.id());
        all
    }

    /// Every watcher, a shard at a time and in no order; under no lock.
    pub(in crate::server) fn in_shards(&self, mut each: impl FnMut(Vec<Arc<Watcher>>)) {
        for shard in &self.shards {
            let rows = lock(shard);
            let watchers = rows.values().map(|row| row.watcher.clone());
            let watchers = watchers.collect();
            drop(rows);
            each(watchers);
        }
    }

    /// Asks the watchers of accounts whose mailbox has changed to subscribe again.
    pub(in crate::server) fn move_mailboxes(&self, differences: &[Difference]) {
        let moved = differences.iter().filter(|difference| difference.has_moved);
        let moved: HashSet<&str> = moved.map(|difference| &*difference.username).collect();
        if moved.is_empty() {
            return;
        }
        for watcher in self.all() {
            // A list may have any of them.
            let is_concerned = || {
                watcher.is_of_list() || moved.contains(self.domains.account_of(&watcher.device()))
            };
            if watcher.package() == Package::MessageSummary && is_concerned() {
                watcher.push_end(End::Deactivated);
            }
        }
    }

    /// Asks the watchers of devices of a partition to subscribe again.
    pub(in crate::server) fn end_all_in(&self, partition: Partition) {
        let watchers: Vec<_> = match self.partitions.get(partition.index()) {
            Some(watchers) => lock(watchers).values().cloned().collect(),
            None => Vec::new(),
        };
        for watcher in watchers {
            watcher.push_end(End::Deactivated);
        }
    }

    /// Other nodes are reached again: what was sent through them meanwhile may be lost, and is told anew to those who have
    /// not answered it.
    pub(in crate::server) fn way_is_open(&self, own: u16) {
        self.in_shards(|watchers| {
            let elsewhere = watchers.iter().filter(|it| it.is_reached_elsewhere(own));
            elsewhere.for_each(Watcher::push_way_is_open);
        });
    }

    /// A connection of some node has ended: those who were told over it are told over their next one.
    pub(in crate::server) fn connection_ended(&self, flow: Flow) {
        for id in self.connections.end(flow) {
            let watcher = self.shard(id).get(&id).map(|row| row.watcher.clone());
            if let Some(watcher) = watcher {
                watcher.push_connection_ended(flow);
            }
        }
    }

    /// Some list has changed: those who watch one find out whether it is theirs. Those who watch an
    /// address that is a list from now on need another subscription.
    pub(in crate::server) fn resolve_lists(&self, is_new: impl Fn(&str) -> bool) {
        self.list_changes.fetch_add(1, Ordering::Relaxed);
        for watcher in self.all() {
            if watcher.is_of_list() {
                watcher.push_resolve_list();
            } else if is_new(self.domains.account_of(&watcher.device())) {
                watcher.end_for_list();
            }
        }
    }

    /// How often lists have changed. Who has looked up a list before he is in the table looks at this
    /// before and after: a change in between has either found him in the table, or is seen by him.
    pub(in crate::server) fn list_changes(&self) -> u64 {
        self.list_changes.load(Ordering::Relaxed)
    }

    /// The watchers of an address need another topic from now on: a new subscription
    /// finds the right one.
    pub(in crate::server) fn move_extension(&self, extension: &str) {
        for watcher in self.all() {
            if self.domains.account_of(&watcher.device()) == extension && !watcher.is_of_list() {
                watcher.push_end(End::Deactivated);
            }
        }
    }

    pub(in crate::server) fn stats(&self) -> WatchStats {
        let counters = &self.counters;
        WatchStats {
            watcher_count: self.len() as u64,
            requests: counters.requests.get(),
            created: counters.created.get(),
            restored: counters.restored.get(),
            refreshed: counters.refreshed.get(),
            unsubscribed: counters.unsubscribed.get(),
            expired: counters.expired.get(),
            revoked: counters.revoked.get(),
            given_up: counters.given_up.get(),
            rejected: counters.rejected.get(),
            notified: counters.notified.get(),
            retransmitted: counters.retransmitted.get(),
            told_anew: counters.told_anew.get(),
            cut: counters.cut.get(),
            confirmed: counters.confirmed.get(),
            conflated: counters.conflated.get(),
            unanswered_bytes: self.notifies.used(),
            over_share: counters.over_share.get(),
            unproven: counters.unproven.get(),
            too_long: counters.too_long.get(),
        }
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.shares.used() as usize
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, WatcherTable> {
        lock(&self.shards[id as usize % SHARDS])
    }
}

type WatcherTable = HashMap<u64, WatcherRow>;
type WatchersById = HashMap<u64, Arc<Watcher>>;

struct WatcherRow {
    watcher: Arc<Watcher>,
    /// Of whom it watches, in a cluster.
    partition: Option<Partition>,
}

const SHARDS: usize = 64;
/// Half of what one watcher may have waiting by default.
const OPTIONS: KindOptions = KindOptions {
    name: "watcher",
    low: 2,
    high: 16,
    unlabelled: "events or its timer",
};
