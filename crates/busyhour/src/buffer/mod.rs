//! Pinned, reference-counted buffers: pin and unpin by any interior address.
//!
//! A datagram lands in a [`BufferMut`], is frozen into a [`Buffer`], and every
//! value decoded from it is a [`Buffer::slice_ref`] or a raw pointer that
//! [`BufferPool::pin`] keeps alive. The protocol is in this module's
//! `README.md`.

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
