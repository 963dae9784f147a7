/// A histogram of durations: bucket `i` counts durations from 2^i to 2^(i+1)
/// nanoseconds; bucket 0 also counts shorter ones.
///
/// ```
/// use busyhour::stats::Histogram;
///
/// let mut histogram = Histogram::default();
/// histogram.add(100, 98);
/// histogram.add(5_000, 2);
/// assert_eq!(histogram.count(), 100);
/// assert_eq!(histogram.quantile_ns(0.5), 127);
/// assert_eq!(histogram.quantile_ns(0.99), 8_191);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Histogram {
    buckets: Vec<u64>,
}

impl Histogram {
    /// The maximum number of buckets: the last one counts all durations from
    /// 2^39 ns (nine minutes) on.
    pub(crate) const BUCKETS_MAX: usize = 40;

    /// The bucket of a duration of `nanos` nanoseconds.
    pub(crate) fn bucket_of(nanos: u64) -> usize {
        let log2 = nanos.max(1).ilog2() as usize;
        log2.min(Self::BUCKETS_MAX - 1)
    }

    /// Counts `count` durations of `nanos` nanoseconds each.
    pub fn add(&mut self, nanos: u64, count: u64) {
        self.add_to_bucket(Self::bucket_of(nanos), count);
    }

    /// Counts `count` durations in one bucket; beyond the last one nothing is counted.
    pub(crate) fn add_to_bucket(&mut self, bucket: usize, count: u64) {
        if count == 0 || bucket >= Self::BUCKETS_MAX {
            return;
        }
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += count;
    }

    /// The counts from bucket 0 to the last bucket that is not empty.
    pub fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The upper end, in nanoseconds, of the bucket that holds the `quantile`
    /// (0 to 1) of the durations; 0 if there are none.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let wanted = (self.count() as f64 * quantile.clamp(0.0, 1.0)).ceil() as u64;
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= wanted.max(1) {
                return (2 << bucket) - 1;
            }
        }
        0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_duration_has_a_bucket() {
        assert_eq!(Histogram::bucket_of(0), 0);
        assert_eq!(Histogram::bucket_of(1), 0);
        assert_eq!(Histogram::bucket_of(1024), 10);
        assert_eq!(Histogram::bucket_of(u64::MAX), 39);
    }

    #[test]
    fn an_empty_one_has_no_quantiles() {
        let mut histogram = Histogram::default();
        histogram.add(7, 0);
        assert_eq!(
            (histogram.quantile_ns(0.99), histogram.buckets().len()),
            (0, 0)
        );
    }
}
