//! One snapshot of every component, used by the command line, the dashboard and
//! the metrics.

#[cfg(feature = "buffer")]
mod buffer;
#[cfg(feature = "bus")]
mod bus;
#[cfg(feature = "pool")]
mod histogram;
#[cfg(feature = "pool")]
mod keyed;
#[cfg(feature = "pool")]
mod pool;
#[cfg(feature = "metrics")]
mod recorded;
#[cfg(feature = "pool")]
mod serializer;
#[cfg(feature = "timer")]
mod timer;

#[cfg(feature = "buffer")]
pub use buffer::BufferStats;
#[cfg(feature = "bus")]
pub use bus::{SubscriptionFilter, SubscriptionStats, TopicStats};
#[cfg(feature = "pool")]
pub use histogram::Histogram;
#[cfg(feature = "pool")]
pub use keyed::{KeyTableStats, KeyedStats};
#[cfg(feature = "pool")]
pub use pool::{PoolStats, WorkerStats};
#[cfg(feature = "pool")]
pub use serializer::{SerializerGroupStats, SerializerStats};
#[cfg(feature = "timer")]
pub use timer::{TimerLabelStats, TimerStats};

#[cfg(feature = "runtime")]
/// The state of the whole runtime at one moment.
///
/// Counters only grow; gauges (`*_count`, `*_len`, `*_bytes`) rise and fall.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
