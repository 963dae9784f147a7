use std::{fmt, time::Duration};

use super::Runtime;
use crate::stats::{
    BufferStats, PoolStats, SerializerStats, SubscriptionStats, TimerStats, TopicStats, WorkerStats,
};

/// Everything that a runtime consists of, from [`Runtime::describe`]: as a tree
/// for people ([`Display`](fmt::Display)), and for programs by serde.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Description {
    /// When it was made, in nanoseconds since the clock's origin.
    pub taken_at_ns: u64,
    /// The pool.
    pub pool: PoolStats,
    /// The workers that have a thread.
    pub workers: Vec<WorkerStats>,
    /// Named serializers, by name.
    pub serializers: Vec<SerializerStats>,
    /// Topics made by the runtime, by name.
    pub topics: Vec<TopicDescription>,
    /// The timers.
    pub timers: TimerStats,
    /// The buffers.
    pub buffers: BufferStats,
}

/// A topic with its subscriptions, those with the longest queue first.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TopicDescription {
    /// The topic itself.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub stats: TopicStats,
    /// Its subscriptions.
    pub subscriptions: Vec<SubscriptionStats>,
}

impl Runtime {
    /// Describes the runtime as it is now: pool, workers, named serializers,
    /// topics with their subscriptions, timers and buffers. Each is right at one
    /// moment, but not all at the same. For people who look for what is stuck;
    /// [`stats`](Self::stats) costs less.
    ///
    /// ```
    /// use busyhour::runtime::Runtime;
    ///
    /// let runtime = Runtime::simulated(7);
    /// let calls = runtime.serializer("calls").build().unwrap();
    /// calls.push(|| ()).unwrap();
    /// let description = runtime.describe();
    /// assert_eq!(description.serializers[0].queued_len, 1);
    /// assert!(description.to_string().contains("calls: 1 waiting"));
    /// ```
    #[doc(alias("console", "dump", "inspect"))]
    pub fn describe(&self) -> Description {
        let snapshot = self.stats();
        let mut subscriptions = self.subscriptions();
        let topics = snapshot.topics.into_iter().map(|stats| {
            let (own, others) = (subscriptions.drain(..)).partition(|one| one.topic == stats.name);
            subscriptions = others;
            TopicDescription {
                stats,
                subscriptions: own,
            }
        });
        Description {
            taken_at_ns: snapshot.taken_at_ns,
            topics: topics.collect(),
            pool: snapshot.pool,
            workers: self.pool().worker_stats(),
            serializers: snapshot.serializers,
            timers: snapshot.timers,
            buffers: snapshot.buffers,
        }
    }
}

/// A line of the tree, with what belongs to it.
struct TreeLine {
    line: String,
    children: Vec<TreeLine>,
}

impl TreeLine {
    fn new(line: String, children: impl IntoIterator<Item = Self>) -> Self {
        let children = children.into_iter().collect();
        Self { line, children }
    }

    fn leaf(line: String) -> Self {
        Self::new(line, [])
    }

