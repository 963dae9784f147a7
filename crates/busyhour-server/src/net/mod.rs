//! Datagrams of SIP and IAX2, in batches in and out of UDP sockets; SIP over
//! [connections](Streams); and [requests over HTTP](HttpSender) to other servers.
//!
//! **In.** Each socket has a thread `bh-rx-<protocol>-<n>`. It asks the kernel for up
//! to [`BATCH_LEN`] datagrams in one call (`recvmmsg`), straight into pinned buffers,
//! and hands them on in order. When it gets fewer than it asked for it sleeps in
//! `poll`, together with the signal that ends it. As long as a call brings few
//! datagrams, the thread asks for few, since it has to prepare the room for each one
//! anew, and runs their tasks itself as an inline runner of the pool: waking a worker
//! costs more than a registration. If there are many, the workers run the tasks.
//!
//! **More than can be done.** Before each call the receiver asks the server what it
//! wants ([`ReadMode`](crate::server::ReadMode)). While the maximum of requests waits
//! inside, the receiver pauses for a millisecond and leaves datagrams in the kernel,
//! whose buffer drops what does not fit at no cost to us. If that continues, the kernel
//! records the arrival time of each datagram, and the receiver drops those unread that
//! have waited for 250 ms (`dropped_stale`): the client retransmits after 500 ms, and
//! serving both copies would waste half of the work. To read them costs too. So while
//! REGISTERs are most of what comes, a filter in the kernel drops a share of these by
//! chance, such that those that are read have waited for some 30 ms. It also does when the
//! receiver itself is behind, as with challenges, which it answers alone: when each call has
//! brought a whole batch for 250 ms, and all that it brought first had waited for long. When a filtered socket has nothing to read for 20 ms,
//! the filter is taken away. What belongs to calls is handled by the
//! receiving threads themselves and waits nowhere inside: the server asks now and then how much
//! waits in the kernel ([`Network::unread`](crate::server::Network::unread)), and refuses new
//! calls by that.
//!
//! **Out.** Each socket has a bounded queue and no thread. If no other thread is
//! sending, the thread that queues a datagram sends it, together with all that others
//! queue in the meantime, up to [`BATCH_LEN`] a call (`sendmmsg`). So a single answer
//! leaves at once on the worker that wrote it, and under load the answers of all
//! workers share calls.
//!
//! **Which address.** For a socket that is bound to all addresses (`0.0.0.0`, `[::]`),
//! the kernel reports the local address of each datagram, and the answer leaves from
//! it; so a flow has an address that the other side knows, and our Contact and Via name
//! it. Sockets with one address do not need this and do not pay for it.
//!
//! Generic segmentation offload was considered and left out: it batches
//! datagrams to *one* destination, and ours go to as many as there are devices.
//! So was `SO_REUSEPORT`: a second server on the same port would start without
//! an error and take half the devices.

mod acme;
mod bind;
mod http_client;
mod dns;
mod drop_filter;
mod drop_program;
mod early_drop;
mod local;
mod panics;
mod receive;
mod send;
mod shown_credentials;
mod standing_queue;
mod stats;
mod udp;
mod sockets;
mod stream;

pub use acme::{AcmeChallenge, AcmeClient, AcmeOptions, ChallengeAnswers, acme_files};
pub use bind::{BindError, address_problem};
pub use dns::DnsClient;
pub use http_client::{HttpSender, HttpSenderOptions, TrustedRoots};
pub use sockets::Sockets;
pub use stream::{
    Authorities, Certificate, CertificateError, CertificateFiles, CloseCode, Connection, Ending,
    FrameEvent, Heard, NotOrigins, Origins, StreamMessage, StreamOptions, StreamPolicy, Streams,
    answers_only,
};
pub use udp::{Datagram, Udp, UdpOptions};

/// Datagrams that one system call moves at most.
pub const BATCH_LEN: usize = 64;
