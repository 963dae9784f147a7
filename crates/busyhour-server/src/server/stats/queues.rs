//! Every queue of the server: how many wait, for how long, and what runs. There are many
//! serializers of some kinds, so the list has one line for all of a kind and one for each
//! of the busiest few.

use super::{
    QueueKindStats,
    serializer_kind::{KindOptions, SerializerKind},
};
use crate::server::core::Core;
use busyhour::stats::{PoolStats, SerializerStats};
use serde::Serialize;

/// The name that stands for all queues of a kind.
pub const ALL_QUEUES: &str = "all";

/// One queue, or all queues of a kind together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QueueView {
    /// What queues: `pool`, `request`, `strand`, `expiry`, `watcher`, `hint`, `iax2`,
    /// `call`, `live` (states of other nodes of a cluster), `store`, `socket`, `connection`,
    /// `http`, `graphite`, or `serializer` for those that a program has named.
    pub kind: &'static str,
    /// Which one; [`ALL_QUEUES`] if it stands for all of its kind.
    pub name: String,
    /// How many wait now.
    pub queued_len: u64,
    /// The most that ever waited, if that is kept.
    pub queued_high_water: Option<u64>,
    /// How many may wait, if there is a limit.
    pub capacity: Option<u64>,
    /// The bytes that wait, if that is what is limited.
    pub queued_bytes: Option<u64>,
    /// How many bytes may wait.
    pub capacity_bytes: Option<u64>,
    /// So many are too many: an alert begins.
    pub high_watermark: Option<u64>,
    /// So few are few enough: the alert ends.
    pub low_watermark: Option<u64>,
    /// Whether there is an alert; for all of a kind, whether there is one for any.
    pub is_high: Option<bool>,
    /// For how long the first one has waited, in nanoseconds, if that is known.
    pub oldest_waiting_ns: Option<u64>,
    /// The label of what runs; for all of a kind, of what has run for the longest time.
    pub running: Option<String>,
    /// For how long it has run, in nanoseconds.
    pub running_for_ns: Option<u64>,
    /// How many were processed, if that is counted.
    pub processed: Option<u64>,
    /// How many found no room.
    pub refused: Option<u64>,
}

/// What the serializers of one kind hold: their sum, and the busiest few.
pub(in crate::server) struct SerializerListing {
    unlabelled: &'static str,
    all: QueueView,
    busiest: Vec<QueueView>,
    /// For how long the first task has waited where none runs: that is how long it has
    /// waited for a worker.
    unbegun_ns: u64,
}

impl SerializerListing {
    pub(in crate::server) fn new(options: KindOptions) -> Self {
        Self {
            unlabelled: options.unlabelled,
            all: QueueView {
                kind: options.name,
                name: ALL_QUEUES.into(),
                high_watermark: Some(options.high as u64),
                low_watermark: Some(options.low as u64),
                is_high: Some(false),
                ..QueueView::of(SerializerStats::default())
            },
            busiest: Vec::new(),
            unbegun_ns: 0,
        }
    }

    /// Adds one; `name` is only called if it is among the busiest so far.
    pub(in crate::server) fn add(&mut self, stats: SerializerStats, name: impl FnOnce() -> String) {
        let mut view = QueueView::of(stats);
        let is_running = view.running.is_some() || view.running_for_ns > Some(0);
        if is_running {
            let label = || self.unlabelled.to_owned();
            view.running = Some(view.running.unwrap_or_else(label));
        } else {
            self.unbegun_ns = self.unbegun_ns.max(view.oldest_waiting_ns.unwrap_or(0));
        }
        self.all.absorb(&view);
        if view.queued_len == 0 && !is_running {
            return;
        }
        let place = (self.busiest).partition_point(|other| other.rank() >= view.rank());
        if place < BUSIEST_MAX {
            let (kind, name) = (self.all.kind, name());
            self.busiest.insert(place, QueueView { kind, name, ..view });
            self.busiest.truncate(BUSIEST_MAX);
        }
    }

    fn into_views(self) -> impl Iterator<Item = QueueView> {
        std::iter::once(self.all).chain(self.busiest)
    }
}

