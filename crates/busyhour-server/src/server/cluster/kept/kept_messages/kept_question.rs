//! A question over HTTP that waits.

use super::PATIENCE;
use busyhour::clock::Instant;
use busyhour_cluster::Partition;

/// Somebody who asks over HTTP is told when the partition has an owner, or when this is dropped.
pub(super) struct KeptQuestion {
    pub(super) partition: Partition,
    pub(super) known_in: u64,
    pub(super) since: Instant,
    pub(super) told: OnOwner,
}

/// Told, under no lock, that a partition has an owner. It is dropped without that when nobody has come in time.
pub(in crate::server) type OnOwner = Box<dyn FnOnce() + Send>;

impl KeptQuestion {
    pub(super) fn deadline(&self) -> Instant {
        self.since + PATIENCE
    }
}
