//! A snapshot's figures for the recorder of the crate `metrics`: names as Prometheus wants them,
//! each with its unit and a sentence.

use super::{BufferStats, Histogram, PoolStats, SerializerStats, Snapshot, TimerStats, TopicStats};
use metrics::{Label, Unit, counter, describe_counter, describe_gauge, gauge};

impl Snapshot {
    /// Gives every figure to the recorder that the program has installed for the crate `metrics`:
    /// counters with their value, gauges, and quantiles of the histograms. Does nothing without a
    /// recorder. Call it as often as the figures are looked at, for example every ten seconds;
    /// publishing and pushing cost nothing more.
    ///
    /// ```
    /// use busyhour::{runtime::Runtime, stats::Snapshot};
    ///
    /// // Once, after the recorder has been installed:
    /// Snapshot::describe();
    /// let runtime = Runtime::simulated(1);
    /// runtime.stats().record();
    /// ```
    pub fn record(&self) {
        record(BUFFERS, &self.buffers, &[]);
        record(POOL, &self.pool, &[]);
        record_quantiles("busyhour_task_run_seconds", &self.pool.run_ns);
        record_quantiles("busyhour_turn_wait_seconds", &self.pool.wait_ns);
        record(TIMERS, &self.timers, &[]);
        for serializer in &self.serializers {
            let label = Label::new("serializer", serializer.name.clone());
            record(SERIALIZER, serializer, &[label]);
        }
        for topic in &self.topics {
            let label = Label::new("topic", topic.name.clone());
            record(TOPIC, topic, &[label]);
        }
    }

    /// Describes all figures to the recorder, with their units.
    pub fn describe() {
        describe(BUFFERS);
        describe(POOL);
        describe(TIMERS);
        describe(SERIALIZER);
        describe(TOPIC);
        for (name, text) in QUANTILES {
            describe_gauge!(*name, Unit::Seconds, *text);
        }
    }
}

/// One figure of a part's statistics.
struct Figure<S> {
    name: &'static str,
    unit: Unit,
    text: &'static str,
    value: FigureValue<S>,
}

enum FigureValue<S> {
    /// Only grows.
    Counter(fn(&S) -> u64),
    Gauge(fn(&S) -> f64),
}

fn record<S>(figures: &[Figure<S>], stats: &S, labels: &[Label]) {
    for figure in figures {
        match figure.value {
            FigureValue::Counter(value) => {
                counter!(figure.name, labels.to_vec()).absolute(value(stats));
            }
            FigureValue::Gauge(value) => gauge!(figure.name, labels.to_vec()).set(value(stats)),
        }
    }
}

fn record_quantiles(name: &'static str, histogram: &Histogram) {
    for (quantile, label) in [(0.5, "0.5"), (0.99, "0.99")] {
        let labels = vec![Label::from_static_parts("quantile", label)];
        gauge!(name, labels).set(seconds(histogram.quantile_ns(quantile)));
    }
}

fn describe<S>(figures: &[Figure<S>]) {
    for Figure {
        name,
        unit,
        text,
        value,
    } in figures
    {
        match value {
            FigureValue::Counter(_) => describe_counter!(*name, *unit, *text),
            FigureValue::Gauge(_) => describe_gauge!(*name, *unit, *text),
        }
    }
}

const fn counted<S>(name: &'static str, value: fn(&S) -> u64, text: &'static str) -> Figure<S> {
    let (unit, value) = (Unit::Count, FigureValue::Counter(value));
    Figure {
        name,
        unit,
        text,
        value,
    }
}