impl QueueView {
    fn of(stats: SerializerStats) -> Self {
        Self {
            kind: "serializer",
            name: stats.name,
            queued_len: stats.queued_len,
            queued_high_water: Some(stats.queued_high_water),
            capacity: None,
            queued_bytes: None,
            capacity_bytes: None,
            high_watermark: stats.high_watermark,
            low_watermark: stats.low_watermark,
            is_high: stats.high_watermark.map(|_| stats.is_high),
            oldest_waiting_ns: Some(stats.oldest_waiting_ns),
            running: stats.running,
            running_for_ns: Some(stats.running_for_ns),
            processed: Some(stats.processed),
            refused: Some(stats.rejected + stats.dropped),
        }
    }

    /// Adds one of its kind.
    fn absorb(&mut self, one: &Self) {
        if one.running_for_ns > self.running_for_ns {
            self.running.clone_from(&one.running);
        }
        self.queued_len += one.queued_len;
        self.queued_high_water = self.queued_high_water.max(one.queued_high_water);
        self.is_high = self.is_high.max(one.is_high);
        self.oldest_waiting_ns = self.oldest_waiting_ns.max(one.oldest_waiting_ns);
        self.running_for_ns = self.running_for_ns.max(one.running_for_ns);
        self.processed = sum(self.processed, one.processed);
        self.refused = sum(self.refused, one.refused);
    }

    fn rank(&self) -> (u64, Option<u64>, Option<u64>) {
        (self.queued_len, self.oldest_waiting_ns, self.running_for_ns)
    }
}

impl Core {
    /// Every queue. It visits every device's strand and every watcher, so it is meant for
    /// operators.
    pub(in crate::server) fn queues(&self) -> Vec<QueueView> {
        let pool = self.runtime.pool();
        let listings = self.listings();
        let unbegun_ns = listings.iter().map(|listing| listing.unbegun_ns).max();
        let mut queues = vec![
            pool_queue(&pool.stats(), unbegun_ns.unwrap_or(0)),
            self.load.queue(),
        ];
        let listings = listings.into_iter();
        queues.extend(listings.flat_map(SerializerListing::into_views));
        queues.extend(pool.serializer_stats().into_iter().map(QueueView::of));
        queues.extend(self.store_queues());
        queues.extend(self.responder.network().queues());
        queues
    }

    /// How often queues of each kind were too long.
    pub(in crate::server) fn queue_kind_stats(&self) -> Vec<QueueKindStats> {
        let devices = &self.devices.table;
        let kinds = [
            &devices.strand_kind,
            &devices.expiry_kind,
            &self.watchers.kind,
            &self.hints.kind,
            &self.watching.resource_feeds.kind,
            &self.iax2.kind,
            &self.calls.kind,
            &self.changes.kind,
            &self.devices.upstream.kind,
        ];
        let cluster = self.cluster.as_ref().map(|cluster| &cluster.live.kind);
        let pool = self.runtime.pool().stats();
        let pool = pool.high_watermark.map(|high_watermark| QueueKindStats {
            name: POOL,
            high_watermark,
            alerts_raised: pool.alerts_raised,
            high_count: pool.is_high.into(),
        });
        let store = self.persistence.store().stats();
        let store = QueueKindStats {
            name: STORE,
            high_watermark: store.high_watermark,
            alerts_raised: store.alerts_raised,
            high_count: store.is_high.into(),
        };
        let kinds = kinds.into_iter().chain(cluster);
        let kinds = kinds.map(SerializerKind::stats);
        let kinds = pool.into_iter().chain(kinds).chain([store]);
        kinds.filter(|kind| kind.high_watermark > 0).collect()
    }

    fn listings(&self) -> Vec<SerializerListing> {
        let devices = &self.devices.table;
        let mut listings = vec![
            devices.strand_queues(),
            devices.expiry_queue(),
            self.watchers.queues(),
            self.hints.queues(),
            self.watching.resource_feeds.queues(),
            self.iax2.queues(),
            self.calls.queues(),
            self.changes.queues(),
            self.devices.upstream.queues(),
        ];
        let cluster = self.cluster.as_ref();
        listings.extend(cluster.map(|cluster| cluster.live.queues()));
        listings
    }

