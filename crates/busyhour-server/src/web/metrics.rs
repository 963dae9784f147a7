//! The snapshot for Prometheus. It is walked field by field, so that each new
//! statistic of a component becomes a metric, with a name that shows where it comes
//! from.
//!
//! `registrar.accepted` of `/api/v1/stats` is `busyhour_registrar_accepted_total`;
//! `pool.queued_len` is the gauge `busyhour_runtime_pool_queued_len`; `registrar.device_count` is
//! `busyhour_registrar_devices`, since `_count` is a part of a histogram there; times are in seconds; what exists once for each serializer or topic has its name as a label.

mod open_files;
mod process_metrics;

use crate::server::ServerStats;
pub(super) use open_files::open_files;
use process_metrics::ProcessMetrics;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap, fmt, time::Duration};

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The snapshot in the OpenMetrics text format, and what there is to say of the process, which has
/// so many [`open_files`].
pub(super) fn text(stats: &ServerStats, open_files: Option<u64>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("busyhour");
    registry.register_collector(Box::new(Families::of(stats)));
    let mut out = String::new();
    text::encode_registry(&mut out, &registry)?;
    let mut process = Registry::default();
    let uptime = Duration::from_nanos(stats.uptime_ns);
    process.register_collector(Box::new(ProcessMetrics::new(uptime, open_files)));
    text::encode_registry(&mut out, &process)?;
    text::encode_eof(&mut out)?;
    Ok(out)
}

/// Every metric of one snapshot.
#[derive(Debug, Default)]
pub(super) struct Families(BTreeMap<String, Family>);

#[derive(Debug)]
pub(super) struct Family {
    /// The path in the snapshot, which the help text shows.
    path: String,
    /// The path without the unit, since the unit is said beside it.
    dotted_name: String,
    kind: MetricType,
    unit: Option<Unit>,
    /// The samples: the owner's name, if there are several owners, and the value.
    samples: Vec<(Option<String>, f64)>,
    /// What a histogram has instead.
    histogram: Option<HistogramSample>,
}

/// Times by their bounds.
#[derive(Debug)]
pub(super) struct HistogramSample {
    /// Bounds in seconds, and how many did not exceed each.
    pub(super) buckets: Vec<(f64, u64)>,
    pub(super) sum_seconds: f64,
    pub(super) count: u64,
}

impl Families {
    pub(super) fn of(stats: &ServerStats) -> Self {
        let mut families = Self::default();
        if let Ok(Value::Object(fields)) = serde_json::to_value(stats) {
            families.walk(&[], None, &fields);
        }
        families
    }

    /// Each with its name, which has no prefix.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Family)> {
        self.0.iter().map(|(name, family)| (name.as_str(), family))
    }

    fn walk(&mut self, path: &[&str], owner: Option<&str>, fields: &Map<String, Value>) {
        for (name, value) in fields {
            let path = &[path, &[name.as_str()]].concat();
            match value {
                Value::Number(number) => {
                    self.add(path, (owner, fields), number.as_f64().unwrap_or(0.0));
                }
                Value::Object(fields) => match HistogramSample::of(fields) {
                    Some(histogram) => self.add_histogram(path, histogram),
                    None => self.walk(path, owner, fields),
                },
                Value::Array(elements) => self.walk_each(path, elements),
                // Texts are only in /api/v1/stats; Prometheus stores numbers.
                Value::String(_) | Value::Bool(_) | Value::Null => {}
            }
        }
    }

    fn walk_each(&mut self, path: &[&str], elements: &[Value]) {
        for fields in elements.iter().filter_map(Value::as_object) {
            let owner = fields.get("name").and_then(Value::as_str);
            self.walk(path, owner, fields);
        }
    }

    fn add(
        &mut self,
        path: &[&str],
        (owner, beside): (Option<&str>, &Map<String, Value>),
        value: f64,
    ) {
        let Some((field, parents)) = path.split_last() else {
            return;
        };
        let shape = Shape::of(field);
        let named = |stem: &str, between: &str| [parents, &[stem]].concat().join(between);
        let mut counted = shape.counted();
        if *counted != shape.stem && beside.contains_key(&*counted) {
            // All that there ever were are counted beside those that there are.
            counted += "_active";
        }
        let name = named(&counted, "_");
        let family = self.0.entry(name).or_insert_with(|| Family {
            path: path.join("."),
            dotted_name: named(&shape.stem, "."),
            kind: shape.kind,
            unit: shape.unit,
            samples: Vec::new(),
            histogram: None,
        });
        let owner = owner.map(str::to_owned);
        family.samples.push((owner, value * shape.scale));
    }
}

impl Families {
    fn add_histogram(&mut self, path: &[&str], histogram: HistogramSample) {
        let family = Family {
            path: path.join("."),
            dotted_name: path.join("."),
            kind: MetricType::Histogram,
            unit: Some(Unit::Seconds),
            samples: Vec::new(),
            histogram: Some(histogram),
        };
        self.0.insert(path.join("_"), family);
    }
}

