//! A histogram that one thread writes while others read it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::stats::Histogram;

/// Counts by the logarithm of a duration; written by one worker only.
#[derive(Debug)]
pub(in crate::pool) struct LogCounts([AtomicU64; Histogram::BUCKETS_MAX]);

impl Default for LogCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl LogCounts {
    #[inline]
    pub(in crate::pool) fn add(&self, nanos: u64, count: u64) {
        let bucket = &self.0[Histogram::bucket_of(nanos)];
        bucket.store(bucket.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub(in crate::pool) fn add_to(&self, histogram: &mut Histogram) {
        for (index, bucket) in self.0.iter().enumerate() {
            histogram.add_to_bucket(index, bucket.load(Ordering::Relaxed));
        }
    }
}
