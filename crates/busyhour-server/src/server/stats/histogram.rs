//! A histogram with few buckets, as metrics show it.

use super::counters::Counter;
use serde::Serialize;
use std::time::Duration;

/// How long something took, by bounds that people ask for; any thread may record.
#[derive(Debug, Default)]
pub(in crate::server) struct Histogram {
    /// One for each bound, and one for what took longer than the last.
    buckets: [Counter; BOUNDS.len() + 1],
    sum_ns: Counter,
}

/// A histogram of times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistogramStats {
    /// The shortest bound first.
    pub buckets: Vec<HistogramBucket>,
    /// The sum of all times, in nanoseconds.
    pub sum_ns: u64,
    /// How many there were; those beyond the last bound are in no bucket.
    pub count: u64,
}

/// A part of a [`HistogramStats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HistogramBucket {
    /// Its bound in seconds, such as `0.25`.
    pub name: &'static str,
    /// How many took no longer than that, those of the buckets before included.
    pub count: u64,
}

impl Histogram {
    pub(in crate::server) fn record(&self, time: Duration) {
        let millis = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(_, bound)| millis <= *bound);
        self.buckets[bucket.unwrap_or(BOUNDS.len())].increment();
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.add(ns);
    }

    pub(in crate::server) fn stats(&self) -> HistogramStats {
        let sum_ns = self.sum_ns.get();
        let mut count = 0;
        let buckets = BOUNDS.iter().zip(&self.buckets).map(|((name, _), bucket)| {
            count += bucket.get();
            HistogramBucket { name, count }
        });
        let buckets = buckets.collect();
        HistogramStats {
            buckets,
            sum_ns,
            count: count + self.buckets[BOUNDS.len()].get(),
        }
    }
}

impl Default for HistogramStats {
    /// One in which nothing was recorded.
    fn default() -> Self {
        Histogram::default().stats()
    }
}

/// Names in seconds, and the same in milliseconds: from what nobody hears to what makes
/// callers hang up.
const BOUNDS: [(&str, u64); 13] = [
    ("0.005", 5),
    ("0.01", 10),
    ("0.025", 25),
    ("0.05", 50),
    ("0.1", 100),
    ("0.25", 250),
    ("0.5", 500),
    ("1", 1_000),
    ("2", 2_000),
    ("4", 4_000),
    ("8", 8_000),
    ("16", 16_000),
    ("32", 32_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_buckets_whose_bounds_it_does_not_exceed() {
        let histogram = Histogram::default();
        for micros in [0, 5_000, 5_001, 1_000_000, 32_000_000, 32_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let stats = histogram.stats();
        let count = |name: &str| {
            let found = stats.buckets.iter().find(|bucket| bucket.name == name);
            found.unwrap().count
        };
        assert_eq!(
            ["0.005", "0.01", "0.5", "1", "16", "32"].map(count),
            [2, 3, 3, 4, 4, 5]
        );
        assert_eq!((stats.count, stats.sum_ns), (6, 65_010_002_000));
        for (name, millis) in BOUNDS {
            assert_eq!(name.parse::<f64>().unwrap() * 1e3, millis as f64);
        }
    }
}
