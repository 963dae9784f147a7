//! Which run of the server a row is written in. Each run of a subscription has CSeq numbers of its own, and
//! whoever continues it has to begin behind those of all runs before.
//!
//! A server alone counts its starts. In a cluster each partition has runs of its own: it begins one with
//! each grant, whose epochs rise, whichever node has them.

use busyhour_cluster::{Grant, PARTITION_COUNT, Partition};
use busyhour_registrar::watch::RunNumber;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the run, for each address of record.
pub(super) enum Runs {
    /// See [`Contents::run`](busyhour_store::Contents::run).
    OfServer(u64),
    /// The epoch of each partition's last grant.
    OfPartitions(Box<[AtomicU64]>),
}

impl Runs {
    /// Those of a node that has no partition yet.
    pub(super) fn of_partitions() -> Self {
        Self::OfPartitions((0..PARTITION_COUNT).map(|_| AtomicU64::new(0)).collect())
    }

    /// What the partition has is taken into memory now.
    pub(super) fn begin(&self, grant: Grant) {
        if let Self::OfPartitions(epochs) = self {
            epochs[grant.partition.index()].store(grant.epoch, Ordering::Relaxed);
        }
    }

    pub(super) fn of(&self, aor: &str) -> RunNumber {
        match self {
            Self::OfServer(run) => RunNumber::OfServer(*run),
            Self::OfPartitions(epochs) => {
                let epoch = &epochs[Partition::of(aor).index()];
                RunNumber::OfPartition(epoch.load(Ordering::Relaxed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_run_of_its_last_grant() {
        let (alice, bob) = ("sip:alice@example.com", "sip:bob@example.com");
        assert_ne!(Partition::of(alice), Partition::of(bob));
        let runs = Runs::of_partitions();
        for epoch in [3, 8] {
            let partition = Partition::of(alice);
            runs.begin(Grant { partition, epoch });
            let expected = [epoch, 0].map(RunNumber::OfPartition);
            assert_eq!([runs.of(alice), runs.of(bob)], expected);
        }
        let alone = Runs::OfServer(5);
        alone.begin(Grant {
            partition: Partition(0),
            epoch: 9,
        });
        assert_eq!(alone.of(alice), RunNumber::OfServer(5));
    }
}
