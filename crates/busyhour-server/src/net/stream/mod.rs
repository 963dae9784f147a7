//! SIP over connections: TCP, TLS on top of it (RFC 3261 §18), and WebSockets on top of either
//! (RFC 7118, [`web_socket`]).
//!
//! **Roles.** [`Connection`] is the receiving half of one connection as a pure state
//! machine: bytes and time in, messages and a deadline out. It finds messages by their
//! Content-Length (§18.3) where the socket put them, in pinned buffers. One thread,
//! `bh-stream`, waits for all sockets at once (`epoll`), reads them and keeps the
//! deadlines in the library's timer queue.
//!
//! **Out.** A thread that has something to send writes it to the socket at once and
//! does not wait. What the kernel does not take stays in the connection's
//! bounded outbox; the thread sends it when there is room again. Each outbox
//! has a lock of its own, and so has each shard of the directory that finds a
//! connection by its flow. A connection whose peer does not read until its
//! outbox is full is closed.
//!
//! **Nothing that waits is forgotten.** A sender that finds the kernel full asks to be
//! told of room (`EPOLLOUT`) before it gives up the outbox's lock, and the request is
//! withdrawn under the same lock, only by one who has just seen the outbox empty. So
//! while something waits the request stands, and since events are level-triggered, room
//! that came in between is reported too. A sender that must close a connection only
//! shuts down its socket: that makes it readable, and the thread, which alone owns the
//! connections, sees the end and removes it from the table and the directory. A sender
//! that found it in the directory before meets `is_closed`, or writes to a socket that
//! is shut; both are the error that says that the flow has failed.
//!
//! **Full.** A response has to leave, so a connection without room for it is closed. A
//! NOTIFY can be written again later: NOTIFYs may fill half of an outbox; beyond that a
//! NOTIFY is refused, and the watcher later writes one with the state of that time. The
//! kernel detects a peer that accepts nothing at all, and sends keep-alives to silent
//! peers.
//!
//! **Untrusted.** A connection is untrusted until the server has accepted something
//! that came over it. When the table is full, the oldest untrusted connection is closed
//! for the next one, so untrusted connections cannot keep others out. The server's
//! threads set the trust, and the table reads it when it is full; a client that becomes
//! trusted at that moment may still have to connect again.
//!
//! The oldest untrusted connection of a source is also closed when that source has its
//! maximum of connections.
//!
//! **Memory.** The room for a message grows as its bytes come, at most to twice
//! of what has come, whatever length was announced. [`StreamMemory`](memory::StreamMemory)
//! keeps the sums, by source and apart for untrusted connections and those who are known,
//! whose memory no untrusted connection can take.
//!
//! **Handshakes** of TLS cost the thread a thousand times as much as a message. So they
//! are limited in number, in total and by source, and in time, and only some of their
//! steps are taken before the other connections have their turn. Beyond the total,
//! connections wait in the kernel: there they cost nothing, and running handshakes can
//! finish. The oldest handshake is ended for a waiting connection once it has had the
//! time that a handshake needs, so a few sources that begin handshakes and finish none
//! cannot keep others out for long.
//!
//! **Too much.** What belongs to calls is handled on the thread, so while it cannot keep up,
//! messages wait in the kernel, each connection's by themselves. In a turn the thread reads once
//! from each connection that has something: so what waits on one is read after as many
//! [turns](engine::Turns) as it has reads. The server asks for that time when a new call comes,
//! and refuses it if it is long; other connections are not concerned.
//!
//! **Which connection.** A flow has the number of its connection beside the two
//! addresses. A later connection between the same addresses is another flow:
//! nothing that was meant for the first is sent to it.
//!
//! **Made by this side.** [`OutgoingConnections`](outgoing::OutgoingConnections) has one connection for each address
//! that something is to be sent to: made when the first message wants it, kept, and made again
//! when one wants it after its end, with rests after failures. The thread that wants it makes
//! the socket and gets the flow at once; what it sends waits in the outbox until the connection
//! stands. Its flow names the address of ours where others connect to, since Via and
//! Record-Route are read from it (RFC 3261 §18.1.1). The connection is in the directory and in
//! the list for `bh-stream` before the kernel watches it, and the thread reads that list before
//! the events of each turn: so it knows each connection of which it is told. The end is reported
//! as that of a trusted connection, and so is the failure to make it.
//!
//! **Limits.** Connections in total and from one source, the size of a message
//! (that of the parser), the time for the first message and for each whole
//! message, the time without any; the memory of incomplete messages and of what
//! waits to be sent, each in total and of one source; each with a counter in
//! [`StreamStats`].
//!
//! [`StreamStats`]: crate::server::StreamStats

mod connection;
mod counters;
mod directory;
mod domain_flows;
mod engine;
mod listener;
mod liveness;
mod memory;
mod outbox;
mod outgoing;
mod output_queues;
mod peer;
mod policy;
mod sources;
mod streams;
mod tls;
mod web_socket;

pub use connection::{Connection, Ending, Heard};
pub use policy::{StreamOptions, StreamPolicy};
pub use streams::{StreamMessage, Streams};
pub use tls::{Authorities, Certificate, CertificateError, CertificateFiles, answers_only};
pub use web_socket::{CloseCode, FrameEvent, NotOrigins, Origins};