impl HistogramSample {
    /// Of a [`HistogramStats`](crate::server::HistogramStats).
    fn of(fields: &Map<String, Value>) -> Option<Self> {
        let bucket = |bucket: &Value| {
            let bound = bucket.get("name")?.as_str()?.parse().ok()?;
            Some((bound, bucket.get("count")?.as_u64()?))
        };
        let buckets = fields.get("buckets")?.as_array()?;
        Some(Self {
            buckets: buckets.iter().map(bucket).collect::<Option<_>>()?,
            sum_seconds: fields.get("sum_ns")?.as_f64()? * 1e-9,
            count: fields.get("count")?.as_u64()?,
        })
    }

    fn encode(&self, metric: &mut MetricEncoder) -> fmt::Result {
        let mut before = 0;
        let own = self.buckets.iter().map(|(bound, count)| {
            let own = count - before;
            before = *count;
            (*bound, own)
        });
        let mut own: Vec<(f64, u64)> = own.collect();
        own.push((f64::INFINITY, self.count.saturating_sub(before)));
        metric.encode_histogram::<[(&str, &str); 0]>(self.sum_seconds, self.count, &own, None)
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (name, family) in &self.0 {
            let help = format!("{} of /api/v1/stats", family.path);
            let unit = family.unit.as_ref();
            let mut metric = encoder.encode_descriptor(name, &help, unit, family.kind)?;
            if let Some(histogram) = &family.histogram {
                histogram.encode(&mut metric)?;
            }
            for (owner, value) in &family.samples {
                family.encode(&mut metric, owner.as_deref(), *value)?;
            }
        }
        Ok(())
    }
}

impl Family {
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn dotted_name(&self) -> &str {
        &self.dotted_name
    }

    pub(super) fn kind(&self) -> MetricType {
        self.kind
    }

    pub(super) fn unit(&self) -> Option<&Unit> {
        self.unit.as_ref()
    }

    pub(super) fn samples(&self) -> &[(Option<String>, f64)] {
        &self.samples
    }

    pub(super) fn histogram(&self) -> Option<&HistogramSample> {
        self.histogram.as_ref()
    }

    fn encode(&self, metric: &mut MetricEncoder, owner: Option<&str>, value: f64) -> fmt::Result {
        match owner {
            Some(owner) => self.value(&mut metric.encode_family(&[("name", owner)])?, value),
            None => self.value(metric, value),
        }
    }

    fn value(&self, metric: &mut MetricEncoder, value: f64) -> fmt::Result {
        match self.kind {
            MetricType::Counter => metric.encode_counter::<[(&str, &str); 0], _, f64>(&value, None),
            _ => metric.encode_gauge(&value),
        }
    }
}

/// What the name of a field shows about its values.
struct Shape {
    /// The name without its unit, since Prometheus wants the unit last.
    stem: String,
    kind: MetricType,
    unit: Option<Unit>,
    /// The factor from the field's unit to the metric's.
    scale: f64,
}

impl Shape {
    fn of(field: &str) -> Self {
        let kind = if is_gauge(field) {
            MetricType::Gauge
        } else {
            MetricType::Counter
        };
        let timed = field.ends_with("_ns") || field.contains("_ns_");
        let stem = field
            .replace("_ns", "")
            .trim_end_matches("_total")
            .to_owned();
        Self {
            stem,
            kind,
            unit: timed.then_some(Unit::Seconds),
            scale: if timed { 1e-9 } else { 1.0 },
        }
    }
}

impl Shape {
    /// The name without `_count`, with which readers of Prometheus expect a histogram: what is counted, in the plural.
    fn counted(&self) -> Cow<'_, str> {
        let Some(counted) = self.stem.strip_suffix("_count") else {
            return self.stem.as_str().into();
        };
        let last = counted.rsplit('_').next().unwrap_or(counted);
        let ends_in = |ends: &[&str]| ends.iter().any(|end| counted.ends_with(end));
        match last {
            _ if STATES.contains(&last) => counted.into(),
            "suspend" => "suspensions".into(),
            _ if ends_in(&["series"]) => counted.into(),
            _ if ends_in(&["x", "s", "ch", "sh"]) => format!("{counted}es").into(),
            _ => format!("{counted}s").into(),
        }
    }
}

/// What says how many are so, and not how many there are.
const STATES: [&str; 14] = [
    "away", "busy", "cached", "down", "failing", "high", "lagging", "live", "open", "pending",
    "retired", "told", "waiting", "watched",
];

/// The naming rule of the snapshot: these fields rise and fall; all others only rise.
fn is_gauge(field: &str) -> bool {
    if COUNTED_BYTES.contains(&field) {
        return false;
    }
    let last = [
        "_count",
        "_len",
        "_bytes",
        "_ns",
        "_seconds",
        "_max",
        "_high_water",
        "_capacity",
        "_watermark",
    ];
    last.iter().any(|suffix| field.ends_with(suffix))
}

