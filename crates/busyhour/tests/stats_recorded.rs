//! A snapshot reaches a recorder of the crate `metrics`, each figure described and once.
#![cfg(feature = "metrics")]

use busyhour::{bus::Event, runtime::Runtime, stats::Snapshot};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    Unit, with_local_recorder,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

#[derive(Default)]
struct Recorded {
    values: Arc<Mutex<BTreeMap<String, f64>>>,
    units: Mutex<BTreeMap<String, Unit>>,
}

struct Cell(Arc<Mutex<BTreeMap<String, f64>>>, String);

impl Cell {
    fn put(&self, value: f64) {
        self.0.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl CounterFn for Cell {
    fn increment(&self, _value: u64) {
        panic!("a snapshot has absolute values");
    }

    fn absolute(&self, value: u64) {
        self.put(value as f64);
    }
}

impl GaugeFn for Cell {
    fn increment(&self, _value: f64) {
        panic!("a snapshot has absolute values");
    }

    fn decrement(&self, _value: f64) {
        panic!("a snapshot has absolute values");
    }

    fn set(&self, value: f64) {
        self.put(value);
    }
}

impl Recorded {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let labels: Vec<_> = labels.collect();
        let name = match labels.is_empty() {
            true => key.name().to_owned(),
            false => format!("{}{{{}}}", key.name(), labels.join(",")),
        };
        Arc::new(Cell(Arc::clone(&self.values), name))
    }

    fn describe(&self, name: KeyName, unit: Option<Unit>, text: &str) {
        assert!(text.ends_with('.'), "{text}");
        let unit = unit.expect("each figure has a unit");
        let twice = self
            .units
            .lock()
            .unwrap()
            .insert(name.as_str().to_owned(), unit);
        assert!(twice.is_none(), "{name:?}");
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        assert!(name.as_str().ends_with("_total"), "{name:?}");
        self.describe(name, unit, &text);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        assert!(!name.as_str().ends_with("_total"), "{name:?}");
        self.describe(name, unit, &text);
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("no figure is a histogram");
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("no figure is a histogram");
    }
}

#[derive(Clone)]
struct Tick(u32);

impl Event for Tick {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.0
    }
}

#[test]
fn a_snapshot_is_recorded_with_its_labels_and_units() {
    let runtime = Runtime::simulated(1);
    let orders = runtime.serializer("orders").capacity(2).build().unwrap();
    let ticks = runtime.topic::<Tick>("ticks").cached().build();
    assert!(orders.push(|| ()).is_ok() && orders.push(|| ()).is_ok());
    assert!(orders.push(|| ()).is_err(), "there is room for two");
    for number in [1, 2, 2] {
        _ = ticks.publish(Tick(number));
    }
    let recorded = Recorded::default();
    with_local_recorder(&recorded, || {
        Snapshot::describe();
        runtime.stats().record();
        runtime.simulation().unwrap().run_until_idle();
        runtime.stats().record();
    });
    let values = recorded.values.lock().unwrap();
    let of = |name: &str| {
        *values
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {values:?}"))
    };
    assert_eq!(
        of("busyhour_serializer_tasks_processed_total{serializer=orders}"),
        2.0
    );
    assert_eq!(
        of("busyhour_serializer_tasks_rejected_total{serializer=orders}"),
        1.0
    );
    assert_eq!(of("busyhour_serializer_queued{serializer=orders}"), 0.0);
    assert_eq!(of("busyhour_pool_tasks_processed_total"), 2.0);
    assert_eq!(
        of("busyhour_topic_events_published_total{topic=ticks}"),
        3.0
    );
    assert_eq!(of("busyhour_topic_keys{topic=ticks}"), 2.0);
    assert_eq!(of("busyhour_buffers_budget_bytes"), (64_u64 << 20) as f64);
    assert!(values.contains_key("busyhour_task_run_seconds{quantile=0.99}"));
    let units = recorded.units.lock().unwrap();
    assert_eq!(units["busyhour_buffers_used_bytes"], Unit::Bytes);
    for name in values.keys() {
        let name = name.split('{').next().unwrap();
        assert!(units.contains_key(name), "{name} is not described");
    }
}
