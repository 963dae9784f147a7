//! Busyhour: the server core that stays flat through the busy hour.
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]

pub mod buffer;
pub mod task;
pub mod run_queue;
pub mod pool;
pub mod serializer;
pub mod bus;
pub mod timer;
pub mod heap;
pub mod runtime;
pub mod clock;
pub mod stats;
mod sync;
