//! Pinned, reference-counted buffers: pin and unpin by any interior address.
//!
//! A datagram is received into a [`BufferMut`] and frozen into a [`Buffer`].
//! Every value decoded from it is a [`Buffer::slice_ref`], or a raw pointer
//! that [`BufferPool::pin`] keeps alive. This module's `README.md` describes
//! the protocol.

mod handle;
mod pool;
mod error;
mod store;
mod cache;
mod counters;
mod block;
mod address;
mod memory;
mod dump;
mod leak_tracer;
#[cfg(all(test, shuttle))]
mod schedules;

pub use dump::{Dump, LiveBuffer, OwnerUsage};
pub use error::Error;
pub use handle::{Buffer, BufferMut};
pub use pool::{BufferPool, BufferPoolBuilder};
