//! Pinned, reference-counted buffers: pin and unpin by any interior address.
//!
//! A datagram is received into a [`BufferMut`] and frozen into a [`Buffer`].
//! Every value decoded from it is a [`Buffer::slice_ref`], or a raw pointer
//! that [`BufferPool::pin`] keeps alive. This module's `README.md` describes
//! the protocol.
//!
//! ```
//! use busyhour::buffer::{Buffer, BufferPool};
//! use std::net::UdpSocket;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = BufferPool::builder().budget_bytes(4 << 20).build()?;
//! let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! there.send_to(b"alice bob", here.local_addr()?)?;
//!
//! let mut datagram = pool.alloc(1_500)?;
//! let len = here.recv(&mut datagram)?;
//! let datagram = datagram.freeze().slice(..len);
//! let words = datagram.split(|byte| *byte == b' ');
//! // Unlike that of the crate `bytes`, `slice_ref` returns an error for foreign bytes.
//! let words: Vec<Buffer> = words.map(|word| datagram.slice_ref(word)).collect::<Result<_, _>>()?;
//! drop(datagram);
//! assert_eq!((&words[1][..], pool.stats().live_count), (&b"bob"[..], 1));
//! drop(words);
//! assert_eq!(pool.stats().live_count, 0);
//! # Ok(())
//! # }
//! ```

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
