//! The queues of a worker: its own ones, the inject queue for other threads,
//! and the biased lock.

mod task_cell;
mod task_ring;
mod fifo;
mod local;
mod biased_lock;
mod inject_queue;
#[cfg(all(test, not(any(loom, shuttle))))]
mod cost;

pub(in crate::pool) use biased_lock::BiasedLock;
pub(in crate::pool) use fifo::CHUNK_LEN;
pub(in crate::pool) use inject_queue::{InjectClosed, InjectQueue};
pub(in crate::pool) use local::{Local, Runnable, WorkBatch};
pub(crate) use task_cell::TaskCell;
pub(crate) use task_ring::TaskRing;
