//! All live subscriptions, by our tag of the dialog.

use super::{
    Watcher, resource_index::ResourceIndex, watcher_connections::WatcherConnections,
    watcher_index::WatcherIndex, watcher_infos::WatcherInfos,
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
use busyhour::{bus::Name, runtime::Runtime, serializer::Serializer};
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
    strands: Box<[Serializer]>,
    pub(in crate::server) counters: WatchCounters,
    /// Bytes of NOTIFY requests that wait for their answer.
    pub(super) notifies: Shares,
    /// Who watches what, for those who watch that.
    pub(super) infos: Arc<WatcherInfos>,
    pub(super) index: ResourceIndex,
    pub(in crate::server) connections: WatcherConnections,
    /// Those that other nodes reach in datagrams and that have answered nothing, by the node.
    pub(super) unheard: WatcherIndex<u16>,
    /// Of this node of a cluster.
    own: Option<u16>,
    last_number: AtomicU64,
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
    /// All watchers are in so many parts.
    pub(in crate::server) const PARTS: usize = SHARDS;

    pub(in crate::server) fn new(
        runtime: &Runtime,
        shares: Shares,
        notifies: Shares,
        (dialog_bytes_max, node): (usize, Option<(u16, u64)>),
        secrets: Arc<Secrets>,
        (domains, responder): (Domains, Arc<Responder>),
    ) -> Self {
        let kind = SerializerKind::new(runtime, OPTIONS);
        Self {
            counters: WatchCounters::default(),
            notifies,
            infos: WatcherInfos::new(runtime, &kind, secrets.seed("watcher infos")),
            strands: (0..STRANDS).map(|_| kind.ephemeral()).collect(),
            kind,
            index: ResourceIndex::new(secrets.seed("watched resources")),
            connections: WatcherConnections::new(secrets.seed("connections of watchers")),
            unheard: WatcherIndex::new(secrets.seed("unheard watchers")),
            own: node.map(|(own, _)| own),
            last_number: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            last_id: AtomicU64::new(node.map_or(0, |(_, first_id)| first_id)),
            list_changes: AtomicU64::new(0),
            partitions: match node {
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

    /// The strand of the watcher with this number.
    pub(super) fn strand(&self, number: u64) -> &Serializer {
        &self.strands[number as usize % self.strands.len()]
    }

    /// What waits for the watchers' strands.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        self.kind.listing_of_parts(&self.strands)
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

    /// A number that no watcher had before.
    pub(super) fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether this is another node of the cluster.
    pub(super) fn is_elsewhere(&self, node: u16) -> bool {
        node != 0 && self.own != Some(node)
    }

    pub(in crate::server) fn insert(&self, watcher: &Arc<Watcher>) -> Result<(), Excess> {
        self.shares.take(watcher.holder(), 1)?;
        self.put(watcher);
        Ok(())
    }

    /// Returns the one that had its id.
    fn put(&self, watcher: &Arc<Watcher>) -> Option<Arc<Watcher>> {
        let (id, partition) = (watcher.id(), self.partition_of(watcher));
        let row = WatcherRow {
            watcher: watcher.clone(),
            partition,
        };
        let mut shard = self.shard(id);
        let before = shard.insert(id, row).map(|row| row.watcher);
        if let Some(before) = &before {
            self.index.remove(before);
        }
        self.index.insert(watcher);
        if let Some(partition) = partition {
            lock(&self.partitions[partition.index()]).insert(id, watcher.clone());
        }
        before
    }

    fn partition_of(&self, watcher: &Watcher) -> Option<Partition> {
        (!self.partitions.is_empty()).then(|| Partition::of(&watcher.device()))
    }

    /// Adds a restored watcher, even if there is no room; new watchers get higher ids.
    pub(in crate::server) fn put_back(&self, watcher: &Arc<Watcher>) {
        if self.partitions.is_empty() {
            self.last_id.fetch_max(watcher.id(), Ordering::Relaxed);
        }
        // A partition may come back before those are gone that were here when it went.
        if let Some(before) = self.put(watcher) {
            self.shares.give_back(before.holder(), 1);
            before.push_superseded();
        }
        self.shares.take_anyway(watcher.holder(), 1);
    }

    /// The watcher with this tag of ours.
    pub(in crate::server) fn find(&self, tag: &str) -> Option<Arc<Watcher>> {
        let id = Watcher::id_in_tag(tag)?;
        let watcher = self.shard(id).get(&id)?.watcher.clone();
        (watcher.tag() == tag).then_some(watcher)
    }

    /// Another one with its id stays.
    pub(in crate::server) fn remove(&self, watcher: &Watcher) {
        let id = watcher.id();
        let mut shard = self.shard(id);
        if !shard.get(&id).is_some_and(|row| row.is_of(watcher)) {
            return;
        }
        let Some(removed) = shard.remove(&id) else {
            return;
        };
        if let Some(partition) = removed.partition {
            lock(&self.partitions[partition.index()]).remove(&id);
        }
        self.index.remove(&removed.watcher);
        drop(shard);
        self.shares.give_back(removed.watcher.holder(), 1);
    }

    /// Whether this one is in the table, and not another one with its id.
    pub(super) fn has(&self, watcher: &Watcher) -> bool {
        let shard = self.shard(watcher.id());
        let row = shard.get(&watcher.id());
        row.is_some_and(|row| row.is_of(watcher))
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
        (0..Self::PARTS).for_each(|part| all.extend(self.part(part)));
        all.sort_unstable_by_key(|watcher| watcher.id());
        all
    }

    /// The watchers of one part, by id.
    pub(super) fn part(&self, part: usize) -> Vec<Arc<Watcher>> {
        let rows = lock(&self.shards[part]);
        let mut part: Vec<_> = rows.values().map(|row| row.watcher.clone()).collect();
        drop(rows);
        part.sort_unstable_by_key(|watcher| watcher.id());
        part
    }

    /// Asks the watchers of accounts whose mailbox has changed to subscribe again.
    pub(in crate::server) fn move_mailboxes(&self, differences: &[Difference]) {
        let moved = differences.iter().filter(|difference| difference.has_moved);
        let moved: HashSet<&str> = moved.map(|difference| &*difference.username).collect();
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
        let mut watchers: Vec<_> = match self.partitions.get(partition.index()) {
            Some(watchers) => lock(watchers).values().cloned().collect(),
            None => Vec::new(),
        };
        // The same seed gives the same order.
        watchers.sort_unstable_by_key(|watcher| watcher.id());
        for watcher in watchers {
            watcher.push_moved();
        }
    }

    /// A connection of some node has ended: those who were told over it are told over their next one.
    pub(in crate::server) fn connection_ended(&self, flow: Flow) {
        for watcher in self.connections.end(flow) {
            watcher.push_connection_ended(flow);
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

impl WatcherRow {
    fn is_of(&self, watcher: &Watcher) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.watcher), watcher)
    }
}

const SHARDS: usize = 64;
/// Many more than threads, so that two watchers at work seldom share one.
const STRANDS: usize = 1024;
/// So many watchers may have something waiting when all of them are told at once.
const OPTIONS: KindOptions = KindOptions {
    name: "watcher",
    low: 64,
    high: 1024,
    unlabelled: "events or its timer",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{core::Core, load::shares::Holder};
    use busyhour::clock::Instant;
    use busyhour_registrar::{
        Advertised,
        watch::{Subscription, WatchPolicy},
    };
    use busyhour_sip::Transport;
    use std::time::Duration;

    const SUBSCRIBE: &str = "SUBSCRIBE sip:alice@example.com SIP/2.0\r\n\
        Via: SIP/2.0/TCP 192.0.2.7:5070;branch=z9hG4bK1\r\n\
        From: <sip:bob@example.com>;tag=b\r\nTo: <sip:alice@example.com>\r\n\
        Call-ID: c\r\nCSeq: 1 SUBSCRIBE\r\nContact: <sip:bob@192.0.2.7;transport=tcp>\r\n\
        Event: reg\r\nContent-Length: 0\r\n\r\n";

    /// The partition of a watcher goes and comes back within the 32 s in which the one that was there is ended.
    #[test]
    fn a_watcher_that_comes_back_stays_when_the_one_with_its_id_is_gone() {
        let runtime = Runtime::simulated(1);
        let core = Core::simulated(&runtime, 10);
        let [local, remote] = ["192.0.2.1:5060", "192.0.2.7:5070"].map(|it| it.parse().unwrap());
        let flow = Flow {
            transport: Transport::Tcp,
            connection: 7,
            node: 2,
            ..Flow::udp(local, remote)
        };
        let watcher = || {
            let message = Message::parse(SUBSCRIBE.as_bytes()).expect("sound");
            let request = Subscribe::read(&message, &WatchPolicy::default(), flow);
            let (alice, advertised) = (Name::new("sip:alice@example.com"), Advertised::default());
            let request = request.expect("granted");
            let subscription =
                Subscription::open(&request, alice, "1-2", advertised, Instant::ZERO);
            Arc::new(Watcher::new(
                1,
                "1-2",
                Holder::NOBODY,
                &core.watching,
                subscription,
            ))
        };
        let simulation = runtime.simulation().expect("it is one");
        let (first, second) = (watcher(), watcher());
        core.watchers.insert(&first).expect("room");
        first.start(&core.watching);
        first.push_moved();
        simulation.run_for(Duration::from_secs(20));
        core.watchers.put_back(&second);
        second.start(&core.watching);
        // One with an answer ends at once.
        second.push_answer(1, 200);
        simulation.run_for(Duration::from_secs(20));
        second.push_answer(1, 200);
        simulation.run_for(Duration::from_secs(20));
        let found = core.watchers.find("1-2").expect("it is there");
        assert!(Arc::ptr_eq(&found, &second));
        assert_eq!((core.watchers.len(), core.watchers.all().len()), (1, 1));
        let alice = Name::new("sip:alice@example.com");
        assert_eq!(core.watchers.of(Package::Registration, &alice).len(), 1);
        core.watchers.connection_ended(flow);
        simulation.run_for(Duration::from_secs(1));
        assert_eq!(
            core.watchers.stats().cut,
            1,
            "it is found by its connection"
        );
        second.push_end(End::Unsubscribed);
        simulation.run_for(Duration::from_secs(40));
        assert_eq!(core.watchers.all().len(), 0);
        assert_eq!((core.watchers.len(), core.watchers.notifies.used()), (0, 0));
    }
}
