use std::{fmt, time::Duration};

use super::Runtime;
use crate::stats::{
    BufferStats, KeyTableStats, PoolStats, SerializerGroupStats, SerializerStats,
    SubscriptionStats, TimerStats, TopicStats, WorkerStats,
};

/// Everything that a runtime consists of, from [`Runtime::describe`]: as a tree
/// for people ([`Display`](fmt::Display)), and for programs by serde.
///
/// ```
/// use busyhour::runtime::Runtime;
///
/// let runtime = Runtime::simulated(7);
/// let _calls = runtime.serializer("calls").build().unwrap();
/// let description = runtime.describe();
/// assert_eq!(description.serializers[0].name, "calls");
/// println!("{description}"); // as a tree
/// ```
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
    /// Groups of serializers, which may have no names, in the order in which the
    /// pool came to know them.
    pub groups: Vec<SerializerGroupStats>,
    /// Tables of keys, in the order of their creation.
    pub key_tables: Vec<KeyTableStats>,
    /// Serializers without a name that are suspended, or that an exclusive
    /// section keeps.
    pub held_without_name_count: u64,
    /// Topics made by the runtime, by name.
    pub topics: Vec<TopicDescription>,
    /// The timers.
    pub timers: TimerStats,
    /// The buffers.
    pub buffers: BufferStats,
}

/// A topic with its subscriptions, those with the longest queue first.
///
/// ```
/// use busyhour::{bus::Event, runtime::Runtime};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let runtime = Runtime::simulated(7);
/// let ticks = runtime.topic::<Tick>("ticks").build();
/// let _watch = ticks.subscribe().name("clock").start(|_| ());
/// let topics = runtime.describe().topics;
/// let described = topics.iter().find(|topic| topic.stats.name == "ticks").unwrap();
/// assert_eq!(described.subscriptions[0].name, "clock");
/// ```
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
    /// Describes the runtime as it is now: pool, workers, spawned futures, named
    /// serializers and who keeps them, groups of others, tables of keys, topics with their subscriptions, timers and buffers. Each is right at one
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
    ///
    /// // Who keeps a serializer while tasks wait behind it:
    /// let answer = runtime.timers().sleep(std::time::Duration::from_secs(60));
    /// let section = calls.spawn_exclusive(answer).unwrap();
    /// calls.push(|| ()).unwrap();
    /// runtime.simulation().unwrap().run_until_idle();
    /// let tree = runtime.describe().to_string();
    /// assert!(tree.contains("an exclusive section keeps it and waits"), "{tree}");
    /// # drop(section);
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
            groups: self.pool().serializer_group_stats(),
            key_tables: self.pool().key_table_stats(),
            held_without_name_count: self.pool().shared().registry.suspended().len() as u64,
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
    fn pool_node(&self) -> TreeLine {
        let workers = self.workers.iter().map(worker_node);
        let serializers = self.serializers.iter().map(serializer_node);
        let groups = self.groups.iter().map(group_node);
        let children = (workers.chain(serializers).chain(groups))
            .chain(self.key_tables.iter().map(key_table_node))
            .chain(held_node(self.held_without_name_count));
        TreeLine::new(pool_line(&self.pool), children)
    }

    fn tree(&self) -> TreeLine {
        let topics = format!("topics: {}", self.topics.len());
        let parts = [
            self.pool_node(),
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

fn pool_line(pool: &PoolStats) -> String {
    format!(
        "pool: {} workers, {} idle; {} waiting, {} futures, {} run, {} rejected, {} dropped, \
         {} panicked",
        pool.worker_count,
        pool.idle_worker_count,
        pool.queued_len,
        pool.future_count,
        pool.processed,
        pool.rejected,
        pool.dropped,
        pool.panicked
    )
}

fn held_node(count: u64) -> Option<TreeLine> {
    let line = format!("{count} serializers without a name are suspended or kept by a section");
    (count > 0).then(|| TreeLine::leaf(line))
}

fn group_node(group: &SerializerGroupStats) -> TreeLine {
    let name = or(&group.name, "(no name)");
    let mut line = format!(
        "group {name}: {} serializers, {} busy, {} waiting, {} run",
        group.serializer_count, group.busy_count, group.queued_len, group.processed
    );
    if group.queued_len > 0 {
        let oldest = nanos(group.oldest_waiting_ns);
        line += &format!(
            ", {} in the longest queue, the oldest for {oldest:?}",
            group.longest_queued_len
        );
    }
    TreeLine::leaf(line)
}

fn key_table_node(table: &KeyTableStats) -> TreeLine {
    let KeyTableStats { name, max_keys, .. } = table;
    let keys = &table.keys;
    TreeLine::leaf(format!(
        "keys {name}: {} of {max_keys}, {} created, {} evicted, {} refused",
        keys.key_count, keys.created, keys.evicted, keys.refused
    ))
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
    if serializer.is_in_section {
        line += "; an exclusive section keeps it and waits";
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
        "{name} on {executor}: {} of {} waiting, {} received, {} lost",
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
