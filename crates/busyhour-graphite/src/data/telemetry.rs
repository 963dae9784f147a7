use crate::{
    Error, Points, Source, TimeLimit, Window,
    paths::{index::Index, node::node},
    stats::TelemetryStats,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A ring of samples of the server's statistics, each at a multiple of a step.
///
/// Its memory is bounded; the oldest samples go first, and are counted.
///
/// ```
/// use busyhour_graphite::{Source, Telemetry, TelemetryOptions, TimeLimit, Window};
///
/// let telemetry = Telemetry::new(TelemetryOptions { step_seconds: 10, ..Default::default() });
/// let snapshot = serde_json::json!({
///     "pool": {"pushed": 7},
///     "topics": [{"name": "device state", "published": 3}],
/// });
/// telemetry.record(1000, &snapshot);
/// let window = Window { from: 990, until: 1000 };
/// let path = "busyhour.topics.device~20state.published".into();
/// let points = telemetry.fetch(&[path], window, &TimeLimit::none()).unwrap();
/// assert_eq!(points[0].values, [Some(3.0)]);
/// ```
#[derive(Debug)]
pub struct Telemetry {
    options: TelemetryOptions,
    ring: Mutex<Ring>,
}

/// How much the ring holds, and how fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TelemetryOptions {
    /// Seconds between two samples; at least 1.
    pub step_seconds: i64,
    /// Bytes of all samples together.
    pub bytes_max: usize,
    /// Values of one sample; more are left out and counted.
    pub series_max: usize,
}

#[derive(Debug, Default)]
struct Ring {
    /// In the order of their slots, which are all different.
    samples: VecDeque<Sample>,
    index: Arc<Index>,
    bytes: usize,
    taken: u64,
    evicted: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Sample {
    /// Its time in steps.
    slot: i64,
    /// Shared by samples with the same paths.
    paths: Arc<Index>,
    values: Box<[f64]>,
}

impl Telemetry {
    /// An empty ring.
    pub fn new(options: TelemetryOptions) -> Self {
        let ring = Mutex::new(Ring::default());
        Self { options, ring }
    }

    /// Keeps the numbers in `snapshot` as the sample of the step that `time`
    /// (seconds since 1970) is in. A field `a.b` is the path `busyhour.a.b`;
    /// an element of a list has its `name` as a node.
    pub fn record(&self, time: i64, snapshot: &Value) {
        let mut values = Vec::new();
        flatten(ROOT, snapshot, &mut values);
        self.record_values(time, values);
    }

    /// Keeps `values`, each with its path, as the sample of the step that `time` (seconds
    /// since 1970) is in. It holds at most [`TelemetryOptions::series_max`] of them at any
    /// moment: the first ones in the order of their paths.
    ///
    /// ```
    /// use busyhour_graphite::{Source, Telemetry, TelemetryOptions};
    ///
    /// let telemetry = Telemetry::new(TelemetryOptions::default());
    /// telemetry.record_values(1000, [("room.temperature".into(), 20.5)]);
    /// assert_eq!(&*telemetry.index().paths()[0], "room.temperature");
    /// ```
    pub fn record_values(&self, time: i64, values: impl IntoIterator<Item = (String, f64)>) {
        let (mut kept, mut dropped) = (BTreeMap::new(), 0);
        for (path, value) in values {
            kept.entry(path).or_insert(value);
            if kept.len() > self.options.series_max {
                kept.pop_last();
                dropped += 1;
            }
        }
        let values: Vec<(String, f64)> = kept.into_iter().collect();
        let slot = time.div_euclid(self.options.step_seconds.max(1));
        let mut ring = self.ring();
        ring.taken += 1;
        ring.dropped += dropped;
        ring.push(slot, &values);
        ring.evict(self.options.bytes_max);
    }

