//! The counters of each worker, without a shared cache line.

mod worker_metrics;
mod log_counts;

pub(in crate::pool) use log_counts::LogCounts;
pub(in crate::pool) use worker_metrics::MetricsWriter;
pub(crate) use worker_metrics::WorkerMetrics;
