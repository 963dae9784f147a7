//! Pinned, reference-counted buffers: pin and unpin by any interior address.
//!
//! A datagram lands in a [`BufferMut`], is frozen into a [`Buffer`], and every
//! value decoded from it is a [`Buffer::slice_ref`] or a raw pointer that
//! [`BufferPool::pin`] keeps alive. The protocol is in this module's
//! `README.md`.

mod budget;
mod cache;
mod counters;
mod dump;
mod error;
mod free_map;
mod granule_runs;
mod handle;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, shuttle))]
mod schedules;
mod pool;
mod region;
mod bin;
mod size_class;
mod slot;
mod store;
mod stripes;
mod table;
mod leak_tracer;
mod slot_header;

pub use dump::{Dump, LiveBuffer, OwnerUsage};
pub use error::Error;
pub use handle::{Buffer, BufferMut};
pub use pool::{BufferPool, BufferPoolBuilder};