    /// What it holds and has lost.
    pub fn stats(&self) -> TelemetryStats {
        let ring = self.ring();
        TelemetryStats {
            sample_count: ring.samples.len() as u64,
            series_count: ring.index.paths().len() as u64,
            held_bytes: ring.bytes as u64,
            sampled: ring.taken,
            evicted: ring.evicted,
            dropped: ring.dropped,
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Telemetry {
    fn index(&self) -> Arc<Index> {
        self.ring().index.clone()
    }

    fn len(&self, _path: &str, window: Window) -> u64 {
        let step = self.options.step_seconds.max(1);
        let (start, end) = self.ring().within(window, step);
        ((end - start) / step) as u64
    }

    fn fetch(
        &self,
        paths: &[Arc<str>],
        window: Window,
        _time: &TimeLimit,
    ) -> Result<Vec<Points>, Error> {
        let step = self.options.step_seconds.max(1);
        let ring = self.ring();
        Ok(paths
            .iter()
            .map(|path| ring.points(path, window, step))
            .collect())
    }
}

impl Ring {
    fn points(&self, path: &str, window: Window, step: i64) -> Points {
        let (start, end) = self.within(window, step);
        let mut values = vec![None; usize::try_from((end - start) / step).unwrap_or(0)];
        let first = self
            .samples
            .partition_point(|sample| sample.slot < start / step);
        for sample in self.samples.range(first..) {
            let place = usize::try_from(sample.slot - start / step).ok();
            match place.and_then(|place| values.get_mut(place)) {
                Some(value) => *value = sample.value(path),
                None => break,
            }
        }
        Points {
            start,
            step,
            values,
        }
    }

    /// A later sample of the same step replaces the earlier one. If the clock was set
    /// back, it also replaces all samples that are now in the future.
    fn push(&mut self, slot: i64, values: &[(String, f64)]) {
        while self.samples.back().is_some_and(|last| last.slot >= slot) {
            let is_future = self.samples.pop_back().is_some_and(|last| last.slot > slot);
            self.evicted += u64::from(is_future);
        }
        let last = self.samples.back();
        let paths = match last.filter(|last| last.has_paths(values)) {
            Some(last) => last.paths.clone(),
            None => Arc::new(Index::new(
                values.iter().map(|(path, _)| path.as_str().into()),
            )),
        };
        let values = values.iter().map(|(_, value)| *value).collect();
        self.samples.push_back(Sample {
            slot,
            paths,
            values,
        });
        self.recount();
    }

    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && self.samples.pop_front().is_some() {
            self.evicted += 1;
            self.recount();
        }
    }

    /// Memory and paths follow from the samples: lists of paths are few, and
    /// each is shared by a run of samples.
    fn recount(&mut self) {
        let mut lists: Vec<&Arc<Index>> = Vec::new();
        let mut bytes = 0;
        for sample in &self.samples {
            bytes += size_of::<Sample>() + size_of_val(&*sample.values);
            if !lists
                .last()
                .is_some_and(|last| Arc::ptr_eq(last, &sample.paths))
            {
                bytes += sample
                    .paths
                    .paths()
                    .iter()
                    .map(|path| path.len() + PATH_BYTES)
                    .sum::<usize>();
                lists.push(&sample.paths);
            }
        }
        let index = match lists.as_slice() {
            [only] => Arc::clone(only),
            several => Arc::new(Index::new(
                several.iter().flat_map(|list| list.paths().iter().cloned()),
            )),
        };
        (self.bytes, self.index) = (bytes, index);
    }

    /// The part of `window` that samples lie in, as Graphite's storage cuts a
    /// range to what it keeps.
    fn within(&self, window: Window, step: i64) -> (i64, i64) {
        let (start, end) = window.aligned(step);
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return (start, start);
        };
        let start = start.max(first.slot.saturating_mul(step));
        let end = end.min((last.slot + 1).saturating_mul(step));
        (start, end.max(start))
    }
}

impl Sample {
    fn value(&self, path: &str) -> Option<f64> {
        let place = self
            .paths
            .paths()
            .binary_search_by(|known| (**known).cmp(path))
            .ok()?;
        self.values.get(place).copied()
    }

