use super::shard::TimerShardState;
use crate::{
    stats::{TimerLabelStats, TimerStats},
    timer::labels::{Label, LatenessHistogram},
};
use std::{collections::BTreeMap, ops::Deref};

/// Adds up all shards.
pub(in crate::timer) fn collect(
    shards: impl Iterator<Item = impl Deref<Target = TimerShardState>>,
) -> TimerStats {
    let mut stats = TimerStats::default();
    let mut labels = BTreeMap::new();
    for shard in shards {
        shard.add_to(&mut stats);
        shard
            .labels
            .iter()
            .for_each(|label| add_label(&mut labels, label));
    }
    let mut lateness = LatenessHistogram::new();
    for (name, (mut label, histogram)) in labels {
        lateness.merge(&histogram);
        label.label = String::from(name);
        stats.added += label.added;
        stats.cancelled += label.cancelled;
        stats.expired += label.expired;
        stats.labels.push(with_lateness(label, &histogram));
    }
    stats.lateness_p50_ns = lateness.percentile(50);
    stats.lateness_p99_ns = lateness.percentile(99);
    stats.lateness_max_ns = lateness.max();
    stats
}

type ByName = BTreeMap<&'static str, (TimerLabelStats, LatenessHistogram)>;

fn add_label(labels: &mut ByName, label: &Label) {
    let entry = labels.entry(label.name());
    let (stats, lateness) =
        entry.or_insert_with(|| (TimerLabelStats::default(), LatenessHistogram::new()));
    label.add_to(stats);
    lateness.merge(label.lateness());
}

fn with_lateness(mut label: TimerLabelStats, lateness: &LatenessHistogram) -> TimerLabelStats {
    label.lateness_p50_ns = lateness.percentile(50);
    label.lateness_p99_ns = lateness.percentile(99);
    label.lateness_max_ns = lateness.max();
    label
}
