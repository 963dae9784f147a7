//! HTTP requests to other servers: webhooks, pushes, credentials.
//!
//! **One thread**, `bh-http-out`, does all of it, and is started with the first request. It runs
//! a runtime of tokio; two more threads look up names, which the system does only blocking.
//! Connections are kept for the next request to the same host, and are HTTP/2 where the server
//! chooses that over TLS.
//!
//! **Lanes.** The requests of one purpose to one host share a lane: at most
//! `connections_per_host` of them are under way, and 1,024 wait. A request that finds no room is
//! refused to the caller at once. The time limit runs from the moment at which a request is
//! handed over, so a request that waits behind a dead host fails like the one before it. So a
//! slow host holds up nobody but those who want something from it for the same purpose.
//!
//! **Every listener is called once**, also when the client is dropped: the listener is in a guard
//! that reports [`HttpFailure::Stopped`](crate::server::HttpFailure::Stopped) when the request's
//! task is dropped.

mod lane;
mod pending_request;
mod sender;
mod shared_lookups;
mod trusted_roots;

pub use sender::{HttpSender, HttpSenderOptions};
pub use trusted_roots::TrustedRoots;