    /// Writes what belongs to it, each line behind `indent`.
    fn write_children(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        for (index, child) in self.children.iter().enumerate() {
            let (branch, below) = match index + 1 == self.children.len() {
                true => ("└─ ", "   "),
                false => ("├─ ", "│  "),
            };
            write!(f, "\n{indent}{branch}{}", child.line)?;
            child.write_children(f, &format!("{indent}{below}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.tree();
        f.write_str(&root.line)?;
        root.write_children(f, "")
    }
}

impl Description {
    fn tree(&self) -> TreeLine {
        let topics = format!("topics: {}", self.topics.len());
        let parts = [
            pool_node(&self.pool, &self.workers, &self.serializers),
            TreeLine::new(topics, self.topics.iter().map(topic_node)),
            timers_node(&self.timers),
            TreeLine::leaf(format!(
                "buffers: {} live, {} bytes of {}",
                self.buffers.live_count, self.buffers.live_bytes, self.buffers.budget_bytes
            )),
        ];
        TreeLine::new(format!("runtime at {:?}", nanos(self.taken_at_ns)), parts)
    }
}

fn pool_node(
    pool: &PoolStats,
    workers: &[WorkerStats],
    serializers: &[SerializerStats],
) -> TreeLine {
    let line = format!(
        "pool: {} workers, {} idle; {} waiting, {} run, {} rejected, {} dropped, {} panicked",
        pool.worker_count,
        pool.idle_worker_count,
        pool.queued_len,
        pool.processed,
        pool.rejected,
        pool.dropped,
        pool.panicked
    );
    let workers = workers.iter().map(worker_node);
    TreeLine::new(line, workers.chain(serializers.iter().map(serializer_node)))
}

fn worker_node(worker: &WorkerStats) -> TreeLine {
    let state = match (worker.is_idle, worker.is_running) {
        (true, _) => "idle",
        (false, true) => "runs a task",
        (false, false) => "between tasks",
    };
    TreeLine::leaf(format!(
        "worker {}: {state}, {} waiting, {} run",
        worker.number, worker.queued_len, worker.processed
    ))
}

fn serializer_node(serializer: &SerializerStats) -> TreeLine {
    let mut line = format!(
        "serializer {}: {} waiting, {} run",
        serializer.name, serializer.queued_len, serializer.processed
    );
    if serializer.queued_len > 0 {
        let oldest = nanos(serializer.oldest_waiting_ns);
        line += &format!(", the oldest for {oldest:?}");
    }
    if serializer.running_for_ns > 0 {
        let label = serializer.running.as_deref().unwrap_or("a task");
        line += &format!("; runs {label} for {:?}", nanos(serializer.running_for_ns));
    }
    if serializer.suspend_count > 0 {
        line += "; suspended";
    }
    let lost = serializer.rejected + serializer.dropped + serializer.panicked;
    if lost > 0 {
        line += &format!(
            "; {} rejected, {} dropped, {} panicked",
            serializer.rejected, serializer.dropped, serializer.panicked
        );
    }
    TreeLine::leaf(line)
}

fn topic_node(topic: &TopicDescription) -> TreeLine {
    let stats = &topic.stats;
    let line = format!(
        "{}: {} keys, {} published, {} delivered, {} conflated, {} lost, {} refused",
        stats.name,
        stats.cached_count,
        stats.published,
        stats.delivered,
        stats.conflated,
        stats.lost,
        stats.refused
    );
    TreeLine::new(line, topic.subscriptions.iter().map(subscription_node))
}

fn subscription_node(subscription: &SubscriptionStats) -> TreeLine {
    let name = or(&subscription.name, "(no name)");
    let executor = or(&subscription.executor, "(no name)");
    TreeLine::leaf(format!(
        "{name} on {executor}: {} of {} waiting, {} delivered, {} lost",
        subscription.queued_len, subscription.capacity, subscription.delivered, subscription.lost
    ))
}

fn timers_node(timers: &TimerStats) -> TreeLine {
    let line = format!(
        "timers: {} pending, {} expired, {} cancelled, {} refused, {} lost; late by {:?} (p99)",
        timers.pending_count,
        timers.expired,
        timers.cancelled,
        timers.refused,
        timers.lost,
        nanos(timers.lateness_p99_ns)
    );
    let labels = timers.labels.iter().map(|label| {
        let name = or(&label.label, "(no label)");
        let counts = (label.pending_count, label.expired);
        TreeLine::leaf(format!(
            "{name}: {} pending, {} expired",
            counts.0, counts.1
        ))
    });
    TreeLine::new(line, labels)
}

fn or<'a>(name: &'a str, otherwise: &'a str) -> &'a str {
    match name {
        "" => otherwise,
        name => name,
    }
}

fn nanos(count: u64) -> Duration {
    Duration::from_nanos(count)
}
