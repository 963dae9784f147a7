/// Counts durations in buckets a quarter of a power of two wide.
///
/// A quantile has an error of at most 25 %, over the whole range of `u64`
/// nanoseconds, in 2 KiB.
#[derive(Debug, Clone)]
pub(in crate::timer) struct LatenessHistogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    max: u64,
}

impl LatenessHistogram {
    pub(in crate::timer) fn new() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            total: 0,
            max: 0,
        }
    }

    #[inline]
    pub(in crate::timer) fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.max = self.max.max(nanos);
    }

    pub(in crate::timer) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count += more;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// The value that `percent` of all values do not exceed; 0 when there is none.
    pub(in crate::timer) fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        reached.map_or(0, |bucket| last_of(bucket).min(self.max))
    }

    pub(in crate::timer) fn max(&self) -> u64 {
        self.max
    }
}

/// The first eight values have a bucket each; then four share each power of two.
fn bucket(nanos: u64) -> usize {
    let shift = (nanos | 4).ilog2() - 2;
    (shift as usize * 4) + (nanos >> shift) as usize
}

/// The greatest value in a bucket.
fn last_of(bucket: usize) -> u64 {
    let shift = (bucket / 4).saturating_sub(1) as u32;
    let first = (bucket as u64 - u64::from(shift) * 4) << shift;
    first + ((1 << shift) - 1)
}

/// Four each for 62 powers of two, and the four below them.
const BUCKETS: usize = 252;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_ends_less_than_a_quarter_above(nanos in any::<u64>()) {
            let last = last_of(bucket(nanos));
            prop_assert!(last >= nanos);
            prop_assert!(last - nanos <= nanos / 4);
        }
    }

    #[test]
    fn every_value_has_a_bucket() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(last_of(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = LatenessHistogram::new();
        assert_eq!(histogram.percentile(50), 0);
        (1..=1000).for_each(|nanos| histogram.record(nanos));
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        for histogram in [histogram, twice] {
            assert!((500..=625).contains(&histogram.percentile(50)));
            assert_eq!(histogram.percentile(100), 1000);
            assert_eq!(histogram.max(), 1000);
        }
    }
}
