//! Something for each of many devices, found by device and by partition.

use crate::{PARTITION_COUNT, Partition};
use std::collections::BTreeMap;

/// A map from addresses of record, apart for each partition, so that a partition can move without a
/// look at the others.
#[derive(Debug)]
pub(super) struct ByPartition<T>(Box<[BTreeMap<Box<str>, T>]>);

impl<T> ByPartition<T> {
    pub(super) fn new() -> Self {
        Self((0..PARTITION_COUNT).map(|_| BTreeMap::new()).collect())
    }

    /// All devices of a partition, to be changed.
    pub(super) fn within(&mut self, partition: Partition) -> &mut BTreeMap<Box<str>, T> {
        &mut self.0[partition.index()]
    }

    pub(super) fn of(&self, partition: Partition) -> &BTreeMap<Box<str>, T> {
        &self.0[partition.index()]
    }

    /// Each partition with what it has.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Partition, &BTreeMap<Box<str>, T>)> {
        (0..=u8::MAX).map(Partition).zip(&self.0)
    }
}