/// Byte totals since the start, which the naming rule would take for gauges.
const COUNTED_BYTES: [&str; 2] = ["received_bytes", "sent_bytes"];

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::stats::SerializerStats;

    fn stats() -> ServerStats {
        let mut stats = ServerStats::default();
        stats.registrar.accepted = 7;
        stats.registrar.binding_count = 5;
        stats.registrar.latency_p99_ns = 2_500_000;
        stats.store.transaction_ns_total = 3_000_000_000;
        stats.traffic.received_bytes = 9;
        stats.runtime.serializers = ["a", "b\"\n"].map(named).into();
        stats
    }

    fn named(name: &str) -> SerializerStats {
        SerializerStats {
            name: name.into(),
            queued_len: name.len() as u64,
            ..SerializerStats::default()
        }
    }

    #[test]
    fn counters_gauges_and_times_have_their_formats() {
        let text = text(&stats(), Some(7)).unwrap();
        for line in [
            "# TYPE busyhour_registrar_accepted counter",
            "busyhour_registrar_accepted_total 7.0",
            "# TYPE busyhour_registrar_bindings gauge",
            "busyhour_registrar_bindings 5.0",
            "busyhour_registrar_latency_p99_seconds 0.0025",
            "busyhour_store_transaction_seconds_total 3.0",
            "busyhour_traffic_received_bytes_total 9.0",
            "# HELP busyhour_registrar_accepted registrar.accepted of /api/v1/stats",
            "# TYPE process_cpu_seconds counter",
            "# UNIT process_resident_memory_bytes bytes",
            concat!(
                "busyhour_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1.0"
            ),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let of_process = text.lines().filter(|line| line.starts_with("process_"));
        for line in of_process {
            let (name, value) = line.split_once(' ').unwrap();
            assert!(value.parse::<f64>().unwrap() > 0.0, "{name}: {value}");
        }
    }

    /// `promtool check metrics` complains of such names.
    #[test]
    fn only_histograms_have_a_count_and_no_two_fields_share_a_name() {
        let counted = |field: &str| Shape::of(field).counted().into_owned();
        assert_eq!(counted("idle_worker_count"), "idle_workers");
        assert_eq!(counted("mailbox_count"), "mailboxes");
        assert_eq!(counted("breaker_open_count"), "breaker_open");
        let families = Families::of(&stats());
        for (name, family) in families.iter() {
            assert!(!name.ends_with("_count"), "{name}");
            let unowned = family.samples.iter().filter(|(owner, _)| owner.is_none());
            assert!(unowned.count() <= 1, "{name}");
        }
    }

    #[test]
    fn values_that_exist_several_times_are_one_family_with_labels() {
        let text = text(&stats(), Some(7)).unwrap();
        let family = "busyhour_runtime_serializers_queued_len";
        assert_eq!(text.matches(&format!("# TYPE {family} gauge")).count(), 1);
        assert!(
            text.contains(&format!("{family}{{name=\"a\"}} 1.0")),
            "{text}"
        );
        assert!(text.contains("name=\"b\\\"\\n\""), "{text}");
    }

    #[test]
    fn a_histogram_has_buckets_a_sum_and_a_count() {
        let mut stats = stats();
        let delays = &mut stats.calls.post_dial_delay;
        delays.count = 5;
        delays.sum_ns = 1_500_000_000;
        for bucket in &mut delays.buckets {
            bucket.count = if bucket.name == "0.005" { 3 } else { 4 };
        }
        let text = text(&stats, Some(7)).unwrap();
        for line in [
            "# TYPE busyhour_calls_post_dial_delay_seconds histogram",
            "busyhour_calls_post_dial_delay_seconds_sum 1.5",
            "busyhour_calls_post_dial_delay_seconds_count 5",
            "busyhour_calls_post_dial_delay_seconds_bucket{le=\"0.005\"} 3",
            "busyhour_calls_post_dial_delay_seconds_bucket{le=\"32.0\"} 4",
            "busyhour_calls_post_dial_delay_seconds_bucket{le=\"+Inf\"} 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn every_number_of_the_snapshot_is_a_metric() {
        let numbers = count_numbers(&serde_json::to_value(stats()).unwrap());
        let samples: usize = Families::of(&stats())
            .0
            .values()
            .map(|family| match &family.histogram {
                Some(histogram) => histogram.buckets.len() + 2,
                None => family.samples.len(),
            })
            .sum();
        assert_eq!(samples, numbers);
    }

    fn count_numbers(value: &Value) -> usize {
        match value {
            Value::Number(_) => 1,
            Value::Array(elements) => elements.iter().map(count_numbers).sum(),
            Value::Object(fields) => fields.values().map(count_numbers).sum(),
            _ => 0,
        }
    }
}
