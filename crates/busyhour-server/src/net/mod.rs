//! Datagrams of SIP and IAX2, in batches in and out of UDP sockets; and SIP over
//! [connections](Streams).
//!
//! **In.** Each socket has a thread `bh-rx-<protocol>-<n>`. It asks the kernel for up to
//! [`BATCH_LEN`] datagrams in one call (`recvmmsg`), straight into pinned
//! buffers, and hands them on in order. When it gets fewer than it asked for it
//! sleeps in `poll`, together with the signal that ends it. As long as a call
//! brings few, it asks for few, since room for each has to be shown to the kernel
//! anew, and does their work itself, inline, with an inline runner of the pool: to wake a worker
//! costs more than a registration. Many are left to the workers.
//!
//! **More than can be done.** Before each call the receiver asks the server what
//! it wants ([`ReadMode`](crate::server::ReadMode)). While as much waits inside as
//! may, it rests for a millisecond and leaves what comes in the kernel, whose
//! buffer drops what it has no room for at no cost to us. When that goes on, the
//! kernel notes when each datagram comes, and what has waited for 250 ms is
//! dropped unread (`dropped_stale`): the client sends it again after 500 ms, and
//! to serve both copies would be half of the work in vain.
//!
//! **Out.** Each socket has a bounded queue and no thread. The thread that queues a
//! datagram while nobody is sending, sends: its own and all that others queue
//! meanwhile, up to [`BATCH_LEN`] a call (`sendmmsg`). So a lone answer leaves
//! at once on the worker that made it, and under load the answers of all
//! workers share calls.
//!
//! **Which address.** A socket that is bound to all addresses (`0.0.0.0`, `[::]`)
//! has the kernel say to which of ours a datagram came, and answers from it; so
//! a flow has an address that the other side knows, and our Contact and Via name
//! it. Sockets of one address do without, and so without the cost.
//!
//! Generic segmentation offload was considered and left out: it batches
//! datagrams to *one* destination, and ours go to as many as there are devices.
//! So was `SO_REUSEPORT`: a second server on the same port would start without
//! an error and take half the devices.

mod bind;
mod local;
mod panics;
mod receive;
mod send;
mod stats;
mod udp;
mod sockets;
mod stream;

pub use bind::{BindError, address_problem};
pub use sockets::Sockets;
pub use stream::{
    Certificate, CertificateError, Connection, Ending, Heard, StreamMessage, StreamOptions,
    StreamPolicy, Streams,
};
pub use udp::{Datagram, Udp, UdpOptions};

/// Datagrams that one system call moves at most.
pub const BATCH_LEN: usize = 64;
