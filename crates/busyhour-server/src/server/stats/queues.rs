//! Every queue of the server: how many wait, for how long, and what runs. There are many
//! serializers of some kinds, so the list has one line for all of a kind and one for each
//! of the busiest few.

use crate::server::core::Core;
use busyhour::stats::SerializerStats;
use serde::Serialize;

/// One queue, or all queues of a kind together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QueueView {
    /// What queues: `pool`, `request`, `strand`, `expiry`, `watcher`, `hint`, `iax2`,
    /// `store`, `socket`, or `serializer` for those that a program has named.
    pub kind: &'static str,
    /// Which one; `all` if it stands for all of its kind.
    pub name: String,
    /// How many wait now.
    pub queued_len: u64,
    /// The most that ever waited, if that is kept.
    pub queued_high_water: Option<u64>,
    /// How many may wait, if there is a limit.
    pub capacity: Option<u64>,
    /// For how long the first one has waited, in nanoseconds, if that is known.
    pub oldest_waiting_ns: Option<u64>,
    /// The label of what runs.
    pub running: Option<String>,
    /// For how long it has run, in nanoseconds.
    pub running_for_ns: Option<u64>,
    /// How many were processed, if that is counted.
    pub processed: Option<u64>,
    /// How many found no room.
    pub refused: Option<u64>,
}

/// The serializers of one kind: their sum, and the busiest few.
pub(in crate::server) struct SerializerKind {
    all: QueueView,
    busiest: Vec<QueueView>,
}

impl SerializerKind {
    pub(in crate::server) fn new(kind: &'static str) -> Self {
        Self {
            all: QueueView {
                kind,
                name: "all".into(),
                ..QueueView::of(SerializerStats::default())
            },
            busiest: Vec::new(),
        }
    }

    /// Adds one; `name` is only called if it is among the busiest so far.
    pub(in crate::server) fn add(&mut self, stats: SerializerStats, name: impl FnOnce() -> String) {
        let all = &mut self.all;
        all.queued_len += stats.queued_len;
        all.queued_high_water = all.queued_high_water.max(Some(stats.queued_high_water));
        all.oldest_waiting_ns = all.oldest_waiting_ns.max(Some(stats.oldest_waiting_ns));
        all.running_for_ns = all.running_for_ns.max(Some(stats.running_for_ns));
        all.processed = Some(all.processed.unwrap_or(0) + stats.processed);
        if stats.queued_len == 0 && stats.running_for_ns == 0 {
            return;
        }
        let view = QueueView::of(stats);
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
            oldest_waiting_ns: Some(stats.oldest_waiting_ns),
            running: stats.running,
            running_for_ns: Some(stats.running_for_ns),
            processed: Some(stats.processed),
            refused: Some(stats.rejected + stats.dropped),
        }
    }

    fn rank(&self) -> (u64, Option<u64>, Option<u64>) {
        (self.queued_len, self.oldest_waiting_ns, self.running_for_ns)
    }
}

impl Core {
    /// Every queue. It visits every device's strand and every watcher, so it is meant for
    /// operators.
    pub(in crate::server) fn queues(&self) -> Vec<QueueView> {
        let runtime = self.runtime.stats();
        let mut queues = vec![QueueView {
            kind: "pool",
            name: "tasks".into(),
            queued_len: runtime.pool.queued_len,
            queued_high_water: Some(runtime.pool.queued_high_water),
            oldest_waiting_ns: Some(runtime.pool.oldest_waiting_ns),
            processed: Some(runtime.pool.processed),
            refused: Some(runtime.pool.rejected),
            ..QueueView::default()
        }];
        queues.push(self.load.queue());
        queues.extend(
            self.serializer_kinds()
                .into_iter()
                .flat_map(SerializerKind::into_views),
        );
        queues.extend(runtime.serializers.into_iter().map(QueueView::of));
        queues.extend(self.outside_queues());
        queues
    }

    fn serializer_kinds(&self) -> [SerializerKind; 5] {
        let devices = &self.devices.table;
        [
            devices.strand_queues(),
            devices.expiry_queue(),
            self.watchers.queues(),
            self.hints.queues(),
            self.iax2.queues(),
        ]
    }

    /// What waits for the disk and for the sockets.
    fn outside_queues(&self) -> [QueueView; 3] {
        let store = self.persistence.store().stats();
        let network = self.responder.network().stats();
        [
            QueueView {
                kind: "store",
                name: "changes".into(),
                queued_len: store.queued_len,
                queued_high_water: Some(store.queued_high_water),
                capacity: Some(store.queue_capacity),
                processed: Some(store.committed),
                refused: Some(store.refused),
                ..QueueView::default()
            },
            QueueView {
                kind: "store",
                name: "ended bindings".into(),
                queued_len: store.ended_len,
                queued_high_water: Some(store.ended_high_water),
                processed: Some(store.ended_removed),
                refused: Some(store.ended_dropped),
                ..QueueView::default()
            },
            QueueView {
                kind: "socket",
                name: "datagrams to send".into(),
                queued_len: network.send_queued_len,
                queued_high_water: Some(network.send_queued_high_water),
                processed: Some(network.sent),
                refused: Some(network.dropped_send_queue),
                ..QueueView::default()
            },
        ]
    }
}

/// So many queues of a kind have a line of their own.
const BUSIEST_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut strands = SerializerKind::new("strand");
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
        let mut watchers = SerializerKind::new("watcher");
        watchers.add(stats(0, 0), || unreachable!("it is idle"));
        assert_eq!(watchers.into_views().count(), 1);
    }
}
