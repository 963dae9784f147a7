//! A worker's slot, its loop and its turns; threads that run tasks inline.

mod worker_thread;
mod worker_set;
mod worker_loop;
mod turn_runner;
mod time_slice;
mod turn_clock;
mod thread_context;
mod thread_factory;
mod stuck_rescue;
mod inline_runner;
mod coalescing;
mod affinity;

pub(in crate::pool) use affinity::may_use;
pub use inline_runner::InlineRunner;
pub(crate) use thread_context::ThreadContext;
pub(in crate::pool) use thread_factory::ThreadFactory;
pub(crate) use time_slice::TimeSlice;
pub(in crate::pool) use worker_set::WorkerSet;
pub(in crate::pool) use worker_thread::{CurrentWorker, Worker};
