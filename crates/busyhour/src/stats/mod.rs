//! One snapshot of every component, used by the command line, the dashboard and
//! the metrics.

mod buffer;
mod bus;
mod histogram;
mod keyed;
mod pool;
mod serializer;
mod timer;

pub use buffer::BufferStats;
pub use bus::{SubscriptionFilter, SubscriptionStats, TopicStats};
pub use histogram::Histogram;
pub use keyed::KeyedStats;
pub use pool::{PoolStats, WorkerStats};
pub use serializer::{SerializerGroupStats, SerializerStats};
pub use timer::{TimerLabelStats, TimerStats};

use serde::Serialize;

/// The state of the whole runtime at one moment.
///
/// Counters only grow; gauges (`*_count`, `*_len`, `*_bytes`) rise and fall.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// When the snapshot was taken, in nanoseconds since the clock's origin.
    pub taken_at_ns: u64,
    /// The pinned-buffer pool.
    pub buffers: BufferStats,
    /// The task pool and its workers.
    pub pool: PoolStats,
    /// Named serializers, by name.
    pub serializers: Vec<SerializerStats>,
    /// Topics, by name.
    pub topics: Vec<TopicStats>,
    /// The timer service.
    pub timers: TimerStats,
}
