//! Who has which partition at this moment, for everybody who handles a message.

use busyhour::clock::Instant;
use busyhour_cluster::{Grant, Node, NodeNumber, PARTITION_COUNT, Partition, Route, View};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// The routes of all partitions. The node's thread writes them; anybody reads.
pub(in crate::server) struct PartitionRoutes {
    slots: Box<[PartitionSlot]>,
    /// Until when the node may answer from memory, in nanoseconds of the runtime's clock.
    lease_end_ns: AtomicU64,
    /// Told of a partition out of service when nothing of it is under way any more.
    settled: OnceLock<Box<dyn Fn(Partition) + Send + Sync>>,
}

#[derive(Default)]
struct PartitionSlot {
    /// [`NOBODY`], a node with the partition's epoch and [`AT_NODE`], or the epoch of our grant.
    route: AtomicU64,
    /// Changes that the store has and has not answered for.
    under_way: AtomicU64,
}

/// A change that the store has. Dropping it says that it has its answer, or was not taken.
pub(in crate::server) struct ChangeUnderWay {
    routes: Arc<PartitionRoutes>,
    partition: Partition,
}

/// Who answers for an address of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum PartitionOwner {
    Here,
    /// By this epoch of the partition.
    At {
        node: NodeNumber,
        epoch: u64,
    },
    /// Nobody at the moment.
    Nobody,
}

impl PartitionRoutes {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..PARTITION_COUNT).map(|_| Default::default()).collect(),
            lease_end_ns: AtomicU64::new(0),
            settled: OnceLock::new(),
        }
    }

    /// Who is told when a partition that was taken out of service has settled.
    pub(super) fn tell(&self, settled: Box<dyn Fn(Partition) + Send + Sync>) {
        // It is set once, before anything is under way.
        let _ = self.settled.set(settled);
    }

    /// Takes over what the node knows now.
    pub(super) fn follow(&self, node: &Node, now: Instant) {
        let lease_end = node.lease_end().as_nanos();
        self.lease_end_ns.store(lease_end, Ordering::Release);
        for (number, slot) in (0..=u8::MAX).zip(&self.slots) {
            let partition = Partition(number);
            let route = match node.route(now, partition) {
                Route::Here(grant) => grant.epoch,
                Route::At(member) => at_node(member.node, known_epoch(node.view(), partition)),
                Route::Wait => NOBODY,
            };
            slot.route.store(route, Ordering::SeqCst);
        }
    }

    /// From now on nothing is served, nor handed on.
    pub(super) fn clear(&self) {
        self.lease_end_ns.store(0, Ordering::Release);
        for slot in &self.slots {
            slot.route.store(NOBODY, Ordering::SeqCst);
        }
    }

    /// Whether the node's lease holds.
    pub(in crate::server) fn has_lease(&self, now: Instant) -> bool {
        now.as_nanos() < self.lease_end_ns.load(Ordering::Acquire)
    }

    /// How many partitions are served here.
    pub(in crate::server) fn served_count(&self) -> u64 {
        let served = (self.slots.iter()).filter(|slot| slot.grant_epoch().is_some());
        served.count() as u64
    }

    pub(in crate::server) fn owner(&self, aor: &str, now: Instant) -> PartitionOwner {
        self.owner_of(Partition::of(aor), now)
    }

    pub(super) fn owner_of(&self, partition: Partition, now: Instant) -> PartitionOwner {
        let route = self.slot(partition).route.load(Ordering::SeqCst);
        match route {
            NOBODY => PartitionOwner::Nobody,
            at if at & AT_NODE != 0 => PartitionOwner::At {
                node: NodeNumber(at as u16),
                epoch: (at & !AT_NODE) >> NODE_BITS,
            },
            _ if self.has_lease(now) => PartitionOwner::Here,
            _ => PartitionOwner::Nobody,
        }
    }

    /// A change that is under way from now on, and its grant, if its partition is served here.
    pub(in crate::server) fn begin(self: &Arc<Self>, aor: &str) -> Option<(ChangeUnderWay, Grant)> {
        let partition = Partition::of(aor);
        self.slot(partition)
            .under_way
            .fetch_add(1, Ordering::SeqCst);
        let under_way = ChangeUnderWay {
            routes: self.clone(),
            partition,
        };
        let epoch = self.slot(partition).grant_epoch()?;
        Some((under_way, Grant { partition, epoch }))
    }

    fn end(&self, partition: Partition) {
        let slot = self.slot(partition);
        let is_last = slot.under_way.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last
            && slot.grant_epoch().is_none()
            && let Some(settled) = self.settled.get()
        {
            settled(partition);
        }
    }

    /// Whether nothing of a partition is under way.
    pub(super) fn is_settled(&self, partition: Partition) -> bool {
        let slot = self.slot(partition);
        debug_assert!(slot.grant_epoch().is_none(), "it is served still");
        slot.under_way.load(Ordering::SeqCst) == 0
    }

    fn slot(&self, partition: Partition) -> &PartitionSlot {
        &self.slots[partition.index()]
    }
}

impl Drop for ChangeUnderWay {
    fn drop(&mut self) {
        self.routes.end(self.partition);
    }
}

impl PartitionSlot {
    fn grant_epoch(&self) -> Option<u64> {
        let route = self.route.load(Ordering::SeqCst);
        (route != NOBODY && route & AT_NODE == 0).then_some(route)
    }
}

fn at_node(node: NodeNumber, epoch: u64) -> u64 {
    AT_NODE | epoch << NODE_BITS | u64::from(node.0)
}

fn known_epoch(view: Option<&View>, partition: Partition) -> u64 {
    let known = view.and_then(|view| view.partitions.get(partition.index()));
    known.map_or(0, |known| known.epoch)
}

/// Epochs of grants begin with 1.
const NOBODY: u64 = 0;
const AT_NODE: u64 = 1 << 63;
/// Of a node's number; above it there is room for the epochs of a hundred thousand years, with one each 20 ms.
const NODE_BITS: u32 = 16;