const fn gauged<S>(
    name: &'static str,
    unit: Unit,
    value: fn(&S) -> f64,
    text: &'static str,
) -> Figure<S> {
    let value = FigureValue::Gauge(value);
    Figure {
        name,
        unit,
        text,
        value,
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

const BUFFERS: &[Figure<BufferStats>] = &[
    gauged(
        "busyhour_buffers_live",
        Unit::Count,
        |it| it.live_count as f64,
        "Buffers handed out and not yet released.",
    ),
    gauged(
        "busyhour_buffers_used_bytes",
        Unit::Bytes,
        |it| it.used_bytes as f64,
        "Bytes of buffers charged to the budget.",
    ),
    gauged(
        "busyhour_buffers_budget_bytes",
        Unit::Bytes,
        |it| it.budget_bytes as f64,
        "The most bytes that buffers may take.",
    ),
    gauged(
        "busyhour_buffers_resident_bytes",
        Unit::Bytes,
        |it| it.resident_bytes as f64,
        "Bytes of buffers backed by memory.",
    ),
    counted(
        "busyhour_buffers_allocated_total",
        |it| it.allocated,
        "Buffers handed out.",
    ),
    counted(
        "busyhour_buffers_refused_total",
        |it| it.refused,
        "Allocations refused because of the budget.",
    ),
];

const POOL: &[Figure<PoolStats>] = &[
    gauged(
        "busyhour_pool_workers",
        Unit::Count,
        |it| it.worker_count as f64,
        "Workers that there are.",
    ),
    gauged(
        "busyhour_pool_idle_workers",
        Unit::Count,
        |it| it.idle_worker_count as f64,
        "Workers that are parked because there is no work.",
    ),
    gauged(
        "busyhour_pool_queued",
        Unit::Count,
        |it| it.queued_len as f64,
        "Tasks and serializers that wait for a worker.",
    ),
    gauged(
        "busyhour_pool_oldest_waiting_seconds",
        Unit::Seconds,
        |it| seconds(it.oldest_waiting_ns),
        "Age of the oldest task that waits in a named serializer.",
    ),
    counted(
        "busyhour_pool_tasks_pushed_total",
        |it| it.pushed,
        "Tasks accepted.",
    ),
    counted(
        "busyhour_pool_tasks_processed_total",
        |it| it.processed,
        "Tasks that ran.",
    ),
    counted(
        "busyhour_pool_tasks_rejected_total",
        |it| it.rejected,
        "Tasks refused because of a bound or a shutdown.",
    ),
    counted(
        "busyhour_pool_tasks_dropped_total",
        |it| it.dropped,
        "Tasks accepted and later dropped.",
    ),
    counted(
        "busyhour_pool_tasks_panicked_total",
        |it| it.panicked,
        "Tasks that panicked.",
    ),
    counted(
        "busyhour_pool_tasks_stolen_total",
        |it| it.stolen,
        "Tasks taken from another worker's queue.",
    ),
    counted(
        "busyhour_pool_alerts_total",
        |it| it.alerts_raised,
        "Times that the pool's queue has become long.",
    ),
];

const SERIALIZER: &[Figure<SerializerStats>] = &[
    gauged(
        "busyhour_serializer_queued",
        Unit::Count,
        |it| it.queued_len as f64,
        "Tasks that wait.",
    ),
    gauged(
        "busyhour_serializer_oldest_waiting_seconds",
        Unit::Seconds,
        |it| seconds(it.oldest_waiting_ns),
        "Age of the oldest task that waits.",
    ),
    gauged(
        "busyhour_serializer_running_seconds",
        Unit::Seconds,
        |it| seconds(it.running_for_ns),
        "How long the current task has been running.",
    ),
    counted(
        "busyhour_serializer_tasks_processed_total",
        |it| it.processed,
        "Tasks that ran.",
    ),
    counted(
        "busyhour_serializer_tasks_rejected_total",
        |it| it.rejected,
        "Tasks refused because the queue was full.",
    ),
    counted(
        "busyhour_serializer_tasks_dropped_total",
        |it| it.dropped,
        "Tasks dropped to make room.",
    ),
    counted(
        "busyhour_serializer_tasks_conflated_total",
        |it| it.conflated,
        "Tasks replaced by a newer one of their key.",
    ),
    counted(
        "busyhour_serializer_tasks_panicked_total",
        |it| it.panicked,
        "Tasks that panicked.",
    ),
];

const TOPIC: &[Figure<TopicStats>] = &[
    gauged(
        "busyhour_topic_keys",
        Unit::Count,
        |it| it.cached_count as f64,
        "Keys with a last value.",
    ),
    gauged(
        "busyhour_topic_subscribers",
        Unit::Count,
        |it| it.subscriber_count as f64,
        "Subscriptions.",
    ),
    gauged(
        "busyhour_topic_longest_queued",
        Unit::Count,
        |it| it.slowest_queued_len as f64,
        "Events that wait for the slowest subscription.",
    ),
    gauged(
        "busyhour_topic_lagging",
        Unit::Count,
        |it| it.lagging_count as f64,
        "Subscriptions that lag, counted for each shard.",
    ),
    counted(
        "busyhour_topic_events_published_total",
        |it| it.published,
        "Events published.",
    ),
    counted(
        "busyhour_topic_events_delivered_total",
        |it| it.delivered,
        "Deliveries of events to subscriptions.",
    ),
    counted(
        "busyhour_topic_events_lost_total",
        |it| it.lost,
        "Deliveries lost by an overflow policy.",
    ),
    counted(
        "busyhour_topic_events_conflated_total",
        |it| it.conflated,
        "Deliveries replaced by a newer event of their key.",
    ),
    counted(
        "busyhour_topic_events_refused_total",
        |it| it.refused,
        "Events refused because there were too many keys.",
    ),
];

const TIMERS: &[Figure<TimerStats>] = &[
    gauged(
        "busyhour_timers_pending",
        Unit::Count,
        |it| it.pending_count as f64,
        "Timers that wait.",
    ),
    gauged(
        "busyhour_timers_lateness_p99_seconds",
        Unit::Seconds,
        |it| seconds(it.lateness_p99_ns),
        "99th percentile of the lateness of deliveries.",
    ),
    counted(
        "busyhour_timers_added_total",
        |it| it.added,
        "Timers added.",
    ),
    counted(
        "busyhour_timers_cancelled_total",
        |it| it.cancelled,
        "Timers cancelled before they ran.",
    ),
    counted(
        "busyhour_timers_expired_total",
        |it| it.expired,
        "Deliveries of timers.",
    ),
    counted(
        "busyhour_timers_refused_total",
        |it| it.refused,
        "Timers refused because the service was full or closed.",
    ),
    counted(
        "busyhour_timers_lost_total",
        |it| it.lost,
        "Deliveries lost because the executor was shut down.",
    ),
];

const QUANTILES: &[(&str, &str)] = &[
    (
        "busyhour_task_run_seconds",
        "How long tasks ran, since the start.",
    ),
    (
        "busyhour_turn_wait_seconds",
        "How long serializers waited for their turns, since the start.",
    ),
];