    /// What waits for the disk.
    fn store_queues(&self) -> [QueueView; 2] {
        let store = self.persistence.store().stats();
        let has_marks = store.high_watermark > 0;
        [
            QueueView {
                kind: STORE,
                name: "changes".into(),
                queued_len: store.queued_len,
                queued_high_water: Some(store.queued_high_water),
                capacity: has_marks.then_some(store.queue_capacity),
                high_watermark: has_marks.then_some(store.high_watermark),
                low_watermark: has_marks.then_some(store.low_watermark),
                is_high: has_marks.then_some(store.is_high),
                oldest_waiting_ns: Some(store.oldest_waiting_ns),
                running: (store.running_for_ns > 0).then(|| "transaction".into()),
                running_for_ns: Some(store.running_for_ns),
                processed: Some(store.committed),
                refused: Some(store.refused),
                ..QueueView::default()
            },
            QueueView {
                kind: STORE,
                name: "ended bindings".into(),
                queued_len: store.ended_len,
                queued_high_water: Some(store.ended_high_water),
                processed: Some(store.ended_removed),
                refused: Some(store.ended_dropped),
                ..QueueView::default()
            },
        ]
    }
}

/// What waits for a worker: plain tasks, and serializers, of which the age is known.
fn pool_queue(pool: &PoolStats, unbegun_ns: u64) -> QueueView {
    QueueView {
        kind: POOL,
        name: "tasks".into(),
        queued_len: pool.queued_len,
        queued_high_water: Some(pool.queued_high_water),
        high_watermark: pool.high_watermark,
        low_watermark: pool.low_watermark,
        is_high: pool.high_watermark.map(|_| pool.is_high),
        oldest_waiting_ns: Some(pool.oldest_waiting_ns.max(unbegun_ns)),
        processed: Some(pool.processed),
        refused: Some(pool.rejected),
        ..QueueView::default()
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other?)
}

pub(super) const POOL: &str = "pool";
pub(super) const STORE: &str = "store";
/// So many queues of a kind have a line of their own.
const BUSIEST_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: KindOptions = KindOptions {
        name: "strand",
        low: 1,
        high: 49,
        unlabelled: "a timer",
    };

    fn stats(queued_len: u64, oldest_waiting_ns: u64) -> SerializerStats {
        SerializerStats {
            queued_len,
            oldest_waiting_ns,
            processed: 1,
            ..SerializerStats::default()
        }
    }

    #[test]
    fn the_busiest_of_a_kind_have_names_and_all_are_summed() {
        let mut strands = SerializerListing::new(KIND);
        for number in 0..100 {
            strands.add(stats(number % 50, number), || number.to_string());
        }
        let views: Vec<_> = strands.into_views().collect();
        let shown: Vec<_> = views
            .iter()
            .map(|view| (&*view.name, view.queued_len))
            .collect();
        let all = 2 * (0..50).sum::<u64>();
        assert_eq!(
            shown,
            [
                ("all", all),
                ("99", 49),
                ("49", 49),
                ("98", 48),
                ("48", 48),
                ("97", 47)
            ]
        );
        assert_eq!(views[0].oldest_waiting_ns, Some(99));
        assert_eq!(views[0].processed, Some(100));
    }

    #[test]
    fn idle_ones_have_no_line() {
        let mut watchers = SerializerListing::new(KIND);
        watchers.add(stats(0, 0), || unreachable!("it is idle"));
        assert_eq!(watchers.into_views().count(), 1);
    }

    #[test]
    fn what_runs_has_a_label_in_any_case() {
        let mut strands = SerializerListing::new(KIND);
        let running = |running_for_ns, label: Option<&str>| SerializerStats {
            running_for_ns,
            running: label.map(str::to_owned),
            ..stats(1, 70)
        };
        strands.add(running(10, Some("request")), || "1".into());
        strands.add(running(30, None), || "2".into());
        strands.add(stats(1, 50), || "3".into());
        assert_eq!(strands.unbegun_ns, 50, "the others wait for what runs");
        let views: Vec<_> = strands.into_views().collect();
        let running = |view: &QueueView| view.running.clone().unwrap_or_default();
        let running: Vec<_> = views.iter().map(running).collect();
        assert_eq!(running, ["a timer", "a timer", "request", ""]);
    }
}
