//! SIP over connections: TCP, and TLS on top of it (RFC 3261 §18).
//!
//! **Who does what.** [`Connection`] is the receiving half of one connection
//! as a pure state machine: bytes and time in, messages and a deadline out. It
//! finds messages by their Content-Length (§18.3) where the socket put them,
//! in pinned buffers. One thread, `bh-stream`, waits for all sockets at once
//! (`epoll`), reads them and keeps the deadlines in the library's timer queue.
//!
//! **Out.** Whoever has something to send writes it to the socket at once and
//! does not wait. What the kernel does not take stays in the connection's
//! bounded outbox; the thread sends it when there is room again. Each outbox
//! has a lock of its own, and so has each shard of the directory that finds a
//! connection by its flow. A connection whose peer does not read until its
//! outbox is full is closed.
//!
//! **Limits.** Connections in total and from one source, the size of a message
//! (that of the parser), the time for the first message and for each whole
//! message, the time without any; each with a counter in [`StreamStats`].
//!
//! [`StreamStats`]: crate::server::StreamStats

mod connection;
mod counters;
mod directory;
mod engine;
mod listener;
mod outbox;
mod peer;
mod policy;
mod streams;
mod tls;

pub use connection::{Connection, Ending, Heard};
pub use policy::{StreamOptions, StreamPolicy};
pub use streams::{StreamArrival, Streams};
pub use tls::{Certificate, CertificateError};