    fn has_paths(&self, values: &[(String, f64)]) -> bool {
        let paths = self.paths.paths();
        paths.len() == values.len()
            && paths
                .iter()
                .zip(values)
                .all(|(known, (path, _))| **known == **path)
    }
}

impl Default for TelemetryOptions {
    fn default() -> Self {
        Self {
            step_seconds: 10,
            bytes_max: 16 << 20,
            series_max: 4096,
        }
    }
}

/// Every number in `value`, with its path.
fn flatten(path: &str, value: &Value, out: &mut Vec<(String, f64)>) {
    match value {
        Value::Number(number) => {
            out.extend(number.as_f64().map(|number| (path.to_owned(), number)))
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(&format!("{path}.{}", node(name)), value, out);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                if let Some(name) = element.get("name").and_then(Value::as_str) {
                    flatten(&format!("{path}.{}", node(name)), element, out);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

const ROOT: &str = "busyhour";
/// Of one path in a list: its pointer and its counts.
const PATH_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ring(bytes_max: usize) -> Telemetry {
        Telemetry::new(TelemetryOptions {
            step_seconds: 10,
            bytes_max,
            series_max: 4,
        })
    }

    fn values(telemetry: &Telemetry, path: &str, from: i64, until: i64) -> Vec<Option<f64>> {
        let mut points = telemetry
            .fetch(&[path.into()], Window { from, until }, &TimeLimit::none())
            .unwrap();
        points.remove(0).values
    }

    #[test]
    fn samples_are_returned_at_their_steps_and_gaps_stay_gaps() {
        let telemetry = ring(1 << 20);
        for (time, value) in [(100, 1), (111, 2), (119, 3), (140, 4)] {
            telemetry.record(time, &json!({"a": {"b": value}, "text": "x"}));
        }
        let expected = [Some(1.0), Some(3.0), None, None, Some(4.0)];
        assert_eq!(values(&telemetry, "busyhour.a.b", 0, 1000), expected);
        assert_eq!(values(&telemetry, "busyhour.a.b", 100, 110), [Some(3.0)]);
        assert!(values(&telemetry, "busyhour.a.b", 500, 600).is_empty());
        assert_eq!(values(&telemetry, "busyhour.none", 90, 110), [None, None]);
        assert_eq!(telemetry.stats().sampled, 4);
    }

    #[test]
    fn names_appear_and_disappear() {
        let telemetry = ring(1 << 20);
        telemetry.record(10, &json!({"q": [{"name": "a.b", "n": 1}]}));
        telemetry.record(20, &json!({"q": [{"name": "c", "n": 2}]}));
        let paths = telemetry.index();
        let paths: Vec<&str> = paths.paths().iter().map(|path| &**path).collect();
        assert_eq!(paths, ["busyhour.q.a~2Eb.n", "busyhour.q.c.n"]);
        assert_eq!(
            values(&telemetry, "busyhour.q.c.n", 0, 20),
            [None, Some(2.0)]
        );
    }

    #[test]
    fn memory_and_series_are_bounded_and_losses_counted() {
        let telemetry = ring(600);
        for time in 0..50 {
            telemetry.record(time * 10, &json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}));
        }
        let stats = telemetry.stats();
        assert!(stats.held_bytes <= 600, "{stats:?}");
        assert!(stats.sample_count > 1, "{stats:?}");
        assert_eq!(stats.sample_count + stats.evicted, 50);
        assert_eq!((stats.series_count, stats.dropped), (4, 50));
    }

    #[test]
    fn a_calendar_set_back_drops_samples_of_the_future() {
        let telemetry = ring(1 << 20);
        for time in [100, 110, 120, 105] {
            telemetry.record(time, &json!({ "a": time }));
        }
        assert_eq!(values(&telemetry, "busyhour.a", 0, 1000), [Some(105.0)]);
        assert_eq!(telemetry.stats().evicted, 2);
    }
}
