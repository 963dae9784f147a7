//! A histogram of latencies: eight buckets for each power of two, so that a
//! percentile is right within an eighth of itself.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Latencies seen so far; any thread may record.
#[derive(Debug)]
pub(in crate::server) struct Latency {
    buckets: Box<[AtomicU64]>,
    max_ns: AtomicU64,
}

impl Latency {
    pub(in crate::server) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            max_ns: AtomicU64::new(0),
        }
    }

    pub(in crate::server) fn record(&self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
    }

    pub(in crate::server) fn max_ns(&self) -> u64 {
        self.max_ns.load(Ordering::Relaxed)
    }

    /// For each given number of a thousand, the latency that this many did not exceed;
    /// 0 before the first.
    pub(in crate::server) fn permille_ns<const N: usize>(&self, permille: [u64; N]) -> [u64; N] {
        // All others are empty.
        let used = bucket(self.max_ns()) + 1;
        let counts: Vec<u64> = self
            .buckets
            .iter()
            .take(used)
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .collect();
        let total: u64 = counts.iter().sum();
        permille.map(|permille| {
            let wanted = (total * permille).div_ceil(1000).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            found.map_or(0, |bucket| highest_ns(bucket).min(self.max_ns()))
        })
    }
}

fn bucket(ns: u64) -> usize {
    if ns < PER_OCTAVE {
        return ns as usize;
    }
    let octave = ns.ilog2() - PER_OCTAVE.ilog2();
    (u64::from(octave) * PER_OCTAVE + (ns >> octave)) as usize
}

/// The highest latency that falls into a bucket.
fn highest_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PER_OCTAVE {
        return bucket;
    }
    let octave = bucket / PER_OCTAVE - 1;
    let lowest = (PER_OCTAVE + bucket % PER_OCTAVE) << octave;
    lowest + ((1 << octave) - 1)
}

const PER_OCTAVE: u64 = 8;
const BUCKETS: usize = 8 * 62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_falls_into_the_bucket_that_ends_at_or_above_it() {
        for shift in 0..64 {
            for ns in [
                1_u64 << shift,
                (1 << shift) + (1 << shift) / 3,
                u64::MAX >> shift,
            ] {
                let bucket = bucket(ns);
                assert!(bucket < BUCKETS, "{ns}");
                assert!(highest_ns(bucket) >= ns, "{ns}");
                assert!(highest_ns(bucket) - ns <= ns / PER_OCTAVE, "{ns}");
            }
        }
    }

    #[test]
    fn percentiles_are_within_an_eighth() {
        let latency = Latency::new();
        assert_eq!(latency.permille_ns([500, 999]), [0, 0]);
        (1..=1000).for_each(|us| latency.record(Duration::from_micros(us)));
        let [median, highest] = latency.permille_ns([500, 1000]);
        assert!((500_000..=562_500).contains(&median), "{median}");
        assert_eq!(highest, 1_000_000);
        assert_eq!(latency.max_ns(), 1_000_000);
    }
}
